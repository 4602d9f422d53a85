"""The asyncio push consumer against a real broker: handlers that wait, raise, are cancelled or hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from integration.client.consuming.push_kit import fill, lag
from integration.client.real_broker import RealBroker

from zenitmq import (
    FIRST,
    Admin,
    ClientClosed,
    ConsumeResult,
    Message,
    Producer,
    StoredMessage,
    TopicNotFound,
    aio,
)
from zenitmq.client.consuming.push import rebalance
from zenitmq.model.errors import LocalProtocolError
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import LockQueues, LockReply

TOPIC = "trades"
LADDER = '{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100]}}'


@pytest.fixture
def admin(namesrv: str, real_broker: RealBroker) -> Iterator[Admin]:
    with Admin(namesrv) as made:
        made.create_topic(TOPIC, queues=4)
        made.create_group("g", attributes={"groupRetryPolicy": LADDER})
        yield made


@pytest.fixture
def producer(namesrv: str, admin: Admin) -> Iterator[Producer]:
    with Producer("p", namesrv=namesrv) as made:
        yield made


async def consumer_of(namesrv: str, handler: Callable, **settings: object) -> aio.PushConsumer:
    """A consumer of the topic from its first message on, not started yet."""
    consumer = aio.PushConsumer("g", namesrv=namesrv, **{"start_from": FIRST, **settings})  # type: ignore[arg-type]
    await consumer.subscribe(TOPIC)
    consumer.on_message(handler)
    return consumer


async def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def test_all_is_handled_by_tasks_and_committed_at_close(namesrv: str, admin: Admin, producer: Producer) -> None:
    sent = fill(producer, TOPIC, 500)

    async def story() -> None:
        here = threading.get_ident()
        seen: list[bytes] = []
        running = most = 0

        async def handler(messages: list[StoredMessage]) -> None:
            nonlocal running, most
            assert threading.get_ident() == here
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            seen.extend(message.body for message in messages)
            running -= 1

        async with await consumer_of(namesrv, handler, concurrency=8) as consumer:
            await until(lambda: len(seen) >= 500)
            names = {thread.name for thread in threading.enumerate()}  # the broker's are among them
            assert [name for name in names if name.startswith(("zenit-push", "zenit-moves", "asyncio"))] == []
            assert len([queue for queue in consumer.assignment() if queue.topic == TOPIC]) == 4
        assert sorted(seen) == sorted(sent)
        assert 1 < most <= 8
        assert consumer.statistics().handled == 500
        with pytest.raises(ClientClosed):
            await consumer.subscribe(TOPIC)

    asyncio.run(story())
    assert lag(admin, "g", TOPIC) == 0


def test_a_plain_function_may_be_the_handler(namesrv: str, admin: Admin, producer: Producer) -> None:
    fill(producer, TOPIC, 50)

    async def story() -> None:
        seen: list[StoredMessage] = []
        async with await consumer_of(namesrv, seen.extend):
            await until(lambda: len(seen) == 50)

    asyncio.run(story())


def test_what_fails_or_is_cancelled_comes_again(namesrv: str, admin: Admin, producer: Producer) -> None:
    for body in (b"raises", b"cancelled", b"asks", b"good"):
        producer.send(Message(TOPIC, body))

    async def story() -> None:
        seen: list[tuple[bytes, int]] = []

        async def handler(messages: list[StoredMessage]) -> ConsumeResult | None:
            (message,) = messages
            seen.append((message.body, message.reconsume_times))
            if message.reconsume_times:
                return None
            if message.body == b"raises":
                raise ValueError("not yet")
            if message.body == b"cancelled":
                inner = asyncio.create_task(asyncio.sleep(10))
                inner.cancel()
                await inner
            return ConsumeResult.RETRY if message.body == b"asks" else ConsumeResult.SUCCESS

        async with await consumer_of(namesrv, handler):
            await until(lambda: len(seen) == 7)
        assert sorted(seen) == sorted(
            [(body, times) for body in (b"raises", b"cancelled", b"asks") for times in (0, 1)] + [(b"good", 0)]
        )

    asyncio.run(story())


def test_ordered_messages_are_handled_one_after_the_other(namesrv: str, admin: Admin, producer: Producer) -> None:
    for number in range(60):
        producer.send(Message(TOPIC, b"%02d" % number), sharding_key=f"k{number % 3}")

    async def story() -> None:
        handled: dict[int, list[bytes]] = {}
        busy: set[int] = set()
        failed: set[bytes] = set()

        async def handler(messages: list[StoredMessage]) -> None:
            (message,) = messages
            queue_id = message.queue.queue_id
            assert queue_id not in busy
            busy.add(queue_id)
            await asyncio.sleep(0.001)
            busy.discard(queue_id)
            if message.body.endswith(b"5") and message.body not in failed:
                failed.add(message.body)
                raise ValueError("once more")
            handled.setdefault(queue_id, []).append(message.body)

        async with await consumer_of(namesrv, handler, ordered=True, suspend=0.02):
            await until(lambda: sum(map(len, handled.values())) == 60)
        assert all(bodies == sorted(bodies) for bodies in handled.values())

    asyncio.run(story())


def test_a_handler_that_hangs_is_late_and_stops_neither_the_others_nor_close(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    fill(producer, TOPIC, 40)

    async def story() -> None:
        seen: list[bytes] = []
        hanging = asyncio.Event()

        async def handler(messages: list[StoredMessage]) -> None:
            if messages[0].body == b"0007" and not messages[0].reconsume_times:
                await hanging.wait()
            seen.append(messages[0].body)

        consumer = await consumer_of(namesrv, handler, concurrency=2, consume_timeout=0.3)
        async with consumer:
            await until(lambda: b"0007" in seen and len(set(seen)) == 40)
            assert consumer.statistics().late == 1

        async def stuck(messages: list[StoredMessage]) -> None:
            await hanging.wait()

        fill(producer, TOPIC, 1, begin=40)
        consumer = await consumer_of(namesrv, stuck)
        await consumer.start()
        await until(lambda: consumer.statistics().running == 1)
        async with asyncio.timeout(10):
            await consumer.close(timeout=0.2)

    asyncio.run(story())


def test_a_task_that_is_cancelled_leaves_the_group(namesrv: str, admin: Admin, producer: Producer) -> None:
    sent = fill(producer, TOPIC, 30)

    async def story() -> None:
        seen: list[bytes] = []

        async def handler(messages: list[StoredMessage]) -> None:
            await asyncio.sleep(0.005)
            seen.append(messages[0].body)

        async def consume() -> None:
            async with await consumer_of(namesrv, handler):
                await asyncio.Event().wait()

        task = asyncio.create_task(consume())
        await until(lambda: len(seen) > 5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        async with await consumer_of(namesrv, handler):
            await until(lambda: set(seen) == sent)

    asyncio.run(story())
    assert admin.describe_group("g")["members"] == []


def test_a_cancelled_start_can_be_tried_again(namesrv: str, admin: Admin, producer: Producer) -> None:
    async def story() -> None:
        seen: list[StoredMessage] = []
        consumer = await consumer_of(namesrv, seen.extend)
        for steps in range(6):
            task = asyncio.create_task(consumer.start())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await consumer.start()
        producer.send(Message(TOPIC, b"x"))
        await until(lambda: len(seen) == 1)
        await consumer.close()
        await consumer.close()

    asyncio.run(story())


def test_wrong_use_is_told(namesrv: str, admin: Admin) -> None:
    async def story() -> None:
        consumer = aio.PushConsumer("g", namesrv=namesrv)
        with pytest.raises(LocalProtocolError):
            await consumer.start()
        consumer.on_message(lambda messages: None)
        await consumer.subscribe("nowhere")
        with pytest.raises(TopicNotFound):
            await consumer.start()
        await consumer.unsubscribe("nowhere")
        async with consumer:
            with pytest.raises(TopicNotFound):
                await consumer.subscribe("nowhere")
            with pytest.raises(LocalProtocolError):
                consumer.on_message(lambda messages: None)

    asyncio.run(story())


def test_a_coroutine_that_returns_what_is_no_answer_pauses_its_consumer(
    namesrv: str, admin: Admin, producer: Producer
) -> None:
    fill(producer, TOPIC, 5)

    async def handle_wrongly(messages: list[StoredMessage]) -> str:
        return "SUCCESS"

    async def main() -> None:
        async with await consumer_of(namesrv, handle_wrongly) as consumer:
            await until(lambda: consumer.mistake is not None)
            assert "handle_wrongly returned 'SUCCESS'" in str(consumer.mistake)

    asyncio.run(main())
    assert lag(admin, "g", TOPIC) == 5


def test_a_close_that_is_cancelled_frees_no_queue_under_its_handler(
    namesrv: str, admin: Admin, producer: Producer, real_broker: RealBroker
) -> None:
    """Another member gets it when the lease has ended; a goodbye would free it at once."""
    receipt = producer.send(Message(TOPIC, b"x"))
    queues = ((receipt.queue.topic, receipt.queue.queue_id),)

    async def main() -> tuple[tuple[str, int], ...]:
        begun, release = asyncio.Event(), asyncio.Event()

        async def handle(messages: list[StoredMessage]) -> None:
            begun.set()
            await release.wait()

        consumer = await consumer_of(namesrv, handle, ordered=True)
        await consumer.start()
        await asyncio.wait_for(begun.wait(), 15)
        closing = asyncio.create_task(consumer.close(timeout=30))
        await asyncio.sleep(0.1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with RemotingClient() as other:
            reply, _ = await asyncio.to_thread(
                other.call, real_broker.address, LockQueues("g", "other", queues), timeout_ms=5000
            )
        release.set()
        assert isinstance(reply, LockReply)
        return reply.queues

    assert asyncio.run(main()) == ()


def test_a_close_that_is_cancelled_leaves_the_group_for_good(
    namesrv: str, admin: Admin, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection goes on: the admin and the producer have the same one. Who announced it again would keep queues for it
    that nobody reads."""
    monkeypatch.setattr(rebalance, "LOOK_MS", 50)
    producer.send(Message(TOPIC, b"x"))

    async def main() -> None:
        begun = asyncio.Event()

        async def handle(messages: list[StoredMessage]) -> None:
            begun.set()
            await asyncio.Event().wait()

        consumer = await consumer_of(namesrv, handle)
        await consumer.start()
        await asyncio.wait_for(begun.wait(), 15)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await consumer.close(timeout=30)
        await asyncio.sleep(0.5)
        assert await asyncio.to_thread(lambda: admin.describe_group("g")["members"]) == []
        assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("zenit-moves")] == []

    asyncio.run(main())
