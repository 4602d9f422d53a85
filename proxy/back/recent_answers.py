"""What is asked of the cluster and kept for some seconds; several who want the same wait for one question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from ...model.clock import monotonic_ms
from ...model.errors import RequestTimeout, ZenitError

PATIENCE_MS: Final = 250
"""So long a question may take before who has an old answer goes by that."""
AGAIN_MS: Final = 1_000
"""So long after a question failed, who has an old answer goes by that at once."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _Known(Generic[_Value]):
    """`is_old`: it may have changed. `failed_ms`: when it was last asked about in vain."""

    value: _Value
    at_ms: int
    is_old: bool = False
    failed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Question(Generic[_Value]):
    """`deadline_ms`: of who asked first."""

    task: asyncio.Task[_Value]
    begun_ms: int
    deadline_ms: int


class KeptAnswers(Generic[_Key, _Value]):
    """On the event loop. What could not be found out is asked again by the next who wants it."""

    def __init__(self, *, known_ms: int, size_max: int, stale_ms: int = 0) -> None:
        """`size_max`: keys; above that the oldest is dropped. `stale_ms`: for so long an answer stands for the next one while
        that is not to be had."""
        self._known_ms = known_ms
        self._size_max = size_max
        self._stale_ms = stale_ms
        self._known: dict[_Key, _Known[_Value]] = {}
        self._asking: dict[_Key, _Question[_Value]] = {}

    def __len__(self) -> int:
        """The answers that are kept."""
        return len(self._known)

    def known(self, key: _Key, *, age_ms_max: int | None = None) -> _Value | None:
        """The value, if it was found out a short while ago: `known_ms`, or less where it says so."""
        known = self._known.get(key)
        age_ms_max = self._known_ms if age_ms_max is None else age_ms_max
        is_known = known is not None and not known.is_old and monotonic_ms() < known.at_ms + age_ms_max
        return known.value if known is not None and is_known else None

    async def answer(
        self,
        key: _Key,
        find: Callable[[int], Awaitable[_Value]],
        *,
        deadline_ms: int,
        age_ms_max: int | None = None,
    ) -> _Value:
        """The value, at most so old, or the last one where no server tells it now. `find(deadline_ms)` asks. Raises what that
        does; RequestTimeout where its own time is over before that of who asked first."""
        known = self.known(key, age_ms_max=age_ms_max)
        if known is not None:
            return known
        old = self._known.get(key)
        if old is not None and monotonic_ms() >= old.at_ms + self._stale_ms:
            old = None
        if old is not None and old.failed_ms is not None and monotonic_ms() < old.failed_ms + AGAIN_MS:
            return old.value
        while True:
            asked = self._question(key, find, deadline_ms)
            until_ms = deadline_ms if old is None else min(deadline_ms, asked.begun_ms + PATIENCE_MS)
            try:
                async with asyncio.timeout(max(0, until_ms - monotonic_ms()) / 1000):
                    return await asyncio.shield(asked.task)
            except TimeoutError:
                if old is not None:
                    return old.value
                raise RequestTimeout("what others asked too", max(0, deadline_ms - asked.begun_ms)) from None
            except ZenitError as error:
                if old is not None:
                    return old.value
                if not error.retriable or asked.deadline_ms >= deadline_ms:
                    raise

    def forget(self, key: _Key) -> None:
        """It may have changed."""
        known = self._known.get(key)
        if known is not None:
            known.is_old = True

    def drop_old(self) -> None:
        """Drops the answers that are of no use any more."""
        oldest_ms = monotonic_ms() - max(self._known_ms, self._stale_ms)
        while self._known:
            key, known = next(iter(self._known.items()))  # in the order in which they were told
            if known.at_ms >= oldest_ms:
                return
            del self._known[key]

    def _question(self, key: _Key, find: Callable[[int], Awaitable[_Value]], deadline_ms: int) -> _Question[_Value]:
        asked = self._asking.get(key)
        if asked is None:
            task = asyncio.get_running_loop().create_task(self._ask(key, find, deadline_ms))
            task.add_done_callback(_retrieve)
            asked = self._asking[key] = _Question(task, monotonic_ms(), deadline_ms)
        return asked

    async def _ask(self, key: _Key, find: Callable[[int], Awaitable[_Value]], deadline_ms: int) -> _Value:
        try:
            value = await find(deadline_ms)
        except ZenitError:
            known = self._known.get(key)
            if known is not None:
                known.failed_ms = monotonic_ms()
            raise
        finally:
            del self._asking[key]
        self._known.pop(key, None)
        self.drop_old()
        while len(self._known) >= self._size_max:
            del self._known[next(iter(self._known))]
        self._known[key] = _Known(value, monotonic_ms())
        return value


class RecentAnswers(KeptAnswers[_Key, _Value]):
    """The same where each key is asked about in one way."""

    def __init__(
        self, find: Callable[[_Key, int], Awaitable[_Value]], *, known_ms: int, size_max: int, stale_ms: int = 0
    ) -> None:
        """`find(key, deadline_ms)` asks."""
        super().__init__(known_ms=known_ms, size_max=size_max, stale_ms=stale_ms)
        self._find = find

    async def get(self, key: _Key, *, deadline_ms: int, age_ms_max: int | None = None) -> _Value:
        """See `answer`."""
        return await self.answer(key, partial(self._find, key), deadline_ms=deadline_ms, age_ms_max=age_ms_max)


def _retrieve(task: asyncio.Task[_Value]) -> None:
    """Nobody may wait any more: a failure is then of no interest."""
    if not task.cancelled():
        task.exception()
