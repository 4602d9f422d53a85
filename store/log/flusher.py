"""The flush thread: group commit. One sync of the disk answers everybody who waited while the last one ran.

Loop: take the written position, write the checksum entries, `fdatasync` them and each segment with bytes above the
flushed position, publish it, call `on_flushed`. It runs as soon as a flush is requested, and each `interval_ms`. A
failed sync is final: the kernel may have dropped the pages, so it is never repeated, nothing is published after it,
and `on_poisoned` is called once. A sync may hang; `pending_ms` shows for how long.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from ...metrics.histogram import time_histogram
from ...model.clock import monotonic_ms, monotonic_ns
from ...model.errors import FlushTimeout, StorePoisoned

logger = logging.getLogger(__name__)


class FlushTarget(Protocol):
    """What the thread flushes: the commit log."""

    @property
    def written(self) -> int:
        """Bytes below are in the page cache."""

    @property
    def flushed(self) -> int:
        """Bytes below are on disk."""

    def sync_to(self, target: int) -> None:
        """Makes everything below `target` durable, with its checksums, then publishes it as `flushed`. Raises OSError."""

    def poison(self, what: str) -> StorePoisoned:
        """Stops all writes for good; returns the same error each time."""


class Flusher:
    """Owns the flushed position. Any thread may request and wait."""

    def __init__(self, target: FlushTarget, *, interval_ms: int, on_flushed: Callable[[], None]) -> None:
        """`on_flushed` runs in the flush thread after each advance, and must not block."""
        self._target = target
        self._interval_ms = interval_ms
        self._on_flushed = on_flushed
        self._wake = threading.Event()
        self._advanced = threading.Condition()
        self._failure: StorePoisoned | None = None
        self._stopping = False
        self._began_ms: int | None = None  # the present turn
        self.times = time_histogram()  # of each sync; the flush thread's
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="zenit-flush", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Requests a flush of everything written so far; returns at once."""
        self._wake.set()

    def wait(self, up_to: int, timeout_ms: int) -> None:
        """Blocks until everything below `up_to` is flushed. Raises FlushTimeout or StorePoisoned. Not for the loop."""
        self.request()
        deadline_ms = monotonic_ms() + timeout_ms
        with self._advanced:
            while self._target.flushed < up_to:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                left_ms = deadline_ms - monotonic_ms()
                if left_ms <= 0:
                    raise FlushTimeout(timeout_ms)
                self._advanced.wait(left_ms / 1000)

    @property
    def pending_ms(self) -> int:
        """How long the present sync has taken so far; 0 if none is running. Any thread."""
        began_ms = self._began_ms
        return 0 if began_ms is None else monotonic_ms() - began_ms

    def close(self) -> None:
        """Flushes everything written (not after a failure) and stops the thread."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._failure is None and not self._stopping:
                self._wake.wait(self._interval_ms / 1000)
                self._wake.clear()
                self.flush_once()
            if self._failure is None:
                self.flush_once()
        except Exception as error:
            logger.exception("flush thread stopped")
            self._fail(f"the flush thread died: {error}")

    def flush_once(self) -> None:
        """One turn: called by the flush thread, or by a test that has not started it."""
        target = self._target.written
        self._began_ms = monotonic_ms()
        try:
            if target > self._target.flushed:
                began_ns = monotonic_ns()
                self._target.sync_to(target)
                self.times.observe((monotonic_ns() - began_ns) // 1_000)
                with self._advanced:
                    self._advanced.notify_all()
                self._on_flushed()
        except OSError as error:
            logger.critical("flush failed, nothing is acknowledged any more error=%s", error)
            self._fail(f"flush: {error.strerror or error}")
        finally:
            self._began_ms = None

    def _fail(self, what: str) -> None:
        failure = self._target.poison(what)
        with self._advanced:
            self._failure = failure
            self._advanced.notify_all()
