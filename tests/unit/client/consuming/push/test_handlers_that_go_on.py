"""A queue that was dropped while a handler is at work on it: the handler is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.client.consuming.push.queues import STALLED_MS, Delivery, PushQueues, PushRules
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import Subscription
from zenitmq.record.kernel import encode_record
from zenitmq.remoting.commands import PullReply

A, B = MessageQueue("t", "x", 0), MessageQueue("t", "x", 1)


def assign(queues: PushQueues, name: MessageQueue, now_ms: int = 0) -> None:
    queues.assign(
        name, 0, committed=0, subscription=Subscription.parse("t"), now_ms=now_ms, leased_until_ms=now_ms + 1000
    )


def feed(queues: PushQueues, now_ms: int = 0) -> None:
    """Answers each pull that is due with one message."""
    for pull in queues.due(now_ms):
        record = encode_record(topic=b"t", body=b"x", properties=b"", queue_offset=pull.offset)
        queues.on_reply(pull, PullReply(int(GetStatus.FOUND), pull.offset + 1, 0, 9, 1), record, now_ms)


def at_work(*, is_ordered: bool = True) -> tuple[PushQueues, Delivery]:
    """A handler has the first message of A."""
    queues = PushQueues(PushRules(is_ordered=is_ordered, suspend_ms=50))
    assign(queues, A)
    feed(queues)
    running = queues.next_delivery(0)
    assert running is not None
    return queues, running


def drop_by_reset(queues: PushQueues, era: int = 1) -> None:
    assert queues.move(replace(A, era=era), 0, 0)


def drop_by_lost_lease(queues: PushQueues) -> None:
    queues.revoke(A)
    assign(queues, A)


@pytest.mark.parametrize("drop", [drop_by_reset, drop_by_lost_lease])
def test_a_queue_does_not_begin_again_beside_a_handler_of_its_former_life(drop: object) -> None:
    queues, running = at_work()
    drop(queues)  # type: ignore[operator]
    feed(queues)
    assert queues.next_delivery(0) is None
    assert not queues.has_ready(0)
    queues.on_leased(A, 5000)
    queues.leave(A)
    queues.stay(A)
    assert queues.next_delivery(0) is None
    assert queues.on_handled(running, None, 0) == ()
    feed(queues)
    again = queues.next_delivery(0)
    assert again is not None
    assert again.messages[0].queue_offset == 0
    assert queues.uncommitted() == {}  # what the former one did counts for nothing


def test_other_queues_go_on_meanwhile() -> None:
    queues, _ = at_work()
    drop_by_reset(queues)
    assign(queues, B)
    feed(queues)
    other = queues.next_delivery(0)
    assert other is not None
    assert other.process.name == B


@pytest.mark.parametrize("is_ordered", [True, False])
def test_its_handler_counts_as_busy_until_it_has_ended(is_ordered: bool) -> None:
    queues, running = at_work(is_ordered=is_ordered)
    queues.revoke(A)
    assert queues.is_busy()
    assert queues.is_busy([A])
    assert not queues.is_busy([B])
    queues.on_handled(running, None, 0)
    assert not queues.is_busy()
    assert not queues.is_busy([A])


def test_two_lives_ago_counts_too() -> None:
    queues, first = at_work()
    drop_by_reset(queues)
    drop_by_reset(queues, 2)
    feed(queues)
    assert queues.next_delivery(0) is None
    queues.on_handled(first, None, 0)
    feed(queues)
    assert queues.next_delivery(0) is not None


def test_a_queue_that_waits_for_its_former_handler_is_not_given_up_as_stalled() -> None:
    queues, running = at_work()
    drop_by_reset(queues)
    queues.on_leased(A, STALLED_MS * 3)
    assert queues.on_tick(STALLED_MS * 2).lost == ()
    queues.on_handled(running, None, STALLED_MS * 2)
    feed(queues, STALLED_MS * 2)
    assert queues.next_delivery(STALLED_MS * 2) is not None


def test_a_concurrent_queue_begins_again_at_once() -> None:
    queues, _ = at_work(is_ordered=False)
    drop_by_reset(queues)
    feed(queues)
    assert queues.next_delivery(0) is not None
