"""What a push consumer hands out, sends back, tries again and commits, step by step without a thread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.client.consuming.push.process_queue import FlowLimits
from zenitmq.client.consuming.push.queues import (
    DAMAGED_PAUSE_MS,
    RETRY_HERE_MS,
    STALLED_MS,
    Delivery,
    Failure,
    PushQueues,
    PushRules,
    Return,
)
from zenitmq.model.errors import CorruptRecordError
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import Sql, Subscription
from zenitmq.record.kernel import encode_record
from zenitmq.remoting.commands import PullReply

A, B = MessageQueue("t", "x", 0), MessageQueue("t", "x", 1)
FAILED = Failure("no")
FINAL = Failure("never", is_final=True)


def records(begin: int, end: int, *, size: int = 10, tags: str = "", reconsume_times: int = 0) -> bytes:
    properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    return b"".join(
        encode_record(
            topic=b"t", body=bytes(size), properties=properties, queue_offset=offset, reconsume_times=reconsume_times
        )
        for offset in range(begin, end)
    )


def queues_of(*names: MessageQueue, expression: str | None = None, lease_ms: int = 0, **rules: object) -> PushQueues:
    queues = PushQueues(PushRules(**rules))  # type: ignore[arg-type]
    for name in names:
        queues.assign(
            name,
            0,
            committed=0,
            subscription=Subscription.parse("t", expression),
            now_ms=0,
            leased_until_ms=lease_ms,
        )
    return queues


def feed(queues: PushQueues, count: int, now_ms: int = 0, **options: object) -> None:
    """Answers each pull that is due with `count` messages."""
    for pull in queues.due(now_ms):
        end = pull.offset + count
        reply = PullReply(int(GetStatus.FOUND), end, 0, end, count)
        queues.on_reply(pull, reply, records(pull.offset, end, **options), now_ms)  # type: ignore[arg-type]


def offsets(delivery: Delivery | None) -> list[int]:
    assert delivery is not None
    return [message.queue_offset for message in delivery.messages]


def take(queues: PushQueues, now_ms: int = 0) -> Delivery:
    delivery = queues.next_delivery(now_ms)
    assert delivery is not None
    return delivery


def test_what_lies_below_the_first_unfinished_message_may_be_committed() -> None:
    queues = queues_of(A)
    feed(queues, 4)
    first, second, third = take(queues), take(queues), take(queues)
    assert queues.running == 3
    assert queues.uncommitted() == {}
    queues.on_handled(second, None, 0)
    queues.on_handled(third, None, 0)
    assert queues.uncommitted() == {}
    queues.on_handled(first, None, 0)
    assert queues.uncommitted() == {A: 3}
    queues.on_committed([(A, 3), (B, 9)])
    assert queues.uncommitted() == {}
    assert queues.uncommitted([B]) == {}


def test_what_no_subscription_wants_is_committed_too() -> None:
    queues = queues_of(A, expression="buy")
    feed(queues, 4, tags="sell")
    assert queues.has_ready(0)
    assert queues.next_delivery(0) is None
    assert queues.uncommitted() == {A: 4}


def test_a_batch_is_of_one_queue() -> None:
    queues = queues_of(A, B, batch_size=3)
    feed(queues, 4)
    taken = [take(queues) for _ in range(4)]
    assert sorted((d.process.name.queue_id, *offsets(d)) for d in taken) == [(0, 0, 1, 2), (0, 3), (1, 0, 1, 2), (1, 3)]
    assert queues.next_delivery(0) is None


def test_what_failed_is_returned_and_finished_once_the_broker_has_it() -> None:
    queues = queues_of(A, batch_size=2)
    feed(queues, 3)
    delivery = take(queues)
    returns = queues.on_handled(delivery, FAILED, 0)
    assert [item.message[0].queue_offset for item in returns] == [0, 1]
    assert queues.is_busy([A])
    assert queues.uncommitted() == {}
    for item in returns:
        queues.on_returned(item, 0, is_settled=True)
    assert not queues.is_busy([A, B])
    assert queues.uncommitted() == {A: 2}


def test_what_the_broker_did_not_take_back_is_handled_again_here() -> None:
    queues = queues_of(A)
    feed(queues, 1)
    (item,) = queues.on_handled(take(queues), FAILED, 0)
    queues.on_returned(item, 100, is_settled=False)
    due_ms = queues.next_again_ms()
    assert due_ms == 100 + RETRY_HERE_MS
    assert queues.next_delivery(due_ms - 1) is None
    assert not queues.has_ready(due_ms - 1)
    assert queues.has_ready(due_ms)
    again = take(queues, due_ms)
    assert (offsets(again), again.attempt) == ([0], 1)
    assert queues.uncommitted() == {}
    queues.on_handled(again, None, due_ms)
    assert queues.uncommitted() == {A: 1}
    assert queues.next_again_ms() is None


def test_broadcasting_finishes_what_failed() -> None:
    queues = queues_of(A, is_broadcasting=True)
    feed(queues, 1)
    assert queues.on_handled(take(queues), FAILED, 0) == ()
    assert queues.uncommitted() == {A: 1}


@pytest.mark.parametrize(
    ("limits", "fits", "size"),
    [
        (FlowLimits(messages=4), 4, 10),
        (FlowLimits(size_bytes=4000), 4, 1000),
        (FlowLimits(span=4), 4, 10),
    ],
)
def test_no_more_is_pulled_than_the_limits_allow(limits: FlowLimits, fits: int, size: int) -> None:
    queues = queues_of(A, limits=limits)
    taken = []
    for _ in range(10):
        feed(queues, 1, size=size)
        delivery = queues.next_delivery(0)
        if delivery is not None:
            taken.append(delivery)
    assert len(taken) == fits
    assert queues.due(0) == []
    queues.on_handled(taken[0], None, 0)
    assert len(queues.due(0)) == 1


def test_a_long_time_in_one_message_holds_the_queue_by_span_alone() -> None:
    queues = queues_of(A, limits=FlowLimits(span=5))
    slow = None
    for _ in range(8):
        feed(queues, 1)
        delivery = queues.next_delivery(0)
        if slow is None:
            slow = delivery
        elif delivery is not None:
            queues.on_handled(delivery, None, 0)
    assert slow is not None
    assert queues.due(0) == []
    queues.on_handled(slow, None, 0)
    assert [pull.offset for pull in queues.due(0)] == [5]


def test_what_a_handler_says_too_late_counts_for_nothing() -> None:
    queues = queues_of(A, consume_timeout_ms=1000)
    feed(queues, 2)
    slow, quick = take(queues, 0), take(queues, 500)
    assert queues.on_tick(999).late == ()
    tick = queues.on_tick(1000)
    assert (tick.late, [item.message[0].queue_offset for item in tick.returns]) == ((slow,), [0])
    assert not queues.is_running(slow)
    assert queues.is_running(quick)
    assert queues.on_handled(slow, None, 1100) == ()
    assert queues.uncommitted() == {}
    queues.on_returned(tick.returns[0], 1100, is_settled=True)
    assert queues.uncommitted() == {A: 1}


def test_ordered_and_without_a_limit_nothing_is_late() -> None:
    for queues in (queues_of(A, is_ordered=True, consume_timeout_ms=10, lease_ms=1 << 40), queues_of(A)):
        feed(queues, 1)
        take(queues)
        assert queues.on_tick(1 << 30).late == ()


def test_what_cannot_be_decoded_is_pulled_again_after_a_pause() -> None:
    queues = queues_of(A)
    (pull,) = queues.due(0)
    queues.on_reply(pull, PullReply(int(GetStatus.FOUND), 1, 0, 1, 1), b"not a record at all", 0)
    assert queues.next_delivery(0) is None
    (pull,) = queues.due(0)
    assert pull.is_doubted
    queues.on_reply(pull, PullReply(int(GetStatus.FOUND), 1, 0, 1, 1), b"not a record at all", 0)
    with pytest.raises(CorruptRecordError):
        queues.next_delivery(0)
    assert queues.due(0) == []
    queues.on_tick(DAMAGED_PAUSE_MS - 1)
    assert queues.due(DAMAGED_PAUSE_MS - 1) == []
    queues.on_tick(DAMAGED_PAUSE_MS)
    assert [pull.offset for pull in queues.due(DAMAGED_PAUSE_MS)] == [0]
    queues.revoke(A)
    assert queues.on_tick(DAMAGED_PAUSE_MS * 2).lost == ()


# ---- queues come and go


def test_nothing_is_handed_out_of_a_queue_that_is_being_left_or_gone() -> None:
    queues = queues_of(A)
    feed(queues, 3)
    running = take(queues)
    (item,) = queues.on_handled(take(queues), FAILED, 0)
    queues.on_returned(item, 0, is_settled=False)
    queues.leave(A)
    assert queues.is_leaving(A)
    assert queues.is_busy([A])
    assert queues.next_delivery(RETRY_HERE_MS) is None  # neither what is ready nor what is to be tried again
    queues.on_handled(running, None, 0)
    assert not queues.is_busy([A])
    assert queues.uncommitted([A]) == {A: 1}
    queues.stay(A)
    assert offsets(take(queues, RETRY_HERE_MS)) == [2]
    assert offsets(take(queues, RETRY_HERE_MS * 2)) == [1]
    queues.revoke(A)
    queues.revoke(A)
    assert queues.queues() == []
    assert queues.uncommitted() == {}


def test_what_comes_back_of_a_queue_that_is_gone_counts_for_nothing() -> None:
    queues = queues_of(A)
    feed(queues, 4)
    running, failing, put_off = take(queues), take(queues), take(queues)
    (item,) = queues.on_handled(failing, FAILED, 0)
    (later,) = queues.on_handled(put_off, FAILED, 0)
    queues.on_returned(later, 0, is_settled=False)
    (pull,) = queues.due(0)
    queues.revoke(A)
    queues.assign(A, 0, committed=0, subscription=Subscription.parse("t"), now_ms=0)
    assert queues.on_handled(running, None, 0) == ()
    queues.on_returned(item, 0, is_settled=True)
    queues.on_reply(pull, PullReply(int(GetStatus.FOUND), 5, 0, 5, 1), records(4, 5), 0)
    assert not queues.on_error(pull, 0)
    assert queues.next_delivery(RETRY_HERE_MS) is None
    assert queues.uncommitted() == {}
    queues.revoke(A)
    queues.on_reply(pull, PullReply(int(GetStatus.FOUND), 5, 0, 5, 1), records(4, 5), 0)
    queues.on_leased(A, 1)


def test_an_operator_moves_a_queue() -> None:
    queues = queues_of(A, B)
    feed(queues, 2)
    old = take(queues)
    assert queues.move(replace(A, era=5), 77, 0)
    assert not queues.move(replace(A, era=5), 78, 0)  # told twice
    assert not queues.move(replace(A, era=4), 78, 0)  # or late
    assert not queues.move(MessageQueue("t", "x", 9), 77, 0)
    queues.leave(B)
    assert not queues.move(B, 77, 0)
    assert queues.on_handled(old, None, 0) == ()
    assert [pull.offset for pull in queues.due(0)] == [77]
    assert queues.uncommitted([A]) == {}
    assert queues.is_in_era(replace(A, era=5))
    assert not queues.is_in_era(A)
    queues.on_committed([(A, 70)])  # what was under way when it was moved
    assert queues.uncommitted([A]) == {}


def test_what_is_committed_says_of_which_era_it_is() -> None:
    queues = queues_of(replace(A, era=3))
    feed(queues, 2)
    queues.on_handled(take(queues), None, 0)
    ((name, offset),) = queues.uncommitted().items()
    assert (name.era, offset) == (3, 1)
    assert queues.move(replace(A, era=7), 0, 0)
    feed(queues, 2)
    queues.on_handled(take(queues), None, 0)
    ((name, offset),) = queues.uncommitted().items()
    assert (name.era, offset) == (7, 1)


def test_a_queue_that_nobody_pulls_is_lost_but_not_one_that_has_enough() -> None:
    queues = queues_of(A, B, limits=FlowLimits(messages=1))
    feed(queues, 1)
    pulls = queues.due(0)
    assert pulls == []  # both have what they may
    assert queues.on_tick(STALLED_MS).lost == ()
    queues.on_handled(take(queues), None, 0)
    queues.on_handled(take(queues), None, 0)
    (pull, _) = queues.due(10)
    assert queues.on_tick(10 + STALLED_MS - 1).lost == ()
    assert queues.on_error(pull, 20)
    assert queues.next_due_ms() is not None
    assert queues.on_tick(10 + STALLED_MS).lost == (A, B)
    queues.leave(A)
    assert queues.on_tick(10 + STALLED_MS).lost == (B,)


@pytest.mark.parametrize("is_ordered", [False, True])
def test_after_a_mistake_of_the_program_nothing_more_is_handed_out(is_ordered: bool) -> None:
    queues = queues_of(A, B, is_ordered=is_ordered, lease_ms=1 << 40)
    feed(queues, 3)
    first, second = take(queues), take(queues)
    while second.process is first.process:
        second = take(queues)
    assert queues.on_handled(first, Failure("returned 5", is_mistake=True), 0) == ()
    assert queues.on_handled(second, None, 0) == ()  # it was right, and counts
    assert queues.next_delivery(1 << 30) is None
    assert not queues.has_ready(1 << 30)
    assert queues.next_again_ms() is None
    assert queues.uncommitted() == {second.process.name: 1}
    assert not queues.is_busy([second.process.name])


# ---- ordered


def ordered(*names: MessageQueue, **rules: object) -> PushQueues:
    return queues_of(*names, lease_ms=1000, is_ordered=True, suspend_ms=50, **rules)


def test_a_queue_has_one_delivery_at_a_time() -> None:
    queues = ordered(A, B)
    feed(queues, 3)
    one, other = take(queues), take(queues)
    assert {one.process.name, other.process.name} == {A, B}
    assert queues.next_delivery(0) is None
    queues.on_handled(one, None, 0)
    assert (queues.has_ready(0), offsets(take(queues))) == (True, [1])
    assert queues.next_delivery(0) is None


def test_what_failed_is_tried_again_before_anything_else_of_its_queue() -> None:
    queues = ordered(A)
    feed(queues, 3)
    delivery = take(queues)
    for attempt in range(1, 20):
        assert queues.on_handled(delivery, FAILED, 0) == ()
        assert queues.next_delivery(49) is None
        delivery = take(queues, 50)
        assert (offsets(delivery), delivery.attempt) == ([0], attempt)
    queues.on_handled(delivery, None, 60)
    assert offsets(take(queues, 60)) == [1]


def test_after_the_last_attempt_it_goes_to_the_dead_letters_and_the_queue_on() -> None:
    queues = ordered(A, max_attempts=3, batch_size=2)
    feed(queues, 3)
    returns: tuple[Return, ...] = ()
    for _ in range(3):
        assert returns == ()
        returns = queues.on_handled(take(queues, 50), FAILED, 0)
    assert [(item.message[0].queue_offset, item.failure.is_final) for item in returns] == [(0, True), (1, True)]
    assert queues.next_delivery(100) is None
    queues.on_returned(returns[0], 0, is_settled=True)
    queues.on_returned(returns[1], 0, is_settled=False)
    again = take(queues, 50)
    assert offsets(again) == [1]  # the broker did not take it: it is tried here until it does
    (item,) = queues.on_handled(again, FAILED, 50)
    queues.on_returned(item, 50, is_settled=True)
    assert offsets(take(queues, 50)) == [2]


@pytest.mark.parametrize("answered", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_what_was_not_taken_as_dead_letters_is_handled_in_order_one_at_a_time(answered: tuple[int, ...]) -> None:
    """However late each is answered, and though the lease ends meanwhile."""
    queues = ordered(A, batch_size=3)
    feed(queues, 4)
    returns = queues.on_handled(take(queues), FINAL, 900)
    for step, index in enumerate(answered):
        queues.on_returned(returns[index], 900 + 40 * step, is_settled=index == 1)
        assert queues.next_delivery(1020) is None  # the lease has ended
    queues.on_leased(A, 5_000)
    first = take(queues, 1100)
    assert (offsets(first), first.attempt) == ([0], 1)
    assert queues.next_delivery(2000) is None
    assert queues.on_handled(first, FAILED, 1100) == ()
    assert queues.next_delivery(1149) is None
    again = take(queues, 1150)
    assert offsets(again) == [0]
    queues.on_handled(again, None, 1150)
    assert queues.uncommitted() == {A: 2}  # 1 is a dead letter, 2 is still to be handled
    second = take(queues, 1200)
    assert offsets(second) == [2]
    assert queues.next_delivery(2000) is None
    (item,) = queues.on_handled(second, FINAL, 1200)
    queues.on_returned(item, 1200, is_settled=True)
    assert queues.uncommitted() == {A: 3}
    assert offsets(take(queues, 1200)) == [3]


def test_what_is_put_aside_goes_to_the_dead_letters_at_once() -> None:
    queues = ordered(A)
    feed(queues, 1)
    (item,) = queues.on_handled(take(queues), FINAL, 0)
    assert item.failure == FINAL


def test_a_lock_is_trusted_until_its_lease_ends() -> None:
    queues = ordered(A)
    feed(queues, 3)
    delivery = take(queues, 999)
    queues.on_handled(delivery, FAILED, 960)
    assert queues.next_delivery(1010) is None  # neither the one to be tried again
    queues.on_leased(A, 1500)
    again = take(queues, 1060)
    queues.on_handled(again, None, 1060)
    assert queues.next_delivery(1500) is None  # nor a new one
    assert queues.on_tick(1499).lost == ()
    assert queues.on_tick(1500).lost == (A,)
    queues.on_leased(A, 2000)
    assert offsets(take(queues, 1600)) == [1]


def test_a_queue_that_is_left_stays_where_it_is_until_it_is_wanted_again() -> None:
    queues = ordered(A)
    feed(queues, 3)
    delivery = take(queues)
    queues.leave(A)
    assert queues.on_tick(5000).lost == ()
    queues.on_handled(delivery, None, 0)
    assert queues.next_delivery(0) is None
    queues.stay(A)
    assert offsets(take(queues)) == [1]


def test_another_subscription_counts_for_what_is_not_handed_out_yet() -> None:
    queues = queues_of(A)
    feed(queues, 4)
    delivery = take(queues)
    (before,) = queues.due(0)
    queues.resubscribe(B, Subscription.parse("t", "x"))
    queues.resubscribe(A, Subscription.parse("t"))
    assert queues.due(0) == []
    queues.resubscribe(A, Subscription.parse("t", Sql("n > 1")))
    assert queues.next_delivery(0) is None
    (pull,) = queues.due(0)
    assert (pull.offset, pull.sql) == (1, "n > 1")
    queues.on_reply(before, PullReply(int(GetStatus.FOUND), 9, 0, 9, 5), records(4, 9), 0)
    assert queues.next_delivery(0) is None
    queues.on_handled(delivery, None, 0)
    assert queues.uncommitted() == {A: 1}
    queues.on_reply(pull, PullReply(int(GetStatus.FOUND), 4, 0, 4, 1), records(3, 4), 0)
    assert offsets(take(queues)) == [3]


def test_another_subscription_makes_room_in_a_queue_that_was_full() -> None:
    queues = queues_of(A, limits=FlowLimits(messages=3))
    feed(queues, 4)
    assert queues.due(0) == []
    queues.resubscribe(A, Subscription.parse("t", "x"))
    assert [pull.offset for pull in queues.due(0)] == [0]
