"""A delegation: by it a gateway acts for a user whose signature a server has checked. Pure.

    USER:EXPIRES_MS:MAC

EXPIRES_MS is the time in ms since 1970 until which it counts; MAC the first 16 bytes, in hexadecimal digits, of
HMAC-SHA256(k, USER, 0, GATEWAY, 0, EXPIRES_MS), where k is HMAC-SHA256(secrets key, "zenit delegation") and GATEWAY the name of
the gateway's own user. All servers have the secrets key: each can check what another one gave, and keeps nothing. Nobody else
can make one, and a gateway that was broken into acts for those users only who came to it a short time ago.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from .principals import NAME_LENGTH_MAX

DELEGATION_MS: Final = 3_600_000
"""How long one counts."""
LENGTH_MAX: Final = NAME_LENGTH_MAX + 64
_MAC_BYTES: Final = 16
_DIGITS_MAX: Final = 16


def new_delegation(key: bytes, user: str, gateway: str, expires_ms: int) -> str:
    """For this gateway alone. `key`: the secrets key that seals."""
    return f"{user}:{expires_ms}:{_mac(key, user, gateway, expires_ms).hex()}"


def delegated_user(keys: Iterable[bytes], gateway: str, text: str, now_ms: int) -> tuple[str, int]:
    """(the user that a gateway acts for, until when); ("", 0) if it may not, or not any more."""
    user, _, rest = text.partition(":")
    expires, _, mac = rest.partition(":")
    if len(text) > LENGTH_MAX or not (expires.isascii() and expires.isdigit() and len(expires) <= _DIGITS_MAX):
        return "", 0
    expires_ms = int(expires)
    if now_ms >= expires_ms or not mac.isascii():
        return "", 0
    if any(hmac.compare_digest(_mac(key, user, gateway, expires_ms).hex(), mac) for key in keys):
        return user, expires_ms
    return "", 0


def _mac(key: bytes, user: str, gateway: str, expires_ms: int) -> bytes:
    own = hmac.digest(key, b"zenit delegation", hashlib.sha256)
    return hmac.digest(own, f"{user}\0{gateway}\0{expires_ms}".encode(), hashlib.sha256)[:_MAC_BYTES]
