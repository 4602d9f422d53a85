"""The asyncio pull consumer over real sockets: what poll and iteration hand out, whatever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator

import pytest

from zenitmq import (
    FIRST,
    BrokerBusy,
    ClientClosed,
    InvalidParameter,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    TopicNotFound,
    aio,
)
from zenitmq.model.clock import datetime_of_ms
from zenitmq.model.errors import WrongEventLoop
from zenitmq.remoting.commands import (
    GetBeginOffsets,
    GetConsumerList,
    PullMessages,
    QueryConsumerOffset,
    UpdateConsumerOffsets,
)

TOPIC = "trades"


@pytest.fixture
def broker(new_broker: Callable) -> Iterator:
    return new_broker("a", trades=4)


@pytest.fixture
def producer(namesrv: str, broker) -> Iterator[Producer]:
    with Producer("p", namesrv=namesrv) as made:
        yield made


def post_all(producer: Producer, count: int) -> list[bytes]:
    expected = [b"%06d" % index for index in range(count)]
    for body in expected:
        producer.post(TOPIC, body)
    producer.flush(10)
    return expected


def new_consumer(namesrv: str, **settings) -> aio.PullConsumer:
    return aio.PullConsumer("g", namesrv=namesrv, start_from=FIRST, **settings)


def test_poll_and_iteration_hand_out_everything_once(namesrv: str, broker, producer: Producer) -> None:
    expected = post_all(producer, 5000)

    async def story() -> list[bytes]:
        seen: list[bytes] = []
        async with new_consumer(namesrv) as consumer:
            consumer.subscribe(TOPIC)
            while len(seen) < 2000:
                batch = await consumer.poll(300, timeout=5)
                assert 0 < len(batch) <= 300
                seen += [message.body for message in batch]
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 4000:
                    break
            async for message in consumer:  # goes on behind the one at hand
                seen.append(message.body)
                if len(seen) == 5000:
                    break
            assert not await consumer.poll(timeout=0.05)
            assert len(await consumer.assignment()) == 4
        return seen

    assert sorted(asyncio.run(story())) == expected
    assert sum(broker.committed.values()) == 5000
    assert broker.consumers["g"] == {}


def test_positions(namesrv: str, broker, producer: Producer) -> None:
    for _ in range(40):
        producer.send_bodies(TOPIC, [b"x"] * 10)
    queue = MessageQueue(TOPIC, "a", 1)

    async def story() -> None:
        async with new_consumer(namesrv, auto_commit=False) as consumer:
            consumer.assign([queue])
            end = broker.queues[TOPIC, 1].end
            assert await consumer.position(queue) == 0
            assert await consumer.committed(queue) is None
            await consumer.seek(queue, 5)
            assert (await consumer.poll(1, timeout=5))[0].queue_offset == 5
            await consumer.commit()
            assert await consumer.committed(queue) == 6 == broker.committed["g", TOPIC, 1]
            await consumer.seek_to_time(queue, datetime_of_ms(1 << 41))
            assert await consumer.position(queue) == end
            await consumer.seek(queue, 0)
            consumer.pause([queue])
            assert not await consumer.poll(timeout=0.05)
            consumer.resume([queue])
            assert len(await consumer.poll(3, timeout=5)) == 3
            with pytest.raises(InvalidParameter):
                await consumer.seek(MessageQueue(TOPIC, "a", 3), 0)
            with pytest.raises(InvalidParameter):
                await consumer.poll(0)

    asyncio.run(story())


def test_an_exception_leaves_the_message_at_hand_uncommitted(namesrv: str, broker, producer: Producer) -> None:
    producer.send_bodies(TOPIC, [b"%d" % index for index in range(10)])
    (key,) = [key for key, held in broker.queues.items() if held.records]

    async def handle() -> None:
        async with new_consumer(namesrv) as consumer:
            consumer.subscribe(TOPIC)
            async for message in consumer:
                if message.body == b"4":
                    raise RuntimeError("a handler's")

    with pytest.raises(RuntimeError):
        asyncio.run(handle())
    assert broker.committed["g", *key] == 4


def test_a_cancelled_task_leaves_the_message_at_hand_uncommitted(namesrv: str, broker, producer: Producer) -> None:
    producer.send_bodies(TOPIC, [b"%d" % index for index in range(10)])
    (key,) = [key for key, held in broker.queues.items() if held.records]

    async def story() -> None:
        reached = asyncio.Event()

        async def handle() -> None:
            async with new_consumer(namesrv) as consumer:
                consumer.subscribe(TOPIC)
                async for message in consumer:
                    if message.body == b"6":
                        reached.set()
                        await asyncio.Event().wait()

        task = asyncio.create_task(handle())
        await asyncio.wait_for(reached.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert broker.committed["g", *key] == 6
    assert broker.consumers["g"] == {}  # it left the group all the same


@pytest.mark.parametrize("seed", range(8))
def test_cancelled_polls_lose_nothing_and_give_nothing_twice(
    namesrv: str, broker, producer: Producer, seed: int
) -> None:
    """Polls and iterations cancelled at random steps of the loop, with a broker that is busy now and then."""
    chance = random.Random(seed)
    expected = post_all(producer, 3000)
    bad = [30]

    def rule(request):
        if isinstance(request, GetBeginOffsets | GetConsumerList | UpdateConsumerOffsets) and bad[0]:
            bad[0] -= 1
            return BrokerBusy(1) if chance.random() < 0.5 else None
        return None

    broker.rule = rule

    async def story() -> list[bytes]:
        seen: list[bytes] = []
        async with new_consumer(namesrv, auto_commit_interval=0.01) as consumer:
            consumer.subscribe(TOPIC)

            async def step() -> None:
                if chance.random() < 0.5:
                    batch = await consumer.poll(chance.randrange(1, 200), timeout=1)
                    seen.extend(message.body for message in batch)
                else:
                    left = chance.randrange(1, 50)
                    async for message in consumer:
                        seen.append(message.body)
                        left -= 1
                        if not left or len(seen) == 3000:
                            break
                        if chance.random() < 0.05:
                            await asyncio.sleep(0)  # where a cancellation may come while a message is at hand

            while len(seen) < 3000:
                task = asyncio.create_task(step())
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                if chance.random() < 0.5:
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError, BrokerBusy):
                    await task
                if chance.random() < 0.05:
                    consumer._rebalance.look_now()  # queues are looked at again, in the middle of it
            bad[0] = 0
            assert not await consumer.poll(timeout=0.02)
        return seen

    seen = asyncio.run(asyncio.wait_for(story(), 60))
    assert len(seen) == 3000, f"seed {seed}"
    assert sorted(seen) == expected, f"seed {seed}"
    assert sum(broker.committed.values()) == 3000


def test_a_poll_cancelled_while_queues_are_looked_for_looks_again(namesrv: str, broker, producer: Producer) -> None:
    expected = post_all(producer, 100)
    silent = [True]
    broker.rule = lambda request: "silent" if silent[0] and isinstance(request, QueryConsumerOffset) else None

    async def story() -> list[bytes]:
        async with new_consumer(namesrv) as consumer:
            consumer.assign([MessageQueue(TOPIC, "a", index) for index in range(4)])
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(consumer.poll(timeout=5), 0.05)
            silent[0] = False
            seen: list[bytes] = []
            while len(seen) < 100:
                seen += [message.body for message in await consumer.poll(timeout=5)]
            return seen

    assert sorted(asyncio.run(story())) == expected


@pytest.mark.parametrize("is_iterated", [False, True])
def test_a_poll_that_is_cancelled_leaves_its_pulls_to_the_next_one(
    namesrv: str, broker, producer: Producer, is_iterated: bool
) -> None:
    """A loop that looks at something else now and then, say: each message would be sent to each pull that was given up."""
    pulls: list[PullMessages] = []

    def count(request: object) -> None:
        if isinstance(request, PullMessages):
            pulls.append(request)

    async def story() -> bytes:
        async with new_consumer(namesrv) as consumer:
            consumer.subscribe(TOPIC)
            while len(pulls) < 4:  # a busy machine takes its time
                assert not await consumer.poll(timeout=0.2)
            for _ in range(10):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await (anext(aiter(consumer)) if is_iterated else consumer.poll(timeout=5))
            assert len(pulls) == 4, "one a queue"
            producer.send(Message(TOPIC, b"one"))
            return (await consumer.poll(timeout=5))[0].body

    broker.rule = count
    assert asyncio.run(story()) == b"one"


def test_close_ends_the_iteration_and_the_poll_of_another_task(namesrv: str, broker) -> None:
    async def story() -> None:
        consumer = new_consumer(namesrv)
        consumer.subscribe(TOPIC)

        async def iterate() -> int:
            return len([message async for message in consumer])

        task = asyncio.create_task(iterate())
        await asyncio.sleep(0.1)
        assert not task.done()
        await consumer.close()
        assert await asyncio.wait_for(task, 5) == 0
        await consumer.close()
        with pytest.raises(ClientClosed):
            await consumer.poll()
        with pytest.raises(ClientClosed):
            consumer.__aiter__()

    asyncio.run(story())


def test_a_message_that_comes_wakes_the_poll(namesrv: str, broker, producer: Producer) -> None:
    async def story() -> None:
        async with new_consumer(namesrv) as consumer, aio.Producer("p2", namesrv=namesrv) as sender:
            consumer.subscribe(TOPIC)
            await consumer.assignment()
            for number in range(20):
                waiting = asyncio.create_task(consumer.poll(timeout=10))
                await asyncio.sleep(0.01)
                await sender.send(Message(TOPIC, b"%d" % number))
                assert [message.body for message in await asyncio.wait_for(waiting, 3)] == [b"%d" % number]

    asyncio.run(story())


def test_members_on_loops_and_in_threads_share_the_queues(namesrv: str, broker) -> None:
    async def story() -> None:
        async with new_consumer(namesrv) as first:
            first.subscribe(TOPIC)
            assert len(await first.assignment()) == 4
            with PullConsumer("g", namesrv=namesrv) as second:
                second.subscribe(TOPIC)
                assert len(await asyncio.to_thread(second.assignment)) == 2
                for _ in range(100):
                    await first.poll(timeout=0.05)
                    if len(await first.assignment()) == 2:
                        break
                assert {*await first.assignment(), *second.assignment()} == {
                    MessageQueue(TOPIC, "a", index) for index in range(4)
                }

    asyncio.run(story())


def test_errors_are_raised_where_they_are_met(namesrv: str, broker) -> None:
    async def story() -> None:
        async with new_consumer(namesrv, timeout=0.5) as consumer:
            consumer.subscribe("nowhere")
            with pytest.raises(TopicNotFound):
                await consumer.poll()
            with pytest.raises(TopicNotFound):
                async for _ in consumer:
                    pass

    asyncio.run(story())


def test_a_consumer_is_of_one_loop(namesrv: str, broker) -> None:
    consumer = new_consumer(namesrv)
    consumer.subscribe(TOPIC)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(consumer.poll(timeout=0))
    with pytest.raises(WrongEventLoop):
        asyncio.run(consumer.poll())
    loop.run_until_complete(consumer.close())
    loop.close()


def test_no_thread_is_started_for_a_consumer_or_a_call(namesrv: str, broker, producer: Producer) -> None:
    """`producer` has started the I/O thread that all share; the loop's own threads are those of asyncio."""
    expected = post_all(producer, 500)

    async def story() -> tuple[set[int], list[bytes]]:
        counts: set[int] = set()
        seen: list[bytes] = []

        async def member(number: int) -> None:
            async with aio.PullConsumer(f"g-{number % 10}", namesrv=namesrv, start_from=FIRST) as consumer:
                consumer.assign([MessageQueue(TOPIC, "a", number % 4)])
                counts.add(threading.active_count())
                while batch := await consumer.poll(timeout=0.3):
                    if number < 4:
                        seen.extend(message.body for message in batch)
                counts.add(threading.active_count())
                await consumer.commit()
                counts.add(threading.active_count())

        await asyncio.gather(*(member(number) for number in range(40)))
        return counts, seen

    before = threading.active_count()
    counts, seen = asyncio.run(story())
    assert counts == {before}
    assert sorted(seen) == expected
