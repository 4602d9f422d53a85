"""Commits that come late: of who has lost a queue, or was not told that an operator moved the group. Neither takes it back."""

from __future__ import annotations

import threading

import pytest
from integration.client.consuming.push_kit import Seen, wait_until

from zenitmq import FIRST, Admin, Producer, PullConsumer, PushConsumer, StoredMessage
from zenitmq.broker.service import Broker
from zenitmq.client.consuming.pull.rebalance import PullRebalance
from zenitmq.client.consuming.push.member import PushMember
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import ConsumerOffsetReply, QueryConsumerOffset, UpdateConsumerOffsets

TOPIC = "trades"
BODIES = [b"%d" % number for number in range(10)]


class Group:
    """Offsets of the group "g" in the queue, as the broker has them."""

    def __init__(self, address: str) -> None:
        self._address = address

    def committed(self) -> int:
        with RemotingClient() as client:
            reply, _ = client.call(self._address, QueryConsumerOffset("g", TOPIC, 0), timeout_ms=5000)
        assert isinstance(reply, ConsumerOffsetReply)
        return reply.offset

    def commit(self, offset: int) -> None:
        """As another member that has the queue by now."""
        with RemotingClient() as client:
            client.call(self._address, UpdateConsumerOffsets("g", ((TOPIC, 0, offset),)), timeout_ms=5000)


@pytest.fixture
def group(broker: Broker) -> Group:
    return Group(broker.address)


@pytest.fixture
def one_queue(admin: Admin) -> Admin:
    admin.delete_topic(TOPIC)
    admin.create_topic(TOPIC, queues=1)
    return admin


@pytest.fixture
def sent(one_queue: Admin, producer: Producer) -> list[bytes]:
    producer.send_bodies(TOPIC, BODIES)
    return BODIES


@pytest.mark.parametrize("ordered", [False, True])
def test_a_push_member_that_lost_a_queue_takes_nobody_back(
    group: Group, sent: list[bytes], namesrv: str, ordered: bool
) -> None:
    """Nothing told it: a process that was stopped for a while commits by its timer before it hears anything."""
    lowest = []

    def then(message: StoredMessage) -> None:
        if message.body == b"2":
            group.commit(9)
        elif message.body > b"2":
            threading.Event().wait(0.1)  # the timer has committed meanwhile
            lowest.append(group.committed())

    seen = Seen(then)
    consumer = PushConsumer(
        "g", namesrv=namesrv, start_from=FIRST, commit_interval=0.02, concurrency=1, ordered=ordered
    )
    consumer.subscribe(TOPIC)
    consumer.on_message(seen)
    with consumer:
        seen.wait(10)
    assert min(lowest) == 9
    assert group.committed() == 10


def test_a_pull_member_that_lost_a_queue_takes_nobody_back(group: Group, sent: list[bytes], namesrv: str) -> None:
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit_interval=0.05) as consumer:
        consumer.subscribe(TOPIC)
        assert len(consumer.poll(2, timeout=5)) == 2
        group.commit(9)
        assert len(consumer.poll(1, timeout=5)) == 1  # what was polled before is committed by the timer
        consumer.commit()
        assert group.committed() == 9


def test_who_seeks_goes_back_once(group: Group, sent: list[bytes], namesrv: str) -> None:
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit=False) as consumer:
        consumer.subscribe(TOPIC)
        assert len(consumer.poll(6, timeout=5)) == 6
        consumer.commit()
        (queue,) = consumer.assignment()
        consumer.seek(queue, 2)
        consumer.commit()
        assert group.committed() == 2
        assert len(consumer.poll(1, timeout=5)) == 1
        group.commit(9)
        consumer.commit()
        assert group.committed() == 9


@pytest.mark.parametrize("ordered", [False, True])
def test_a_push_member_that_was_not_told_of_a_reset_does_not_undo_it(
    one_queue: Admin,
    group: Group,
    producer: Producer,
    sent: list[bytes],
    namesrv: str,
    monkeypatch: pytest.MonkeyPatch,
    ordered: bool,
) -> None:
    """As one that is leaving the queue, or that has just begun it; its next commit tells it."""
    monkeypatch.setattr(PushMember, "_on_offsets_reset", lambda *_: None)
    seen = Seen()
    consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST, commit_interval=0.05, ordered=ordered)
    consumer.subscribe(TOPIC)
    consumer.on_message(seen)
    with consumer:
        seen.wait(10)
        wait_until(lambda: group.committed() == 10)
        one_queue.reset_offset("g", TOPIC, "earliest")
        producer.send_bodies(TOPIC, [b"one more"])
        wait_until(lambda: seen.bodies.count(b"0") == 2)
        wait_until(lambda: group.committed() == 11)


@pytest.mark.parametrize("subscribes", [True, False])
def test_a_pull_member_that_was_not_told_of_a_reset_does_not_undo_it(
    one_queue: Admin,
    group: Group,
    producer: Producer,
    sent: list[bytes],
    namesrv: str,
    monkeypatch: pytest.MonkeyPatch,
    subscribes: bool,
) -> None:
    monkeypatch.setattr(PullRebalance, "_on_offsets_reset", lambda *_: None)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit=False) as consumer:
        if subscribes:
            consumer.subscribe(TOPIC)
        else:
            consumer.assign(one_queue.queues(TOPIC))
        assert len(consumer.poll(10, timeout=5)) == 10
        consumer.commit()
        one_queue.reset_offset("g", TOPIC, "earliest")
        producer.send_bodies(TOPIC, [b"one more"])
        assert [message.body for message in consumer.poll(timeout=5)] == [b"one more"]
        consumer.commit()
        assert group.committed() == 0
        assert [message.body for message in consumer.poll(4, timeout=5)] == BODIES[:4]
        consumer.commit()
        assert group.committed() == 4
