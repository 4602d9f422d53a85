"""Acknowledgements: merged, batched, tried again, and refused one by one."""

from __future__ import annotations

from zenitmq.client.connection.retry import RetryPolicy
from zenitmq.client.consuming.simple.ack_queue import LOST_MS, ROWS_MAX, UNDER_WAY_MAX, AckQueue, AckRow
from zenitmq.model.errors import (
    BrokerBusy,
    ClientClosed,
    HandleRefused,
    LeaseExpired,
    NotMaster,
    RequestTimeout,
    TopicNotFound,
    ZenitError,
)

LATE = LeaseExpired("trades", 0, 7)


class Waiter:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, ZenitError | None]] = []

    def on_settled(self, handle: str, bits: int, error: ZenitError | None) -> None:
        self.told.append((handle, bits, error))


def queue() -> AckQueue:
    return AckQueue(RetryPolicy())


def rows(batch: list[AckRow]) -> list[tuple[str, int]]:
    return [(row.handle, row.bits) for row in batch]


def test_bits_of_one_handle_are_merged_and_nothing_goes_before_it_is_due() -> None:
    acks = queue()
    for handle, bit in (("a", 0), ("b", 3), ("a", 2)):
        acks.add(handle, 1 << bit, until_ms=1000)
    assert acks.waiting == 2
    assert acks.take(0, is_due=False) == []
    assert rows(acks.take(0, is_due=True)) == [("a", 0b101), ("b", 0b1000)]
    assert not acks.waiting
    assert not acks.is_idle
    assert acks.take(0, is_due=True) == []


def test_one_who_waits_and_a_full_batch_go_at_once() -> None:
    acks = queue()
    acks.add("a", 1, until_ms=1000, waiter=Waiter())
    assert rows(acks.take(0, is_due=False)) == [("a", 1)]
    for number in range(ROWS_MAX + 5):
        acks.add(str(number), 1, until_ms=1000)
    assert len(acks.take(0, is_due=False)) == ROWS_MAX
    assert acks.waiting == 5


def test_so_many_requests_are_under_way_and_the_next_follows_an_answer() -> None:
    acks = queue()
    batches = []
    for number in range(UNDER_WAY_MAX):
        acks.add(str(number), 1, until_ms=1000)
        batches.append(acks.take(0, is_due=True))
    acks.add("last", 1, until_ms=1000)
    assert acks.take(0, is_due=True) == []
    assert [error for _, error in acks.on_reply(batches[0], [None], 0)] == [None]
    assert rows(acks.take(0, is_due=False)) == [("last", 1)]  # it was due: it is not gathered for once more


def test_what_may_pass_is_tried_again_later_and_later_until_its_time_is_over() -> None:
    acks = queue()
    acks.add("a", 1, until_ms=1000)
    acks.add("b", 1, until_ms=40)
    batch = acks.take(0, is_due=True)
    assert acks.on_error(batch, NotMaster("broker-a", 3), 0) == []
    assert acks.pause_ms(0) == 10
    assert acks.take(5, is_due=True) == []
    batch = acks.take(10, is_due=False)
    assert rows(batch) == [("a", 1), ("b", 1)]
    assert acks.on_error(batch, NotMaster("broker-a", 3), 10) == []
    assert acks.pause_ms(10) == 20
    batch = acks.take(30, is_due=False)
    failed = acks.on_error(batch, NotMaster("broker-a", 3), 30)
    assert [(row.handle, type(error)) for row, error in failed] == [("b", NotMaster)]
    assert rows(acks.take(70, is_due=False)) == [("a", 1)]


def test_a_route_that_is_stale_is_tried_again_and_what_cannot_pass_fails() -> None:
    acks = queue()
    acks.add("a", 1, until_ms=10_000)
    for now in (0, 600, 1200):  # more often than other requests: messages wait for it
        assert acks.on_error(acks.take(now, is_due=True), TopicNotFound("trades"), now) == []
    batch = acks.take(2000, is_due=True)
    assert [(row.handle, type(error)) for row, error in acks.on_error(batch, HandleRefused("forged"), 2000)] == [
        ("a", HandleRefused)
    ]
    assert acks.is_idle


def test_a_busy_broker_gets_a_row_again() -> None:
    acks = queue()
    acks.add("a", 1, until_ms=10_000)
    assert acks.on_reply(acks.take(0, is_due=True), [BrokerBusy(100, "busy")], 0) == []
    assert acks.pause_ms(0) == 100
    assert rows(acks.take(100, is_due=False)) == [("a", 1)]


def test_a_refused_row_of_several_is_asked_again_message_by_message() -> None:
    acks = queue()
    waiter = Waiter()
    acks.add("a", 0b1011, until_ms=1000, waiter=waiter)
    assert acks.on_reply(acks.take(0, is_due=False), [LATE], 0) == []
    batch = acks.take(0, is_due=False)
    assert rows(batch) == [("a", 1), ("a", 2), ("a", 8)]
    settled = acks.on_reply(batch, [None, LATE, None], 0)
    assert [(row.bits, error) for row, error in settled] == [(1, None), (2, LATE), (8, None)]
    assert all(row.waiters == [waiter] for row, _ in settled)
    assert acks.is_idle


def test_what_is_dropped_is_told() -> None:
    acks = queue()
    acks.add("a", 1, until_ms=1000)
    batch = acks.take(0, is_due=True)
    acks.on_error(batch, NotMaster("broker-a", 3), 0)
    acks.add("b", 2, until_ms=1000)
    dropped = acks.drop(ClientClosed("consumer"))
    assert [(row.handle, row.bits, type(error)) for row, error in dropped] == [
        ("a", 1, NotMaster),  # why it was not taken, rather than that nobody tries any more
        ("b", 2, ClientClosed),
    ]
    assert acks.is_idle
    assert acks.pause_ms(0) == 0


def test_why_one_was_not_taken_is_told_though_another_was_since() -> None:
    acks = queue()
    acks.add("a", 1, until_ms=1000, waiter=Waiter())
    first = acks.take(0, is_due=False)
    acks.add("b", 1, until_ms=1000, waiter=Waiter())
    second = acks.take(0, is_due=False)
    assert acks.on_error(first, NotMaster("broker-a", 2), 0) == []
    assert [error for _, error in acks.on_reply(second, [None], 0)] == [None]
    assert [(row.handle, type(error)) for row, error in acks.drop(ClientClosed("consumer"))] == [("a", NotMaster)]


def test_a_request_that_nobody_will_answer_counts_as_failed_once() -> None:
    acks = queue()
    acks.add("a", 1, until_ms=100_000)
    batch = acks.take(0, is_due=True)
    assert acks.lost(LOST_MS - 1) == []
    assert acks.lost(LOST_MS) == [batch]
    assert acks.on_error(batch, RequestTimeout("acknowledgements", LOST_MS), LOST_MS) == []
    assert acks.on_error(batch, RequestTimeout("acknowledgements", LOST_MS), LOST_MS) == []
    assert acks.on_reply(batch, [None], LOST_MS) == []  # later than anybody thought: it is asked again all the same
    assert rows(acks.take(LOST_MS + 10, is_due=False)) == [("a", 1)]
