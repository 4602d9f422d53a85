"""The payload of a chunk: a CRC protects it from end to end, and lz4 compresses it if the slave asked and it pays.

The bytes are those of the range that the chunk names. If the range ends a segment, the filler behind the header of its
blank record is left out, because nobody reads it.

lz4 is tried on every chunk of at least `LZ4_BYTES_MIN` and used only if it saves an eighth. The CRC is over the
uncompressed bytes of the log, so it also covers the decompression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import lz4.frame

from ...model.errors import RemoteProtocolError
from ...record.crc32 import crc32
from ...remoting.server_socket import Payload
from .frames import CHUNK_BYTES_MAX, Chunk

Data = bytes | memoryview

LZ4_BYTES_MIN: Final = 4096
REMEMBERED: Final = 8
"""The number of cached chunks: slaves served at the same time may be so many chunks of the usual size apart."""


class ChunkEncoder:
    """Encodes chunks, and reuses the payload that another slave got recently: it is not read, checksummed, compressed or
    copied again. That is safe, because the bytes of a range and its epoch never change (R2).
    """

    __slots__ = ("_known", "_read", "_share")

    def __init__(self, read: Callable[[int, int], Data], share: Callable[[Data], Payload]) -> None:
        """`read` returns the log's bytes of a range. `share` makes a payload that may be sent to several slaves."""
        self._read = read
        self._share = share
        self._known: dict[tuple[int, int, int, bool], tuple[int, bool, Payload]] = {}

    def seal(self, chunk: Chunk) -> tuple[Chunk, Payload]:
        """The chunk with CRC and flag set, and the payload frame. `chunk.lz4`: the slave asked for compression.

        Raises whatever `read` raises.
        """
        asked = chunk.data_epoch, chunk.begin, chunk.end, chunk.lz4
        known = self._known.get(asked)
        if known is None:
            known = self._made(chunk)
            while len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[asked] = known
        crc, is_packed, payload = known
        return _sealed(chunk, crc, lz4=is_packed), payload

    def _made(self, chunk: Chunk) -> tuple[int, bool, Payload]:
        data = self._read(chunk.begin, chunk.end)
        assert len(data) <= chunk.end - chunk.begin
        packed = _packed(data) if chunk.lz4 else None
        return crc32(data), packed is not None, self._share(data if packed is None else packed)

    def forget(self) -> None:
        """Drops the cached payloads, which may keep segments of the log alive."""
        self._known.clear()


def _sealed(chunk: Chunk, crc: int, *, lz4: bool) -> Chunk:
    """Calls the constructor: `dataclasses.replace` takes several times as long, and this runs for each chunk and slave."""
    return Chunk(
        chunk.group,
        chunk.epoch,
        chunk.session,
        chunk.data_epoch,
        chunk.begin,
        chunk.end,
        chunk.confirm,
        crc,
        lz4,
    )


def _packed(data: Data) -> bytes | None:
    """The compressed bytes; None if compression does not pay."""
    if len(data) < LZ4_BYTES_MIN:
        return None
    packed: bytes = lz4.frame.compress(data, content_checksum=False, store_size=True)
    return packed if len(packed) <= len(data) - len(data) // 8 else None


def unseal(chunk: Chunk, payload: bytes | memoryview) -> bytes | memoryview:
    """The log's bytes. Raises RemoteProtocolError if they are more than announced, or damaged."""
    size_bytes = min(chunk.end - chunk.begin, CHUNK_BYTES_MAX)
    data = _unpacked(payload, size_bytes) if chunk.lz4 else payload
    if len(data) > size_bytes:
        raise RemoteProtocolError(f"chunk at {chunk.begin}: {len(data)} bytes, at most {size_bytes}")
    if crc32(data) != chunk.crc:
        raise RemoteProtocolError(f"chunk at {chunk.begin}: checksum")
    return data


def _unpacked(payload: bytes | memoryview, size_bytes: int) -> bytes:
    if len(payload) > size_bytes:
        raise RemoteProtocolError(f"an lz4 chunk of {len(payload)} bytes for {size_bytes}")
    unpacker = lz4.frame.LZ4FrameDecompressor()
    try:
        data: bytes = unpacker.decompress(payload, size_bytes)
        rest: bytes = b"" if unpacker.eof else unpacker.decompress(b"", 1)
    except (RuntimeError, EOFError, ValueError) as error:
        raise RemoteProtocolError(f"a chunk cannot be unpacked: {error}") from error
    if rest:
        raise RemoteProtocolError(f"an lz4 chunk unpacks past {size_bytes} bytes")
    return data
