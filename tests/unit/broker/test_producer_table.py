"""What the broker answers to a batch that it knows, knows in part, or should not see yet; and what it forgets when."""

from __future__ import annotations

import json

import pytest

from zenitmq.broker.producer_table import (
    PIECES_MAX,
    QUIET_MS,
    UNKNOWN,
    Entry,
    Piece,
    ProducerTable,
    advanced,
    whereabouts,
)
from zenitmq.model.errors import BrokerBusy, OutOfOrderSequence, SequenceKnownInPart, StoreFormatError

KEY = ("p", "trades", 0)


def new_table(retention_ms: int = 1000, entries_max: int = 100) -> ProducerTable:
    return ProducerTable(retention_ms=retention_ms, entries_max=entries_max)


@pytest.fixture
def table() -> ProducerTable:
    """One that has sequences 0 to 9 of KEY, at queue offsets 50 to 59."""
    table = new_table()
    table.on_stored(KEY, Piece(0, 9, 50, 5000), end=5500, stored_ms=7)
    return table


def check(table: ProducerTable, first: int, count: int, *, has_gaps: bool = False, key=KEY, now_ms: int = 8):
    return table.check(key, first, count, has_gaps=has_gaps, now_ms=now_ms)


def test_what_follows_is_new(table: ProducerTable) -> None:
    assert check(table, 10, 5) is None
    assert check(table, 0, 5, key=("p", "trades", 1)) is None
    assert check(table, 0, 5, key=("q", "trades", 0)) is None


@pytest.mark.parametrize(("first", "count"), [(0, 10), (9, 1), (3, 2)])
def test_what_was_stored_is_known(table: ProducerTable, first: int, count: int) -> None:
    known = check(table, first, count)
    assert known is not None
    assert known.end == 5500


@pytest.mark.parametrize("has_gaps", [False, True])
def test_a_batch_that_is_there_in_part_is_refused(table: ProducerTable, has_gaps: bool) -> None:
    with pytest.raises(SequenceKnownInPart) as refused:
        check(table, 8, 3, has_gaps=has_gaps)
    assert (refused.value.first, refused.value.last_sequence) == (8, 9)


def test_a_hole_is_refused_but_of_a_producer_with_gaps(table: ProducerTable) -> None:
    for key, last in ((KEY, 9), (("q", "trades", 0), -1)):
        with pytest.raises(OutOfOrderSequence) as refused:
            check(table, 11, 1, key=key)
        assert (refused.value.first, refused.value.last_sequence) == (11, last)
        assert check(table, 11, 1, key=key, has_gaps=True) is None


def test_what_is_staged_counts_until_the_log_has_told_of_it(table: ProducerTable) -> None:
    table.stage(KEY, (Piece(10, 14, 60, 6000),), 6500, 8)
    assert check(table, 15, 1) is None
    assert check(table, 10, 5) == table.entry(KEY)
    assert [piece.last for piece in table.entry(KEY).pieces] == [9, 14]
    table.stage(KEY, (Piece(10, 12, 60, 6000),), 6500, 8)
    assert table.entry(KEY).last == 14
    table.on_stored(KEY, Piece(10, 14, 60, 6000), 6500, 8)
    staged = table.entry(KEY)
    table.on_written()
    assert table.entry(KEY) == staged
    table.stage(KEY, (), 0, 0)
    table.stage(("q", "trades", 0), (), 0, 0)
    assert table.entry(("q", "trades", 0)) is None


def test_a_replay_from_further_back_changes_nothing(table: ProducerTable) -> None:
    before = table.entry(KEY)
    table.on_stored(KEY, Piece(0, 4, 50, 5000), 5200, 7)
    table.on_stored(KEY, Piece(5, 9, 55, 5250), 5500, 7)
    assert table.entry(KEY) == before
    table.on_stored(KEY, Piece(5, 11, 55, 5250), 5600, 7)
    assert table.entry(KEY).pieces == (Piece(0, 9, 50, 5000), Piece(10, 11, 60, UNKNOWN))


def test_the_newest_pieces_are_kept() -> None:
    entry = None
    for index in range(PIECES_MAX + 2):
        entry = advanced(entry, Piece(index * 10, index * 10 + 9, index * 100, index), index, index)
    assert entry is not None
    assert [piece.first for piece in entry.pieces] == [20, 30, 40, 50, 60]


def test_whereabouts() -> None:
    entry = Entry(19, 0, 0, (Piece(0, 9, 50, 5000), Piece(10, 19, 80, 8000, True)))
    assert whereabouts(entry, 0, 10) == [Piece(0, 9, 50, 5000)]
    assert whereabouts(entry, 8, 4) == [Piece(8, 9, 58, UNKNOWN), Piece(10, 11, 80, 8000, True)]
    assert whereabouts(entry, 12, 2) == [Piece(12, 13, 82, UNKNOWN, True)]
    assert whereabouts(Entry(19, 0, 0, entry.pieces[1:]), 9, 2) is None


