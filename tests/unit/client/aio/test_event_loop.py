"""What brings calls of other threads to an event loop, and what waits there."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from zenitmq.client.aio.event_loop import LoopCalls, OnLoop
from zenitmq.model.errors import BufferFull, RequestTimeout, WrongEventLoop
from zenitmq.remoting.commands import CountReply, GetTopicList, Reply


class Remoting:
    """Takes requests; the test answers them."""

    def __init__(self) -> None:
        self.replies: list[Callable[..., None]] = []
        self.is_full = False

    def loop_channels(self, loop, address) -> None:
        """All go through the shared connection."""

    def send_nowait(self, address, request, payload, *, timeout_ms, on_reply) -> None:
        if self.is_full:
            raise BufferFull(1)
        self.replies.append(on_reply)


class CountingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.wakes = 0

    def call_soon_threadsafe(self, *args, **kwargs):
        self.wakes += 1
        return super().call_soon_threadsafe(*args, **kwargs)


def test_many_calls_take_one_wake_up() -> None:
    loop = CountingLoop()
    calls = LoopCalls(loop)
    ran: list[int] = []
    for number in range(1000):
        calls.post(lambda number=number: ran.append(number))
    assert calls.is_due
    assert loop.wakes == 1
    loop.run_until_complete(asyncio.sleep(0))
    assert ran == list(range(1000))
    assert not calls.is_due
    calls.post(lambda: ran.append(-1))
    assert loop.wakes == 2
    loop.close()


def test_nothing_is_missed_between_threads() -> None:
    async def count() -> int:
        calls = LoopCalls(asyncio.get_running_loop())
        come, done = 0, asyncio.Event()

        def one() -> None:
            nonlocal come
            come += 1
            if come == 8000:
                done.set()

        threads = [threading.Thread(target=lambda: [calls.post(one) for _ in range(2000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(done.wait(), 20)
        for thread in threads:
            thread.join()
        return come

    assert asyncio.run(count()) == 8000


def test_a_call_that_fails_does_not_keep_the_others(caplog) -> None:
    loop = asyncio.new_event_loop()
    calls = LoopCalls(loop)
    ran: list[str] = []
    calls.post(lambda: 1 / 0)
    calls.post(lambda: ran.append("second"))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert ran == ["second"]
    assert "ZeroDivisionError" in caplog.text


def test_a_closed_loop_forgets() -> None:
    loop = asyncio.new_event_loop()
    calls = LoopCalls(loop)
    calls.post(lambda: None)
    loop.close()
    ran: list[int] = []
    calls.post(lambda: ran.append(1))
    assert ran == []


def test_an_object_is_of_one_loop() -> None:
    on_loop = OnLoop(Remoting(), "producer")

    async def use() -> None:
        on_loop.calls()

    on_loop.post(lambda: None)  # no loop yet
    asyncio.run(use())
    with pytest.raises(WrongEventLoop, match="producer"):
        asyncio.run(use())


def test_calls_are_answered_from_any_thread() -> None:
    remoting = Remoting()
    on_loop = OnLoop(remoting, "admin")

    async def ask() -> tuple[Reply, bytes]:
        answer = asyncio.create_task(on_loop.call("a:1", GetTopicList(), timeout_ms=1000))
        while not remoting.replies:
            await asyncio.sleep(0)
        threading.Thread(target=remoting.replies.pop(), args=(CountReply(7), b"x", None)).start()
        return await answer

    assert asyncio.run(ask()) == (CountReply(7), b"x")


def test_what_a_call_was_answered_with_is_raised() -> None:
    remoting = Remoting()
    on_loop = OnLoop(remoting, "admin")

    async def ask() -> None:
        answer = asyncio.create_task(on_loop.call("a:1", GetTopicList(), timeout_ms=1000))
        await asyncio.sleep(0)
        remoting.replies.pop()(None, b"", RequestTimeout("x", 1000))
        with pytest.raises(RequestTimeout):
            await answer
        remoting.is_full = True
        with pytest.raises(BufferFull):
            await on_loop.call("a:1", GetTopicList(), timeout_ms=1000)

    asyncio.run(ask())


def test_a_cancelled_call_throws_its_answer_away() -> None:
    remoting = Remoting()
    on_loop = OnLoop(remoting, "admin")

    async def ask() -> None:
        answer = asyncio.create_task(on_loop.call("a:1", GetTopicList(), timeout_ms=1000))
        await asyncio.sleep(0)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        remoting.replies.pop()(CountReply(1), b"", None)
        await asyncio.sleep(0)

    asyncio.run(ask())


def test_a_loop_closed_under_way_does_no_harm() -> None:
    remoting = Remoting()
    on_loop = OnLoop(remoting, "admin")
    loop = asyncio.new_event_loop()
    answer = loop.create_task(on_loop.call("a:1", GetTopicList(), timeout_ms=1000))
    loop.run_until_complete(asyncio.sleep(0))
    answer.cancel()
    loop.run_until_complete(asyncio.gather(answer, return_exceptions=True))
    loop.close()
    remoting.replies.pop()(CountReply(1), b"", None)


def test_signals_come_or_do_not() -> None:
    on_loop = OnLoop(Remoting(), "consumer")

    async def wait() -> None:
        signal = on_loop.new_signal()
        assert await signal.wait(1) is False
        signal.set()  # too late, and no harm
        signal = on_loop.new_signal()
        threading.Thread(target=signal.set).start()
        assert await signal.wait(10_000) is True
        signal = on_loop.new_signal()
        threading.Thread(target=signal.set).start()
        assert await signal.wait(None) is True
        signal = on_loop.new_signal()
        waiting = asyncio.create_task(signal.wait(10_000))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        signal.set()
        await asyncio.sleep(0)

    asyncio.run(wait())


def test_what_runs_apart_does_not_hold_the_loop() -> None:
    on_loop = OnLoop(Remoting(), "consumer")
    release = threading.Event()

    async def run() -> None:
        apart = asyncio.create_task(on_loop.run_apart(lambda: release.wait(10) and None))
        await on_loop.sleep(1)
        release.set()
        await apart

    asyncio.run(run())


def test_work_is_started_from_any_thread_and_ends_with_the_loop() -> None:
    on_loop = OnLoop(Remoting(), "consumer")
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(0 if name == "short" else 60)
            ended.append(name)
        except asyncio.CancelledError as error:
            ended.append(f"cancelled, {on_loop.is_end(error)}")
            raise

    async def run() -> None:
        on_loop.start(lambda: work("short"), "short")
        thread = threading.Thread(target=lambda: on_loop.start(lambda: work("long"), "long"))
        thread.start()
        thread.join()
        while "short" not in ended or "long" not in {task.get_name() for task in asyncio.all_tasks()}:
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert ended == ["short", "cancelled, True"]


def test_a_cancellation_of_something_else_is_no_end() -> None:
    on_loop = OnLoop(Remoting(), "consumer")

    async def run() -> None:
        inner = asyncio.create_task(asyncio.sleep(10))
        inner.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await inner
        assert not on_loop.is_end(caught.value)
        assert not on_loop.is_end(ValueError())
        assert on_loop.is_end(GeneratorExit())
        async with on_loop.new_lock():
            pass

    asyncio.run(run())
