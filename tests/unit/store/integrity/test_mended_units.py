"""Units of records that are whole again: each in the place that is its own, and in no other queue's of the same name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from store_kit import ALL_TIME, make_store, message, put, read_queue

from zenitmq.store.integrity.recovery import walk
from zenitmq.store.message_store import MessageStore, Placed
from zenitmq.store.queues.dispatch import Run

LARGE = {"segment_bytes": 65536, "queue_file_units": 1000}


def bodies(store: MessageStore) -> list[str]:
    return [bytes(found.body).decode() for found in read_queue(store, "t", 0)]


def rot(store: MessageStore, *places: Placed) -> None:
    for place in places:
        store.damage.add(place.physical_offset, place.end, "in a test")


def mend(store: MessageStore) -> None:
    for begin, end in store.damage.quarantine.ranges:
        store.damage.on_whole(begin, end)


def test_records_of_a_deleted_topic_stay_out_of_the_queue_of_the_one_made_since(tmp_path: Path) -> None:
    with make_store(tmp_path / "s", **LARGE) as store:
        old = [put(store, "t", 0, message("t", b"old%02d" % number)) for number in range(10)]
        store.delete_topic("t", store.written)
        new = [put(store, "t", 0, message("t", b"new%02d" % number)) for number in range(10)]
        rot(store, *old[3:5], *new[5:7])
        mend(store)
        assert bodies(store) == [f"new{number:02d}" for number in range(10)]


def test_a_queue_made_anew_without_damaged_records_takes_them_in_once_they_are_whole(tmp_path: Path) -> None:
    with make_store(tmp_path / "s", **LARGE) as store:
        for number in range(4):
            put(store, "t", 0, message("t", b"old%02d" % number))
        store.delete_topic("t", store.written)
        placed = [put(store, "t", 0, message("t", b"%02d" % number)) for number in range(10)]
        rot(store, *placed[3:6])
    shutil.rmtree(tmp_path / "s" / "consumequeue")
    with make_store(tmp_path / "s", **LARGE) as store:
        store.delete_topic("t", store.written)
        for number in range(3):
            place = placed[number]
            store._queues.on_run(next(_runs(store, place.physical_offset, place.end)))
        last = placed[6]
        store._queues.on_run(next(_runs(store, last.physical_offset, store.written)))
        assert bodies(store) == ["00", "01", "02", "06", "07", "08", "09"]
        for begin, end in ((placed[5].physical_offset, placed[5].end), (placed[3].physical_offset, placed[4].end)):
            store.damage.on_whole(begin, end)
        assert bodies(store) == [f"{number:02d}" for number in range(10)]
        store.damage.on_whole(0, placed[0].physical_offset)
        assert bodies(store) == [f"{number:02d}" for number in range(10)], "what is older than the queue stays out"


def _runs(store: MessageStore, begin: int, end: int) -> Iterator[Run]:
    return walk(store._log, store.damage._kernel, begin, end, ())


def keys_found(store: MessageStore) -> list[bool]:
    return [bool(store.query("t", f"k{number}", max_messages=4, unique=False, **ALL_TIME)) for number in range(10)]


def test_messages_that_are_mended_are_found_by_their_keys(tmp_path: Path) -> None:
    with make_store(tmp_path / "s", **LARGE) as store:
        placed = [put(store, "t", 0, message("t", b"%02d" % number, keys=f"k{number}")) for number in range(10)]
        rot(store, *placed[3:6])
        assert keys_found(store) == [True] * 3 + [False] * 3 + [True] * 4
    with make_store(tmp_path / "s", **LARGE) as store:
        mend(store)
        assert keys_found(store) == [True] * 10


def test_an_index_made_anew_over_damage_lacks_its_keys_until_it_is_deleted_once_more(tmp_path: Path) -> None:
    """Keys go in in the order of the log only."""
    with make_store(tmp_path / "s", **LARGE) as store:
        placed = [put(store, "t", 0, message("t", b"%02d" % number, keys=f"k{number}")) for number in range(10)]
        rot(store, *placed[3:6])
    shutil.rmtree(tmp_path / "s" / "index")
    with make_store(tmp_path / "s", **LARGE) as store:
        mend(store)
        assert bodies(store) == [f"{number:02d}" for number in range(10)]
        assert keys_found(store) == [True] * 3 + [False] * 3 + [True] * 4
    shutil.rmtree(tmp_path / "s" / "index")
    with make_store(tmp_path / "s", **LARGE) as store:
        assert keys_found(store) == [True] * 10
