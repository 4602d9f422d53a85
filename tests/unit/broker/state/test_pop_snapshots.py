"""A snapshot of what is popped that is taken while an event is applied, at each instruction of either."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pop_kit import GROUP, TOPIC, apply, content, interrupted

from zenitmq.broker.state.pop_queue import PopQueue
from zenitmq.broker.state.pop_table import Popped, PopTable

INSTRUCTIONS = 400

BEFORE = [
    PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(3), 100, 1000, 3)]),
    PopTable.event_popped(GROUP, TOPIC, [Popped(0, (3, 5), 101, 1000, 6, owner="c", keys=(7, 8), passed=((4, 7),))]),
    PopTable.event_returned(GROUP, TOPIC, [(0, 0, 100, 0b001)], counts=True),
]
EVENTS = {
    "popped": PopTable.event_popped(GROUP, TOPIC, [Popped(0, (0, 6), 102, 1000, 7, attempts=(1, 0))]),
    "popped in order": PopTable.event_popped(
        GROUP, TOPIC, [Popped(0, (0,), 102, 9, 8, keys=(9,), passed=((6, 8), (7, 7)))]
    ),
    "acked in part": PopTable.event_acked(GROUP, TOPIC, [(0, 0, 100, 0b010)]),
    "acked": PopTable.event_acked(GROUP, TOPIC, [(0, 0, 100, 0b110)]),
    "returned in part": PopTable.event_returned(GROUP, TOPIC, [(0, 0, 100, 0b010)], counts=True),
    "returned": PopTable.event_returned(GROUP, TOPIC, [(0, 3, 101, 0b11)], counts=False),
    "changed": PopTable.event_changed(GROUP, TOPIC, 0, (0, 100), [(1, 102, 5000)]),
    "changed in order": PopTable.event_changed(GROUP, TOPIC, 0, (3, 101), [(0, 102, 5000)]),
    "ended": PopTable.event_ended(GROUP, TOPIC, [(0, 1), (0, 4)]),
    "buried": ("buried", 0, 5, (3, 101)),
    "reset": ("moved", 0, 1),
}


def table_of(events: list[Any]) -> PopTable:
    table = PopTable()
    for event in events:
        apply(table, event, 1000)
    return table


def restarted(text: str, events: list[Any]) -> PopTable:
    table = PopTable()
    table.load(json.loads(text))
    table.begin(now_ms=1000, monotonic_ms=1000)
    for event in events:
        apply(table, event, 1000)
    return table


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_while_a_snapshot_is_taken_is_in_it_or_replayed(name: str) -> None:
    event = EVENTS[name]
    expected = content(table_of([*BEFORE, event]))
    for number in range(INSTRUCTIONS):
        table = table_of(BEFORE)
        step = {number: lambda table=table: apply(table, event, 1000)}
        document = interrupted(step, table.document)
        assert content(restarted(json.dumps(document), [event])) == expected, number
        if step:  # there is no such instruction: it was done at the end
            break


@pytest.mark.parametrize("name", EVENTS)
def test_a_snapshot_in_the_middle_of_an_event_is_set_right_by_it(name: str) -> None:
    event = EVENTS[name]
    expected = content(table_of([*BEFORE, event]))
    for number in range(INSTRUCTIONS):
        table = table_of(BEFORE)
        taken: list[str] = []
        step = {number: lambda table=table, taken=taken: taken.append(json.dumps(table.document()))}
        interrupted(step, lambda table=table: apply(table, event, 1000))
        assert content(restarted(taken[0], [event])) == expected, number
        if step:
            break


def test_what_was_given_back_before_the_snapshot_stays_available_when_its_pop_is_replayed() -> None:
    """The loop applied both events after it was read how much of the log is reflected, and before anything was copied."""
    events = BEFORE[:1] + BEFORE[2:]
    text = json.dumps(table_of(events).document())
    assert content(restarted(text, events)) == content(table_of(events))


def test_what_was_acknowledged_before_the_snapshot_does_not_come_again_when_an_older_pop_is_replayed() -> None:
    """All of it was applied after it was read how much of the log is reflected, and before anything was copied."""
    events = [
        PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(1), 100, 1000, 1)]),
        PopTable.event_returned(GROUP, TOPIC, [(0, 0, 100, 1)], counts=False),
        PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(2), 101, 1000, 2)]),
        PopTable.event_acked(GROUP, TOPIC, [(0, 0, 101, 1)]),
    ]
    text = json.dumps(table_of(events).document())
    for skipped in range(len(events)):
        assert content(restarted(text, events[skipped:])) == content(table_of(events))


def test_two_changes_in_one_turn_are_named_apart() -> None:
    queue = PopQueue((GROUP, TOPIC, 0), 0)
    assert [queue.next_pop_ms(100), queue.next_pop_ms(100), queue.next_pop_ms(50), queue.next_pop_ms(200)] == [
        100,
        101,
        102,
        200,
    ]


def test_a_long_lease_does_not_make_the_next_one_late() -> None:
    """At a start the first look is far behind: it goes on from now, not from the end of the only lease there is."""
    table = PopTable()
    apply(table, PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(1), 100, 43_200_000, 1)]), 10**9)
    assert table.take_due(10**9, count_max=9) == []
    apply(table, PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(1, 2), 101, 1000, 2)]), 10**9)
    (due,) = table.take_due(10**9 + 1050, count_max=9)
    assert due.checkpoint.begin == 1


def test_a_group_that_is_ordered_no_longer_may_pop_as_it_likes() -> None:
    table = table_of(
        [*BEFORE, ("moved", 0, 0), PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(2), 102, 1000, 2)])]
    )
    queue = table.queue((GROUP, TOPIC, 0))
    assert queue is not None
    assert not queue.is_ordered


def test_a_lease_that_is_renewed_is_whole_after_a_start() -> None:
    """The snapshot has the time of the pop only, long ago; the owner must be heard before anything is known."""
    table = table_of([PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(1), 100, 3000, 1, owner="c")])])
    again = PopTable()
    again.load(json.loads(json.dumps(table.document())))
    again.begin(now_ms=1_000_000, monotonic_ms=50_000)
    assert again.take_due(51_900, count_max=9) == []
    (due,) = again.take_due(52_050, count_max=9)
    assert due.due_ms == 53_000


def test_what_is_acknowledged_early_leaves_nothing_behind() -> None:
    """Leases of 12 hours, each acknowledged at once."""
    table = PopTable()
    for number in range(5000):
        popped = Popped(0, range(number, number + 1), 100 + number, 43_200_000, number + 1)
        apply(table, PopTable.event_popped(GROUP, TOPIC, [popped]), 1000 + 7 * number)
        apply(table, PopTable.event_acked(GROUP, TOPIC, [(0, number, 100 + number, 1)]), 1000 + 7 * number)
    assert table.entries == 0
    assert not table._ends._slots


def test_a_message_at_the_front_that_stays_lets_nothing_pile_up_behind_it() -> None:
    table = table_of([PopTable.event_popped(GROUP, TOPIC, [Popped(0, range(2), 100, 1000, 2)])])
    apply(table, PopTable.event_returned(GROUP, TOPIC, [(0, 0, 100, 0b11)], counts=True), 1000)
    for number in range(5000):
        apply(table, PopTable.event_popped(GROUP, TOPIC, [Popped(0, (1,), 101 + number, 1000, 2)]), 1000)
        apply(table, PopTable.event_returned(GROUP, TOPIC, [(0, 1, 101 + number, 1)], counts=True), 1000)
    queue = table.queue((GROUP, TOPIC, 0))
    assert queue is not None
    assert len(queue._order) < 2000
    assert queue.first_available(9) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("uptime_ms", [10**12, 0])
def test_leases_end_however_long_the_machine_has_been_up(uptime_ms: int) -> None:
    """Nobody walks through the slots of all that time."""
    table = PopTable()
    for number in range(3):
        popped = Popped(0, range(number, number + 1), 100 + number, 1000, number + 1)
        apply(table, PopTable.event_popped(GROUP, TOPIC, [popped]), uptime_ms + 100 * number)
    assert table.take_due(uptime_ms + 999, count_max=9) == []
    for number in range(3):
        due = table.take_due(uptime_ms + 1050 + 100 * number, count_max=9)
        assert [one.checkpoint.begin for one in due] == [number]
