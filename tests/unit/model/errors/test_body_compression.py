"""Compressed bodies of all three kinds, whole, cut, and larger than allowed."""

from __future__ import annotations

import zlib

import pytest
import zstandard

from zenitmq.model.errors import RemoteProtocolError
from zenitmq.record.compression import compress_lz4, decompress
from zenitmq.record.sys_flag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD

PLAIN = b"a line of a log\n" * 4000


def zstd_streamed(plain: bytes) -> bytes:
    """As a stream writer makes it: without the plain size in its header."""
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return packer.compress(plain) + packer.flush()


KINDS = [
    pytest.param(COMPRESSION_ZLIB, zlib.compress, id="zlib"),
    pytest.param(0, zlib.compress, id="zlib as 0"),
    pytest.param(COMPRESSION_LZ4, compress_lz4, id="lz4"),
    pytest.param(COMPRESSION_ZSTD, zstandard.ZstdCompressor().compress, id="zstd"),
    pytest.param(COMPRESSION_ZSTD, zstd_streamed, id="zstd stream"),
]


@pytest.mark.parametrize(("kind", "compress"), KINDS)
@pytest.mark.parametrize("plain", [b"", b"x", PLAIN], ids=["empty", "one", "many"])
def test_all_kinds_unpack(kind: int, compress, plain: bytes) -> None:  # type: ignore[no-untyped-def]
    assert decompress(compress(plain), COMPRESSED | kind) == plain


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_the_limit_itself_is_allowed_and_one_byte_more_is_not(kind: int, compress) -> None:  # type: ignore[no-untyped-def]
    packed = compress(PLAIN)
    assert decompress(packed, kind, len(PLAIN)) == PLAIN
    with pytest.raises(RemoteProtocolError):
        decompress(packed, kind, len(PLAIN) - 1)


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_a_body_cut_anywhere_is_refused(kind: int, compress) -> None:  # type: ignore[no-untyped-def]
    packed = compress(PLAIN[:300])
    for end in range(len(packed)):
        with pytest.raises(RemoteProtocolError):
            decompress(packed[:end], kind)


@pytest.mark.parametrize("kind", [COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD])
def test_a_plain_body_is_refused(kind: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(PLAIN, kind)


def test_an_unknown_kind_is_refused_by_number() -> None:
    with pytest.raises(RemoteProtocolError, match="5"):
        decompress(PLAIN, 0x500)
