"""Who comes first goes first, though each may have to ask the cluster something before it can go.

Requests that one client sends without waiting for answers stay in order so: the first of a topic waits for its route, and those
behind it, which find the route known, wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

from ...model.clock import monotonic_ms
from ...model.errors import RequestTimeout


class SendTurn:
    """One's place behind those who came before it."""

    __slots__ = ("_first", "_is_over", "_key", "_turns")

    def __init__(self, turns: SendTurns, key: Hashable) -> None:
        self._turns = turns
        self._key = key
        self._first: asyncio.Future[None] | None = None
        self._is_over = False

    async def reached(self, *, deadline_ms: int) -> None:
        """Until all who came before have left. Raises RequestTimeout."""
        if self._turns.is_first(self._key, self):
            return
        self._first = asyncio.get_running_loop().create_future()
        left_ms = max(0, deadline_ms - monotonic_ms())
        try:
            async with asyncio.timeout(left_ms / 1000):
                await self._first
        except TimeoutError:
            raise RequestTimeout("the requests before this one", left_ms) from None

    def leave(self) -> None:
        """It has gone, or gives up. A second time does nothing."""
        if not self._is_over:
            self._is_over = True
            self._turns.move_up(self._key)

    @property
    def is_over(self) -> bool:
        """It has left."""
        return self._is_over

    def tell_first(self) -> None:
        """All before it have left."""
        if self._first is not None and not self._first.done():
            self._first.set_result(None)


class SendTurns:
    """By key; on the event loop. Of a key without anybody nothing is kept."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[SendTurn]] = {}

    def __len__(self) -> int:
        """The keys of which somebody waits."""
        return len(self._queues)

    def turn(self, key: Hashable, *, may_go: bool) -> SendTurn | None:
        """A place behind the others, which is to be left. None for who may go at once, where nobody is before it."""
        return None if may_go and key not in self._queues else self.take(key)

    def take(self, key: Hashable) -> SendTurn:
        """A place behind the others, which is to be left."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
        turn = SendTurn(self, key)
        queue.append(turn)
        return turn

    def is_first(self, key: Hashable, turn: SendTurn) -> bool:
        """Whether nobody is before it."""
        return self._queues[key][0] is turn

    def move_up(self, key: Hashable) -> None:
        """One has left: the first one that has not is told."""
        queue = self._queues[key]
        while queue and queue[0].is_over:
            queue.popleft()
        if queue:
            queue[0].tell_first()
        else:
            del self._queues[key]
