"""Whom a broker asks for the leading controller, and after which pause."""

from __future__ import annotations

from zenitmq.broker.group.leader_search import PAUSE_MS, PAUSE_MS_MAX, LeaderSearch


def search() -> LeaderSearch:
    return LeaderSearch(("a:1", "b:1", "c:1"))


def test_those_that_cannot_be_reached_are_asked_in_turn_with_growing_pauses() -> None:
    one = search()
    asked, pauses = [], []
    for _ in range(8):
        asked.append(one.address)
        pauses.append(one.on_unreachable())
    assert asked == ["a:1", "b:1", "c:1", "a:1", "b:1", "c:1", "a:1", "b:1"]
    assert pauses == [PAUSE_MS, 100, 200, 400, 800, PAUSE_MS_MAX, PAUSE_MS_MAX, PAUSE_MS_MAX]


def test_the_one_that_is_named_is_asked_at_once() -> None:
    one = search()
    assert one.on_sent_on("z:9") == 0
    assert one.address == "z:9", "one that is not on the list, too"
    one.on_unreachable()
    assert one.address == "b:1"


def test_two_that_name_each_other_are_not_asked_in_a_circle() -> None:
    one = search()
    assert one.on_sent_on("b:1") == 0
    assert one.on_sent_on("a:1") == PAUSE_MS
    assert one.on_sent_on("c:1") == 0


def test_one_that_names_itself_or_nobody_leaves_its_turn() -> None:
    for leader in ("", "a:1"):
        one = search()
        assert one.on_sent_on(leader) == PAUSE_MS
        assert one.address == "b:1"


def test_the_leader_that_refuses_is_asked_again_later() -> None:
    one = search()
    assert (one.on_refused(), one.on_refused(), one.address) == (PAUSE_MS, 2 * PAUSE_MS, "a:1")


def test_once_found_the_next_search_begins_quickly() -> None:
    one = search()
    for _ in range(5):
        one.on_unreachable()
    one.on_found()
    assert one.on_unreachable() == PAUSE_MS
