"""Signatures of clients that have a name and a secret instead of a key pair, as RocketMQ's clients make them. Pure.

    HMAC-SHA1(secret, content)

Over remoting the content is the values of all fields but `Signature`, in the order of the fields' names, and then the body; the
signature is Base64. Over gRPC the content is the text of `x-mq-date-time`, and the signature is hexadecimal. The name is the
access key, which is the user's name here.

A signature says nothing of when it was made: who reads one on the way may send the same content again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from ..errors import InvalidParameter

SIGNATURE_FIELD: Final = "Signature"
ACCESS_KEY_FIELD: Final = "AccessKey"
SIGNATURE_BYTES: Final = 20
SECRET_LENGTH_MIN: Final = 8
SECRET_LENGTH_MAX: Final = 128

_BASE64_LENGTH: Final = 28
_HEX_LENGTH: Final = 40


def signed_content(fields: Mapping[str, str], body: bytes) -> bytes:
    """What a client of the remoting protocol signs; `fields`: RocketMQ's extFields."""
    values = (fields[name] for name in sorted(fields, key=_utf16) if name != SIGNATURE_FIELD)
    return "".join(values).encode() + body


def signature_of(secret: str, content: bytes) -> bytes:
    """20 bytes."""
    return hmac.digest(secret.encode(), content, hashlib.sha1)


def parse_signature(text: str) -> bytes | None:
    """The bytes of a signature in Base64 or hexadecimal digits; None if it is none."""
    try:
        if len(text) == _HEX_LENGTH:
            return bytes.fromhex(text) if text.isalnum() else None
        found = base64.b64decode(text, validate=True) if len(text) == _BASE64_LENGTH else b""
    except ValueError:
        return None
    return found if len(found) == SIGNATURE_BYTES else None


def is_signed(secret: str, content: bytes, signature: str) -> bool:
    """Whether who has the secret signed the content. It takes as long whatever is wrong with a signature."""
    given = parse_signature(signature)
    return given is not None and hmac.compare_digest(signature_of(secret, content), given)


def check_secret(secret: str) -> str:
    """A secret that an operator gives. Raises InvalidParameter, which does not repeat it."""
    if not SECRET_LENGTH_MIN <= len(secret) <= SECRET_LENGTH_MAX or not secret.isprintable():
        expected = f"{SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX} printable characters"
        raise InvalidParameter("secret", f"({len(secret)} characters)", expected)
    return secret


def _utf16(name: str) -> bytes:
    """Java compares texts by their UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")
