"""The background thread of a client: descriptors, timers, posted callbacks. Started at its first use."""

from __future__ import annotations

import logging
import os
import select
import selectors
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ..model.clock import monotonic_ms, monotonic_ns
from ..model.errors import BufferFull, WaitsForItself
from .timers import Timer, Timers

log = logging.getLogger(__name__)

POSTED_MAX: Final = 100_000
TICK_MS: Final = 50
"""How late after its deadline a request in flight may be failed."""
IDLE_TICK_MS: Final = 250
EXACT_BELOW_MS: Final = 3
"""A shorter wait ends exactly: epoll's waits are rounded up to whole milliseconds, so 1 ms would become 2."""
FD_SETSIZE: Final = 1024  # `select` takes no descriptor from this number on


_running: Final[set[int]] = set()  # idents of the running I/O threads


def check_may_wait(what: str) -> None:
    """Raises WaitsForItself in the thread of an `IoThread`: only that thread may be able to do what is waited for."""
    if threading.get_ident() in _running:
        raise WaitsForItself(
            f"{what} in a callback of the client's I/O thread",
            "note there what is to be done, and do it in a thread of your own",
        )


class IoThread:
    """Watches descriptors. `watch` and `unwatch` on this thread only, the rest from any."""

    def __init__(self, name: str, on_tick: Callable[[int], bool], on_end: Callable[[], None]) -> None:
        """`on_tick(now_ms)`: called after each round; True = requests are in flight, call again soon. `on_end`: called
        last.

        Does nothing until `start`.
        """
        self._on_tick = on_tick
        self._on_end = on_end
        self._posted: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._timers = Timers()
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread once; after an interruption, call it again."""
        if self._thread.ident is None:
            self._thread.start()

    def post(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the thread soon. Raises BufferFull."""
        with self._lock:
            if len(self._posted) >= POSTED_MAX:
                raise BufferFull(POSTED_MAX)
            self._posted.append(callback)
            if len(self._posted) == 1:
                self._ring()

    def add_timer(self, delay_ms: float, callback: Callable[[], None], interval_ms: int) -> Timer:
        """Runs `callback` after `delay_ms`, then each `interval_ms` (0 = once). It must not block."""
        timer, due_ms = Timer(callback, interval_ms), _now_ms() + delay_ms
        if self.is_current():  # it reads its timers before it waits again
            self._timers.add(due_ms, timer)
        else:
            self.post(lambda: self._timers.add(due_ms, timer))
        return timer

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Calls `on_readable` when the descriptor is readable, and once at once, for what came before."""
        self._selector.register(descriptor, selectors.EVENT_READ, on_readable)
        on_readable()

    def unwatch(self, descriptor: int) -> None:
        """Call this before the descriptor is closed. Ignores a descriptor that is not watched."""
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def is_current(self) -> bool:
        """True on this thread itself."""
        return threading.current_thread() is self._thread

    def stop(self, timeout_ms: int) -> bool:
        """Ends the thread; False if it has not ended within `timeout_ms` (a callback blocks)."""
        with self._lock:
            self._stopping = True
            self._ring()
        if not self.is_current() and self._thread.ident is not None:
            self._thread.join(timeout_ms / 1000)
        return not self._thread.is_alive()

    def _ring(self) -> None:
        if self._wake_write < 0:
            return  # it has ended
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            return  # it is awake already

    def _on_wake(self) -> None:
        with self._lock:
            while True:
                try:
                    if len(os.read(self._wake_read, 4096)) < 4096:
                        break
                except BlockingIOError:
                    break
            posted, self._posted = self._posted, deque()
        for callback in posted:
            self._guarded(callback)

    def _run(self) -> None:
        _running.add(threading.get_ident())
        try:
            self._serve()
        finally:
            _running.discard(threading.get_ident())

    def _serve(self) -> None:
        wait_ms = 0.0
        while not self._stopping:
            self._wait(wait_ms)
            for timer in self._timers.due(_now_ms()):
                if not timer.cancelled:
                    self._guarded(timer.callback)
            if self._posted:  # a poster may have been interrupted before it woke the thread
                self._on_wake()
            wait_ms = min(self._tick(), self._timers.wait_ms(_now_ms()))
        self._on_wake()  # callbacks posted before the stop
        self._guarded(self._on_end)
        self._selector.close()
        with self._lock:  # both ends together: a waker holds the lock
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_write = -1

    def _tick(self) -> int:
        """Milliseconds until the next tick."""
        try:
            return TICK_MS if self._on_tick(monotonic_ms()) else IDLE_TICK_MS
        except Exception:
            log.exception("a look at the connections failed")
            return TICK_MS

    def _wait(self, wait_ms: float) -> None:
        """Waits for events and handles them."""
        descriptor = self._selector.fileno()
        if 0 < wait_ms < EXACT_BELOW_MS and descriptor < FD_SETSIZE:
            select.select((descriptor,), (), (), wait_ms / 1000)
            wait_ms = 0
        for key, _ in self._selector.select(wait_ms / 1000):
            self._guarded(key.data)

    def _guarded(self, callback: Callable[[], None]) -> None:
        """The top of this thread: a failing callback ends neither the thread nor other callbacks."""
        try:
            callback()
        except Exception:
            log.exception("a callback of the I/O thread failed")


def _now_ms() -> float:
    """The timers' clock, with fractions."""
    return monotonic_ns() / 1e6
