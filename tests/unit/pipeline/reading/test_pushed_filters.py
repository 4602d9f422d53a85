"""What filters of a query leave to be read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from zenitmq.pipeline.reading.offsets import QueueKey, QueueRange
from zenitmq.pipeline.reading.pushed_filters import TIME_SLACK_MS, Narrowed, Predicate, narrow

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
MOMENT_MS = int(MOMENT.timestamp() * 1000)


def one(column: str, operator: str, value: object) -> tuple[Narrowed, bool]:
    narrowed, done = narrow([Predicate(column, operator, value)], may_filter_tags=True)
    return narrowed, done[0]


@pytest.mark.parametrize(
    ("operator", "value", "passing"),
    [("=", 3, {3}), ("<", 3, {0, 1, 2}), ("<=", 3, {0, 1, 2, 3}), (">", 3, {4, 5}), (">=", 3, {3, 4, 5})],
)
def test_comparisons_of_offsets_and_queues_are_exact(operator: str, value: int, passing: set[int]) -> None:
    narrowed, is_done = one("queueOffset", operator, value)
    assert is_done
    cut = narrowed.cut(QueueRange("t", "a", 0, 0, 6))
    assert set(range(cut.start, cut.end)) == passing
    narrowed, is_done = one("queueId", operator, value)
    assert is_done
    assert {number for number in range(6) if narrowed.wants(QueueKey("t", "a", number))} == passing


def test_lists_of_queues() -> None:
    narrowed, done = narrow(
        [Predicate("queueId", "in", (1, 2, 3)), Predicate("queueId", "in", (2, 3, 4)), Predicate("queueId", ">", 2)],
        may_filter_tags=True,
    )
    assert done == [True, True, True]
    assert [number for number in range(6) if narrowed.wants(QueueKey("t", "a", number))] == [3]


def test_names() -> None:
    narrowed, done = narrow(
        [
            Predicate("topic", "in", ("s", "t")),
            Predicate("topic", "=", "t"),
            Predicate("broker", "=", "a"),
            Predicate("broker", ">", "a"),
        ],
        may_filter_tags=True,
    )
    assert done == [True, True, True, False]
    assert narrowed.wants(QueueKey("t", "a", 0))
    assert not narrowed.wants(QueueKey("s", "a", 0))
    assert not narrowed.wants(QueueKey("t", "b", 0))


@pytest.mark.parametrize(
    ("operator", "begin", "end"),
    [
        (">", MOMENT_MS - TIME_SLACK_MS, None),
        (">=", MOMENT_MS - TIME_SLACK_MS, None),
        ("<", None, MOMENT_MS + TIME_SLACK_MS),
        ("<=", None, MOMENT_MS + TIME_SLACK_MS),
        ("=", MOMENT_MS - TIME_SLACK_MS, MOMENT_MS + TIME_SLACK_MS),
        ("in", None, None),
    ],
)
def test_a_time_narrows_but_spark_tests_again(operator: str, begin: int | None, end: int | None) -> None:
    narrowed, is_done = one("storeTimestamp", operator, MOMENT)
    assert (narrowed.stored_begin_ms, narrowed.stored_end_ms) == (begin, end)
    assert not is_done


def test_the_narrower_of_two_times_counts() -> None:
    predicates = [Predicate("storeTimestamp", ">", datetime(2026, 1, day, tzinfo=UTC)) for day in (1, 2, 1)]
    predicates += [Predicate("storeTimestamp", "<", datetime(2026, 1, day, tzinfo=UTC)) for day in (3, 2, 3)]
    narrowed, _ = narrow(predicates, may_filter_tags=True)
    assert narrowed.stored_begin_ms == MOMENT_MS - TIME_SLACK_MS
    assert narrowed.stored_end_ms == MOMENT_MS + TIME_SLACK_MS


def test_times_before_the_epoch_are_its_beginning() -> None:
    narrowed, _ = one("storeTimestamp", "=", datetime(1960, 1, 1, tzinfo=UTC))
    assert (narrowed.stored_begin_ms, narrowed.stored_end_ms) == (0, 0)


def test_tags_become_an_expression() -> None:
    narrowed, done = narrow(
        [Predicate("tags", "in", ("b", "a", "c")), Predicate("tags", "in", ("a", "b"))], may_filter_tags=True
    )
    assert done == [True, True]
    assert narrowed.tag_expression == "a || b"
    assert Narrowed().tag_expression is None


@pytest.mark.parametrize("tag", ["*", "", " a", "a||b", "||", "a\x01b", "x" * 20_000])
def test_tags_that_no_expression_says_are_left_to_spark(tag: str) -> None:
    assert one("tags", "=", tag) == (Narrowed(), False)


def test_tags_that_exclude_each_other_are_left_to_spark() -> None:
    narrowed, done = narrow([Predicate("tags", "=", "a"), Predicate("tags", "=", "b")], may_filter_tags=True)
    assert (narrowed.tag_expression, done) == ("a", [True, False])


def test_many_tags_are_left_to_spark() -> None:
    assert not one("tags", "in", tuple(str(number) for number in range(300)))[1]


@pytest.mark.parametrize(
    ("column", "operator", "value"),
    [
        ("queueOffset", "=", 3.0),
        ("queueOffset", "=", True),
        ("queueOffset", "in", (1, 2)),
        ("queueId", "in", (1, "2")),
        ("queueId", "in", 1),
        ("queueId", "=", "1"),
        ("topic", "=", None),
        ("topic", "in", ("t", None)),
        ("storeTimestamp", ">", 5),
        ("storeTimestamp", ">", MOMENT.replace(tzinfo=None)),
        ("tags", ">", "a"),
        ("body", "=", b"x"),
    ],
)
def test_what_is_not_understood_is_left_to_spark(column: str, operator: str, value: object) -> None:
    assert one(column, operator, value) == (Narrowed(), False)


def test_filters_of_no_known_kind_and_tags_beside_another_expression_are_left_to_spark() -> None:
    assert narrow([None, Predicate("tags", "=", "a")], may_filter_tags=False) == (Narrowed(), [False, False])


def test_a_range_that_has_nothing_wanted_is_empty() -> None:
    narrowed, _ = one("queueOffset", "<", 5)
    assert narrowed.cut(QueueRange("t", "a", 0, 7, 9)).rows == 0
    narrowed, _ = one("queueOffset", ">", 50)
    assert narrowed.cut(QueueRange("t", "a", 0, 7, 9)).rows == 0
