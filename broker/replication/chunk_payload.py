"""The bytes of a chunk on their way: checked from end to end, compressed where the slave asked for it and it pays.

They are those of the range that the chunk names; where that ends a segment, all but the filler behind the head of its
blank record, which nobody reads.

lz4 is tried on every chunk of at least `LZ4_BYTES_MIN` and kept only where it saves an eighth. The CRC is that of the
log's own bytes, so that it also vouches for what lz4 unpacked.
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
"""Chunks: as many of the usual size as slaves are apart that are sent at the same time."""


class ChunkEncoder:
    """Seals chunks. What another slave was sent lately is neither read, summed up, compressed nor copied once more: the bytes
    of a range and its epoch are always the same (R2).
    """

    __slots__ = ("_known", "_read", "_share")

    def __init__(self, read: Callable[[int, int], Data], share: Callable[[Data], Payload]) -> None:
        """`read`: the log's bytes of a range. `share`: the same as a payload that may be sent to several."""
        self._read = read
        self._share = share
        self._known: dict[tuple[int, int, int, bool], tuple[int, bool, Payload]] = {}

    def seal(self, chunk: Chunk) -> tuple[Chunk, Payload]:
        """The chunk with CRC and flag set, and the second frame. `chunk.lz4`: compression was asked for.

        Raises what `read` does.
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
        """Drops what it remembers, which may pin segments of the log."""
        self._known.clear()


def _sealed(chunk: Chunk, crc: int, *, lz4: bool) -> Chunk:
    """By its constructor: `dataclasses.replace` takes several times as long, and this is done for each chunk and slave."""
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
    """None where it does not pay."""
    if len(data) < LZ4_BYTES_MIN:
        return None
    packed: bytes = lz4.frame.compress(data, content_checksum=False, store_size=True)
    return packed if len(packed) <= len(data) - len(data) // 8 else None


def unseal(chunk: Chunk, payload: bytes | memoryview) -> bytes | memoryview:
    """The log's bytes. Raises RemoteProtocolError where they are more than announced, or damaged."""
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
