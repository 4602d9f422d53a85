"""Sectors that the disk cannot read: at a start, and for whoever reads the log later, they are damage like any other, never
the end of the process.

The nearest real thing: a file that was cut short under its map, where a touch behind its end is SIGBUS.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from store_kit import ALL_TIME, kill, make_store, message, put, read_queue

from zenitmq.broker.state.stored_time import stored_at_ms
from zenitmq.model.errors import CorruptRecordError
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import PhysicalOffset
from zenitmq.store.config import StoreConfig
from zenitmq.store.integrity import recovery
from zenitmq.store.integrity.recovery import LastStop, LogSurvey
from zenitmq.store.log import log_pages
from zenitmq.store.log.commit_log import CommitLog
from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.store_opening import scanning_kernel

SEGMENT = 65_536
PAGE = 4_096
SETTINGS = {"segment_bytes": SEGMENT}
LOST = b"the disk cannot read this"


def fill(store: MessageStore, count: int, *, lost: int = -1) -> list[int]:
    """Records of all sizes up to three pages; where each begins, and where the last one ends."""
    places = []
    for number in range(count):
        half = b"b" * (number * 997 % (3 * PAGE) // 2)
        body = b"%05d" % number + half + (LOST if number == lost else b"") + half
        places.append(int(put(store, "t", 0, message("t", body, keys=f"k{number}")).physical_offset))
    return [*places, int(store.written)]


def numbers(store: MessageStore) -> list[int]:
    return [int(found.body[:5]) for found in read_queue(store, "t", 0)]


def survey(left: Path, *, cut_at: int | None = None) -> tuple[int, tuple[tuple[int, int], ...]]:
    log = CommitLog(str(left), segment_bytes=SEGMENT)
    try:
        if cut_at is not None:
            os.truncate(log.segments()[0].path, cut_at)
        kernel = scanning_kernel(StoreConfig(**SETTINGS), SEGMENT)
        found = LogSurvey(log, kernel, check_body_crc=True, last_stop=LastStop.KILLED).run(0)
        return found.end, found.damaged
    finally:
        log.close()


@pytest.mark.parametrize("vouched", [False, True])
@pytest.mark.parametrize("cut_at", [0, PAGE, 3 * PAGE, 7 * PAGE])
def test_a_file_that_is_cut_short_under_its_map(tmp_path, vouched: bool, cut_at: int) -> None:
    with make_store(tmp_path / "s", **SETTINGS) as store:
        places = fill(store, 9)
        if vouched:
            store.flush_all(20_000)
        left = kill(tmp_path / "s", tmp_path / "killed")
    assert places[-1] < SEGMENT
    assert survey(left, cut_at=cut_at) == (max(place for place in places if place <= cut_at), ())


def test_an_unreadable_page_in_the_middle_costs_its_record(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_store(tmp_path / "s", **SETTINGS) as store:
        places = fill(store, 11, lost=9)  # of two pages and more
        store.flush_all(20_000)
        left = kill(tmp_path / "s", tmp_path / "killed")
    page_in = log_pages.page_in
    monkeypatch.setattr(log_pages, "page_in", lambda view: LOST not in bytes(view) and page_in(view))
    with make_store(left, **SETTINGS) as store:
        assert store.written == places[-1]
        assert numbers(store) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]
        assert store.statistics().quarantined_bytes == places[10] - places[9]


@pytest.mark.parametrize("window", [36, 100, 1000, PAGE, 20_000])
@pytest.mark.parametrize("vouched", [False, True])
def test_however_much_is_looked_at_in_one_go(
    tmp_path, monkeypatch: pytest.MonkeyPatch, window: int, vouched: bool
) -> None:
    with make_store(tmp_path / "s", **SETTINGS) as store:
        places = fill(store, 40)
        if vouched:
            store.flush_all(20_000)
        left = kill(tmp_path / "s", tmp_path / "killed")
    if vouched:
        os.truncate(left / "checksum" / f"{0:020d}", 5 * 16)
    monkeypatch.setattr(recovery, "SCAN_BYTES", window)
    assert survey(left) == (places[-1], ())
    with make_store(left, **SETTINGS) as store:
        assert numbers(store) == list(range(40))


# ---- while it runs: a whole small log that this process did not write, all of whose file is gone behind its first pages

RECORDS = 40
GONE_FROM = 2 * PAGE
NUMBER = 20  # a message behind


def raises_corrupt(read: Callable[[], object]) -> bool:
    with pytest.raises(CorruptRecordError):
        read()
    return True


READERS: dict[str, Callable[[MessageStore, int, int], object]] = {
    "record_at": lambda store, at, _: raises_corrupt(lambda: store.record_at(PhysicalOffset(at))),
    "query": lambda store, at, _: store.query("t", f"k{NUMBER}", max_messages=5, unique=False, **ALL_TIME) == [],
    "may_return": lambda store, at, _: (
        not store.damage.may_return(at) and store.damage.quarantine.ranges_in(at, at + 1)
    ),
    "fits": lambda store, at, size: not store.damage.fits(at, bytes(size)),
    "made_whole": lambda store, at, size: store.damage.made_whole(at, bytes(size)) is None,
    "holds": lambda store, at, size: not store.holds(at, bytes(size)),
    "chunk": lambda store, at, _: (
        raises_corrupt(lambda: store.chunk(at, 2000)) and store.damage.quarantine.ranges_in(at, at + 1)
    ),
    "whole chunk": lambda store, at, size: (
        raises_corrupt(lambda: store.chunk(at, size, limit=at + size)) and store.damage.quarantine.ranges_in(at, at + 1)
    ),
    "chunk_end": lambda store, at, _: raises_corrupt(lambda: store.chunk_end(at, 2000)),
    "by_time": lambda store, at, _: store.offset_by_time("t", 0, 1, upper=False) == 0,
    "by_time_behind": lambda store, at, _: store.offset_by_time("t", 0, 1 << 61, upper=False) > 0,
    "stored_time": lambda store, at, _: stored_at_ms(store, "t", 0, NUMBER) is None,
}


@pytest.fixture
def rotten(tmp_path: Path) -> tuple[Path, list[int]]:
    with make_store(tmp_path / "s", segment_bytes=SEGMENT) as store:
        places = [
            int(put(store, "t", 0, message("t", b"x" * 1000, keys=f"k{number}")).physical_offset)
            for number in range(RECORDS)
        ]
    return tmp_path / "s", places


@pytest.mark.parametrize("reader", READERS)
def test_who_reads_what_the_disk_cannot_give(rotten: tuple[Path, list[int]], reader: str) -> None:
    directory, places = rotten
    with make_store(directory, segment_bytes=SEGMENT) as store:
        os.truncate(store._log.segments()[0].path, GONE_FROM)
        assert READERS[reader](store, places[NUMBER], places[NUMBER + 1] - places[NUMBER])


def test_a_pull_touches_nothing_that_this_process_has_not_had_in_memory(rotten: tuple[Path, list[int]]) -> None:
    directory, places = rotten
    with make_store(directory, segment_bytes=SEGMENT) as store:
        os.truncate(store._log.segments()[0].path, GONE_FROM)
        found = store.get_messages("t", 0, NUMBER, max_messages=3, max_bytes=1 << 20)
        assert (found.status, found.count, found.is_cold) == (GetStatus.FOUND, 3, False)
        assert found.untouched == ((places[NUMBER], places[NUMBER + 3]),)
        store.known_pages.learn([(places[0], places[1])])
        assert store.get_messages("t", 0, 0, max_messages=1, max_bytes=1).untouched, "its step is not whole"


def test_what_was_in_memory_once_is_not_asked_for_again(rotten: tuple[Path, list[int]]) -> None:
    directory, places = rotten
    with make_store(directory, segment_bytes=SEGMENT) as store:
        first = store.get_messages("t", 0, 0, max_messages=1, max_bytes=1)
        assert first.untouched == ((places[0], places[1]),)
        store.known_pages.learn(first.untouched)
        for number in range(RECORDS):
            assert not store.get_messages("t", 0, number, max_messages=9, max_bytes=1 << 20).untouched
        put(store, "t", 0, message("t", b"new"))
        found = store.get_messages("t", 0, RECORDS, max_messages=1, max_bytes=1)
        assert (found.status, found.untouched) == (GetStatus.FOUND, ())
