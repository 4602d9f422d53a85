"""The account of messages: what is lost, what came twice and why, what was out of order, early or delivered though recalled."""

from __future__ import annotations

from typing import Any

import pytest
from soak.message_account import (
    BROKER_AWAY,
    REBALANCE,
    REMEMBERED_MS,
    SENT_BACK,
    SETTLE_MS,
    SINK_AGAIN,
    STALLED,
    STORED_TWICE,
    UNEXPLAINED,
    MessageAccount,
    Rules,
    groups_by_topic,
)
from soak.records import (
    OK,
    Asked,
    Away,
    Handled,
    Moved,
    Recalled,
    Record,
    Refused,
    Sent,
    Stalled,
    Wrong,
    decode,
    encode,
)

RULES = Rules(
    groups_of=groups_by_topic(
        {"work": ("a", "b"), "ordered": ("in-order",), "stream": ("copies",), "later": ("later",)},
        passing=("passing-", "passers"),
    ),
    ordered=frozenset({"in-order"}),
    copied_to=frozenset({"copies"}),
)
FAR = 10 * SETTLE_MS


def sent(number: int, topic: str = "work", stream: str = "s", outcome: str = OK) -> Sent:
    return Sent(topic, stream, number, 0.0, 1.0, outcome)


def handled(number: int, group: str = "a", **more: Any) -> Handled:
    fields = {
        "member": "m",
        "place": "work/broker-a/0",
        "offset": number,
        "stream": "s",
        "at_ms": FAR,
        "stored_ms": FAR,
        "due_ms": 0.0,
        "tries": 0,
    }
    return Handled(group=group, number=number, **{**fields, **more})


def account(*records: Record) -> MessageAccount:
    found = MessageAccount(RULES)
    for record in records:
        found.take(decode(encode(record)))
    return found


def causes(*records: Record, group: str = "a") -> dict[str, int]:
    found: dict[str, int] = account(*records).document()["duplicates"].get(group, {})
    return found


def test_what_each_group_of_its_topic_handled_is_not_lost() -> None:
    found = account(sent(1), handled(1), handled(1, "b"), handled(2), sent(2), handled(2, "b")).document()
    assert (found["acknowledged"], found["lost"], found["passed"]) == (2, 0, True)
    assert found["handled"] == {"a": 2, "b": 2}


def test_what_one_of_the_groups_did_not_handle_is_lost() -> None:
    found = account(sent(1), handled(1)).document()
    assert (found["lost"], found["passed"]) == (1, False)
    assert "s 1" in found["examples"][0]
    so_far = account(sent(1), handled(1)).document(is_ended=False)
    assert (so_far["lost"], so_far["on_their_way"], so_far["passed"]) == (0, 1, True)


def test_what_was_not_acknowledged_may_be_missing_and_is_counted() -> None:
    found = account(sent(1, outcome="RequestTimeout")).document()
    assert (found["lost"], found["not_acknowledged"], found["passed"]) == (0, {"RequestTimeout": 1}, True)


def test_a_passing_topic_has_its_group() -> None:
    assert account(sent(1, "passing-3")).pending() == {"passing-3": 1}
    assert account(sent(1, "passing-3"), handled(1, "passers")).pending() == {}


def test_twice_without_a_cause_is_wrong() -> None:
    again = (handled(1), handled(1, at_ms=FAR + 10))
    assert causes(*again) == {UNEXPLAINED: 1}
    assert not account(*again).document()["passed"]


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (Moved("a", "n", FAR - SETTLE_MS + 1, "start"), REBALANCE),
        (Moved("a", "n", FAR + 5, "close"), REBALANCE),
        (Moved("a", "n", FAR - SETTLE_MS - 1, "start"), UNEXPLAINED),
        (Moved("a", "n", FAR + 11, "start"), UNEXPLAINED),
        (Moved("b", "n", FAR + 5, "start"), UNEXPLAINED),
        (Away("broker-a-1", "killed", FAR + 5, FAR + 9), BROKER_AWAY),
        (Away("broker-a-1", "killed", FAR - SETTLE_MS - 9, FAR - SETTLE_MS + 1), BROKER_AWAY),
        (Away("broker-a-1", "killed", FAR - SETTLE_MS - 9, FAR - SETTLE_MS - 1), UNEXPLAINED),
        (Away("broker-a-1", "killed", FAR + 11, FAR + 20), UNEXPLAINED),
        (Stalled(FAR + 5, FAR + 9), STALLED),
        (Stalled(FAR - SETTLE_MS - 9, FAR - SETTLE_MS + 1), STALLED),
        (Stalled(FAR - SETTLE_MS - 9, FAR - SETTLE_MS - 1), UNEXPLAINED),
        (Stalled(FAR + 11, FAR + 20), UNEXPLAINED),
    ],
)
def test_an_event_explains_what_came_twice_around_it_only(event: Record, cause: str) -> None:
    assert causes(event, handled(1), handled(1, at_ms=FAR + 10)) == {cause: 1}
    assert causes(handled(1, at_ms=FAR + 10), handled(1), event) == {cause: 1}


def test_what_was_sent_back_may_come_again() -> None:
    assert causes(handled(1), handled(1, place="%RETRY%a/broker-a/0", tries=1, at_ms=FAR + 10)) == {SENT_BACK: 1}


