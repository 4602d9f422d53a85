"""The file with the key under which servers store users' secrets: a line, or two while it is changed. The first one seals.

A key is 32 random bytes in URL-safe Base64. The file is the same at each server, and as private as a server's own key.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Final

from ...model.errors import KeyFileRefused
from ...model.security.guarded_file import PRIVATE, read_guarded
from ...model.security.sealed_secrets import KEY_BYTES

KEYS_MAX: Final = 2
FILE_BYTES_MAX: Final = 4096


def read_secret_keys(path: str) -> tuple[bytes, ...]:
    """The keys; () for "". Raises KeyFileRefused."""
    if not path:
        return ()
    text = read_guarded(path, forbidden=PRIVATE, bytes_max=FILE_BYTES_MAX, absent="; `zenit key secrets` makes one")
    keys = tuple(map(_key, text.split()))
    if not 1 <= len(keys) <= KEYS_MAX or not all(keys):
        raise KeyFileRefused(
            path, f"it is not one or {KEYS_MAX} lines with a key each, as `zenit key secrets` makes them"
        )
    return keys


def new_secret_key() -> str:
    """A line for such a file."""
    return base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _key(line: str) -> bytes:
    try:
        key = base64.b64decode(line, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    return key if len(key) == KEY_BYTES else b""
