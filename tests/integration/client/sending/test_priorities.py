"""Messages with priorities at two brokers: where they go, and in which order a pop group gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.client.real_broker import RealBroker

from zenitmq import Admin, InvalidParameter, Message, MessageIllegal, MessageQueue, Producer, aio
from zenitmq.record.kernel import decode_batch
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient

TOPIC = "alerts"
QUEUES = 4


@pytest.fixture
def brokers(namesrv: str, tmp_path: Path) -> Iterator[list[RealBroker]]:
    """Two of them; the topic has four queues at each."""
    running = [RealBroker(namesrv, tmp_path, name) for name in ("broker-a", "broker-b")]
    with Admin(namesrv) as admin:
        admin.create_topic(TOPIC, queues=QUEUES, attributes={"message.type": "PRIORITY"})
    try:
        yield running
    finally:
        for broker in running:
            broker.stop()


def popped(broker: RealBroker, count: int = 32) -> list[bytes]:
    with RemotingClient() as client:
        request = commands.PopMessages("g", TOPIC, count, 30_000, wait_ms=5_000)
        return [each.body for each in decode_batch(client.call(broker.address, request, timeout_ms=10_000)[1])]


def test_every_way_to_send_goes_to_the_queue_of_the_priority(namesrv: str, brokers: list[RealBroker]) -> None:
    async def soon() -> list[MessageQueue]:
        async with aio.Producer(namesrv=namesrv) as producer:
            sent = await producer.send(Message(TOPIC, b"x", priority=1))
            later = await producer.send_async(Message(TOPIC, b"x", priority=1))
            return [sent.queue, later.queue]

    with Producer(namesrv=namesrv) as producer, Producer(namesrv=namesrv, idempotent=True) as once:
        for priority in (0, 2, 3, 9):
            message = Message(TOPIC, b"x", priority=priority)
            sent = [producer.send(message) for _ in range(4)]
            sent += [once.send(message) for _ in range(2)]
            sent += producer.send_batch([message] * 2)
            sent += [future.result(10) for future in [producer.send_async(message) for _ in range(3)]]
            queues = {each.queue for each in sent}
            assert {queue.queue_id for queue in queues} == {min(priority, QUEUES - 1)}
            assert {queue.broker_name for queue in queues} == {"broker-a", "broker-b"}
        assert {queue.queue_id for queue in asyncio.run(soon())} == {1}


def test_higher_ones_are_received_first(namesrv: str, brokers: list[RealBroker]) -> None:
    priorities = [0, 3, 1, 2, 9, 0, 1, 3, 2, 5]
    with Producer(namesrv=namesrv) as producer:
        for priority in priorities:
            for _ in brokers:
                producer.send(Message(TOPIC, b"%d" % min(priority, QUEUES - 1), priority=priority))
    for broker in brokers:
        first, rest = popped(broker, 3), popped(broker)
        assert first == [b"3"] * 3
        assert rest == sorted(rest, reverse=True)
        assert len(rest) == len(priorities) - 3


def test_what_says_two_queues_is_refused(namesrv: str, brokers: list[RealBroker]) -> None:
    low, high = Message(TOPIC, b"x", priority=1), Message(TOPIC, b"x", priority=2)
    with Producer(namesrv=namesrv) as producer:
        with pytest.raises(MessageIllegal, match="one priority"):
            producer.send_batch([low, high])
        with pytest.raises(InvalidParameter, match="sharding_key"):
            producer.send(low, sharding_key="k")
        with pytest.raises(InvalidParameter, match="sharding_key"):
            producer.send_async(low, sharding_key="k")


def test_they_go_to_the_other_broker_while_one_is_away(namesrv: str, brokers: list[RealBroker]) -> None:
    with Producer(namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, b"x", priority=2))
        brokers[0].stop()
        sent = [producer.send(Message(TOPIC, b"x", priority=2)) for _ in range(4)]
        sent += [producer.send_async(Message(TOPIC, b"x", priority=2)).result(20) for _ in range(4)]
    assert {(each.queue.broker_name, each.queue.queue_id) for each in sent} == {("broker-b", 2)}
