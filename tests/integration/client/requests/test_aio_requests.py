"""Requests, replies and traces on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from zenitmq import FIRST, Admin, ClientClosed, Message, NotARequest, RequestTimeout, aio
from zenitmq.client.sending.pending_replies import RequestStatistics
from zenitmq.model.names import TRACE_TOPIC

if TYPE_CHECKING:
    from integration.client.real_broker import RealBroker

TOPIC = "questions"
WAIT_S = 10.0


@pytest.fixture(autouse=True)
def topic(namesrv: str, real_broker: RealBroker) -> None:
    with Admin(namesrv) as admin:
        admin.create_topic(TOPIC, queues=2)


async def respond(namesrv: str, count: int) -> None:
    """Answers so many requests."""
    async with (
        aio.Producer("answering", namesrv=namesrv, timeout=WAIT_S) as replier,
        aio.PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer,
    ):
        consumer.subscribe(TOPIC)
        async for request in consumer:
            await replier.reply(request, b"re: " + request.body)
            count -= 1
            if not count:
                return


def test_many_requests_wait_beside_one_another(namesrv: str) -> None:
    async def story() -> tuple[list[bytes], RequestStatistics]:
        responder = asyncio.create_task(respond(namesrv, 30))
        async with aio.Producer("asking", namesrv=namesrv, timeout=WAIT_S) as producer:
            asked = [producer.request(Message(TOPIC, b"%d" % number)) for number in range(30)]
            replies = await asyncio.gather(*asked)
            await responder
            return [reply.body for reply in replies], producer.request_statistics()

    bodies, statistics = asyncio.run(story())
    assert bodies == [b"re: %d" % number for number in range(30)]
    assert statistics == RequestStatistics(pending=0, answered=30, unanswered=0, late=0)


def test_who_waits_in_vain_is_told_and_who_is_cancelled_leaves_nothing_behind(namesrv: str) -> None:
    async def story() -> RequestStatistics:
        producer = aio.Producer("asking", namesrv=namesrv, timeout=WAIT_S)
        with pytest.raises(RequestTimeout):
            await producer.request(Message(TOPIC, b"anybody"), timeout=0.2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.request(Message(TOPIC, b"anybody")), 0.2)
        assert producer.request_statistics().pending == 0
        waiting = asyncio.create_task(producer.request(Message(TOPIC, b"anybody")))
        while not producer.request_statistics().pending:
            await asyncio.sleep(0.01)
        await producer.close()
        with pytest.raises(ClientClosed):
            await waiting
        return producer.request_statistics()

    assert asyncio.run(story()) == RequestStatistics(pending=0, answered=0, unanswered=3, late=0)


def test_what_was_no_request_cannot_be_replied_to(namesrv: str) -> None:
    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer, aio.PullConsumer("g", namesrv=namesrv) as consumer:
            consumer.subscribe(TOPIC)
            await consumer.poll(timeout=0)
            await producer.send(Message(TOPIC, b"plain"))
            (message,) = await consumer.poll(timeout=WAIT_S)
            with pytest.raises(NotARequest):
                await producer.reply(message, b"?")

    asyncio.run(story())


def test_the_journey_of_a_message(namesrv: str) -> None:
    async def story() -> list[str]:
        async with aio.Producer("p", namesrv=namesrv, trace=True) as producer:
            receipt = await producer.send(Message(TOPIC, b"x"))
        async with aio.PullConsumer("g", namesrv=namesrv, start_from=FIRST, trace=True) as consumer:
            consumer.subscribe(TOPIC)
            async for _ in consumer:
                break
        async with aio.Admin(namesrv) as admin:
            for _ in range(
                int(WAIT_S) * 50
            ):  # of the topic that the first traces create the broker tells beside answering
                if TRACE_TOPIC in await admin.topics():
                    break
                await asyncio.sleep(0.02)
            return [event["event"] for event in (await admin.trace(receipt.message_id))["events"]]

    assert asyncio.run(story()) == ["produced", "stored", "delivered", "consumed"]
