"""What an asyncio producer took before there was room for it: messages that wait, in order, for a route or a window.

A producer on an event loop must not block where a synchronous one does, so what does not fit waits here. Messages of
one *line* (a topic, or a part of its sharding keys) keep their order: one task a line moves them on and ends when the
line is empty. A line that moves may be long: only its first message's time runs. The bytes that wait are bounded; past
that, `add` raises. One event loop's, not thread-safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from ..model.clock import monotonic_ms
from ..model.errors import BufferFull, ClientClosed

BACKLOG_BYTES: Final = 16 * 1024 * 1024
MESSAGE_BYTES: Final = 256  # what a message takes beside its body, about

Line = tuple[str, int]
"""(topic, which part of it)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One message, here since `begun_ms`. `move(wait_ms)` hands it on, and is given `wait_ms` for that once it is the first
    of its line; `fail(error)` tells what kept it from that.
    """

    size_bytes: int
    begun_ms: int
    wait_ms: int
    move: Callable[[int], Coroutine[Any, Any, None]]
    fail: Callable[[Exception], None]


class Backlog:
    """The lines of one producer."""

    def __init__(self) -> None:
        self._lines: dict[Line, deque[Waiting]] = {}
        self._tasks: dict[Line, asyncio.Task[None]] = {}
        self._size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def has(self, line: Line) -> bool:
        """Whether messages of this line wait: what comes later waits behind them."""
        return line in self._lines

    def add(self, line: Line, waiting: Waiting) -> None:
        """Puts a message in. Raises BufferFull."""
        if self._size_bytes + waiting.size_bytes > BACKLOG_BYTES and self._lines:
            raise BufferFull(BACKLOG_BYTES)
        self._size_bytes += waiting.size_bytes
        if line in self._lines:
            self._lines[line].append(waiting)
        else:
            queue = self._lines[line] = deque((waiting,))
            task = self._tasks[line] = asyncio.get_running_loop().create_task(self._move_on(line, queue))
            task.add_done_callback(lambda _: self._end(line, queue))  # one that is cancelled may never have begun

    async def wait_empty(self, timeout_ms: int | None) -> bool:
        """Waits until all that waits now is handed on or has failed; False where `timeout_ms` came first."""
        tasks = list(self._tasks.values())
        if not tasks:
            return True
        _, left = await asyncio.wait(tasks, timeout=None if timeout_ms is None else timeout_ms / 1000)
        return not left

    def close(self) -> None:
        """Fails all that waits."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _move_on(self, line: Line, queue: deque[Waiting]) -> None:
        failure: Exception | None = None
        try:
            while queue:
                first = queue[0]
                if failure is None or monotonic_ms() - first.begun_ms < first.wait_ms:
                    failure = await _move(first)
                if failure is not None:  # one that waited as long as the one before needs no try of its own
                    first.fail(failure)
                self._size_bytes -= queue.popleft().size_bytes
        finally:
            self._end(line, queue)

    def _end(self, line: Line, queue: deque[Waiting]) -> None:
        """The line's task has ended: at once, lest a message is put behind the last that it moved."""
        if self._lines.get(line) is not queue:
            return
        del self._lines[line], self._tasks[line]
        for waiting in queue:  # the task was cancelled
            self._size_bytes -= waiting.size_bytes
            waiting.fail(ClientClosed("producer"))


async def _move(waiting: Waiting) -> Exception | None:
    try:
        await waiting.move(waiting.wait_ms)
    except Exception as error:  # noqa: BLE001  # told to the one who sent it, whatever it is
        return error
    return None
