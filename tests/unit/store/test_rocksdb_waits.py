"""The ordered index of what waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zenitmq.model.errors import StoreFormatError, StoreLocked
from zenitmq.store.rocksdb_waits import TIMER_FOLDER, WaitStore

ALL = {"until_ms": (1 << 63) - 1, "count_max": 100}


@pytest.fixture
def store(tmp_path: Path) -> WaitStore:
    return WaitStore(str(tmp_path), TIMER_FOLDER)


def test_what_waits_is_found_by_time_and_by_record(store: WaitStore) -> None:
    store.write([(300, 7), (100, 9), (100, 8), (1 << 40, 1)], 20)
    assert store.due_from(0, 0, **ALL) == [(100, 8), (100, 9), (300, 7), (1 << 40, 1)]
    assert store.due_from(100, 9, until_ms=300, count_max=100) == [(100, 9), (300, 7)]
    assert store.due_from(0, 0, until_ms=1 << 41, count_max=1) == [(100, 8)]
    assert store.below(9, count_max=100) == [1, 7, 8]
    assert store.below(9, count_max=2) == [1, 7]
    assert [store.due_of(offset) for offset in (7, 2)] == [300, None]
    assert (store.count, store.reflected) == (4, 20)


@pytest.mark.parametrize(("buffer_bytes", "cache_bytes"), [(1 << 18, 1 << 18), (8 << 20, 8 << 20), (64 << 20, 8 << 20)])
def test_what_was_read_takes_no_more_memory_than_what_is_written(
    tmp_path: Path, buffer_bytes: int, cache_bytes: int
) -> None:
    store = WaitStore(str(tmp_path), TIMER_FOLDER, buffer_bytes=buffer_bytes)
    assert store._db.property_int_value("rocksdb.block-cache-capacity") == cache_bytes
    store.close()


def test_a_wait_ends_once_whether_it_began_in_the_same_batch_or_never(store: WaitStore) -> None:
    store.write([(300, 7), (-1, 7), (400, 8)], 10)
    store.write([(-1, 8), (-1, 8), (-1, 99)], 11)
    store.write([(-1, 8)], 12)
    assert store.due_from(0, 0, **ALL) == []
    assert store.below(100, count_max=5) == []
    assert (store.count, store.reflected) == (0, 12)


def test_it_outlives_its_process(store: WaitStore, tmp_path: Path) -> None:
    store.write([(300, 7)], 10)
    store.flush()
    with pytest.raises(StoreLocked):
        WaitStore(str(tmp_path), TIMER_FOLDER)
    store.close()
    again = WaitStore(str(tmp_path), TIMER_FOLDER)
    assert (again.count, again.reflected, again.due_from(0, 0, **ALL)) == (1, 10, [(300, 7)])
    again.clear()
    assert (again.count, again.reflected, again.due_from(0, 0, **ALL)) == (0, 0, [])
    again.close()


def test_a_damaged_one_is_made_anew(store: WaitStore, tmp_path: Path) -> None:
    store.write([(300, 7)], 10)
    store.close()
    for path in (tmp_path / TIMER_FOLDER).glob("MANIFEST*"):
        path.write_bytes(b"damage")
    again = WaitStore(str(tmp_path), TIMER_FOLDER)
    assert (again.count, again.reflected) == (0, 0)
    again.close()


def damage(directory: Path, *, at: float) -> None:
    """Flips one byte of each table, as far into it."""
    for path in (directory / TIMER_FOLDER).glob("*.sst"):
        with open(path, "r+b") as file:
            place = round(path.stat().st_size * at)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 0x55]))


def filled(directory: Path) -> WaitStore:
    """10,000 entries in one table, none of whose blocks is in memory."""
    store = WaitStore(str(directory), TIMER_FOLDER)
    for begin in range(0, 10_000, 500):
        store.write([(1000 + n, n) for n in range(begin, begin + 500)], begin + 500)
    store._db.flush()
    store.close()
    return WaitStore(str(directory), TIMER_FOLDER)


READS: dict[str, tuple[float, Callable[[WaitStore], object]]] = {
    "due_from": (0.2, lambda store: store.due_from(0, 0, until_ms=1 << 40, count_max=1 << 20)),
    "below": (0.6, lambda store: store.below(1 << 40, count_max=1 << 20)),
    "due_of": (0.6, lambda store: [store.due_of(offset) for offset in range(0, 10_000, 10)]),
    "write": (0.6, lambda store: store.write([(-1, offset) for offset in range(0, 10_000, 10)], 10_001)),
}


@pytest.mark.parametrize("name", READS)
def test_damage_is_told_where_it_is_met_and_the_next_to_open_it_begins_anew(tmp_path: Path, name: str) -> None:
    store = filled(tmp_path)
    assert store.count == 10_000
    at, read = READS[name]
    damage(tmp_path, at=at)
    with pytest.raises(StoreFormatError, match="rebuilt"):
        read(store)
    assert store.is_damaged
    store.close()
    again = WaitStore(str(tmp_path), TIMER_FOLDER)
    assert (again.is_damaged, again.count, again.reflected) == (False, 0, 0)
    again.write([(300, 7)], 10)
    again.close()
    again = WaitStore(str(tmp_path), TIMER_FOLDER)
    assert again.count == 1
    again.close()


@pytest.mark.parametrize("at", [0.0, 0.2, 0.4, 0.6])
def test_damage_is_found_at_the_start_and_is_no_lock(tmp_path: Path, at: float) -> None:
    """RocksDB says "block checksum mismatch"."""
    filled(tmp_path).close()
    damage(tmp_path, at=at)
    again = WaitStore(str(tmp_path), TIMER_FOLDER)
    assert (again.is_damaged, again.count, again.reflected) == (False, 0, 0)
    again.close()


def test_a_table_that_is_missing_without_a_trace_is_missed(tmp_path: Path) -> None:
    """As after the loss of what the manifest said last."""
    store = filled(tmp_path)
    store._db.delete(b"d" + (1700).to_bytes(8, "big") + (700).to_bytes(8, "big"))
    store.close()
    again = WaitStore(str(tmp_path), TIMER_FOLDER)
    assert (again.count, again.reflected) == (0, 0)
    again.close()


@pytest.mark.parametrize(("buffer_bytes", "is_written_out"), [(64 << 10, True), (8 << 20, False)])
def test_what_fills_the_buffer_leaves_the_memory(tmp_path: Path, buffer_bytes: int, is_written_out: bool) -> None:
    """Each message that is delayed and delivered takes about 280 bytes there."""
    store = WaitStore(str(tmp_path), TIMER_FOLDER, buffer_bytes=buffer_bytes)
    for offset in range(0, 200_000, 100):
        store.write([(300, offset)], offset + 100)
        store.write([(-1, offset)], offset + 100)
    held = store._db.property_int_value("rocksdb.cur-size-active-mem-table")
    store.close()
    assert held is not None
    assert (held < 2 * (64 << 10)) == is_written_out
