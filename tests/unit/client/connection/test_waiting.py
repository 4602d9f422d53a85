"""Coroutines that are run as plain calls, and signals."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from zenitmq.client.connection.waiting import Blocking, Signals, blocking, run_blocking
from zenitmq.remoting.client import RemotingClient


@pytest.fixture
def waits() -> Iterator[Blocking]:
    with RemotingClient() as remoting:
        yield Blocking(remoting)


def test_a_coroutine_that_never_suspends_is_a_plain_call(waits: Blocking) -> None:
    async def add(first: int, second: int) -> int:
        await waits.sleep(1)
        return first + second

    assert run_blocking(add(1, 2)) == 3


def test_what_it_raises_comes_out(waits: Blocking) -> None:
    async def fail() -> None:
        await waits.sleep(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_blocking(fail())


def test_a_coroutine_that_suspends_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        run_blocking(asyncio.sleep(0))


def test_a_method_keeps_name_and_signature() -> None:
    class Core:
        async def _double(self, number: int, *, plus: int = 0) -> int:
            """Twice."""
            return 2 * number + plus

    class Face(Core):
        double = blocking(Core._double)

    assert Face().double(3, plus=1) == 7
    assert Face.double.__name__ == "double"
    assert Face.double.__doc__ == "Twice."


def test_a_signal_is_waited_for_at_most_so_long(waits: Blocking) -> None:
    signal = waits.new_signal()
    assert run_blocking(signal.wait(1)) is False
    thread = threading.Thread(target=signal.set)
    thread.start()
    assert run_blocking(signal.wait(None)) is True
    assert run_blocking(signal.wait(1)) is True
    thread.join()


def test_a_change_sets_those_who_wait_and_nobody_else(waits: Blocking) -> None:
    signals = Signals()
    first, second, third = (signals.add(waits.new_signal()) for _ in range(3))
    signals.discard(second)
    signals.discard(second)
    signals.set_all()
    fourth = signals.add(waits.new_signal())
    assert [run_blocking(signal.wait(0)) for signal in (first, second, third, fourth)] == [True, False, True, False]


def test_a_lock_is_held_by_one(waits: Blocking) -> None:
    lock = waits.new_lock()
    order: list[str] = []

    async def second() -> None:
        order.append("comes")
        async with lock:
            order.append("has it")

    async def first() -> None:
        async with lock:
            waits.start(second, "second")
            while not order:
                await waits.sleep(1)
            order.append("lets it go")

    run_blocking(first())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "second"] or [None]
    if thread is not None:
        thread.join(5)
    assert order == ["comes", "lets it go", "has it"]


def test_nothing_that_a_handler_raises_ends_a_thread(waits: Blocking) -> None:
    assert not any(map(waits.is_end, (SystemExit(), KeyboardInterrupt(), asyncio.CancelledError())))


def test_what_runs_apart_is_run_here(waits: Blocking) -> None:
    ran: list[int] = []
    run_blocking(waits.run_apart(lambda: ran.append(threading.get_ident())))
    assert ran == [threading.get_ident()]
