"""HTTP/2 as far as a gRPC client that asks the same few things over and over needs it. Pure.

A frame: length 3 | kind 1 | flags 1 | stream 4 | payload. Each call is one HEADERS and one DATA frame. The first call of a
connection sends its headers as texts, which the server keeps; later calls send their numbers, as gRPC's own clients do.
Headers of answers are not decoded: what a call came to is in its messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...model.errors import RemoteProtocolError
from ...proxy.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    FRAME_MAX,
    HEADER_BYTES,
    HEADERS,
    INITIAL_WINDOW,
    NUMBER_MAX,
    PREFACE,
    WINDOW_BYTES,
    frame,
    settings,
    window_update,
)
from ...proxy.http2.grpc_messages import PREFIX, encode_message
from ...proxy.http2.headers import STATIC

_PATH: Final = 4
_METHOD_POST: Final = b"\x83"
_SCHEME_HTTP: Final = b"\x86"


def preface() -> bytes:
    """How a connection begins: the server may send as much as it likes."""
    told = settings({INITIAL_WINDOW: NUMBER_MAX, FRAME_MAX: FRAME_BYTES_MAX})
    return PREFACE + told + window_update(0, NUMBER_MAX - WINDOW_BYTES)


class CallHeaders:
    """The headers of one connection's calls: `common` are the same in each."""

    def __init__(self, common: Sequence[tuple[str, str]]) -> None:
        self._learned = b"".join(b"\x40" + _text(name) + _text(value) for name, value in common)
        numbers = range(STATIC + len(common), STATIC, -1)  # the newest has the smallest
        self._known = b"".join(bytes((0x80 | number,)) for number in numbers)
        self._is_first = True

    def block(self, path: str) -> bytes:
        """Of the next call."""
        kept = self._learned if self._is_first else self._known
        self._is_first = False
        return _METHOD_POST + _SCHEME_HTTP + bytes((_PATH,)) + _text(path) + kept


def call_frames(stream: int, block: bytes, message: bytes, *, is_open: bool = False) -> bytes:
    """A call with one message. `is_open`: more may follow."""
    end = 0 if is_open else END_STREAM
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, end, stream, encode_message(message))


def _text(text: str) -> bytes:
    """Raises ValueError for what is longer than a single length byte can say."""
    encoded = text.encode()
    if len(encoded) > 126:
        raise ValueError(text)
    return bytes((len(encoded),)) + encoded


def read_frames(buffer: bytearray) -> Iterator[tuple[int, int, int, bytes]]:
    """(kind, flags, stream, payload) of the whole frames in the buffer, which are taken out of it."""
    at, size = 0, len(buffer)
    view = bytes(buffer)
    while size - at >= HEADER_BYTES:
        end = at + HEADER_BYTES + int.from_bytes(view[at : at + 3], "big")
        if end > size:
            break
        yield view[at + 3], view[at + 4], int.from_bytes(view[at + 5 : at + 9], "big"), view[at + HEADER_BYTES : end]
        at = end
    del buffer[:at]


def messages_of(data: bytes) -> Iterator[bytes]:
    """The messages of an answer's DATA frames. Raises RemoteProtocolError."""
    at = 0
    while at < len(data):
        if len(data) - at < PREFIX.size:
            raise RemoteProtocolError("a gRPC message is cut short")
        compressed, size = PREFIX.unpack_from(data, at)
        at += PREFIX.size
        if compressed or len(data) - at < size:
            raise RemoteProtocolError("a gRPC message is compressed, or cut short")
        yield data[at : at + size]
        at += size
