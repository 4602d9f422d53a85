"""Bits rot inside of records, below a limit, the same for a seed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from zenitmq.deploy.drills.faults.bit_rot import rot
from zenitmq.record.codes import MAGIC_BLANK

SEGMENT_BYTES = 1024
SIZE_BYTES = 100
MAGIC = 0xDAA320A7


def segment(count: int) -> bytes:
    """Records of a hundred bytes each, then the filler."""
    record = struct.pack(">iI", SIZE_BYTES, MAGIC) + bytes(SIZE_BYTES - 8)
    used = record * count
    return used + struct.pack(">iI", SEGMENT_BYTES - len(used), MAGIC_BLANK) + bytes(SEGMENT_BYTES - len(used) - 8)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / f"{0:020d}").write_bytes(segment(9))
    (folder / f"{SEGMENT_BYTES:020d}").write_bytes(segment(5))
    return tmp_path


def log(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))


@pytest.mark.parametrize("seed", range(20))
def test_one_bit_of_each_chosen_record_is_turned_and_nothing_else(store: Path, seed: int) -> None:
    whole = log(store)
    limit = SEGMENT_BYTES + 3 * SIZE_BYTES
    hit = rot(str(store), limit=limit, seed=seed, count=6)
    turned = [(at, old ^ new) for at, (old, new) in enumerate(zip(whole, log(store), strict=True)) if old != new]
    assert len(hit) == len(turned) == 6
    for begin, (at, bits) in zip(hit, turned, strict=True):
        assert begin <= at < begin + SIZE_BYTES <= limit
        assert bits.bit_count() == 1


def test_the_same_bits_rot_for_a_seed(store: Path) -> None:
    whole = log(store)
    first = rot(str(store), limit=2 * SEGMENT_BYTES, seed=3)
    assert rot(str(store), limit=2 * SEGMENT_BYTES, seed=3) == first
    assert log(store) == whole


def test_what_is_not_there_does_not_rot(store: Path) -> None:
    assert len(rot(str(store), limit=2 * SEGMENT_BYTES, seed=1, count=100)) == 14
    assert rot(str(store), limit=SIZE_BYTES - 1, seed=1) == []
