"""The ordered index of what waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.model.errors import StoreLocked
from zenitmq.store.rocksdb_timers import TIMER_FOLDER, TimerStore

ALL = {"until_ms": (1 << 63) - 1, "count_max": 100}


@pytest.fixture
def store(tmp_path: Path) -> TimerStore:
    return TimerStore(str(tmp_path))


def test_what_waits_is_found_by_time_and_by_record(store: TimerStore) -> None:
    store.write([(300, 7), (100, 9), (100, 8), (1 << 40, 1)], 20)
    assert store.due_from(0, 0, **ALL) == [(100, 8), (100, 9), (300, 7), (1 << 40, 1)]
    assert store.due_from(100, 9, until_ms=300, count_max=100) == [(100, 9), (300, 7)]
    assert store.due_from(0, 0, until_ms=1 << 41, count_max=1) == [(100, 8)]
    assert store.below(9, count_max=100) == [1, 7, 8]
    assert store.below(9, count_max=2) == [1, 7]
    assert [store.due_of(offset) for offset in (7, 2)] == [300, None]
    assert (store.count, store.reflected) == (4, 20)


def test_a_wait_ends_once_whether_it_began_in_the_same_batch_or_never(store: TimerStore) -> None:
    store.write([(300, 7), (-1, 7), (400, 8)], 10)
    store.write([(-1, 8), (-1, 8), (-1, 99)], 11)
    store.write([(-1, 8)], 12)
    assert store.due_from(0, 0, **ALL) == []
    assert store.below(100, count_max=5) == []
    assert (store.count, store.reflected) == (0, 12)


def test_it_outlives_its_process(store: TimerStore, tmp_path: Path) -> None:
    store.write([(300, 7)], 10)
    store.flush()
    with pytest.raises(StoreLocked):
        TimerStore(str(tmp_path))
    store.close()
    again = TimerStore(str(tmp_path))
    assert (again.count, again.reflected, again.due_from(0, 0, **ALL)) == (1, 10, [(300, 7)])
    again.clear()
    assert (again.count, again.reflected, again.due_from(0, 0, **ALL)) == (0, 0, [])
    again.close()


def test_a_damaged_one_is_made_anew(store: TimerStore, tmp_path: Path) -> None:
    store.write([(300, 7)], 10)
    store.close()
    for path in (tmp_path / TIMER_FOLDER).glob("MANIFEST*"):
        path.write_bytes(b"damage")
    again = TimerStore(str(tmp_path))
    assert (again.count, again.reflected) == (0, 0)
    again.close()
