"""The asyncio producer over real sockets: every road, back-pressure, cancellation, loops that come and go."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator

import pytest

from zenitmq import (
    BufferFull,
    ClientClosed,
    InvalidParameter,
    Message,
    MessageIllegal,
    MessageTooLarge,
    NotMaster,
    Producer,
    RequestTimeout,
    SendFailed,
    TopicNotFound,
    aio,
)
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import StoreNotWriteable, WrongEventLoop
from zenitmq.remoting.commands import SendMessages

TOPIC = "trades"


@pytest.fixture
def broker(new_broker: Callable) -> Iterator:
    return new_broker("a", trades=4)


def bodies(broker) -> list[bytes]:
    return sorted(message.body for message in broker.messages(TOPIC))


def silence_sends(broker, count: int) -> None:
    """The broker does not answer the next `count` sends."""
    left = [count]

    def rule(request):
        if isinstance(request, SendMessages) and left[0] > 0:
            left[0] -= 1
            return "silent"
        return None

    broker.rule = rule


def test_every_road_stores_and_tells(namesrv: str, broker) -> None:
    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer:
            one = await producer.send(Message(TOPIC, b"send", tags="buy", keys=["k"]))
            assert await producer.send_batch([]) == ()
            batch = await producer.send_batch([Message(TOPIC, b"batch-%d" % index) for index in range(3)])
            column = await producer.send_bodies(TOPIC, [b"bodies-0", b"bodies-1"], tags="t")
            await producer.send_oneway(Message(TOPIC, b"oneway"))
            future = producer.send_async(Message(TOPIC, b"async"))
            producer.post(TOPIC, b"post", "t", "k")
            await producer.flush()
            assert future.done()
            stored = {message.message_id: message for message in broker.messages(TOPIC)}
            for receipt in (one, *batch, future.result()):
                assert stored[receipt.message_id].offset_message_id == receipt.offset_message_id
            assert len(batch) == 3
            assert column.count == 2
        assert stored[one.message_id].keys == ("k",)

    asyncio.run(story())
    assert len(bodies(broker)) == 9


def test_many_sends_under_way_do_not_mix_their_batches(namesrv: str, broker) -> None:
    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer:
            sends = [producer.send(Message(TOPIC, b"%04d" % index)) for index in range(500)]
            receipts = await asyncio.gather(*sends)
        stored = {message.message_id: message.body for message in broker.messages(TOPIC)}
        assert [stored[receipt.message_id] for receipt in receipts] == [b"%04d" % index for index in range(500)]

    asyncio.run(story())


def test_futures_work_with_all_of_asyncio(namesrv: str, broker) -> None:
    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer:
            futures = [producer.send_async(Message(TOPIC, b"%05d" % index)) for index in range(20_000)]
            receipts = await asyncio.gather(*futures)
            assert len({receipt.message_id for receipt in receipts}) == 20_000
            again = producer.send_async(Message(TOPIC, b"20000"))
            done, _ = await asyncio.wait([again], timeout=5)
            assert done == {again}
            assert (await asyncio.wait_for(producer.send_async(Message(TOPIC, b"20001")), 5)).queue.topic == TOPIC
            called: list[bool] = []
            producer.send_async(Message(TOPIC, b"20002")).add_done_callback(lambda f: called.append(f.done()))
            await producer.flush(5)
            await asyncio.sleep(0)
            assert called == [True]
        assert bodies(broker) == [b"%05d" % index for index in range(20_003)]

    asyncio.run(story())
    assert len(broker.batches) < 1000


def test_posts_arrive_once_each_and_failures_are_told_on_the_loop(namesrv: str, broker) -> None:
    told: list[tuple[int, int]] = []

    async def story() -> None:
        here = threading.get_ident()

        def on_error(failed: list) -> None:
            told.append((len(failed), threading.get_ident()))

        async with aio.Producer("p", namesrv=namesrv, on_error=on_error, batch_timeout=5) as producer:
            for index in range(20_000):
                producer.post(TOPIC, b"%05d" % index)
                if index % 1000 == 0:
                    await producer.drain()
            await producer.flush(10)
            broker.rule = lambda request: MessageIllegal("no") if isinstance(request, SendMessages) else None
            producer.post(TOPIC, b"refused")
            with pytest.raises(SendFailed):
                await producer.flush(10)
            broker.rule = lambda request: None
            await asyncio.sleep(0.1)
        assert told == [(1, here)]

    asyncio.run(story())
    assert bodies(broker) == [b"%05d" % index for index in range(20_000)]


def test_what_finds_no_room_waits_in_order(namesrv: str, broker) -> None:
    """The broker is silent at first: windows fill, then the backlog; in the end each message is stored, in order."""
    broker.topics = {TOPIC: 1}
    broker.register()
    silence_sends(broker, 3)

    async def story() -> None:
        settings = {"window_batches": 2, "batch_bytes": 4096, "timeout": 20.0}
        async with aio.Producer("p", namesrv=namesrv, **settings) as producer:
            futures = [producer.send_async(Message(TOPIC, b"%05d" % index), sharding_key="k") for index in range(2000)]
            for index in range(2000):
                producer.post(TOPIC, b"p%05d" % index)
                producer.post(TOPIC, b"s%05d" % index, sharding_key="k")
            await producer.drain()
            await asyncio.gather(*futures)
            await producer.flush()

    asyncio.run(story())
    stored = [message.body for message in broker.messages(TOPIC)]
    sharded = [body for body in stored if not body.startswith((b"p", b"s"))]
    posted = [body for body in stored if body.startswith(b"s")]
    assert list(dict.fromkeys(posted)) == [b"s%05d" % index for index in range(2000)]
    assert list(dict.fromkeys(sharded)) == [b"%05d" % index for index in range(2000)]
    assert {body for body in stored if body.startswith(b"p")} == {b"p%05d" % index for index in range(2000)}


def test_the_backlog_is_bounded_and_its_time_too(namesrv: str, broker) -> None:
    broker.rule = lambda request: "silent" if isinstance(request, SendMessages) else None

    async def story() -> None:
        settings = {"window_batches": 1, "batch_bytes": 4096, "timeout": 0.3, "batch_timeout": 2.0}
        async with aio.Producer("p", namesrv=namesrv, compression=None, **settings) as producer:
            futures: list[asyncio.Future] = []
            body = bytes(100_000)

            def fill() -> None:
                for _ in range(1000):
                    futures.append(producer.send_async(Message(TOPIC, body)))

            with pytest.raises(BufferFull):
                fill()
            assert 160 < len(futures) < 180
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert {type(result) for result in results[2:]} == {BufferFull}
            assert {type(result) for result in results[:1]} == {RequestTimeout}
            producer.post(TOPIC, body)
            producer.post(TOPIC, body)
            await producer.drain()
            with pytest.raises(SendFailed) as caught:
                await producer.flush(5)
            assert len(caught.value.failed) == 2

    asyncio.run(story())


def test_errors_are_typed_and_come_where_they_belong(namesrv: str, broker) -> None:
    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv, timeout=1.0) as producer:
            with pytest.raises(TopicNotFound):
                await producer.send(Message("nowhere", b"x"))
            with pytest.raises(TopicNotFound):
                await producer.send_async(Message("nowhere", b"x"))
            with pytest.raises(InvalidParameter):
                await producer.send_async(Message("RMQ_SYS_TRACE_TOPIC", b"x"))
            with pytest.raises(MessageTooLarge):
                await producer.send(Message(TOPIC, bytes(5 << 20)))
            with pytest.raises(MessageIllegal):
                producer.send_async(Message(TOPIC, b"x", properties={"KEYS": "k"}))
            with pytest.raises(InvalidParameter):
                await producer.flush(-1)
            producer.post("nowhere", b"x")
            with pytest.raises(MessageIllegal, match="encode"):
                producer.post(TOPIC, "text")  # type: ignore[arg-type]
            with pytest.raises(SendFailed, match="1"):
                await producer.flush()
            broker.rule = lambda request: StoreNotWriteable("full") if isinstance(request, SendMessages) else None
            with pytest.raises(StoreNotWriteable):
                await producer.send(Message(TOPIC, b"x"), timeout=0.2)
            broker.rule = lambda request: None
        with pytest.raises(ClientClosed):
            await producer.send(Message(TOPIC, b"x"))
        with pytest.raises(ClientClosed):
            producer.send_async(Message(TOPIC, b"x"))
        with pytest.raises(ClientClosed):
            producer.post(TOPIC, b"x")
        await producer.close()  # once more

    asyncio.run(story())


def test_a_send_goes_on_to_another_broker(namesrv: str, broker, new_broker: Callable) -> None:
    other = new_broker("b", trades=4)
    broker.rule = lambda request: NotMaster("a", 1) if isinstance(request, SendMessages) else None

    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer:
            for index in range(20):
                receipt = await producer.send(Message(TOPIC, b"%d" % index))
                assert receipt.queue.broker_name == "b"

    asyncio.run(story())
    assert len(bodies(other)) == 20


@pytest.mark.parametrize("seed", range(6))
def test_cancelled_sends_hurt_nobody_else(namesrv: str, broker, seed: int) -> None:
    """Sends cancelled at random moments: the others are stored once and answered; of the cancelled each at most once."""
    chance = random.Random(seed)

    async def story() -> tuple[set[bytes], set[bytes]]:
        kept: set[bytes] = set()
        cancelled: set[bytes] = set()

        async with aio.Producer("p", namesrv=namesrv, batch_bytes=4096, window_batches=1) as producer:

            async def one(index: int) -> None:
                body = b"%05d" % index
                message = Message(TOPIC, body)
                road = index % 3
                if road == 0:
                    waited = asyncio.ensure_future(producer.send(message))
                else:
                    waited = producer.send_async(message, sharding_key="k" if road == 1 else None)
                for _ in range(chance.randrange(8)):
                    await asyncio.sleep(0)
                if chance.random() < 0.3:
                    waited.cancel()
                try:
                    await waited
                    kept.add(body)
                except asyncio.CancelledError:
                    cancelled.add(body)

            await asyncio.gather(*(one(index) for index in range(1500)))
            await producer.flush(10)
        return kept, cancelled

    kept, cancelled = asyncio.run(story())
    stored = bodies(broker)
    assert len(stored) == len(set(stored)), f"seed {seed}"
    assert kept <= set(stored), f"seed {seed}"
    assert set(stored) - kept <= cancelled
    assert len(kept) + len(cancelled) == 1500
    assert cancelled


def test_a_cancelled_flush_or_drain_can_be_done_again(namesrv: str, broker) -> None:
    silence_sends(broker, 1)

    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv, batch_bytes=4096, window_batches=1, timeout=20) as producer:
            futures = [producer.send_async(Message(TOPIC, os.urandom(1000))) for _ in range(50)]
            for wait in (producer.flush, producer.drain):
                task = asyncio.create_task(wait())
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            with pytest.raises(RequestTimeout):
                await producer.flush(0.05)
            await producer.flush()
            assert all(future.done() and future.exception() is None for future in futures)

    asyncio.run(story())
    assert len(set(bodies(broker))) == 50


def test_closing_without_an_answer_leaves_nobody_waiting(namesrv: str, broker) -> None:
    broker.rule = lambda request: "silent" if isinstance(request, SendMessages) else None

    async def story() -> None:
        producer = aio.Producer("p", namesrv=namesrv, batch_bytes=4096, window_batches=1, timeout=20)
        futures = [producer.send_async(Message(TOPIC, os.urandom(1000))) for _ in range(50)]
        with pytest.raises(RequestTimeout):
            await producer.close(0.3)
        results = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 5)
        assert {type(result) for result in results} == {ClientClosed}

    asyncio.run(story())


def test_loops_one_after_the_other_and_side_by_side(namesrv: str, broker) -> None:
    async def story(name: str) -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer:
            await asyncio.gather(
                *(producer.send_async(Message(TOPIC, b"%s-%d" % (name.encode(), n))) for n in range(200))
            )
            await producer.send(Message(TOPIC, name.encode()))

    with Producer("sync", namesrv=namesrv) as sync:  # shares the connection, and outlives the loops
        for number in range(3):
            asyncio.run(story(f"after-{number}"))
        threads = [threading.Thread(target=lambda n=n: asyncio.run(story(f"beside-{n}"))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        sync.send(Message(TOPIC, b"sync"))
    assert len(bodies(broker)) == 7 * 201 + 1


def test_a_producer_is_of_one_loop(namesrv: str, broker) -> None:
    producer = aio.Producer("p", namesrv=namesrv)

    async def send() -> None:
        await producer.send(Message(TOPIC, b"x"))

    loop = asyncio.new_event_loop()
    loop.run_until_complete(send())
    with pytest.raises(WrongEventLoop):
        asyncio.run(send())
    with pytest.raises(RuntimeError, match="no running event loop"):
        producer.send_async(Message(TOPIC, b"x"))
    loop.run_until_complete(producer.close())
    loop.close()


def test_a_loop_that_is_closed_under_way_leaves_the_others_alone(namesrv: str, broker) -> None:
    silence_sends(broker, 4)
    loop = asyncio.new_event_loop()
    producer = aio.Producer("p", namesrv=namesrv, batch_bytes=4096, window_batches=1, timeout=20, batch_timeout=1)

    async def begin() -> list[asyncio.Future]:
        futures = [producer.send_async(Message(TOPIC, os.urandom(1000))) for _ in range(20)]
        asyncio.get_running_loop().create_task(producer.send(Message(TOPIC, b"x")))
        await asyncio.sleep(0.05)
        return futures

    async def end() -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with Producer("sync", namesrv=namesrv) as sync:
        futures = loop.run_until_complete(begin())
        loop.run_until_complete(end())  # as asyncio.run does
        for future in futures:
            if future.done():
                assert isinstance(future.exception(), ClientClosed)
        loop.close()
        threading.Event().wait(1.2)  # replies and time-outs come to a loop that is gone
        unsent = producer._end.end(monotonic_ms() + 500)  # as at the end of the program
        assert unsent is not None
        assert sync.send(Message(TOPIC, b"sync")).queue.topic == TOPIC

        async def story() -> None:
            async with aio.Producer("p", namesrv=namesrv) as other:
                await other.send(Message(TOPIC, b"other"))

        asyncio.run(story())


def test_a_forked_child_makes_its_own(namesrv: str, broker) -> None:
    async def child_story(producer: aio.Producer) -> int:
        for use in (lambda: producer.post(TOPIC, b"x"), lambda: producer.send_async(Message(TOPIC, b"x"))):
            try:
                use()
            except (ClientClosed, WrongEventLoop):
                continue
            return 1
        try:
            await producer.send(Message(TOPIC, b"x"))
        except ClientClosed:
            async with aio.Producer("p", namesrv=namesrv) as own:
                await own.send(Message(TOPIC, b"child"))
                return 0
        return 2

    async def parent_story() -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer:
            await producer.send(Message(TOPIC, b"parent"))
            child = await asyncio.to_thread(_fork, lambda: child_story(producer))
            assert child == 0
            await producer.send(Message(TOPIC, b"parent again"))

    asyncio.run(parent_story())
    assert set(bodies(broker)) == {b"parent", b"child", b"parent again"}


def _fork(story: Callable) -> int:
    """Forks in a thread without a loop; the child runs the story on a loop of its own. Returns what it returns."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = asyncio.run(story())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_many_futures_take_few_wake_ups_of_the_loop(namesrv: str, broker) -> None:
    class CountingLoop(asyncio.SelectorEventLoop):
        wakes = 0

        def call_soon_threadsafe(self, *args, **kwargs):
            self.wakes += 1
            return super().call_soon_threadsafe(*args, **kwargs)

    async def story() -> None:
        async with aio.Producer("p", namesrv=namesrv) as producer:
            await asyncio.gather(*(producer.send_async(Message(TOPIC, b"%d" % index)) for index in range(30_000)))

    loop = CountingLoop()
    loop.run_until_complete(story())
    loop.close()
    assert len(bodies(broker)) == 30_000
    assert loop.wakes < 2_000
