"""Secrets as they are stored: encrypted with a key that only the servers' files have. Pure.

A server that checks signatures needs the secret itself; a hash of it would not do. So it is stored sealed, in URL-safe Base64:

    byte 0 nonce 16 | 16 tag 16 | 32 the secret, XOR HMAC-SHA256(k1, nonce, block number), 32 bytes a block

The tag is the first half of HMAC-SHA256(k2, length of the user's name, name, nonce, encrypted secret): nobody without the key
makes or changes one, or gives it to another user. k1 and k2 are HMACs of the key. How long the secret is can be seen.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from typing import Final

from ..errors import InvalidParameter

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 16
TAG_BYTES: Final = 16
SEALED_LENGTH_MAX: Final = 736
_BLOCK: Final = 32
_TEXT: Final = re.compile(rf"[A-Za-z0-9_-]{{43,{SEALED_LENGTH_MAX}}}", re.ASCII)


def seal(key: bytes, user: str, secret: str, nonce: bytes) -> str:
    """The secret as it is stored with this user. `nonce`: 16 random bytes, never used twice."""
    if len(key) != KEY_BYTES or len(nonce) != NONCE_BYTES:
        raise ValueError("the key has 32 bytes, the nonce 16")
    hidden = _mixed(key, nonce, secret.encode())
    sealed = nonce + _tag(key, user, nonce, hidden) + hidden
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def unseal(keys: Iterable[bytes], user: str, sealed: str) -> str | None:
    """The secret; None if none of the keys opens it for this user."""
    try:
        data = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    except ValueError:
        return None
    nonce, tag, hidden = (
        data[:NONCE_BYTES],
        data[NONCE_BYTES : NONCE_BYTES + TAG_BYTES],
        data[NONCE_BYTES + TAG_BYTES :],
    )
    for key in keys:
        if hmac.compare_digest(_tag(key, user, nonce, hidden), tag):
            return _mixed(key, nonce, hidden).decode()
    return None


def check_sealed(text: str) -> str:
    """A stored secret by its form. Raises InvalidParameter."""
    if _TEXT.fullmatch(text) is None:
        raise InvalidParameter("secrets", "(not shown)", "secrets as a broker stores them: zenit user secret NAME")
    return text


def without_secrets(row: str) -> str:
    """The JSON of a row for those who need not have its secrets, sealed as they are. Of what is no row only its length: it
    may hold a secret that somebody gave in a wrong way."""
    try:
        document = json.loads(row)
        if isinstance(document, dict):
            return json.dumps(_without(document), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        pass
    return f"(no row, {len(row)} characters)"


def _without(document: object) -> object:
    if isinstance(document, dict):
        return {
            name: ["(sealed)"] if name == "secrets" and value else _without(value) for name, value in document.items()
        }
    return [_without(each) for each in document] if isinstance(document, list) else document


def _mixed(key: bytes, nonce: bytes, data: bytes) -> bytes:
    own = hmac.digest(key, b"zenit secrets: encryption", hashlib.sha256)
    stream = b"".join(
        hmac.digest(own, nonce + number.to_bytes(4, "big"), hashlib.sha256) for number in range(-(-len(data) // _BLOCK))
    )
    return bytes(left ^ right for left, right in zip(data, stream, strict=False))


def _tag(key: bytes, user: str, nonce: bytes, hidden: bytes) -> bytes:
    own = hmac.digest(key, b"zenit secrets: tag", hashlib.sha256)
    name = user.encode()
    return hmac.digest(own, len(name).to_bytes(4, "big") + name + nonce + hidden, hashlib.sha256)[:TAG_BYTES]
