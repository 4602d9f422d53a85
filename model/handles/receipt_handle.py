"""Receipt handles: the text that names messages which one receiver holds for a while, signed by the broker. Pure.

    base64url( "p1 broker-name group topic queue-id begin count pop-ms invisible-ms" ) "." signature "." index

One handle, without the index, is of all messages that came from one queue in one reply; the n-th of them has the index n.
The fields are those of RocketMQ's check point. The signature is HMAC-SHA256 of the part before it, 16 bytes in base64url: the
key never leaves the replica group, so nobody else can make a handle.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from ..errors import HandleRefused

KEY_BYTES: Final = 32
COUNT_MAX: Final = 32
"""Messages that one handle may be of."""

_VERSION: Final = "p1"
_LENGTH_MAX: Final = 1024
_SIGNATURE_BYTES: Final = 16
_NUMBER_LENGTH_MAX: Final = 19


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """`begin`: queue offset of the first message, `count`: how many came with it; `pop_ms`: when, by the broker's clock (since
    the epoch); `invisible_ms`: for how long nobody else gets them."""

    broker_name: str
    group: str
    topic: str
    queue_id: int
    begin: int
    count: int
    pop_ms: int
    invisible_ms: int

    def sign(self, key: bytes) -> str:
        """The text that travels, of all its messages."""
        words = (
            *(_VERSION, self.broker_name, self.group, self.topic, str(self.queue_id), str(self.begin)),
            *(str(self.count), str(self.pop_ms), str(self.invisible_ms)),
        )
        signed = base64.urlsafe_b64encode(" ".join(words).encode())
        return f"{signed.decode()}.{_signature(signed, key)}"

    @staticmethod
    def parse(text: str, key: bytes) -> ReceiptHandle:
        """The reverse. Raises HandleRefused (forged, malformed)."""
        signed, signature = _parts(text)
        if not hmac.compare_digest(_signature(signed.encode(), key), signature):
            raise HandleRefused("forged")
        return ReceiptHandle._decode(signed)

    @staticmethod
    def read(text: str) -> ReceiptHandle:
        """What a handle says, for one who has no key and so cannot tell whether it is forged. Raises HandleRefused."""
        return ReceiptHandle._decode(_parts(text)[0])

    @staticmethod
    def _decode(signed: str) -> ReceiptHandle:
        try:
            words = base64.b64decode(signed.encode(), altchars=b"-_", validate=True).decode().split(" ")
            version, broker_name, group, topic, *numbers = words
            queue_id, begin, count, pop_ms, invisible_ms = map(_number, numbers)
            if version != _VERSION or not 1 <= count <= COUNT_MAX:
                raise ValueError("another version, or no messages")
        except (ValueError, binascii.Error) as error:
            raise HandleRefused("malformed") from error
        return ReceiptHandle(broker_name, group, topic, queue_id, begin, count, pop_ms, invisible_ms)


def with_index(handle: str, index: int) -> str:
    """The handle of the `index`-th message (from 0) that came with this one."""
    return f"{handle}.{index}"


def split_index(handle: str) -> tuple[str, int]:
    """(the handle of all, the index) of one message's. Raises HandleRefused."""
    of_all, dot, index = handle.rpartition(".")
    if not dot or not (index.isascii() and index.isdecimal() and len(index) <= 2) or int(index) >= COUNT_MAX:
        raise HandleRefused("malformed")
    return of_all, int(index)


def _parts(text: str) -> tuple[str, str]:
    """(what is signed, the signature). Raises HandleRefused."""
    signed, dot, signature = text.partition(".")
    if len(text) > _LENGTH_MAX or not text.isascii() or not dot:
        raise HandleRefused("malformed")
    return signed, signature


def _signature(signed: bytes, key: bytes) -> str:
    digest = hmac.digest(key, signed, hashlib.sha256)[:_SIGNATURE_BYTES]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _number(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) <= _NUMBER_LENGTH_MAX):
        raise ValueError(word)
    return int(word)
