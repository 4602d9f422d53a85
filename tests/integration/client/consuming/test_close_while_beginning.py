"""Who closes a push consumer does not wait for a topic that another thread, or task, tries to begin meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress

import pytest
from integration.client.fake_broker import SILENT

from zenitmq import PushConsumer, ZenitError, aio
from zenitmq.model.errors import ClientClosed
from zenitmq.remoting.commands import StartConsuming

TRIED_S = 60.0  # what the broker does not answer is tried so long
ENDS_S = 10.0  # a try may be under way


def silent_but_for(broker, topic: str) -> threading.Event:
    """The broker lets nobody begin another topic; the event: somebody tried."""
    asked = threading.Event()

    def rule(request: object) -> str | None:
        if isinstance(request, StartConsuming) and request.topic not in (topic, "%RETRY%g"):
            asked.set()
            return SILENT
        return None

    broker.rule = rule
    return asked


def test_a_subscribe_gives_up_where_its_consumer_is_closed(namesrv: str, new_broker) -> None:
    asked = silent_but_for(new_broker("broker-a", here=1, silent=1), "here")
    consumer = PushConsumer("g", namesrv=namesrv, timeout=TRIED_S)
    consumer.on_message(lambda messages: None)
    consumer.subscribe("here")
    consumer.start()
    told: list[Exception] = []

    def subscribe() -> None:
        try:
            consumer.subscribe("silent")
        except ZenitError as error:
            told.append(error)

    thread = threading.Thread(target=subscribe)
    thread.start()
    assert asked.wait(10)
    began = time.monotonic()
    consumer.close(timeout=0.2)
    assert time.monotonic() - began < ENDS_S
    thread.join(10)
    assert [type(error) for error in told] == [ClientClosed]
    with pytest.raises(ClientClosed):
        consumer.subscribe("here")


def test_so_does_a_start(namesrv: str, new_broker) -> None:
    asked = silent_but_for(new_broker("broker-a", silent=1), "")
    consumer = PushConsumer("g", namesrv=namesrv, timeout=TRIED_S)
    consumer.on_message(lambda messages: None)
    consumer.subscribe("silent")
    thread = threading.Thread(target=starts, args=(consumer,))
    thread.start()
    assert asked.wait(10)
    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < ENDS_S
    thread.join(10)
    assert not thread.is_alive()


def starts(consumer: PushConsumer) -> None:
    with suppress(ClientClosed):
        consumer.start()


def test_so_does_a_task(namesrv: str, new_broker) -> None:
    asked = silent_but_for(new_broker("broker-a", here=1, silent=1), "here")

    async def story() -> None:
        consumer = aio.PushConsumer("g", namesrv=namesrv, timeout=TRIED_S)
        consumer.on_message(lambda messages: None)
        await consumer.subscribe("here")
        await consumer.start()
        subscribing = asyncio.create_task(consumer.subscribe("silent"))
        assert await asyncio.to_thread(asked.wait, 10)
        await asyncio.wait_for(consumer.close(timeout=0.2), ENDS_S)
        with pytest.raises(ClientClosed):
            await subscribing

    asyncio.run(story())
