"""What the broker answers to a batch that it knows, knows in part, or should not see yet; and what it forgets when."""

from __future__ import annotations

import json

import pytest

from zenitmq.broker.state.producer_table import (
    PIECES_MAX,
    QUIET_MS,
    UNKNOWN,
    Key,
    Piece,
    ProducerEntry,
    ProducerTable,
    advanced,
    whereabouts,
)
from zenitmq.model.errors import BrokerBusy, OutOfOrderSequence, SequenceKnownInPart, StoreFormatError

KEY = ("p", "trades", 0)


def new_table(retention_ms: int = 1000, entries_max: int = 100) -> ProducerTable:
    return ProducerTable(retention_ms=retention_ms, entries_max=entries_max)


def stored(table: ProducerTable, key: Key, piece: Piece, end: int, at_ms: int) -> None:
    """Both clocks agree."""
    table.on_stored(key, piece, end, at_ms, at_ms)


@pytest.fixture
def table() -> ProducerTable:
    """One that has sequences 0 to 9 of KEY, at queue offsets 50 to 59."""
    table = new_table()
    stored(table, KEY, Piece(0, 9, 50, 5000), 5500, 7)
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
    stored(table, KEY, Piece(10, 14, 60, 6000), 6500, 8)
    staged = table.entry(KEY)
    table.on_written()
    assert table.entry(KEY)[:4] == staged[:4]
    table.stage(KEY, (), 0, 0)
    table.stage(("q", "trades", 0), (), 0, 0)
    assert table.entry(("q", "trades", 0)) is None


def test_a_replay_from_further_back_changes_nothing(table: ProducerTable) -> None:
    before = table.entry(KEY)
    stored(table, KEY, Piece(0, 4, 50, 5000), 5200, 7)
    stored(table, KEY, Piece(5, 9, 55, 5250), 5500, 7)
    assert table.entry(KEY) == before
    stored(table, KEY, Piece(5, 11, 55, 5250), 5600, 7)
    assert table.entry(KEY).pieces == (Piece(0, 9, 50, 5000), Piece(10, 11, 60, UNKNOWN))


def test_the_newest_pieces_are_kept() -> None:
    entry = None
    for index in range(PIECES_MAX + 2):
        entry = advanced(entry, Piece(index * 10, index * 10 + 9, index * 100, index), index, index)
    assert entry is not None
    assert [piece.first for piece in entry.pieces] == [20, 30, 40, 50, 60]


def test_whereabouts() -> None:
    entry = ProducerEntry(19, 0, 0, (Piece(0, 9, 50, 5000), Piece(10, 19, 80, 8000, True)))
    assert whereabouts(entry, 0, 10) == [Piece(0, 9, 50, 5000)]
    assert whereabouts(entry, 8, 4) == [Piece(8, 9, 58, UNKNOWN), Piece(10, 11, 80, 8000, True)]
    assert whereabouts(entry, 12, 2) == [Piece(12, 13, 82, UNKNOWN, True)]
    assert whereabouts(ProducerEntry(19, 0, 0, entry.pieces[1:]), 9, 2) is None


def test_who_is_silent_for_long_is_forgotten() -> None:
    table = new_table(retention_ms=1000)
    stored(table, ("old", "t", 0), Piece(0, 0, 0, 0), 1, 0)
    stored(table, ("p", "t", 0), Piece(0, 0, 1, 1), 2, 500)
    stored(table, ("old", "t", 0), Piece(1, 1, 2, 2), 3, 1000)
    stored(table, ("q", "t", 0), Piece(0, 0, 3, 3), 4, 1500)
    assert len(table) == 3
    stored(table, ("q", "t", 0), Piece(1, 1, 4, 4), 5, 1501)
    assert table.entry(("p", "t", 0)) is None
    assert table.entry(("old", "t", 0)) is not None


def test_a_full_table_forgets_the_oldest_once_it_is_quiet() -> None:
    table = new_table(retention_ms=1 << 40, entries_max=2)
    for index, name in enumerate("ab"):
        stored(table, (name, "t", 0), Piece(0, 0, index, index), index + 1, index)
    with pytest.raises(BrokerBusy):
        check(table, 0, 1, key=("c", "t", 0), now_ms=QUIET_MS - 1)
    assert check(table, 1, 1, key=("a", "t", 0), now_ms=QUIET_MS - 1) is None
    assert check(table, 0, 1, key=("c", "t", 0), now_ms=QUIET_MS) is None
    stored(table, ("c", "t", 0), Piece(0, 0, 2, 2), 3, QUIET_MS)
    assert (table.entry(("a", "t", 0)), len(table)) == (None, 2)


def test_ordinary_producers_do_not_push_out_names_of_their_own() -> None:
    """A task of a Spark sink that runs again after hours is still known."""
    day_ms = 86_400_000
    table = new_table(retention_ms=day_ms, entries_max=10)
    task = ("spark/daily/0", "t", 0)
    stored(table, task, Piece(100, 199, 0, 0), 1, 0)
    for index in range(30):
        key, now_ms = (f"p{index}", "t", 0), (index + 1) * QUIET_MS
        assert check(table, 0, 1, key=key, now_ms=now_ms) is None
        stored(table, key, Piece(0, 0, index, index), 2 + index, now_ms)
    assert len(table) == 11
    again = new_table(retention_ms=day_ms, entries_max=10)
    again.load(table.document())
    again.begin(now_ms=30 * QUIET_MS, monotonic_ms=30 * QUIET_MS)
    for known in (table, again):
        assert check(known, 100, 100, has_gaps=True, key=task, now_ms=day_ms - 1) is not None
    stored(table, ("p30", "t", 0), Piece(0, 0, 30, 30), 99, day_ms + 1)
    assert table.entry(task) is None


