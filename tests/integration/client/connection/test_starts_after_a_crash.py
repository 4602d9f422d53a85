"""Consumers that start while the name servers still tell of a broker that has crashed: they wait for the next one."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import zenitmq.aio
from zenitmq import FIRST, Message, Producer, PullConsumer, PushConsumer
from zenitmq.model.errors import ConnectionLost, RequestTimeout
from zenitmq.model.queue import MessageQueue

TOPIC = "trades"
AWAY = (ConnectionLost, RequestTimeout)
BODIES = [b"x"]


def serve_again(new_broker: Callable) -> None:
    """The broker of that name at another address, as after a failover, with a message."""
    broker = new_broker("a", epoch=2, trades=1)
    with Producer("p", namesrv=broker.namesrv) as producer:
        producer.send(Message(TOPIC, BODIES[0]), timeout=10)


@contextmanager
def served_again_soon(new_broker: Callable) -> Iterator[None]:
    back = threading.Timer(0.5, serve_again, [new_broker])
    back.start()
    try:
        yield
    finally:
        back.join()


@pytest.fixture
def crashed(new_broker: Callable) -> None:
    """Gone without a word to the name server."""
    new_broker("a", trades=1).stop()


@pytest.mark.parametrize("is_assigned", [False, True])
def test_a_pull_consumer_waits(namesrv: str, new_broker: Callable, crashed: None, is_assigned: bool) -> None:
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, timeout=0.5) as consumer:
        if is_assigned:
            consumer.assign([MessageQueue(TOPIC, "a", 0)])
        else:
            consumer.subscribe(TOPIC)
        assert not consumer.poll(timeout=0.2)
        assert isinstance(consumer.waits_for, AWAY)
        with pytest.raises(AWAY):
            consumer.assignment()
        serve_again(new_broker)
        assert [message.body for message in consumer.poll(timeout=10)] == BODIES
        assert consumer.waits_for is None


def test_a_pull_consumer_on_a_loop_waits(namesrv: str, new_broker: Callable, crashed: None) -> None:
    async def consume() -> list[bytes]:
        async with zenitmq.aio.PullConsumer("g", namesrv=namesrv, start_from=FIRST, timeout=0.5) as consumer:
            consumer.subscribe(TOPIC)
            assert not await consumer.poll(timeout=0.2)
            assert isinstance(consumer.waits_for, AWAY)
            await asyncio.to_thread(serve_again, new_broker)
            return [message.body for message in await consumer.poll(timeout=10)]

    assert asyncio.run(consume()) == BODIES


def test_a_push_consumer_waits(namesrv: str, new_broker: Callable, crashed: None) -> None:
    heard = threading.Event()
    consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST, timeout=10)
    consumer.on_message(lambda messages: heard.set())
    consumer.subscribe(TOPIC)
    with served_again_soon(new_broker), consumer:
        assert heard.wait(10)


def test_a_push_consumer_on_a_loop_waits(namesrv: str, new_broker: Callable, crashed: None) -> None:
    async def consume() -> list[bytes]:
        heard: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        consumer = zenitmq.aio.PushConsumer("g", namesrv=namesrv, start_from=FIRST, timeout=10)

        @consumer.on_message
        async def hear(messages: list) -> None:
            heard.set_result([message.body for message in messages])

        await consumer.subscribe(TOPIC)
        with served_again_soon(new_broker):
            async with consumer:
                return await asyncio.wait_for(heard, 10)

    assert asyncio.run(consume()) == BODIES


def test_a_push_consumer_waits_no_longer_than_its_timeout(namesrv: str, crashed: None) -> None:
    consumer = PushConsumer("g", namesrv=namesrv, timeout=0.3)
    consumer.on_message(lambda messages: None)
    consumer.subscribe(TOPIC)
    with pytest.raises(AWAY):
        consumer.start()


def test_a_wrong_address_of_a_name_server_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with PullConsumer("g", namesrv=address, timeout=0.3) as consumer:
        consumer.subscribe(TOPIC)
        with pytest.raises(AWAY):
            consumer.poll(timeout=60)
    push = PushConsumer("g", namesrv=address, timeout=0.3)
    push.on_message(lambda messages: None)
    push.subscribe(TOPIC)
    with pytest.raises(AWAY):
        push.start()
