"""What gRPC puts into HTTP/2: messages behind a prefix, deadlines, statuses (gRPC over HTTP2, the project's own text). Pure.

A message: whether it is packed 1 | length 4 | bytes, in as many DATA frames as it takes.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from .headers import encode_headers

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one message of a client, unpacked too."""
UNPACKED_FREE_BYTES: Final = 1024 * 1024
UNPACKED_TIMES: Final = 64
"""A packed message may become so many times as large, or UNPACKED_FREE_BYTES: one of 16 KB kept others waiting for 40 ms."""
PREFIX: Final = struct.Struct(">BI")
ENCODINGS: Final = "identity,gzip,deflate"
CONTENT_TYPE: Final = "application/grpc"
ANSWER_HEADERS: Final = encode_headers(((":status", "200"), ("content-type", CONTENT_TYPE)))
_TEXT_MAX: Final = 1_024
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_DIGITS_MAX: Final = 8


class GrpcStatus(IntEnum):
    """What a call came to."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class GrpcRefused(Exception):
    """A call that does not keep to gRPC."""

    def __init__(self, status: GrpcStatus, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(f"{status.name}: {message}")


def encode_message(message: bytes) -> bytes:
    """As it lies in DATA frames."""
    return PREFIX.pack(0, len(message)) + message


@lru_cache(256)
def trailers(status: GrpcStatus, message: str = "") -> bytes:
    """The headers that end an answer."""
    return encode_headers(_told(status, message))


@lru_cache(256)
def only_trailers(status: GrpcStatus, message: str = "") -> bytes:
    """The headers of an answer that has no messages."""
    encodings = (("grpc-accept-encoding", ENCODINGS),) if status == GrpcStatus.UNIMPLEMENTED else ()
    return encode_headers(
        ((":status", "200"), ("content-type", CONTENT_TYPE), *encodings, *_told(status, message)),
    )


def no_grpc() -> bytes:
    """The answer to who speaks HTTP/2, but not gRPC."""
    return encode_headers(((":status", "415"),))


def _told(status: GrpcStatus, message: str) -> tuple[tuple[str, str], ...]:
    text = (("grpc-message", quote(message[:_TEXT_MAX], safe=_PLAIN, errors="replace")),) if message else ()
    return ("grpc-status", str(int(status))), *text


def timeout_s(text: str) -> float | None:
    """Of a request's header grpc-timeout; None = it has none. Raises GrpcRefused."""
    if not text:
        return None
    digits, unit_s = text[:-1], _UNITS_S.get(text[-1])
    if unit_s is None or not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX):
        raise GrpcRefused(GrpcStatus.INVALID_ARGUMENT, f"grpc-timeout {text[:20]!r}: up to 8 digits and a unit")
    return int(digits) * unit_s


class MessageReader:
    """The messages of one call. `encoding`: the request's header grpc-encoding; "" = none."""

    __slots__ = ("_data", "_encoding", "_first")

    def __init__(self, encoding: str) -> None:
        """Raises GrpcRefused for one that is not known."""
        if encoding not in ("", "identity", *_WINDOW_BITS):
            raise GrpcRefused(GrpcStatus.UNIMPLEMENTED, f"grpc-encoding {encoding[:20]!r}: {ENCODINGS} are known")
        self._encoding = encoding
        self._first: bytes | None = None
        self._data = bytearray()

    @property
    def held_bytes(self) -> int:
        """That have come and were not taken."""
        return len(self._data) + (len(self._first) if self._first is not None else 0)

    @property
    def has_message(self) -> bool:
        """Whether one has come as a whole."""
        if self._first is not None:
            return True
        size = len(self._data)
        return size >= PREFIX.size and size - PREFIX.size >= PREFIX.unpack_from(self._data)[1]

    def add(self, data: bytes) -> None:
        """Some bytes came. Raises GrpcRefused."""
        size = len(data)
        if (
            self._first is None
            and not self._data
            and size >= PREFIX.size
            and PREFIX.unpack_from(data) == (0, size - PREFIX.size)
        ):  # as nearly all come: one in a frame
            self._first = data
            return
        self._data += data
        if len(self._data) >= PREFIX.size:
            length = PREFIX.unpack_from(self._data)[1]
            if length > MESSAGE_BYTES_MAX:
                raise _too_large(length)

    def take(self) -> bytes | None:
        """The next message; None where it has not come as a whole. Raises GrpcRefused."""
        first = self._first
        if first is not None:
            self._first = None
            return first[PREFIX.size :]
        if not self.has_message:
            return None
        packed, length = PREFIX.unpack_from(self._data)
        if length > MESSAGE_BYTES_MAX:
            raise _too_large(length)
        message = bytes(self._data[PREFIX.size : PREFIX.size + length])
        del self._data[: PREFIX.size + length]
        return self._unpacked(message) if packed else message

    def _unpacked(self, message: bytes) -> bytes:
        if self._encoding not in _WINDOW_BITS:
            raise GrpcRefused(GrpcStatus.INTERNAL, "a packed message, and no grpc-encoding")
        bytes_max = min(MESSAGE_BYTES_MAX, max(UNPACKED_FREE_BYTES, UNPACKED_TIMES * len(message)))
        unpacking = zlib.decompressobj(_WINDOW_BITS[self._encoding])
        try:
            unpacked = unpacking.decompress(message, bytes_max + 1)
        except zlib.error as error:
            raise GrpcRefused(GrpcStatus.INTERNAL, f"a message that cannot be unpacked: {error}") from None
        if len(unpacked) > bytes_max:
            raise _too_large(len(unpacked), bytes_max)
        if not unpacking.eof or unpacking.unused_data:
            raise GrpcRefused(GrpcStatus.INTERNAL, "a packed message that is cut short, or too long")
        return unpacked


def _too_large(size_bytes: int, bytes_max: int | None = None) -> GrpcRefused:
    text = f"a message of {size_bytes} bytes or more: {bytes_max or MESSAGE_BYTES_MAX} are allowed"
    return GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED, text)
