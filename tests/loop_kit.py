"""Something that serves on an event loop of its own, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

from zenitmq.proxy.event_loop import run_on_loop

T = TypeVar("T")


@contextmanager
def serving(name: str, opening: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Serves until it is left. `opening`: called in the thread, which has that name."""
    started: list[T] = []
    is_up = threading.Event()
    ends: list[Callable[[], object]] = []

    async def work() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        ends.append(lambda: loop.call_soon_threadsafe(end.set))
        async with opening() as opened:
            started.append(opened)
            is_up.set()
            await end.wait()

    def run() -> None:
        try:
            run_on_loop(work())
        finally:
            is_up.set()

    thread = threading.Thread(target=run, name=name)
    thread.start()
    is_up.wait(10)
    try:
        assert started, f"{name} did not start"
        yield started[0]
    finally:
        for end in ends:
            end()
        thread.join(10)