YEAR_2100_MS = 4_102_444_800_000
DAY_MS = 86_400_000


@pytest.mark.parametrize("wrong_ms", [YEAR_2100_MS, 0])
def test_a_clock_that_is_wrong_for_a_moment_drops_nobody_and_keeps_nobody(wrong_ms: int) -> None:
    right_ms = 1_700_000_000_000
    table = new_table(retention_ms=DAY_MS, entries_max=3)
    for at_ms, name in enumerate("abc"):
        stored_ms = wrong_ms if name == "b" else right_ms + at_ms
        heard_ms = table.heard_at(stored_ms, now_ms=stored_ms, monotonic_ms=5 + at_ms)
        table.on_stored((name, "t", 0), Piece(0, 0, at_ms, at_ms), at_ms + 1, stored_ms, heard_ms)
    assert [table.entry((name, "t", 0)).heard_ms for name in "abc"] == [5, 6, 7]
    with pytest.raises(BrokerBusy):
        check(table, 0, 1, key=("d", "t", 0), now_ms=5 + QUIET_MS - 1)
    assert check(table, 0, 1, key=("d", "t", 0), now_ms=5 + QUIET_MS) is None
    table.on_stored(("c", "t", 0), Piece(1, 1, 9, 9), 9, right_ms + DAY_MS, 6 + DAY_MS + 1)
    assert [table.entry((name, "t", 0)) is None for name in "abc"] == [True, True, False]


@pytest.mark.parametrize("wrong_ms", [YEAR_2100_MS, 0])
def test_a_start_while_the_clock_is_wrong_keeps_who_is_known_for_half_the_time(wrong_ms: int) -> None:
    table = new_table(retention_ms=DAY_MS)
    for at_ms, name in enumerate("ab"):
        stored(table, (name, "t", 0), Piece(0, 0, at_ms, at_ms), at_ms + 1, 1_700_000_000_000 + at_ms)
    again = new_table(retention_ms=DAY_MS)
    again.load(table.document())
    again.begin(now_ms=wrong_ms, monotonic_ms=7)
    for since_ms, left in ((DAY_MS // 2, [True, True]), (DAY_MS + 1, [False, False])):
        piece = Piece(since_ms, since_ms, 0, 9)
        again.on_stored(("p", "t", 0), piece, 9, wrong_ms, 7 + since_ms)
        assert [again.entry((name, "t", 0)) is not None for name in "ab"] == left


def test_messages_of_a_master_whose_clock_is_ahead_are_young() -> None:
    table = new_table(retention_ms=DAY_MS)
    assert table.heard_at(YEAR_2100_MS, now_ms=1_700_000_000_000, monotonic_ms=50) == 50
    assert table.heard_at(1_699_999_999_000, now_ms=1_700_000_000_000, monotonic_ms=5000) == 4000
    assert table.heard_at(0, now_ms=1_700_000_000_000, monotonic_ms=DAY_MS) == DAY_MS // 2


def test_names_make_room_for_each_other_only_after_the_whole_time() -> None:
    table = new_table(retention_ms=10 * QUIET_MS, entries_max=2)
    for index in range(2):
        stored(table, (f"spark/q/{index}", "t", 0), Piece(0, 0, index, index), 1 + index, index)
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
    stored(table, ("p", "other", 0), Piece(0, 0, 0, 0), 1, 7)
    table.on_topic_deleted("trades")
    assert table.entry(KEY) is None
    assert len(table) == 1


def test_what_the_log_does_not_have_is_not_believed(table: ProducerTable) -> None:
    """A power cut took the end of the log, and the snapshot is newer: a replay tells what is left."""
    stored(table, ("q", "t", 0), Piece(0, 3, 0, 5500), 5700, 7)
    table.settle(5700)
    assert len(table) == 2
    table.settle(5699)
    assert table.entry(("q", "t", 0)) is None
    assert table.entry(KEY) is not None


def test_a_snapshot_holds_it_all(table: ProducerTable) -> None:
    stored(table, ("q", "t", 3), Piece(4, 6, 7, 8, True), 9, 10)
    document = json.loads(json.dumps(table.document()))
    again = new_table()
    again.load({**document, "later": 1})
    for key in (KEY, ("q", "t", 3)):
        assert again.entry(key)[:4] == table.entry(key)[:4]
    assert again.document()["later"] == 1


@pytest.mark.parametrize(
    "rows", [[1], [["p", "t", 0, 1, 2, 3]], [["p", "t", 0, 1, 2, 3, [[1]]]], [["p", "t", "x", 1, 2, 3, []]], 7]
)
def test_a_snapshot_of_another_shape_is_no_snapshot(rows: object) -> None:
    with pytest.raises(StoreFormatError):
        new_table().load({"producers": rows})
