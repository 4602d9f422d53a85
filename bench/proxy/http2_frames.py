"""HTTP/2 as far as a gRPC client that asks the same few things over and over needs it. Pure.

A frame: length 3 | kind 1 | flags 1 | stream 4 | payload. Each call is one HEADERS and one DATA frame. The first call of a
connection sends its headers as texts, which the server keeps; later calls send their numbers, as gRPC's own clients do.
Headers of answers are not decoded: what a call came to is in its messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from ...model.errors import RemoteProtocolError

DATA: Final = 0
HEADERS: Final = 1
RESET: Final = 3
SETTINGS: Final = 4
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
END_STREAM: Final = 1
ACK: Final = 1
WINDOW_BYTES: Final = 65_535
"""How much may be sent at first before the server gives more room, over all calls."""
PREFIX_BYTES: Final = 5
"""In front of each message: whether it is compressed, and its length."""

_END_HEADERS: Final = 4
_HEADER_BYTES: Final = 9
_FRAME_BYTES_MAX: Final = 1 << 24
_WINDOW_MAX: Final = (1 << 31) - 1
_INITIAL_WINDOW: Final = 4
_FRAME_MAX: Final = 5
_STATIC: Final = 61
"""Headers that the standard has numbers for; those that a connection learns are counted from there."""
_PATH: Final = 4
_METHOD_POST: Final = b"\x83"
_SCHEME_HTTP: Final = b"\x86"
_PREFIX: Final = struct.Struct(">BI")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """The bytes of a frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def preface() -> bytes:
    """How a connection begins: the server may send as much as it likes."""
    settings = struct.pack(">HIHI", _INITIAL_WINDOW, _WINDOW_MAX, _FRAME_MAX, _FRAME_BYTES_MAX - 1)
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(SETTINGS, 0, 0, settings)
        + frame(WINDOW_UPDATE, 0, 0, (_WINDOW_MAX - WINDOW_BYTES).to_bytes(4, "big"))
    )


def window_update(size_bytes: int) -> bytes:
    """The server may send so many bytes more."""
    return frame(WINDOW_UPDATE, 0, 0, size_bytes.to_bytes(4, "big"))


class CallHeaders:
    """The headers of one connection's calls: `common` are the same in each."""

    def __init__(self, common: Sequence[tuple[str, str]]) -> None:
        self._learned = b"".join(b"\x40" + _text(name) + _text(value) for name, value in common)
        numbers = range(_STATIC + len(common), _STATIC, -1)  # the newest has the smallest
        self._known = b"".join(bytes((0x80 | number,)) for number in numbers)
        self._is_first = True

    def block(self, path: str) -> bytes:
        """Of the next call."""
        kept = self._learned if self._is_first else self._known
        self._is_first = False
        return _METHOD_POST + _SCHEME_HTTP + bytes((_PATH,)) + _text(path) + kept


def call_frames(stream: int, block: bytes, message: bytes, *, is_open: bool = False) -> bytes:
    """A call with one message. `is_open`: more may follow."""
    data = _PREFIX.pack(0, len(message)) + message
    end = 0 if is_open else END_STREAM
    return frame(HEADERS, _END_HEADERS, stream, block) + frame(DATA, end, stream, data)


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
    while size - at >= _HEADER_BYTES:
        end = at + _HEADER_BYTES + int.from_bytes(view[at : at + 3], "big")
        if end > size:
            break
        yield view[at + 3], view[at + 4], int.from_bytes(view[at + 5 : at + 9], "big"), view[at + _HEADER_BYTES : end]
        at = end
    del buffer[:at]


def messages_of(data: bytes) -> Iterator[bytes]:
    """The messages of an answer's DATA frames. Raises RemoteProtocolError."""
    at = 0
    while at < len(data):
        if len(data) - at < PREFIX_BYTES:
            raise RemoteProtocolError("a gRPC message is cut short")
        compressed, size = _PREFIX.unpack_from(data, at)
        at += PREFIX_BYTES
        if compressed or len(data) - at < size:
            raise RemoteProtocolError("a gRPC message is compressed, or cut short")
        yield data[at : at + size]
        at += size
