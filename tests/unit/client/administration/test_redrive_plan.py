"""Which dead letters a redrive sends, and what it remembers of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.client.administration.redrive_plan import (
    RUN_BYTES,
    RUN_LETTERS,
    Letter,
    QueuePlan,
    QueueState,
    pause_ms,
    plan_redrive,
    run_letters_max,
    runs_of,
)
from zenitmq.client.sending.target import Priority
from zenitmq.model.properties import PRIORITY, SHARDING_KEY
from zenitmq.model.queue import MessageQueue

QUEUE = MessageQueue("%DLQ%g", "broker-a", 0)


def plan(
    minimum: int,
    maximum: int,
    done: int,
    *,
    since: int | None = None,
    until: int | None = None,
    again: bool = False,
    max_messages: int | None = None,
) -> tuple[int, int, int] | None:
    plans = plan_redrive(
        [QueueState(QUEUE, minimum, maximum, done, since, until)], again=again, max_messages=max_messages
    )
    return (plans[0].begin, plans[0].end, plans[0].passed_over) if plans else None


def test_it_goes_on_behind_what_was_done() -> None:
    assert plan(0, 10, -1) == (0, 10, 0)
    assert plan(2, 10, -1) == (2, 10, 0)
    assert plan(2, 10, 5) == (5, 10, 0)
    assert plan(2, 10, 10) is None
    assert plan(2, 10, 99) is None
    assert plan(5, 10, 2) == (5, 10, 0)


def test_again_starts_over() -> None:
    assert plan(2, 10, 10, again=True) == (2, 10, 0)


def test_times_bound_it_and_what_is_passed_over_is_told() -> None:
    assert plan(0, 10, 3, since=5) == (5, 10, 2)
    assert plan(0, 10, 3, since=1, until=7) == (3, 7, 0)
    assert plan(0, 10, 8, until=7) is None
    assert plan(0, 10, -1, since=99) is None
    assert plan(0, 10, 8, since=2, until=5, again=True) == (2, 5, 0)


def test_a_maximum_is_over_all_queues() -> None:
    other = MessageQueue("%DLQ%g", "broker-b", 0)
    states = [QueueState(QUEUE, 0, 3, -1), QueueState(other, 0, 9, -1)]
    plans = plan_redrive(states, again=False, max_messages=5)
    assert [(one.queue, one.count) for one in plans] == [(QUEUE, 3), (other, 2)]
    assert [one.count for one in plan_redrive(states, again=False, max_messages=2)] == [2]


@pytest.mark.parametrize(("position", "expected"), [(5, 5), (9, 9), (4, None)])
def test_only_what_is_new_is_remembered(position: int, expected: int | None) -> None:
    assert QueuePlan(QUEUE, 4, 9, 2, 0).remembered(position) == expected
    assert QueuePlan(QUEUE, 0, 9, 9, 0).remembered(position) is None


class Sized:
    """What counts of a message here."""

    def __init__(self, size_bytes: int = 100) -> None:
        self.size_bytes = size_bytes


def letter(topic: str = "t", key: str | None = None, size_bytes: int = 100) -> Letter:
    properties = {} if key is None else {"__SHARDINGKEY": key}
    return Letter(Sized(size_bytes), topic, properties)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ([], []),
        ([letter("a"), letter("a"), letter("b"), letter("a")], [2, 1, 1]),
        ([letter(key="k"), letter(key="k"), letter(key="l"), letter()], [2, 1, 1]),
        ([letter()] * (2 * RUN_LETTERS + 1), [RUN_LETTERS, RUN_LETTERS, 1]),
        ([letter(size_bytes=RUN_BYTES // 2)] * 3, [2, 1]),
        ([letter(size_bytes=RUN_BYTES * 2), letter()], [1, 1]),
    ],
)
def test_neighbours_go_together(letters: list[Letter], expected: list[int]) -> None:
    runs = list(runs_of(letters))
    assert [len(run) for run in runs] == expected
    assert [one for run in runs for one in run] == letters


@pytest.mark.parametrize(
    ("rate", "letters"), [(None, RUN_LETTERS), (1e6, RUN_LETTERS), (200.0, 20), (5.0, 1), (0.1, 1)]
)
def test_a_pace_is_kept_in_small_steps(rate: float | None, letters: int) -> None:
    assert run_letters_max(rate) == letters


@pytest.mark.parametrize(
    ("properties", "target"),
    [
        ({PRIORITY: "3"}, Priority(3)),
        ({PRIORITY: "12"}, None),
        ({PRIORITY: "x"}, None),
        ({PRIORITY: "3", SHARDING_KEY: "k"}, "k"),
        ({}, None),
    ],
)
def test_a_letter_goes_by_its_key_or_its_priority(properties: dict[str, str], target: object) -> None:
    assert replace(letter(), properties=properties).target == target


def test_runs_are_as_short_as_the_pace_wants() -> None:
    assert [len(run) for run in runs_of([letter()] * 5, 2)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("sent", "rate", "elapsed_ms", "pause"),
    [(0, 10, 0, 0), (5, 10, 0, 500), (5, 10, 480, 20), (5, 10, 900, 0), (1, 3, 0, 334)],
)
def test_the_next_letter_waits_its_turn(sent: int, rate: float, elapsed_ms: int, pause: int) -> None:
    assert pause_ms(sent, rate, elapsed_ms) == pause
