"""Masks secrets in text and documents that leave the machine. Pure.

Nothing of ours writes a secret into a log or a document: settings hold paths, key files stay where they are. This masks what an
operator may have put into a configuration, an address or a log by mistake, and whatever looks like a CURVE key. It rather masks
too much. Its time grows with the length of a text and no faster, whatever is in it.
"""

from __future__ import annotations

import re
from typing import Any, Final

MASK: Final = "***"

_SECRET: Final = re.compile(
    "secret|passw|passphrase|pwd|token|authorization|credential|signature|(?:access|private|api)[_-]?key", re.IGNORECASE
)
_ASSIGNED: Final = re.compile(
    rf"""(?P<name>(?:{_SECRET.pattern})[\w.-]{{0,64}}(?:\\?["'])?\s{{0,8}}[:=]\s{{0,8}})"""
    r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\\"[^"\n]*"|\\'[^'\n]*'|(?:(?:bearer|basic|digest)\s{1,8})?\S+)""",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(?<=\w)://[^/\s]*@")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}-----)?")
_KEY_CHARACTERS: Final = 40
_Z85_RUN: Final = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40,}", re.ASCII)
_SELDOM: Final = frozenset("+^!*?&<>()[]{}@%$#")
"""Signs of Z85 that paths, addresses and settings do without. Of 10,000 keys one has none of them."""


def masked_text(text: str) -> str:
    """The text without what is assigned to the name of a secret, logins in addresses, and what looks like a key."""
    text = _PEM.sub(MASK, text)
    text = _LOGIN.sub(f"://{MASK}@", text)
    text = _ASSIGNED.sub(rf"\g<name>{MASK}", text)
    return _Z85_RUN.sub(_without_key, text)


def masked(document: Any, *, is_secret: bool = False) -> Any:
    """A JSON document, masked: its texts, and all texts below the name of a secret. Of a secret its numbers stay."""
    if isinstance(document, dict):
        return {
            masked_text(str(name)): masked(value, is_secret=is_secret or _SECRET.search(str(name)) is not None)
            for name, value in document.items()
        }
    if isinstance(document, list | tuple):
        return [masked(each, is_secret=is_secret) for each in document]
    if isinstance(document, str):
        return MASK if is_secret and document else masked_text(document)
    return document


def _without_key(found: re.Match[str]) -> str:
    """The run of signs that a key may be in, between brackets or after `key=`; a path, an address or a digest is none."""
    text = found.group()
    if not (any(c.isupper() for c in text) and any(c.islower() for c in text)):
        return text
    if not _SELDOM.isdisjoint(text):
        return MASK
    return MASK if len(text) == _KEY_CHARACTERS and not text.isalnum() and text.count("/") < 2 else text
