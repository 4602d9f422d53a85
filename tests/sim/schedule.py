"""Virtual time: one queue of events, one seed. A host's events wait while it is stopped and are dropped once it is dead.

Times of the queue are microseconds; a host's own clock is milliseconds and runs at its own rate. Nothing here sleeps:
time passes by taking the next event.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

MS = 1000  # microseconds


class Schedule:
    """`now_us`; `rng`: the one source of chance; `count`: events so far. `on_died`: told of a process that ended in one."""

    __slots__ = ("_heap", "_serial", "count", "now_us", "on_died", "rng")

    def __init__(self, seed: int) -> None:
        self.now_us = 0
        self.count = 0
        self.rng = Random(seed)
        self.on_died: Callable[[Died], None] = _unheard
        self._heap: list[tuple[int, int, Host | None, Callable[[], None]]] = []
        self._serial = 0

    def after_us(self, delay_us: int, callback: Callable[[], None], host: Host | None = None) -> None:
        """`callback` runs then, if `host` still lives."""
        assert delay_us >= 0
        self._serial += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._serial, host, callback))

    def run(self, until_us: int, *, stop: Callable[[], bool] | None = None, stop_every: int = 200) -> None:
        """Takes events until that time, or until `stop`, asked each `stop_every` events, says so."""
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            due_us, serial, host, callback = heapq.heappop(heap)
            self.now_us = due_us
            if host is not None:
                if not host.alive:
                    continue
                if host.paused_until_us > due_us:
                    heapq.heappush(heap, (host.paused_until_us, serial, host, callback))
                    continue
            self.count += 1
            try:
                callback()
            except Died as died:
                self.on_died(died)
            if stop is not None and self.count % stop_every == 0 and stop():
                return
        self.now_us = max(self.now_us, until_us)


class Died(BaseException):
    """The process called `name` has ended in the middle of what it did. No error of anybody's: it unwinds all of that."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _unheard(died: Died) -> None:
    raise died


class Host:
    """One life of a process: a clock (`Clock` of the shells), timers, and an end."""

    def __init__(self, schedule: Schedule, name: str, *, rate: float = 1.0) -> None:
        self.schedule = schedule
        self.name = name
        self.alive = True
        self.paused_until_us = 0
        self._rate = rate

    def monotonic_ms(self) -> int:
        """This host's clock."""
        return int(self.schedule.now_us * self._rate) // MS

    now_ms = monotonic_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Nothing that is simulated blocks."""
        raise AssertionError

    def pause(self, pause_us: int) -> None:
        """Stopped for so long, or longer where it is stopped already; what waits for it keeps its order."""
        self.paused_until_us = max(self.paused_until_us, self.schedule.now_us + pause_us)

    def after_ms(self, delay_ms: float, callback: Callable[[], None]) -> None:
        """By this host's clock."""
        self.schedule.after_us(int(delay_ms * MS / self._rate), callback, self)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> SimulatedTimer:
        """Once, by this host's clock, unless it is cancelled before."""
        timer = SimulatedTimer()

        def fire() -> None:
            if not timer.cancelled:
                callback()

        self.after_ms(delay_ms, fire)
        return timer

    def every(self, interval_ms: int, callback: Callable[[], None]) -> SimulatedTimer:
        """Each interval; what a stopped process missed is not made up for."""
        timer = SimulatedTimer()

        def fire() -> None:
            if not timer.cancelled:
                self.after_ms(interval_ms, fire)
                callback()

        self.after_ms(interval_ms, fire)
        return timer


class SimulatedTimer:
    """A timer that goes on, or waits, until it is cancelled."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """No more."""
        self.cancelled = True
