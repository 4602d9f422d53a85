"""Asyncio clients against real brokers: a whole flow, a broker that stands still, a master that is killed."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from zenitmq import FIRST, Message, MessageQueue, RequestTimeout, aio
from zenitmq.testing import LocalCluster


async def read(consumer: aio.PullConsumer, wanted: set[bytes]) -> list[bytes]:
    """Bodies until all that are wanted were seen."""
    seen: list[bytes] = []
    left = set(wanted)
    async for message in consumer:
        seen.append(message.body)
        left.discard(message.body)
        if not left:
            break
    return seen


def test_what_is_produced_is_consumed_while_both_run(one_broker: LocalCluster) -> None:
    topic = one_broker.create_topic("aio-flow")
    expected = {b"%06d" % index for index in range(30_000)}

    async def produce() -> None:
        async with aio.Producer(namesrv=one_broker.namesrv) as producer:
            futures = []
            for body in sorted(expected):
                futures.append(producer.send_async(Message(topic, body)))
                if len(futures) % 500 == 0:
                    await producer.drain()
            await asyncio.gather(*futures)

    async def consume() -> list[bytes]:
        async with aio.PullConsumer("aio-flow", namesrv=one_broker.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(topic)
            return await read(consumer, expected)

    async def story() -> list[bytes]:
        _, seen = await asyncio.gather(produce(), consume())
        return seen

    assert sorted(asyncio.run(asyncio.wait_for(story(), 60))) == sorted(expected)


def test_the_loop_goes_on_while_the_broker_stands_still(one_broker: LocalCluster) -> None:
    """Every wait of a client leaves the loop to others: a ticker's longest pause says so."""
    topic = one_broker.create_topic("aio-still")

    async def tick(longest: list[float]) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(0.01)
            longest[0] = max(longest[0], loop.time() - before)
            before = loop.time()

    async def story() -> float:
        longest = [0.0]
        queue = MessageQueue(topic, "broker-a", 0)
        async with (
            aio.Producer(namesrv=one_broker.namesrv) as producer,
            aio.PullConsumer("aio-still", namesrv=one_broker.namesrv, start_from=FIRST) as consumer,
            aio.Admin(one_broker.namesrv) as admin,
        ):
            consumer.assign([queue])
            await producer.send(Message(topic, b"first"))
            await consumer.position(queue)
            ticker = asyncio.create_task(tick(longest))
            with one_broker.paused("broker-a"):
                waits = [
                    asyncio.create_task(producer.send(Message(topic, b"second"), timeout=20)),
                    asyncio.create_task(admin.max_offset(queue, timeout=20)),
                    asyncio.create_task(consumer.committed(queue)),
                    asyncio.create_task(producer.flush()),
                ]
                future = producer.send_async(Message(topic, b"third"))
                await asyncio.sleep(1.0)
                assert not future.done()
            await asyncio.wait_for(asyncio.gather(*waits, future), 30)
            ticker.cancel()
        return longest[0]

    assert asyncio.run(story()) < 0.8  # a wait that held the loop would last as long as the pause


@pytest.mark.timeout(240)
def test_a_failover_loses_nothing_that_was_acknowledged(three_replicas: LocalCluster) -> None:
    topic = three_replicas.create_topic("aio-failover")
    master = three_replicas.master
    assert master is not None

    async def story() -> tuple[set[bytes], list[bytes]]:
        acknowledged: set[bytes] = set()
        killed = asyncio.Event()
        ended = asyncio.Event()

        async def produce() -> None:
            async with aio.Producer(namesrv=three_replicas.namesrv, timeout=30.0) as producer:

                async def one(number: int) -> None:
                    body = b"%06d" % number
                    if number % 2:
                        await producer.send(Message(topic, body))
                    else:
                        await producer.send_async(Message(topic, body))
                    acknowledged.add(body)

                number = 0
                while not ended.is_set():
                    await asyncio.gather(*(one(number + step) for step in range(20)))
                    number += 20
                    await asyncio.sleep(0.01)

        async def kill() -> None:
            await asyncio.sleep(1.0)
            await asyncio.to_thread(three_replicas.kill, master)
            killed.set()
            before = len(acknowledged)
            while len(acknowledged) < before + 1000:
                await asyncio.sleep(0.05)
            ended.set()

        async with aio.PullConsumer("aio-failover", namesrv=three_replicas.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(topic)
            seen: list[bytes] = []

            async def consume() -> None:
                while not ended.is_set():
                    seen.extend(message.body for message in await consumer.poll(timeout=0.2))

            await asyncio.gather(produce(), kill(), consume())
            while not acknowledged <= set(seen):
                seen.extend(message.body for message in await consumer.poll(timeout=1))
        return acknowledged, seen

    acknowledged, seen = asyncio.run(asyncio.wait_for(story(), 120))
    assert len(acknowledged) > 1000
    assert acknowledged <= set(seen)


def test_requests_are_answered_on_one_loop(one_broker: LocalCluster) -> None:
    topic = one_broker.create_topic("aio-questions")

    async def story() -> None:
        async with (
            aio.Producer("askers", namesrv=one_broker.namesrv) as asker,
            aio.Producer("answerers", namesrv=one_broker.namesrv) as answerer,
            aio.PullConsumer("answerers", namesrv=one_broker.namesrv, start_from=FIRST) as consumer,
        ):
            consumer.subscribe(topic)

            async def answer() -> None:
                async for question in consumer:
                    await answerer.reply(question, question.body * 2)

            answering = asyncio.create_task(answer())
            assert (await asker.request(Message(topic, b"one"), timeout=10)).body == b"oneone"
            tasks = [asker.request_async(Message(topic, b"%d" % number), timeout=10) for number in range(20)]
            assert [reply.body for reply in await asyncio.gather(*tasks)] == [b"%d" % n * 2 for n in range(20)]
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering
            waiting = asker.request_async(Message(topic, b"nobody is there"), timeout=10)
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert asker.request_statistics().pending == 0
            with pytest.raises(RequestTimeout):
                await asker.request(Message(topic, b"nobody"), timeout=0.3)

    asyncio.run(story())
