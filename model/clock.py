"""The one file that reads time. Deciding code takes `now_ms` as an argument instead.

Leases and deadlines go on while a machine is suspended (a closed laptop, a paused virtual machine), because other machines
keep counting. So they use CLOCK_BOOTTIME on Linux; elsewhere (macOS) CLOCK_MONOTONIC counts that time too.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What a shell uses of time; the simulation has another implementation."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch: for stored or displayed times."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, and also count while the machine is suspended: for deadlines and leases."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Blocks the calling thread."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.clock_gettime_ns(_CLOCK) // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)


def now_ms() -> int:
    """Wall clock, milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def now_ns() -> int:
    """Wall clock, nanoseconds since the epoch."""
    return time.time_ns()


def monotonic_ms() -> int:
    """Milliseconds that never go back, and also count while the machine is suspended."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def monotonic_ns() -> int:
    """Nanoseconds that never go back, for measurements."""
    return time.perf_counter_ns()


def process_cpu_ns() -> int:
    """CPU time this process has used, nanoseconds."""
    return time.process_time_ns()


def thread_cpu_ns() -> int:
    """CPU time the calling thread has used, nanoseconds."""
    return time.thread_time_ns()


def sleep_ms(duration_ms: float) -> None:
    """Blocks the calling thread."""
    time.sleep(duration_ms / 1000)


def datetime_of_ms(timestamp_ms: int) -> datetime:
    """An aware datetime (UTC) for milliseconds since the epoch."""
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)


def ms_of_datetime(moment: datetime) -> int:
    """Milliseconds since the epoch; a naive datetime counts as local time."""
    return round(moment.timestamp() * 1000)
