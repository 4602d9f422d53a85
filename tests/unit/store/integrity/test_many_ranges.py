"""A bad area below many small appends: the loop pays for what is new, and no turn grows with the damage."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from store_kit import make_store, message, put, read_queue

from zenitmq.store.checksum.checksum_reader import ChecksumReader
from zenitmq.store.integrity import quarantine
from zenitmq.store.integrity.quarantine import Quarantine, Range, joined, overlapping, without

MESSAGES = 300


def bytes_of(ranges: tuple[Range, ...]) -> set[int]:
    return {at for low, high in ranges for at in range(low, high)}


@pytest.mark.parametrize("seed", range(40))
def test_ranges_hold_the_bytes_that_a_set_would(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "RANGES_MAX", 6)
    monkeypatch.setattr(quarantine, "JOINED_BYTES_MAX", 12)
    draw = random.Random(seed)
    held, model = Quarantine(), set[int]()
    for _ in range(60):
        low = draw.randrange(200)
        high = low + draw.randrange(1, 9)
        if draw.random() < 0.7:
            assert held.add([(low, high)]) == bool(set(range(low, high)) - model)
            model |= set(range(low, high))
        else:
            held.lift(low, high)
            model -= set(range(low, high))
        assert bytes_of(held.ranges) == bytes_of(held.rotten) == model
        assert held.ranges == joined(held.ranges), "ascending and apart"
        assert bytes_of(without(held.ranges, low, high)) == model - set(range(low, high))
        assert held.ranges_in(low, high) == tuple(found for found in held.ranges if found[0] < high and low < found[1])
        places = [(at, at + draw.randrange(1, 9)) for at in range(0, 210, 3)]
        touched = held.touched(np.array([begin for begin, _ in places]), np.array([end for _, end in places]))
        assert touched.tolist() == [bool(overlapping(held.ranges, *place)) for place in places]


def test_ranges_that_touch_become_one_only_where_there_are_too_many() -> None:
    few = Quarantine((at, at + 10) for at in range(0, 10 * quarantine.RANGES_MAX, 10))
    assert len(few.ranges) == quarantine.RANGES_MAX
    few.add([(10 * quarantine.RANGES_MAX, 10 * quarantine.RANGES_MAX + 10)])
    assert few.ranges == ((0, 10 * quarantine.RANGES_MAX + 10),)
    step = quarantine.JOINED_BYTES_MAX // 4
    large = Quarantine((at, at + step) for at in range(0, step * 4 * quarantine.RANGES_MAX, step))
    assert {high - low for low, high in large.ranges} == {quarantine.JOINED_BYTES_MAX}, (
        "a replica gives one in one reply"
    )


def test_what_is_found_at_once_is_taken_in_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[Range] = []
    look_up = ChecksumReader.overlapping

    def counted(self: ChecksumReader, begin: int, end: int) -> list:
        lookups.append((begin, end))
        return look_up(self, begin, end)

    with make_store(tmp_path / "s", segment_bytes=1 << 20) as store:
        placed = [put(store, "t", 0, message("t", b"%05d" % number)) for number in range(MESSAGES)]
        store.flush_all(20_000)
        changes: list[int] = []
        store.damage.on_change = lambda: changes.append(len(store.damage.unsendable))
        monkeypatch.setattr(ChecksumReader, "overlapping", counted)
        bad = [(place.physical_offset, place.end) for place in placed[10:-10:2]]
        store.damage.add_all(bad, "in a test")
        assert changes == [len(bad)], "everybody is told once"
        assert len(lookups) <= 2, "neighbours are looked up in one go"
        lookups.clear()
        store.damage.add(placed[11].physical_offset, placed[11].end, "in a test")
        assert lookups == [(placed[11].physical_offset, placed[11].end)], "what is known is not looked up again"
        assert store.damage.unsendable[0] == (placed[10].physical_offset, placed[12].end), "those that touch are one"
        read = [found.queue_offset for found in read_queue(store, "t", 0)]
        assert read == sorted({*range(MESSAGES)} - {*range(10, MESSAGES - 10, 2), 11})
