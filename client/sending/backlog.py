"""The messages that an asyncio producer accepted before there was room: they wait, in order, for a route or a window.

A synchronous producer blocks when there is no room; one on an event loop must not, so the message waits here. Messages of
one *line* (a topic, or a part of its sharding keys) keep their order: one task per line passes them on, and ends when the
line is empty. Only the first message of a moving line uses up its time limit, so a line may be long. The waiting bytes are
bounded; beyond the bound `add` raises. Belongs to one event loop, not thread-safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import BufferFull, ClientClosed
from ..connection.waiting import run_blocking

BACKLOG_BYTES: Final = 16 * 1024 * 1024
MESSAGE_BYTES: Final = 256  # what a message takes besides its body, approximately

Line = tuple[str, int]
"""(topic, part of it)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One message, added at `begun_ms`. When it is the first of its line, `move(wait_ms)` passes it on within `wait_ms`;
    `fail(error)` reports why that failed.
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

        self._is_closed = False

    def __bool__(self) -> bool:
        return bool(self._lines)

    def has(self, line: Line) -> bool:
        """True if messages of this line wait: later ones wait behind them."""
        return line in self._lines

    def add(self, line: Line, waiting: Waiting) -> None:
        """Adds a message. Raises BufferFull."""
        if self._size_bytes + waiting.size_bytes > BACKLOG_BYTES and self._lines:
            raise BufferFull(BACKLOG_BYTES)
        self._size_bytes += waiting.size_bytes
        self._lines.setdefault(line, deque()).append(waiting)
        self._start(line)

    def _start(self, line: Line) -> None:
        """Starts the line's task if there is none."""
        if line not in self._tasks:
            queue = self._lines[line]
            task = self._tasks[line] = asyncio.get_running_loop().create_task(self._move_on(line, queue))
            task.add_done_callback(
                lambda _: self._end(line, queue, task)
            )  # a task that is cancelled may never have begun

    async def wait_empty(self, timeout_ms: int | None) -> bool:
        """Waits until all that waits now is passed on or failed; False if `timeout_ms` came first."""
        for line in self._lines:
            self._start(line)
        tasks = list(self._tasks.values())
        if not tasks:
            return True
        _, left = await asyncio.wait(tasks, timeout=None if timeout_ms is None else timeout_ms / 1000)
        return not left

    def close(self) -> None:
        """Fails all waiting messages."""
        self._is_closed = True
        for task in list(self._tasks.values()):
            task.cancel()

    async def _move_on(self, line: Line, queue: deque[Waiting]) -> None:
        failure: Exception | None = None
        try:
            while queue:
                first = queue[0]
                if failure is None or monotonic_ms() - first.begun_ms < first.wait_ms:
                    failure = await _move(first, first.wait_ms)
                if failure is not None:  # one that waited as long as the one before needs no try of its own
                    first.fail(failure)
                self._size_bytes -= queue.popleft().size_bytes
        finally:
            self._end(line, queue, self._tasks.get(line))

    def _end(self, line: Line, queue: deque[Waiting], task: asyncio.Task[None] | None) -> None:
        """The line's task has ended; it is removed at once, so that no message is added behind the last one that it moved.

        If it was cancelled by others than `close`, as at the end of `asyncio.run`, it leaves messages behind: they wait for
        the next task of their line, or for the end of the program.
        """
        if self._tasks.get(line) is not task:
            return
        del self._tasks[line]
        if queue and not self._is_closed:
            return
        del self._lines[line]
        for waiting in queue:
            self._size_bytes -= waiting.size_bytes
            waiting.fail(ClientClosed("producer"))

    # ---- after the event loop has ended

    def waiting_messages(self) -> int:
        """How many messages wait. Any thread."""
        return sum(map(len, list(self._lines.values())))

    def send_rest(self, deadline_ms: int) -> None:
        """Hands on what waits, in the calling thread, until the deadline. Not while the loop runs."""
        for line, queue in list(self._lines.items()):
            while queue and (left_ms := deadline_ms - monotonic_ms()) > 0:
                failure = run_blocking(_move(queue[0], left_ms))
                waiting = queue.popleft()
                self._size_bytes -= waiting.size_bytes
                if failure is not None:
                    waiting.fail(failure)
            if not queue:
                del self._lines[line]


async def _move(waiting: Waiting, wait_ms: int) -> Exception | None:
    try:
        await waiting.move(wait_ms)
    except Exception as error:  # noqa: BLE001  # told to the one who sent it, whatever it is
        return error
    return None
