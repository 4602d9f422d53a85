"""Lanes: several requests of one task in flight, those of one queue one after another.

A lane is a thread that runs its requests in order. A task gives all requests of one queue to the same lane, so the queue's
order is the task's, and no request of a queue is sent before the one ahead of it was answered. After a failure no request
of the task is started any more: a gap in a queue could never be filled again.

The threads belong to the process, as its connections do; tasks share them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

LANES: Final = 2
UNDER_WAY_MAX: Final = 4  # requests of a task that are in flight, or wait for it
THREAD_NAME: Final = "zenit-sink"

_kept: Final[list[ThreadPoolExecutor]] = []


class TaskLanes:
    """The lanes of one task, and how many of its rows were stored before. One thread."""

    def __init__(self) -> None:
        self.duplicates = 0
        self._threads = _threads()
        self._waiting: deque[Future[int]] = deque()
        self._has_failed = False

    def add(self, lane: int, request: Callable[[], int]) -> None:
        """Runs `request` in a lane; it returns how many of its rows were stored before. Waits if enough are in flight.

        Raises the error of an earlier one.
        """
        if len(self._waiting) >= UNDER_WAY_MAX:
            self._take_oldest()
        self._waiting.append(self._threads[lane % LANES].submit(self._run, request))

    def finish(self) -> None:
        """Waits for all. Raises the error of one."""
        while self._waiting:
            self._take_oldest()

    def abandon(self) -> None:
        """Starts nothing more, and waits for the requests in flight: nothing is sent after a task has ended."""
        self._has_failed = True
        while self._waiting:
            self._waiting.popleft().exception()

    def _take_oldest(self) -> None:
        self.duplicates += self._waiting.popleft().result()

    def _run(self, request: Callable[[], int]) -> int:
        if self._has_failed:
            return 0
        try:
            return request()
        except BaseException:
            self._has_failed = True
            raise


def _threads() -> list[ThreadPoolExecutor]:
    """The lanes' threads of this process."""
    if not _kept:
        _kept.extend(ThreadPoolExecutor(1, THREAD_NAME) for _ in range(LANES))
    return _kept


os.register_at_fork(after_in_child=_kept.clear)  # threads do not survive a fork
