"""The frames of HTTP/2 (RFC 9113, sections 4 and 6), their numbers, and what ends a connection. Pure.

A frame: length 3 | kind 1 | flags 1 | stream 4 | payload. All integers are big-endian.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends before its first frame."""
HEADER: Final = struct.Struct(">HBBBI")
"""length / 256, length % 256, kind, flags, stream."""
HEADER_BYTES: Final = 9
NUMBER_MAX: Final = (1 << 31) - 1
"""Of streams and windows: above it is one bit that means nothing."""
WINDOW_BYTES: Final = 65_535
"""How much may be sent at first before the other side gives more room."""
FRAME_BYTES: Final = 16_384
"""The longest payload, unless the other side allows more."""
FRAME_BYTES_MAX: Final = (1 << 24) - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RESET: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

ACK: Final = 0x1
"""Of SETTINGS and PING."""
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

ENABLE_PUSH: Final = 2
STREAMS_AT_A_TIME: Final = 3
INITIAL_WINDOW: Final = 4
FRAME_MAX: Final = 5
HEADER_LIST_MAX: Final = 6


class Http2Code(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(Exception):
    """What a client sent ends its connection."""

    def __init__(self, code: Http2Code, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code.name}: {message}")


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """The bytes of a frame."""
    size = len(payload)
    return HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """A frame that tells settings."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *setting) for setting in values.items()))


def window_update(stream: int, size_bytes: int) -> bytes:
    """The other side may send so many bytes more; stream 0 = over all streams."""
    return frame(WINDOW_UPDATE, 0, stream, size_bytes.to_bytes(4, "big"))


def reset(stream: int, code: Http2Code) -> bytes:
    """Ends a stream."""
    return frame(RESET, 0, stream, code.to_bytes(4, "big"))


def go_away(last_stream: int, code: Http2Code, message: str = "") -> bytes:
    """No stream above `last_stream` is served."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_stream, code) + message.encode())
