"""A chunk's bytes: checked end to end, compressed where it pays, never unpacked past what was announced."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace

import lz4.frame
import pytest

from zenitmq.broker.replication.chunk_payload import LZ4_BYTES_MIN, REMEMBERED, ChunkEncoder, unseal
from zenitmq.broker.replication.frames import CHUNK_BYTES_MAX, CHUNK_SPAN_MAX, Chunk
from zenitmq.model.errors import RemoteProtocolError

PLAIN = b"price=17;" * 4_000


def chunk(data: bytes, *, lz4: bool) -> Chunk:
    return Chunk(1, 2, 3, 2, 100, 100 + len(data), 0, 0, lz4)


def seal(announced: Chunk, data: bytes | memoryview) -> tuple[Chunk, bytes]:
    sealed, payload = ChunkEncoder(lambda begin, end: data, bytes).seal(announced)
    return sealed, bytes(payload)


@pytest.mark.parametrize(
    ("data", "asked", "packed"),
    [
        pytest.param(PLAIN, True, True, id="pays"),
        pytest.param(PLAIN, False, False, id="not asked for"),
        pytest.param(os.urandom(40_000), True, False, id="does not pay"),
        pytest.param(PLAIN[: LZ4_BYTES_MIN - 1], True, False, id="too small"),
    ],
)
def test_what_is_sealed_comes_out_the_same(data: bytes, asked: bool, packed: bool) -> None:
    sealed, payload = seal(chunk(data, lz4=asked), memoryview(data))
    assert sealed.lz4 is packed
    assert (len(payload) < len(data)) is packed
    assert sealed.crc == zlib.crc32(data)
    assert bytes(unseal(sealed, payload)) == data


@pytest.mark.parametrize("asked", [True, False])
def test_each_slave_gets_the_same_whoever_is_served_between(asked: bool) -> None:
    data = [PLAIN, os.urandom(5_000), PLAIN[:5_000]]
    ranges = [replace(chunk(part, lz4=asked), begin=at, end=at + len(part)) for at, part in enumerate(data)]
    chunk_encoder = ChunkEncoder(lambda begin, _: data[begin], bytes)
    for index in (0, 0, 1, 2, 2, 1, 0):
        for lz4_asked in (asked, not asked):
            one = replace(ranges[index], lz4=lz4_asked, session=index)
            sealed, payload = chunk_encoder.seal(one)
            assert sealed == replace(one, crc=zlib.crc32(data[index]), lz4=len(payload) < len(data[index]))
            assert bytes(unseal(sealed, bytes(payload))) == data[index]


def test_a_range_is_read_and_shared_once_until_it_is_forgotten() -> None:
    read: list[int] = []
    shared: list[bytes] = []

    def read_range(begin: int, end: int) -> bytes:
        read.append(begin)
        return bytes(end - begin)

    def share(data: bytes | memoryview) -> bytes:
        shared.append(bytes(data))
        return shared[-1]

    def seal(begin: int) -> bytes | memoryview | object:
        return chunk_encoder.seal(Chunk(1, 2, 3, 2, begin, begin + 10, 0, 0, lz4=False))[1]

    chunk_encoder = ChunkEncoder(read_range, share)
    assert all(seal(begin) is shared[-1] for begin in range(REMEMBERED) for _ in range(3))
    assert read == list(range(REMEMBERED))
    seal(REMEMBERED)  # the oldest makes room
    seal(1)
    assert read == list(range(REMEMBERED + 1))
    seal(0)
    assert read[REMEMBERED:] == [REMEMBERED, 0]
    chunk_encoder.forget()
    seal(0)
    assert read[REMEMBERED:] == [REMEMBERED, 0, 0]


def test_a_flipped_bit_is_seen() -> None:
    for asked in (True, False):
        sealed, payload = seal(chunk(PLAIN, lz4=asked), PLAIN)
        for at in range(0, len(payload), max(1, len(payload) // 200)):
            damaged = bytearray(payload)
            damaged[at] ^= 1
            try:
                data = unseal(sealed, bytes(damaged))
            except RemoteProtocolError:
                continue
            assert bytes(data) == PLAIN  # a bit of lz4's own header that means nothing here


def test_a_payload_of_another_length_is_refused() -> None:
    sealed, payload = seal(chunk(PLAIN, lz4=False), PLAIN)
    for wrong in (payload[:-1], bytes(payload) + b"\0", b""):
        with pytest.raises(RemoteProtocolError):
            unseal(sealed, wrong)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = lz4.frame.compress(bytes(64 << 20))
    announced = replace(chunk(bytes(1_000_000), lz4=True), crc=zlib.crc32(bytes(1_000_000)))
    with pytest.raises(RemoteProtocolError, match="past 1000000 bytes"):
        unseal(announced, bomb)


def test_a_bomb_that_stands_for_a_whole_segment_is_not_unpacked_past_a_record() -> None:
    bomb = lz4.frame.compress(bytes(CHUNK_BYTES_MAX + 1))
    announced = replace(chunk(b"", lz4=True), end=100 + CHUNK_SPAN_MAX)
    with pytest.raises(RemoteProtocolError, match=f"past {CHUNK_BYTES_MAX} bytes"):
        unseal(announced, bomb)


def test_an_lz4_frame_cut_anywhere_is_refused_or_complete() -> None:
    sealed, payload = seal(chunk(PLAIN, lz4=True), PLAIN)
    refused = 0
    for count in range(len(payload)):
        try:
            assert bytes(unseal(sealed, payload[:count])) == PLAIN
        except RemoteProtocolError:
            refused += 1
    assert refused >= len(payload) - 8  # all but the end mark
