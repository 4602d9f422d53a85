"""Consumer offsets: what was committed, what is left to consume, and what deletions take along."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.offset_table import ANY_ERA, UNKNOWN, OffsetTable
from zenitmq.broker.state.unconsumed import Unconsumed
from zenitmq.model.errors import StoreFormatError
from zenitmq.model.route import TopicConfig

VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 5}


def committed(table: OffsetTable, group: str, *offsets: tuple[str, int, int]) -> None:
    commit(table, group, *((*offset, ANY_ERA) for offset in offsets))


def commit(table: OffsetTable, group: str, *progress: tuple[str, int, int, int], forward_only: bool = False) -> None:
    event = table.event_committed(group, progress, forward_only=forward_only)
    table.on_event({**event, "offsets": [list(row) for row in progress]}, VERSION)


def reset(table: OffsetTable, group: str, *offsets: tuple[str, int, int], now_ms: int = 100) -> int:
    event, era = table.event_reset(group, offsets, now_ms)
    table.on_event({**event, "offsets": [list(row) for row in event["offsets"]]}, VERSION)
    return era


@pytest.fixture
def table() -> OffsetTable:
    table = OffsetTable()
    committed(table, "g", ("t", 0, 5), ("t", 1, 7), ("u", 0, 1))
    committed(table, "h", ("t", 1, 3))
    return table


def test_offsets_in_light_queues_are_forgotten_once_nothing_can_have_them(table: OffsetTable) -> None:
    names = [f"%LMQ%{number}" for number in range(4)]
    committed(table, "g", *((name, 0, number) for number, name in enumerate(names)))
    asked: list[tuple[str, int]] = []

    def is_gone(name: str, offset: int) -> bool:
        asked.append((name, offset))
        return name in names[:2]

    table.forget_lights(3, is_gone)
    assert asked == [(name, number) for number, name in enumerate(names[:3])]
    again = OffsetTable()
    again.load(table.document())
    for _ in range(2):
        again.forget_lights(100, is_gone)
    assert again.committed("g") == [("%LMQ%2", 0, 2), ("%LMQ%3", 0, 3), *table.committed("g")[2:]]
    assert len(asked) == 3 + 2 + 2
    again.on_group_deleted("g")
    again.forget_lights(100, is_gone)
    assert len(asked) == 7


def test_the_last_commit_counts_even_backwards(table: OffsetTable) -> None:
    committed(table, "g", ("t", 0, 2))
    assert [table.offset("g", "t", queue_id) for queue_id in (0, 1, 2)] == [2, 7, UNKNOWN]
    assert table.offset("nobody", "t", 0) == UNKNOWN
    assert table.topics_of("g") == ["t", "u"]
    assert table.groups() == {"g", "h"}


def test_what_only_goes_forward_takes_nobody_back(table: OffsetTable) -> None:
    commit(table, "g", ("t", 0, 2, ANY_ERA), ("t", 1, 8, ANY_ERA), forward_only=True)
    assert [table.offset("g", "t", queue_id) for queue_id in (0, 1)] == [5, 8]


def test_no_commit_of_an_era_before_undoes_a_reset(table: OffsetTable) -> None:
    era = reset(table, "g", ("t", 0, 1), now_ms=100)
    assert (table.offset("g", "t", 0), table.era("g", "t", 0), table.era("g", "t", 1)) == (1, era, 0)
    commit(table, "g", ("t", 0, 6, 0), ("t", 1, 9, 0), forward_only=True)
    assert [table.offset("g", "t", queue_id) for queue_id in (0, 1)] == [1, 9]
    commit(table, "g", ("t", 0, 6, 0))
    commit(table, "g", ("t", 0, 3, era), forward_only=True)
    assert table.offset("g", "t", 0) == 3
    commit(table, "g", ("t", 0, 2, ANY_ERA))  # who does not say
    assert table.offset("g", "t", 0) == 2
    assert table.era("h", "t", 0) == 0


def test_eras_are_higher_than_any_before_whatever_the_clock_says(table: OffsetTable) -> None:
    first = reset(table, "g", ("t", 0, 1), now_ms=100)
    second = table.event_reset("g", [("t", 0, 2)], 90)[1]
    third = table.event_reset("h", [("t", 0, 2)], 90)[1]
    assert first == 100 < second < third
    other = OffsetTable()
    other.load(table.document())
    assert other.era("g", "t", 0) == first
    assert other.event_reset("g", [("t", 0, 2)], 90)[1] > first
    assert table.event_reset("g", [("t", 0, 2)], 5000)[1] == 5000


def test_eras_go_with_the_topic_and_with_the_group(table: OffsetTable) -> None:
    reset(table, "g", ("t", 0, 1), ("u", 0, 1))
    table.on_topic_deleted("t")
    assert (table.era("g", "t", 0), bool(table.era("g", "u", 0))) == (0, True)
    table.on_group_deleted("g")
    assert table.document()["eraTable"] == {}


def test_a_deleted_topic_takes_the_offsets_of_all_groups_along(table: OffsetTable) -> None:
    table.on_topic_deleted("t")
    assert (table.offset("g", "t", 0), table.offset("h", "t", 1), table.offset("g", "u", 0)) == (UNKNOWN, UNKNOWN, 1)


def test_a_deleted_group_takes_its_own_offsets_along(table: OffsetTable) -> None:
    table.on_group_deleted("g")
    assert table.groups() == {"h"}


def test_what_a_group_has_committed_is_listed_in_order(table: OffsetTable) -> None:
    committed(table, "k", ("u", 1, 5), ("t", 0, 7), ("u", 0, 6))
    assert table.committed("k") == [("t", 0, 7), ("u", 0, 6), ("u", 1, 5)]
    assert table.committed("nobody") == []
    assert [table.has_begun("k", topic) for topic in ("t", "u", "v")] == [True, True, False]


def test_the_snapshot_reads_back_and_keeps_what_it_does_not_know(table: OffsetTable) -> None:
    other = OffsetTable()
    other.load({**table.document(), "pullOffsetTable": {"t@g": {"0": 5}}})
    assert other.offset("g", "t", 1) == 7
    assert other.document() == {**table.document(), "pullOffsetTable": {"t@g": {"0": 5}}}


def test_a_copy_taken_before_a_commit_does_not_change(table: OffsetTable) -> None:
    before = table.document()
    committed(table, "g", ("t", 0, 99))
    assert before["offsetTable"]["t@g"]["0"] == 5


def test_the_slowest_group_says_what_is_left_and_untouched_queues_are_left_whole(table: OffsetTable) -> None:
    topics = {"t": TopicConfig("t", read_queues=3), "TBW102": TopicConfig("TBW102")}
    committed(table, "g", ("TBW102", 0, 1))
    unconsumed = Unconsumed(table, topics)
    needs = list(unconsumed.since(None))
    assert {(topic, queue_id) for topic, queue_id, _ in needs} == {("t", 0), ("t", 1), ("t", 2)}
    assert [min(n for _, q, n in needs if q == queue_id) for queue_id in range(3)] == [0, 3, 0]
    assert [unconsumed.first("t", queue_id) for queue_id in range(3)] == [0, 3, 0]
    assert unconsumed.first("gone", 0) is None


def test_who_goes_back_or_begins_is_told_and_who_moves_on_is_not() -> None:
    table, topics = OffsetTable(), {"t": TopicConfig("t", read_queues=2)}
    unconsumed = Unconsumed(table, topics)
    committed(table, "g", ("t", 0, 5))
    first = unconsumed.revision
    assert list(unconsumed.since(None)) == [("t", 0, 5), ("t", 1, 0)]
    committed(table, "g", ("t", 0, 6), ("t", 1, 9))
    assert unconsumed.revision == first
    committed(table, "g", ("t", 1, 8))
    assert list(unconsumed.since(first)) == [("t", 0, 6), ("t", 1, 8)]
    second = unconsumed.revision
    event = OffsetTable.event_started("h", "t", [3, 4], 7)
    table.on_event({**event, "offsets": [list(row) for row in event["offsets"]]}, {})
    assert list(unconsumed.since(second)) == [("t", 0, 3), ("t", 1, 4)]
    third = unconsumed.revision
    committed(table, "g", ("u", 0, 1))
    fourth = unconsumed.revision
    assert list(unconsumed.since(third)) == [], "there is no such topic yet"
    topics["u"] = TopicConfig("u", read_queues=1)
    table.on_topic_made("u")
    assert list(unconsumed.since(fourth)) == [("u", 0, 1)]
    walked = unconsumed.since(None)
    assert next(walked) == ("t", 0, 6)
    table.on_group_deleted("h")
    table.on_topic_deleted("u")
    assert list(walked) == [("t", 1, 8)]


@pytest.mark.parametrize(
    "offsets", [3, {"t@g": 4}, {"t@g": {"zero": 1}}, {"t@g": {"0": None}}, {"t@g": {"0": float("inf")}}]
)
def test_a_wrong_snapshot_is_refused(offsets: object) -> None:
    with pytest.raises(StoreFormatError):
        OffsetTable().load({"offsetTable": offsets})


@pytest.mark.parametrize(
    "event", [{}, {"event": "committed", "group": "g"}, {"event": "set", "group": "g", "offsets": []}]
)
def test_an_unknown_event_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(StoreFormatError):
        OffsetTable().on_event(event, VERSION)


def started(table: OffsetTable, group: str, topic: str, offsets: list[int], since_ms: object) -> None:
    event = table.event_started(group, topic, offsets, since_ms)  # type: ignore[arg-type]
    table.on_event({**event, "offsets": [list(offset) for offset in event["offsets"]]}, VERSION)


def test_a_group_begins_once(table: OffsetTable) -> None:
    assert table.since_ms("g", "v") == -1
    started(table, "g", "v", [4, 6], 1000)
    assert [table.offset("g", "v", queue_id) for queue_id in (0, 1, 2)] == [4, 6, UNKNOWN]
    assert table.since_ms("g", "v") == 1000
    started(table, "g", "v", [9, 9, 9], 2000)
    assert [table.offset("g", "v", queue_id) for queue_id in (0, 1, 2)] == [4, 6, UNKNOWN]
    assert table.since_ms("g", "v") == 1000


def test_a_group_that_has_committed_has_begun_who_knows_when(table: OffsetTable) -> None:
    started(table, "g", "t", [0, 0], 1000)
    assert (table.offset("g", "t", 0), table.since_ms("g", "t")) == (5, 0)


def test_where_a_group_began_is_kept_with_its_offsets_and_forgotten_with_them(table: OffsetTable) -> None:
    started(table, "g", "v", [4], 1000)
    started(table, "h", "v", [5], 2000)
    other = OffsetTable()
    other.load(table.document())
    assert (other.since_ms("g", "v"), other.since_ms("h", "v")) == (1000, 2000)
    other.on_group_deleted("g")
    assert (other.since_ms("g", "v"), other.since_ms("h", "v")) == (-1, 2000)
    other.on_topic_deleted("v")
    assert other.since_ms("h", "v") == -1
    assert other.document()["sinceTable"] == {}


def test_a_start_without_its_time_is_refused(table: OffsetTable) -> None:
    with pytest.raises(StoreFormatError):
        started(table, "g", "v", [4], None)


@pytest.mark.parametrize(
    "row",
    [None, 5, "abc", [], ["t", 0], ["t", 0, 1, "2"], ["t", 0, 1, 2, 3], ["t", "0", 1], [["t"], 0, 1], ["t", 0, 1.5]],
)
@pytest.mark.parametrize("kind", ["committed", "started"])
def test_an_event_with_a_row_that_is_none_is_refused_whole(table: OffsetTable, kind: str, row: object) -> None:
    before = table.document()
    with pytest.raises(StoreFormatError):
        table.on_event({"event": kind, "group": "g", "topic": "u", "offsets": [["u", 0, 9], row], "sinceMs": 5}, {})
    assert table.document() == before
