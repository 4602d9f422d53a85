"""`cluster.zenit`, byte by byte: its golden text, and what is refused."""

from __future__ import annotations

import zlib

import pytest

from zenitmq.broker.group.cluster_file import decode_cluster_file, encode_cluster_file
from zenitmq.model.errors import StoreFormatError

GOLDEN = b'{"version": 1, "cluster_id": "9f1c2b3a4d5e6f70", "settled": true}\n7f7d648f\n'


def test_the_file_is_these_bytes() -> None:
    assert encode_cluster_file("9f1c2b3a4d5e6f70", is_settled=True).encode() == GOLDEN
    assert decode_cluster_file(GOLDEN) == ("9f1c2b3a4d5e6f70", True)


def test_every_cut_and_every_flipped_bit_is_refused() -> None:
    for end in range(len(GOLDEN)):
        with pytest.raises(StoreFormatError):
            decode_cluster_file(GOLDEN[:end])
    for at in range(len(GOLDEN)):
        flipped = bytearray(GOLDEN)
        flipped[at] ^= 1
        with pytest.raises(StoreFormatError):
            decode_cluster_file(bytes(flipped))


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 2, "cluster_id": "a", "settled": true}',
        '{"version": 1, "cluster_id": "", "settled": true}',
        '{"version": 1, "cluster_id": "two words", "settled": true}',
        '{"version": 1, "cluster_id": 7, "settled": true}',
        '{"version": 1, "cluster_id": "a", "settled": 1}',
        '{"version": 1}',
        "[]",
        "nonsense",
    ],
)
def test_what_names_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(StoreFormatError):
        decode_cluster_file(f"{text}\n{zlib.crc32(text.encode()):08x}\n".encode())
