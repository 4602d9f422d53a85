"""The headers of requests and answers (HPACK, RFC 7541; RFC 9113, section 8). Pure. Only this file imports hpack."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from hpack import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from .frames import ConnectionFault, Http2Code

HEADERS_BYTES_MAX: Final = 16 * 1024
"""Of one request, unpacked, as HPACK counts: 32 more for each header. As much as other servers of gRPC take."""
LEARNED_BYTES_MAX: Final = 4096
"""Of the headers that a connection keeps."""
STATIC: Final = 61
"""Headers that the standard has numbers for; those that a connection learns are counted from there."""
ENTRY_BYTES: Final = 32
"""What HPACK counts for a header beside its texts."""
_STANDARD: Final = tuple(
    ((name.decode(), value.decode()), len(name) + len(value) + ENTRY_BYTES) for name, value in HeaderTable.STATIC_TABLE
)
_SHIFT_MAX: Final = 28
_ONCE: Final = frozenset({":method", ":path", ":scheme"})
_PSEUDO: Final = _ONCE | {":authority"}
_OF_HTTP_1: Final = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
_LITERAL: Final = b"\x00"
_LENGTH_MAX: Final = 127
"""What does not fit seven bits begins with it."""

Headers = Sequence[tuple[str, str]]


class HeaderDecoder:
    """Of one connection: what it was sent before says what numbers mean.

    hpack's own decoder takes twice as long for texts that are new, and ten times as long for those that are known: with it a
    heartbeat cost a third more.
    """

    __slots__ = ("_learned", "_learned_bytes", "_learned_max")

    def __init__(self) -> None:
        self._learned: deque[tuple[tuple[str, str], int]] = deque()
        """Headers, and how much each counts; the newest first."""
        self._learned_bytes = 0
        self._learned_max = LEARNED_BYTES_MAX

    def decode(self, block: bytes) -> list[tuple[str, str]]:
        """Raises ConnectionFault: what comes after could not be understood."""
        try:
            return self._decode(block)
        except (IndexError, HPACKError, UnicodeDecodeError):
            raise ConnectionFault(Http2Code.COMPRESSION_ERROR, "headers that cannot be unpacked") from None

    def _decode(self, block: bytes) -> list[tuple[str, str]]:
        """Raises ConnectionFault, IndexError (cut short, or a number that means nothing), HPACKError, UnicodeDecodeError."""
        headers: list[tuple[str, str]] = []
        at, total_bytes, end = 0, 0, len(block)
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = (first & 0x7F, at + 1) if first < 0xFF else _integer(block, at, 0x7F)
                header, size_bytes = self._at(index)
            elif first & 0x60 == 0x20:
                self._learned_max, at = _integer(block, at, 0x1F)
                if headers or self._learned_max > LEARNED_BYTES_MAX:
                    raise IndexError
                self._shrink()
                continue
            else:
                header, size_bytes, at = self._literal(block, at, 0x3F if first & 0x40 else 0x0F)
                if first & 0x40:
                    self._learned.appendleft((header, size_bytes))
                    self._learned_bytes += size_bytes
                    self._shrink()
            total_bytes += size_bytes
            if total_bytes > HEADERS_BYTES_MAX:
                text = f"headers of more than {HEADERS_BYTES_MAX} bytes"
                raise ConnectionFault(Http2Code.ENHANCE_YOUR_CALM, text)
            headers.append(header)
        return headers

    def _at(self, index: int) -> tuple[tuple[str, str], int]:
        if index > STATIC:
            return self._learned[index - STATIC - 1]
        if not index:
            raise IndexError
        return _STANDARD[index - 1]

    def _literal(self, block: bytes, at: int, mask: int) -> tuple[tuple[str, str], int, int]:
        """(header, what it counts, where it ends)."""
        index, at = _integer(block, at, mask)
        if index:
            name = self._at(index)[0][0]
            name_bytes = len(name.encode())
        else:
            name, name_bytes, at = _string(block, at)
        value, value_bytes, at = _string(block, at)
        return (name, value), name_bytes + value_bytes + ENTRY_BYTES, at

    def _shrink(self) -> None:
        while self._learned_bytes > self._learned_max:
            self._learned_bytes -= self._learned.pop()[1]


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """(a number that begins in some bits of a byte, where it ends). Raises IndexError."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, _SHIFT_MAX, 7):
        more = block[at]
        at += 1
        value += (more & 0x7F) << shift
        if more < 0x80:
            return value, at
    raise IndexError


def _string(block: bytes, at: int) -> tuple[str, int, int]:
    """(a text, its bytes, where it ends). Raises IndexError, HPACKError, UnicodeDecodeError."""
    is_packed = block[at] & 0x80
    size, at = _integer(block, at, 0x7F)
    end = at + size
    if end > len(block):
        raise IndexError
    data = block[at:end]
    if is_packed:
        data = decode_huffman(data)
    return data.decode(), len(data), end


def request_fields(headers: Headers) -> dict[str, str] | None:
    """{name: value} of a request's headers, the last value of each; None where they are malformed."""
    found = dict(headers)
    pseudo = [name for name, _ in headers if name[:1] == ":"]
    names = "".join(found)
    texts = names + "".join(found.values())
    if (
        not _ONCE.issubset(pseudo)
        or not _PSEUDO.issuperset(pseudo)
        or len(set(pseudo)) < len(pseudo)
        or headers[len(pseudo) - 1][0] != pseudo[-1]  # else one stands behind another header
        or names != names.lower()
        or "\n" in texts  # nobody writes a line into a log
        or "\r" in texts
        or "\0" in texts
        or not _OF_HTTP_1.isdisjoint(found)
        or found.get("te", "trailers") != "trailers"
        or not found[":path"]
    ):
        return None
    return found


def encode_headers(headers: Headers) -> bytes:
    """As texts that the client need not remember."""
    return b"".join(_LITERAL + _text(name) + _text(value) for name, value in headers)


def _text(text: str) -> bytes:
    encoded = text.encode()
    size = len(encoded)
    if size < _LENGTH_MAX:
        return bytes((size,)) + encoded
    length, size = bytearray((_LENGTH_MAX,)), size - _LENGTH_MAX
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes(length) + encoded
