"""Sectors that the disk cannot read: at a start they are damage like any other, never the end of the process.

The nearest real thing: a file that was cut short under its map, where a touch behind its end is SIGBUS.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from store_kit import kill, make_store, message, put, read_queue

from zenitmq.store import log_pages, recovery
from zenitmq.store.commit_log import CommitLog
from zenitmq.store.config import StoreConfig
from zenitmq.store.message_store import MessageStore
from zenitmq.store.recovery import LastStop, LogSurvey
from zenitmq.store.store_opening import scanning_kernel

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
