"""What is asked of the cluster and kept for some seconds; several who want the same wait for one question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ...model.clock import monotonic_ms

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class RecentAnswers(Generic[_Key, _Value]):
    """On the event loop. What could not be found out is asked again by the next who wants it."""

    def __init__(self, find: Callable[[_Key, int], Awaitable[_Value]], *, known_ms: int, size_max: int) -> None:
        """`find(key, deadline_ms)` asks. `size_max`: keys; above that the oldest is dropped."""
        self._find = find
        self._known_ms = known_ms
        self._size_max = size_max
        self._known: dict[_Key, tuple[_Value, int]] = {}
        self._asking: dict[_Key, asyncio.Task[_Value]] = {}

    def known(self, key: _Key, *, age_ms_max: int | None = None) -> _Value | None:
        """The value, if it was found out a short while ago: `known_ms`, or less where it says so."""
        known = self._known.get(key)
        age_ms_max = self._known_ms if age_ms_max is None else age_ms_max
        return known[0] if known is not None and monotonic_ms() < known[1] + age_ms_max else None

    async def get(self, key: _Key, *, deadline_ms: int, age_ms_max: int | None = None) -> _Value:
        """The value, at most so old. Raises what `find` does."""
        known = self.known(key, age_ms_max=age_ms_max)
        if known is not None:
            return known
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.get_running_loop().create_task(self._ask(key, deadline_ms))
            task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    def forget(self, key: _Key) -> None:
        """It may have changed."""
        self._known.pop(key, None)

    async def _ask(self, key: _Key, deadline_ms: int) -> _Value:
        try:
            value = await self._find(key, deadline_ms)
        finally:
            del self._asking[key]
        self._known.pop(key, None)
        while len(self._known) >= self._size_max:
            del self._known[next(iter(self._known))]
        self._known[key] = value, monotonic_ms()
        return value


def _retrieve(task: asyncio.Task[_Value]) -> None:
    """Nobody may wait any more: a failure is then of no interest."""
    if not task.cancelled():
        task.exception()
