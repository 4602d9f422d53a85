"""Masks secrets in text and documents that leave the machine. Pure.

Nothing of ours writes a secret into a log or a document: settings hold paths, key files stay where they are. This masks what an
operator may have put into a configuration, an address or a log by mistake, and whatever looks like a CURVE key.
"""

from __future__ import annotations

import re
from typing import Any, Final

MASK: Final = "***"
SECRET_NAMES: Final = (
    "secret",
    "password",
    "passwd",
    "token",
    "authorization",
    "credential",
    "signature",
    "access_key",
)

_Z85: Final = r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]"
_KEY: Final = re.compile(rf"(?<!{_Z85}){_Z85}{{40}}(?!{_Z85})", re.ASCII)
_ASSIGNED: Final = re.compile(
    rf"""(?P<name>["']?[\w.-]*(?:{"|".join(SECRET_NAMES)})[\w.-]*["']?\s*[:=]\s*)(?P<value>"[^"\n]*"|'[^'\n]*'|\S+)""",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(?P<scheme>\w+://)[^/\s:@]+:[^/\s@]+@")


def masked_text(text: str) -> str:
    """The text without what is assigned to the name of a secret, logins in addresses, and what looks like a CURVE key."""
    text = _LOGIN.sub(rf"\g<scheme>{MASK}@", text)
    text = _ASSIGNED.sub(rf"\g<name>{MASK}", text)
    return _KEY.sub(_without_key, text)


def masked(document: Any) -> Any:
    """A JSON document, masked: its texts, and whatever has the name of a secret."""
    if isinstance(document, dict):
        return {
            name: MASK if isinstance(value, str) and value and _is_secret(str(name)) else masked(value)
            for name, value in document.items()
        }
    if isinstance(document, list | tuple):
        return [masked(each) for each in document]
    return masked_text(document) if isinstance(document, str) else document


def _is_secret(name: str) -> bool:
    return any(secret in name.lower() for secret in SECRET_NAMES)


def _without_key(found: re.Match[str]) -> str:
    """A path, an address or a hexadecimal number of 40 digits is no key: those have no upper and lower case with signs."""
    text = found.group()
    is_key = any(c.isupper() for c in text) and any(c.islower() for c in text) and any(not c.isalnum() for c in text)
    is_path = text.count("/") >= 2 or text.startswith(("/", "./"))
    return MASK if is_key and not is_path else text