def test_stored_twice_needs_a_broker_that_was_away_or_a_stall_when_it_was_stored() -> None:
    again = (handled(1), handled(1, offset=9, stored_ms=FAR + 10, at_ms=FAR + 20))
    assert causes(*again) == {UNEXPLAINED: 1}
    assert causes(*again, Moved("a", "n", FAR + 5, "start")) == {UNEXPLAINED: 1}
    assert causes(*again, Away("broker-a-1", "killed", FAR + 5, FAR + 9)) == {STORED_TWICE: 1}
    assert causes(*again, Stalled(FAR + 5, FAR + 9)) == {STORED_TWICE: 1}


def test_an_idempotent_sender_stores_nothing_twice() -> None:
    away = Away("broker-a-1", "killed", FAR + 5, FAR + 9)
    again = (handled(1, stream="once"), handled(1, stream="once", offset=9, stored_ms=FAR + 10, at_ms=FAR + 20))
    assert causes(*again, away, Stalled(FAR + 5, FAR + 9)) == {UNEXPLAINED: 1}


def test_the_sink_may_write_again_while_a_broker_is_away() -> None:
    away = Away("broker-a-1", "killed", FAR + 5, FAR + 9)
    again = (handled(1, "copies"), handled(1, "copies", offset=9, stored_ms=FAR + 10, at_ms=FAR + 20))
    assert causes(*again, away, group="copies") == {SINK_AGAIN: 1}
    assert causes(*again, group="copies") == {UNEXPLAINED: 1}


def test_what_was_forgotten_is_known_to_be_handled_and_not_to_come_again() -> None:
    found = account(handled(3), handled(3, "b"))
    found.forget(FAR + REMEMBERED_MS + 1)
    found.take(sent(3))
    assert found.pending() == {}
    found.take(Away("broker-a-1", "killed", FAR, 2 * FAR + REMEMBERED_MS))
    found.take(handled(3, at_ms=FAR + REMEMBERED_MS + 2))
    assert found.document()["duplicates"] == {"a": {UNEXPLAINED: 1}}


def in_order(offset: int, number: int, at_ms: float) -> Handled:
    return handled(number, "in-order", offset=offset, at_ms=at_ms)


def test_a_queue_handled_in_order_is_so_though_some_come_again() -> None:
    away = Away("broker-a-1", "killed", FAR + 2, FAR + 3)
    acknowledged = [sent(number, "ordered") for number in range(3)]
    handlings = [in_order(0, 0, FAR), in_order(1, 1, FAR + 1), in_order(0, 0, FAR + 4), in_order(1, 1, FAR + 5)]
    found = account(*acknowledged, *handlings, in_order(2, 2, FAR + 6), away).document()
    assert (found["out_of_order"], found["passed"]) == (0, True)


def test_a_later_offset_that_is_handled_first_is_out_of_order() -> None:
    acknowledged = [sent(number, "ordered") for number in range(2)]
    found = account(*acknowledged, in_order(1, 1, FAR), in_order(0, 0, FAR + 1)).document()
    assert (found["out_of_order"], found["passed"]) == (1, False)


def test_numbers_of_a_sender_stored_in_another_order_are_out_of_order() -> None:
    acknowledged = [sent(number, "ordered") for number in range(2)]
    found = account(*acknowledged, in_order(0, 1, FAR), in_order(1, 0, FAR + 1)).document()
    assert (found["out_of_order"], found["passed"]) == (1, False)


def test_a_copy_of_a_retry_and_what_was_given_up_are_not_out_of_order() -> None:
    away = Away("broker-a-1", "killed", FAR - 1, FAR + 3)
    records = [sent(0, "ordered"), sent(1, "ordered", outcome="RequestTimeout"), sent(2, "ordered")]
    handlings = [in_order(0, 0, FAR), in_order(1, 2, FAR + 1), in_order(2, 0, FAR + 2), in_order(3, 1, FAR + 3)]
    found = account(*records, *handlings, away).document()
    assert (found["out_of_order"], found["passed"]) == (0, True)


def test_a_delayed_message_must_not_come_early_nor_once_it_was_recalled() -> None:
    on_time = handled(1, "later", due_ms=FAR - 5)
    assert account(sent(1, "later"), on_time).document()["delayed"]["late_ms_median"] == 5
    early = account(sent(1, "later"), handled(1, "later", due_ms=FAR + 1)).document()
    assert (early["delayed"]["early"], early["passed"]) == (1, False)
    recalled = account(sent(1, "later"), Recalled("later", "s", 1, OK))
    assert recalled.pending() == {}
    recalled.take(handled(1, "later", due_ms=FAR))
    assert (recalled.document()["delayed"]["delivered_though_recalled"], recalled.document()["passed"]) == (1, False)
    refused = account(sent(1, "later"), Recalled("later", "s", 1, "MessageNotFound"))
    assert refused.pending() == {"later": 1}


def test_requests_are_answered_or_refused_by_name_but_not_by_the_wrong_reply() -> None:
    assert account(Asked("r", 1, 5.0, OK), Asked("r", 2, 5.0, "RequestTimeout")).document()["passed"]
    assert not account(Asked("r", 1, 5.0, "wrong reply")).document()["passed"]


def test_errors_of_ours_are_counted_and_others_are_wrong() -> None:
    found = account(Refused("poll", 1.0, "NoRoute"), Refused("poll", 2.0, "NoRoute")).document()
    assert (found["refused"], found["passed"]) == ({"poll: NoRoute": 2}, True)
    assert not account(Wrong("pull", 1.0, "KeyError")).document()["passed"]
