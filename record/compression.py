"""Compressed bodies: reads all three of RocketMQ's kinds, writes lz4. Pure.

A body of unknown compression, or one that unpacks to more than `limit_bytes`, is a RemoteProtocolError.
"""

from __future__ import annotations

import zlib

from ..model.errors import RemoteProtocolError
from .sys_flag import COMPRESSION_LZ4, COMPRESSION_MASK, COMPRESSION_ZLIB, COMPRESSION_ZSTD

BODY_LIMIT_BYTES = 64 * 1024 * 1024  # limit of one unpacked body


def compress_lz4(body: bytes) -> bytes:
    """The body as one lz4 frame with its plain size in the header.

    Its blocks of 64 KiB are independent: lz4-java, which RocketMQ's Java clients use, reads no others.
    """
    import lz4.frame

    packed: bytes = lz4.frame.compress(body, content_checksum=False, store_size=True, block_linked=False)
    return packed


def decompress(body: bytes, sys_flag: int, limit_bytes: int = BODY_LIMIT_BYTES) -> bytes:
    """The plain body of a record whose sysFlag has COMPRESSED set. Raises RemoteProtocolError."""
    kind = sys_flag & COMPRESSION_MASK
    try:
        if kind in (0, COMPRESSION_ZLIB):
            unpacker = zlib.decompressobj()
            plain = unpacker.decompress(body, limit_bytes)
            if unpacker.unconsumed_tail or not unpacker.eof:
                raise RemoteProtocolError(f"a zlib body is cut short or unpacks past {limit_bytes} bytes")
            return plain
        if kind == COMPRESSION_LZ4:
            return _decompress_lz4(body, limit_bytes)
        if kind == COMPRESSION_ZSTD:
            return _decompress_zstd(body, limit_bytes)
    except (zlib.error, RuntimeError, EOFError, ValueError) as error:
        raise RemoteProtocolError(f"a compressed body cannot be unpacked: {error}") from error
    raise RemoteProtocolError(f"unknown compression {kind >> 8}")


def _decompress_lz4(body: bytes, limit_bytes: int) -> bytes:
    import lz4.frame

    unpacker = lz4.frame.LZ4FrameDecompressor()
    plain: bytes = unpacker.decompress(body, limit_bytes)
    if not unpacker.eof:
        raise RemoteProtocolError(f"an lz4 body is cut short or unpacks past {limit_bytes} bytes")
    return plain


def _decompress_zstd(body: bytes, limit_bytes: int) -> bytes:
    import zstandard

    whole = zstandard.ZstdDecompressor().decompressobj()
    try:
        plain = zstandard.ZstdDecompressor().stream_reader(body).read(limit_bytes + 1)
        if len(plain) > limit_bytes:
            raise RemoteProtocolError(f"a zstd body unpacks past {limit_bytes} bytes")
        whole.decompress(
            body
        )  # again, since its size is known to be safe: the bounded reader ends at a truncation without an error
    except zstandard.ZstdError as error:
        raise RemoteProtocolError(f"a zstd body cannot be unpacked: {error}") from error
    if not whole.eof:
        raise RemoteProtocolError("a zstd body is cut short")
    return plain
