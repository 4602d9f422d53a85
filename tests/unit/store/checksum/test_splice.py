"""Two damaged copies make a whole one, where its checksum says so."""

from __future__ import annotations

from random import Random

import pytest

from zenitmq.record.crc32 import crc32
from zenitmq.store.checksum.splice import NEAR_BYTES, PLACES_MAX, differing, spliced

WHOLE = Random(1).randbytes(200_000)


def rotten(*places: int, size: int = 1) -> bytes:
    data = bytearray(WHOLE)
    for place in places:
        for at in range(place, place + size):
            data[at] ^= 0x10
    return bytes(data)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([], [5]), ([7], []), ([0], [len(WHOLE) - 1]), ([10, 90_000], [131_072]), ([65_535], [65_536 + NEAR_BYTES]),
        ([1000, 70_000, 150_000], [3000, 199_000]),
    ],
)  # fmt: skip
def test_each_has_what_the_other_lacks(ours: list[int], theirs: list[int]) -> None:
    assert spliced(rotten(*ours), rotten(*theirs), crc32(WHOLE)) == WHOLE


def test_what_lies_near_is_one_place() -> None:
    assert differing(rotten(100), rotten(100 + NEAR_BYTES - 1)) == [(100, 100 + NEAR_BYTES)]
    assert differing(WHOLE, rotten(100, size=5000)) == [(100, 5100)]
    assert differing(WHOLE, WHOLE) == []


def test_what_both_have_lost_is_not_made_up() -> None:
    assert spliced(rotten(50), rotten(50), crc32(WHOLE)) is None
    assert spliced(rotten(50), rotten(50, 9000), crc32(WHOLE)) is None


def test_many_places_are_not_tried() -> None:
    many = rotten(*range(0, 1000 * (PLACES_MAX + 1), 1000))
    assert differing(WHOLE, many) is None
    assert spliced(WHOLE, many, crc32(many[::-1])) is None
    assert spliced(WHOLE, WHOLE[:-1], 0) is None
