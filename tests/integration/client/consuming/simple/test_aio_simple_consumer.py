"""The simple consumer for asyncio: what it hands out, whatever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from zenitmq import Admin, ClientClosed, LeaseExpired, Message, Producer, aio

TOPIC = "trades"


def test_received_and_acknowledged_by_many_tasks(namesrv: str, producer: Producer) -> None:
    expected = [b"%03d" % number for number in range(200)]
    producer.send_batch([Message(TOPIC, body) for body in expected])
    seen: list[bytes] = []

    async def work(consumer: aio.SimpleConsumer) -> None:
        while messages := await consumer.receive(9, wait=1):
            for message in messages:
                seen.append(message.body)
                await consumer.ack(message, wait=message.queue_offset % 10 == 0)

    async def story() -> None:
        async with aio.SimpleConsumer("g", namesrv=namesrv) as consumer:
            consumer.subscribe(TOPIC)
            await asyncio.gather(*(work(consumer) for _ in range(5)))
        assert consumer.statistics().acknowledged == 200

    asyncio.run(story())
    assert sorted(seen) == expected


def test_a_receive_that_is_cancelled_loses_nothing(namesrv: str, producer: Producer) -> None:
    async def story() -> None:
        async with aio.SimpleConsumer("g", namesrv=namesrv) as consumer:
            consumer.subscribe(TOPIC)
            seen: set[bytes] = set()
            for number in range(30):
                task = asyncio.create_task(consumer.receive(4, wait=5, invisible=600))
                await asyncio.sleep(0.002 * (number % 5))
                producer.send(Message(TOPIC, b"%d" % number))
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    for message in await task:
                        seen.add(message.body)
                        await consumer.ack(message)
            while messages := await consumer.receive(wait=1, invisible=600):
                for message in messages:
                    assert message.reconsume_times == 0
                    seen.add(message.body)
                    await consumer.ack(message)
            assert seen == {b"%d" % number for number in range(30)}

    asyncio.run(story())


def test_changes_handles_and_dead_letters(namesrv: str, admin: Admin, producer: Producer) -> None:
    async def story() -> None:
        async with aio.SimpleConsumer("g", namesrv=namesrv) as consumer:
            consumer.subscribe(TOPIC)
            producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(3)])
            first, second, third = await consumer.receive(3)
            handle = consumer.handle_of(first)
            await consumer.change_invisible(first, 50)
            with pytest.raises(LeaseExpired):
                await consumer.ack(handle, wait=True)
            await consumer.ack_batch([first], wait=True)
            await consumer.dead_letter(second, reason="no")
            await consumer.change_invisible(third, 0)
            (again,) = await consumer.receive(wait=5)
            assert again.reconsume_times == 1

    asyncio.run(story())


def test_a_close_by_another_task_ends_a_receive(namesrv: str, admin: Admin) -> None:
    async def story() -> None:
        consumer = aio.SimpleConsumer("g", namesrv=namesrv)
        consumer.subscribe(TOPIC)
        task = asyncio.create_task(consumer.receive(wait=30))
        await asyncio.sleep(0.2)
        await consumer.close()
        with pytest.raises(ClientClosed):
            await task

    asyncio.run(asyncio.wait_for(story(), 20))
    assert threading.active_count() < 50
