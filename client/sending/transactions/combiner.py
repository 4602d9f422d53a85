"""Combines concurrent calls into one request: one caller sends for all that came while the last request was in progress.

A single caller sends at once. Where the last request was of several callers, they were answered together and ask again
together: the last of them sends for all; where fewer come, the first waits a millisecond for the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from ....model.errors import OutcomeUnknown, RequestTimeout, ZenitError
from ...connection.waiting import Signal, Waits

ITEMS_MAX: Final = 64
BYTES_MAX: Final = 1 << 20
GATHER_MS: Final = 1

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Send = Callable[[list[_Item]], Awaitable[list[_Result | ZenitError]]]
"""Sends items together; returns a result or error for each, in order. An exception is the error of all."""


class _Entry(Generic[_Item, _Result]):
    """One caller's item. `batch`: the items that this caller is to send, its own first. `has_begun`: it sends them."""

    __slots__ = ("batch", "error", "has_begun", "item", "result", "signal", "size_bytes")

    def __init__(self, item: _Item, size_bytes: int, signal: Signal) -> None:
        self.item = item
        self.size_bytes = size_bytes
        self.signal = signal
        self.batch: list[_Entry[_Item, _Result]] | None = None
        self.has_begun = False
        self.result: _Result | None = None
        self.error: ZenitError | None = None

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is known."""
        return self.result is not None or self.error is not None


class Combiner(Generic[_Item, _Result]):
    """The requests to one destination. Any thread may call, or the one event loop, as `Waits` says.

    A signal's handler may raise at any call. So what changes together is made first and then assigned in one statement without
    calls, and what others depend on is done once more if it was interrupted.
    """

    def __init__(self, waits: Waits, send: Send[_Item, _Result], *, under_way_max: int, what: str) -> None:
        """`under_way_max`: requests at a time. `what`: their name in errors."""
        self._waits = waits
        self._send = send
        self._under_way_max = under_way_max
        self._what = what
        self._lock = threading.Lock()
        self._waiting: deque[_Entry[_Item, _Result]] = deque()
        self._under_way: tuple[_Entry[_Item, _Result], ...] = ()  # those who send
        self._together = 1  # callers that are expected to ask together

    async def ask(self, item: _Item, *, size_bytes: int, total_ms: int) -> _Result:
        """What `send` returned for this item.

        `total_ms`: time of one request; an item may also wait for the end of another one.
        """
        entry: _Entry[_Item, _Result] = _Entry(item, size_bytes, self._waits.new_signal())
        try:
            with self._lock:
                is_first = self._enter(entry)
            if is_first and not await entry.signal.wait(GATHER_MS):
                self._on_gathered(entry)
            if entry.batch is None and not entry.is_settled and not await entry.signal.wait(2 * total_ms):
                raise RequestTimeout(self._what, 2 * total_ms)
            if entry.batch is not None:
                await self._waits.to_its_end(self._lead(entry))  # it is for others too
        except BaseException:
            try:
                self._give_up(entry)
            except BaseException:
                self._give_up(entry)
                raise
            raise
        if entry.error is not None:
            raise entry.error
        assert entry.result is not None
        return entry.result

    def _enter(self, entry: _Entry[_Item, _Result]) -> bool:
        """Adds an entry, and lets its caller send if it is the last of those who come together. True if it is the first of
        them. Under the lock."""
        waiting = self._waiting
        waiting.append(entry)
        if len(self._under_way) >= self._under_way_max:
            return False
        if len(waiting) >= self._together:
            self._promote(entry)
            return False
        return len(waiting) == 1

    def _on_gathered(self, entry: _Entry[_Item, _Result]) -> None:
        """The first one has waited long enough: it sends for those who came, unless somebody does."""
        with self._lock:
            if entry in self._waiting and len(self._under_way) < self._under_way_max:
                self._promote(entry)
            elif not entry.is_settled:
                entry.signal = self._waits.new_signal()  # one is waited for once

    def _promote(self, leader: _Entry[_Item, _Result]) -> None:
        """Makes one that waits send for itself and the others, as far as there is room. Under the lock."""
        batch, waiting = [leader], deque[_Entry[_Item, _Result]]()
        room = BYTES_MAX - leader.size_bytes
        for entry in self._waiting:
            if entry is leader:
                continue
            if not waiting and len(batch) < ITEMS_MAX and entry.size_bytes <= room:
                batch.append(entry)
                room -= entry.size_bytes
            else:
                waiting.append(entry)
        leader.batch, self._waiting, self._under_way = batch, waiting, (*self._under_way, leader)

    def _promote_first(self) -> None:
        """Wakes the first that waits to send for those behind it, if another request may be sent now. Under the lock."""
        if self._waiting and len(self._under_way) < self._under_way_max:
            self._promote(self._waiting[0])
        for leader in self._under_way:
            leader.signal.set()

    async def _lead(self, leader: _Entry[_Item, _Result]) -> None:
        batch = leader.batch
        if batch is None:
            return  # its caller was cancelled before this began
        items = [entry.item for entry in batch]
        try:
            leader.has_begun = True
            results = await self._send(items)
            for entry, result in zip(batch, results, strict=True):
                if isinstance(result, ZenitError):
                    entry.error = result
                else:
                    entry.result = result
        except ZenitError as error:
            for entry in batch:
                entry.error = error
        finally:
            try:
                self._end(leader, batch)
            except BaseException:
                self._end(leader, batch)
                raise

    def _end(self, leader: _Entry[_Item, _Result], batch: list[_Entry[_Item, _Result]]) -> None:
        with self._lock:
            if leader in self._under_way:
                for entry in batch:
                    if not entry.is_settled:  # the caller that sent for it was interrupted
                        entry.error = OutcomeUnknown(self._what, "whoever sent it was interrupted")
                together = min(max(len(batch) + len(self._waiting), self._together - 1), ITEMS_MAX)
                under_way = tuple(one for one in self._under_way if one is not leader)
                self._together, self._under_way = together, under_way
            self._promote_first()
        for entry in batch:
            if entry is not leader:
                entry.signal.set()

    def _give_up(self, entry: _Entry[_Item, _Result]) -> None:
        """The caller of an entry stopped waiting."""
        if entry.has_begun:
            return  # the others are answered when it ends
        with self._lock:
            others = (*(entry.batch or ()), *self._waiting)  # those it was to send for: another caller does it
            waiting = deque(other for other in others if other is not entry)
            under_way = tuple(one for one in self._under_way if one is not entry)
            entry.batch, self._waiting, self._under_way = None, waiting, under_way
            self._promote_first()
