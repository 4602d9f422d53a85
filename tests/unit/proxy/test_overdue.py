"""Waits that last too long: each ends by itself, and one that was over in time leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from zenitmq.model.clock import monotonic_ms
from zenitmq.proxy.back.overdue import Overdue


def test_a_wait_ends_at_its_deadline_and_others_go_on() -> None:
    async def run() -> None:
        loop, overdue = asyncio.get_running_loop(), Overdue()
        late: asyncio.Future[int] = loop.create_future()
        answered: asyncio.Future[int] = loop.create_future()
        waiting = asyncio.create_task(overdue.wait(answered, monotonic_ms() + 60_000))
        begun_ms = monotonic_ms()
        with pytest.raises(TimeoutError):
            await overdue.wait(late, begun_ms + 5)
        assert 5 <= monotonic_ms() - begun_ms < 5_000
        answered.set_result(7)
        assert await waiting == 7
        assert await overdue.wait(answered, 0) == 7  # it is answered already

    asyncio.run(run())


def test_who_waits_no_more_is_not_kept() -> None:
    async def run() -> None:
        overdue = Overdue()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(overdue.wait(future, monotonic_ms() + 20))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert future.cancelled()
        while overdue.steps:
            await asyncio.sleep(0.01)

    asyncio.run(run())