def test_silence_is_counted_in_the_logs_time() -> None:
    table = new_table(retention_ms=1000)
    table.on_stored(("old", "t", 0), Piece(0, 0, 0, 0), 1, 0)
    table.on_stored(("p", "t", 0), Piece(0, 0, 1, 1), 2, 500)
    table.on_stored(("old", "t", 0), Piece(1, 1, 2, 2), 3, 1000)
    table.on_stored(("q", "t", 0), Piece(0, 0, 3, 3), 4, 1500)
    assert len(table) == 3
    table.on_stored(("q", "t", 0), Piece(1, 1, 4, 4), 5, 1501)
    assert table.entry(("p", "t", 0)) is None
    assert table.entry(("old", "t", 0)) is not None


def test_a_full_table_forgets_the_oldest_once_it_is_quiet() -> None:
    table = new_table(retention_ms=1 << 40, entries_max=2)
    for index, name in enumerate("ab"):
        table.on_stored((name, "t", 0), Piece(0, 0, index, index), index + 1, index)
    with pytest.raises(BrokerBusy):
        check(table, 0, 1, key=("c", "t", 0), now_ms=QUIET_MS - 1)
    assert check(table, 1, 1, key=("a", "t", 0), now_ms=QUIET_MS - 1) is None
    assert check(table, 0, 1, key=("c", "t", 0), now_ms=QUIET_MS) is None
    table.on_stored(("c", "t", 0), Piece(0, 0, 2, 2), 3, QUIET_MS)
    assert (table.entry(("a", "t", 0)), len(table)) == (None, 2)


def test_ordinary_producers_do_not_push_out_names_of_their_own() -> None:
    """A task of a Spark sink that runs again after hours is still known."""
    day_ms = 86_400_000
    table = new_table(retention_ms=day_ms, entries_max=10)
    task = ("spark/daily/0", "t", 0)
    table.on_stored(task, Piece(100, 199, 0, 0), 1, 0)
    for index in range(30):
        key, now_ms = (f"p{index}", "t", 0), (index + 1) * QUIET_MS
        assert check(table, 0, 1, key=key, now_ms=now_ms) is None
        table.on_stored(key, Piece(0, 0, index, index), 2 + index, now_ms)
    assert len(table) == 11
    again = new_table(retention_ms=day_ms, entries_max=10)
    again.load(table.document())
    for known in (table, again):
        assert check(known, 100, 100, has_gaps=True, key=task, now_ms=day_ms - 1) is not None
    table.on_stored(("p30", "t", 0), Piece(0, 0, 30, 30), 99, day_ms + 1)
    assert table.entry(task) is None


def test_names_make_room_for_each_other_only_after_the_whole_time() -> None:
    table = new_table(retention_ms=10 * QUIET_MS, entries_max=2)
    for index in range(2):
        table.on_stored((f"spark/q/{index}", "t", 0), Piece(0, 0, index, index), 1 + index, index)
    with pytest.raises(BrokerBusy):
        check(table, 0, 1, key=("spark/q/2", "t", 0), now_ms=10 * QUIET_MS - 1)
    assert check(table, 0, 1, key=("ordinary", "t", 0), now_ms=1) is None
    assert check(table, 0, 1, key=("spark/q/2", "t", 0), now_ms=10 * QUIET_MS) is None


def test_what_is_staged_takes_room() -> None:
    table = new_table(entries_max=1)
    table.stage(("a", "t", 0), (Piece(0, 0, 0, 0),), 1, 0)
    with pytest.raises(BrokerBusy):
        check(table, 0, 1, key=("b", "t", 0), now_ms=QUIET_MS)


def test_a_deleted_topics_queues_begin_anew(table: ProducerTable) -> None:
    table.on_stored(("p", "other", 0), Piece(0, 0, 0, 0), 1, 7)
    table.on_topic_deleted("trades")
    assert table.entry(KEY) is None
    assert len(table) == 1


def test_what_the_log_does_not_have_is_not_believed(table: ProducerTable) -> None:
    """A power cut took the end of the log, and the snapshot is newer: a replay tells what is left."""
    table.on_stored(("q", "t", 0), Piece(0, 3, 0, 5500), 5700, 7)
    table.settle(5700)
    assert len(table) == 2
    table.settle(5699)
    assert table.entry(("q", "t", 0)) is None
    assert table.entry(KEY) is not None


def test_a_snapshot_holds_it_all(table: ProducerTable) -> None:
    table.on_stored(("q", "t", 3), Piece(4, 6, 7, 8, True), 9, 10)
    document = json.loads(json.dumps(table.document()))
    again = new_table()
    again.load({**document, "later": 1})
    for key in (KEY, ("q", "t", 3)):
        assert again.entry(key) == table.entry(key)
    assert again.document()["later"] == 1


@pytest.mark.parametrize(
    "rows", [[1], [["p", "t", 0, 1, 2, 3]], [["p", "t", 0, 1, 2, 3, [[1]]]], [["p", "t", "x", 1, 2, 3, []]], 7]
)
def test_a_snapshot_of_another_shape_is_no_snapshot(rows: object) -> None:
    with pytest.raises(StoreFormatError):
        new_table().load({"producers": rows})
