"""Light queues as a program reads them: by name, with progress of their own, at a cluster and in its own process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from zenitmq import (
    FIRST,
    Admin,
    EngineLacks,
    InvalidName,
    InvalidParameter,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    TopicNotFound,
    aio,
)
from zenitmq.testing import LocalCluster, MemoryCluster


@pytest.fixture(scope="module")
def memory() -> Iterator[MemoryCluster]:
    with MemoryCluster() as running:
        yield running


@pytest.fixture(params=["memory", "local", "cluster"])
def namesrv(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return f"local://{tmp_path}/store"
    of: MemoryCluster | LocalCluster = request.getfixturevalue("memory" if request.param == "memory" else "one_broker")
    return of.namesrv


def polled(consumer: PullConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    for _ in range(20):
        found += [message.body for message in consumer.poll(timeout=1.0)]
        if len(found) >= count:
            break
    return found


def test_a_group_goes_on_in_a_light_queue_where_it_stopped(namesrv: str) -> None:
    topic, group, name = (f"{kind}-{secrets.token_hex(4)}" for kind in ("t", "g", "%LMQ%a"))
    with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        admin.create_topic(topic, queues=2)
        receipts = [producer.send(Message(topic, b"%d" % n, light_queues=(name,))) for n in range(6)]
        producer.send(Message(topic, b"elsewhere"))
        queue = MessageQueue(name, receipts[0].queue.broker_name, 0)
        assert queue in [MessageQueue(name, each.broker_name, 0) for each in admin.queues(name)]
        assert (admin.min_offset(queue), admin.max_offset(queue)) == (0, 6)
        with PullConsumer(group, namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.assign([queue])
            first = consumer.poll(4, timeout=10.0)
            assert [(m.body, m.queue, m.queue_offset, m.topic) for m in first] == [
                (b"%d" % n, queue, n, topic) for n in range(4)
            ]
            consumer.commit()
            assert (consumer.committed(queue), consumer.position(queue)) == (4, 4)
            assert admin.lag(group) == {queue: 2}
            consumer.seek(queue, 1)
            assert polled(consumer, 5) == [b"1", b"2", b"3", b"4", b"5"]
            producer.send(Message(topic, b"6", light_queues=(name,)))
            assert polled(consumer, 1) == [b"6"]
        with PullConsumer(group, namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.assign([queue, MessageQueue(topic, queue.broker_name, 0)])
            assert consumer.position(queue) == 7


def test_what_cannot_be_read_is_told(namesrv: str) -> None:
    parent = f"chats-{secrets.token_hex(4)}"
    with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        admin.create_topic(parent, attributes={"message.type": "LITE"})
        broker = producer.send(Message(parent, b"x", lite_topic="s1")).queue.broker_name
    missing, lite = MessageQueue(f"%LMQ%{parent}", broker, 0), MessageQueue(f"%LMQ%${parent}$s1", broker, 0)
    with PullConsumer("g", namesrv=namesrv) as consumer:
        with pytest.raises(InvalidParameter, match=r"PullConsumer\.assign"):
            consumer.subscribe("%LMQ%a")
        with pytest.raises(InvalidParameter, match="LiteConsumer"):
            consumer.assign([lite])
        with pytest.raises(InvalidName):
            consumer.assign([MessageQueue("%LMQ%a/b", broker, 0)])
        consumer.assign([missing])
        with pytest.raises(TopicNotFound):
            consumer.poll(timeout=5.0)
    with PullConsumer(None, namesrv=namesrv, start_from=FIRST) as viewer:
        viewer.assign([lite])
        assert [(m.body, m.lite_topic, m.queue) for m in viewer.poll(timeout=10.0)] == [(b"x", "s1", lite)]


def test_coroutines_read_them_too(namesrv: str) -> None:
    topic, name = f"t-{secrets.token_hex(4)}", f"%LMQ%{secrets.token_hex(4)}"

    async def story() -> list[bytes]:
        async with aio.Admin(namesrv) as admin, aio.Producer(namesrv=namesrv) as producer:
            await admin.create_topic(topic)
            receipt = await producer.send(Message(topic, b"x", light_queues=(name,)))
            async with aio.PullConsumer(None, namesrv=namesrv, start_from=FIRST) as consumer:
                consumer.assign([MessageQueue(name, receipt.queue.broker_name, 0)])
                return [m.body for m in await consumer.poll(timeout=10.0)]

    assert asyncio.run(story()) == [b"x"]


def test_an_engine_without_them_says_so(tmp_path: Path) -> None:
    with PullConsumer("g", namesrv=f"embedded://{tmp_path / 'store'}") as consumer:
        consumer.assign([MessageQueue("%LMQ%a", "broker-a", 0)])
        with pytest.raises(EngineLacks, match="light queues"):
            consumer.poll(timeout=1.0)
