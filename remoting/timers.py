"""The timers of one thread. Pure: the owner passes the time and runs the callbacks."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Final

NEVER_MS: Final = 60_000
"""The longest wait of a thread without timers."""


class Timer:
    """A future callback; `cancel()` from the thread that owns it, or from any thread if a late call does no harm."""

    __slots__ = ("callback", "cancelled", "interval_ms")

    def __init__(self, callback: Callable[[], None], interval_ms: int) -> None:
        self.callback = callback
        self.interval_ms = interval_ms  # 0 = once
        self.cancelled = False

    def cancel(self) -> None:
        """Prevents further calls."""
        self.cancelled = True


class Timers:
    """A heap of timers by due time (monotonic ms). One thread."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._serial = itertools.count()

    def add(self, due_ms: float, timer: Timer) -> None:
        """Adds a timer."""
        heapq.heappush(self._heap, (due_ms, next(self._serial), timer))

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until the next is due, 0 = now, at most NEVER_MS."""
        heap = self._heap
        while heap and heap[0][2].cancelled:
            heapq.heappop(heap)
        return min(max(heap[0][0] - now_ms, 0), NEVER_MS) if heap else NEVER_MS

    def due(self, now_ms: float) -> list[Timer]:
        """Removes and returns the due timers; a repeating one is added again, an interval from now (missed ones are not
        repeated).
        """
        heap, ready = self._heap, []
        while heap and heap[0][0] <= now_ms:
            timer = heapq.heappop(heap)[2]
            if timer.cancelled:
                continue
            ready.append(timer)
        for timer in ready:
            if timer.interval_ms:
                self.add(now_ms + timer.interval_ms, timer)
        return ready
