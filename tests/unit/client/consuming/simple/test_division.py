"""Whom a `receive` asks, and for how many messages."""

from __future__ import annotations

from zenitmq.client.consuming.simple.division import EXPECTED_MAX, POP_MAX, Demand, Division, PopTarget

A, B, C = (PopTarget("trades", name) for name in ("a", "b", "c"))


def asked(demands: list[Demand]) -> list[tuple[str, int, bool]]:
    return [(demand.target.broker_name, demand.max_messages, demand.waits) for demand in demands]


def test_nobody_is_known_to_have_messages_so_all_are_asked_and_wait() -> None:
    division = Division()
    assert asked(division.begin([A, B], 10)) == [("a", 10, True), ("b", 10, True)]
    assert asked(division.begin([A, B], 100)) == [("b", POP_MAX, True), ("a", POP_MAX, True)]  # each begins in turn
    assert asked(division.waiting([A, B], 3)) == [("a", 3, True), ("b", 3, True)]
    assert division.begin([], 10) == []


def test_who_gave_all_that_was_asked_for_is_taken_to_have_more() -> None:
    division = Division()
    division.note(B, asked=POP_MAX, got=POP_MAX)
    assert asked(division.begin([A, B, C], 32)) == [("b", 32, False)]  # and nobody gives what is not wanted
    assert asked(division.begin([A, B, C], 65)) == [("b", 32, True), ("c", 32, True), ("a", 32, True)]
    division.note(B, asked=POP_MAX, got=POP_MAX)
    assert asked(division.begin([A, B, C], 65)) == [("b", 32, False), ("b", 32, False), ("b", 1, False)]
    division.note(B, asked=POP_MAX, got=POP_MAX - 1)
    assert asked(division.begin([A, B], 5)) == [("b", 5, True), ("a", 5, True)]


def test_one_broker_alone_waits_unless_it_has_more() -> None:
    division = Division()
    assert asked(division.begin([A], 1)) == [("a", 1, True)]
    division.note(A, asked=1, got=1)
    assert asked(division.begin([A], 1)) == [("a", 1, False)]
    division.note(A, asked=1, got=0)
    assert asked(division.begin([A], 1)) == [("a", 1, True)]


def test_the_rest_comes_from_those_that_have_it() -> None:
    division = Division()
    division.note(A, asked=POP_MAX, got=POP_MAX)
    assert asked(division.at_once([A, B], 100)) == [("a", 32, False), ("a", 32, False)]
    for _ in range(20):
        division.note(A, asked=POP_MAX, got=POP_MAX)
    assert sum(demand.max_messages for demand in division.at_once([A, B], 10 * EXPECTED_MAX)) == EXPECTED_MAX


def test_who_is_gone_is_not_asked() -> None:
    division = Division()
    division.note(A, asked=1, got=1)
    division.note(B, asked=1, got=1)
    division.keep([B, C])
    assert asked(division.at_once([A, B, C], 32)) == [("b", 32, False)]
