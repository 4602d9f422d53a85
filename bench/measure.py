"""One measurement with any number of load processes: sets up all, starts them together, combines the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model.clock import monotonic_ns
from .options import BenchProgress, Report
from .percentiles import Nanoseconds, joined
from .processes import BenchWorker, gather

_SETUP_SECONDS = 120.0
_GRACE_SECONDS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One process: its role, its job (with `samples_path` in it), and the path of its latencies.

    `counts` False: its messages are counted elsewhere too, so its progress is not shown.
    """

    role: str
    job: object
    samples_path: str
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The result of one process."""

    messages: int
    bytes: int
    seconds: float
    latencies: Nanoseconds
    facts: dict[str, Any]  # its whole result


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of one measurement. `seconds`: of the slowest process. `timeline`: (second, messages a second)."""

    messages: int
    bytes: int
    seconds: float
    latencies: Nanoseconds
    timeline: tuple[tuple[float, float], ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def messages_per_second(self) -> float:
        """Of all processes together."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Of bodies, of all processes together."""
        return self.bytes / self.seconds if self.seconds else 0.0


def measure(
    loads: Sequence[Load],
    *,
    phase: str,
    seconds: float,
    report: Report,
    on_started: Callable[[], None] | None = None,
    new_worker: Callable[[str, object], BenchWorker] = BenchWorker,
) -> Measured:
    """Runs the loads together, each in what `new_worker` makes. `on_started` is called when all are set up, just before they
    start.

    Raises the error of any of them; all of them have ended afterwards.
    """
    with ExitStack() as running:
        workers = [running.enter_context(new_worker(load.role, load.job)) for load in loads]
        for worker in workers:
            running.callback(worker.close_pipes)  # before the first is waited for: all end at the same time
        for worker in workers:
            worker.wait_ready(_SETUP_SECONDS)
        os.sync()  # otherwise this measurement would pay for earlier dirty pages
        if on_started is not None:
            on_started()
        shown = {worker for worker, load in zip(workers, loads, strict=True) if load.counts}
        watch = _Watch(phase, seconds, report, shown)
        for worker in workers:
            worker.go()
        gather(workers, watch.on_event, seconds=seconds + _GRACE_SECONDS, what=phase, on_tick=watch.on_tick)
    parts = tuple(_part(watch.results[worker], load) for worker, load in zip(workers, loads, strict=True))
    return Measured(
        messages=sum(part.messages for part in parts),
        bytes=sum(part.bytes for part in parts),
        seconds=max(part.seconds for part in parts),
        latencies=joined([part.latencies for part in parts]),
        timeline=tuple(watch.timeline),
        parts=parts,
    )


def _part(facts: dict[str, Any], load: Load) -> Part:
    return Part(
        messages=int(facts["messages"]),
        bytes=int(facts["bytes"]),
        seconds=float(facts["seconds"]),
        latencies=_taken(load.samples_path),
        facts=facts,
    )


def _taken(path: str) -> Nanoseconds:
    """A worker's latencies; removes their file."""
    column: Nanoseconds = np.load(path)
    os.unlink(path)
    return column


class _Watch:
    """Follows the workers' progress, for the live table and the picture's timeline."""

    def __init__(self, phase: str, seconds: float, report: Report, shown: set[BenchWorker]) -> None:
        self._phase, self._seconds, self._report, self._shown = phase, seconds, report, shown
        self._begin_ns = self._told_ns = monotonic_ns()
        self._told_messages = 0
        self._counts: dict[BenchWorker, tuple[int, int]] = {}
        self.timeline: list[tuple[float, float]] = []
        self.results: dict[BenchWorker, dict[str, Any]] = {}

    def on_event(self, worker: BenchWorker, event: dict[str, Any]) -> bool:
        """Takes a line of a worker; True if it is the result."""
        if "progress" in event and worker in self._shown:
            messages, size_bytes = event["progress"]
            self._counts[worker] = (messages, size_bytes)
        if "result" in event:
            self.results[worker] = event["result"]
        return "result" in event

    def on_tick(self) -> None:
        """Reports about four times a second."""
        now_ns = monotonic_ns()
        passed = (now_ns - self._told_ns) / 1e9
        if passed < 0.25:
            return
        messages = sum(count for count, _ in self._counts.values())
        rate = (messages - self._told_messages) / passed
        elapsed = (now_ns - self._begin_ns) / 1e9
        self._told_ns, self._told_messages = now_ns, messages
        self.timeline.append((elapsed, rate))
        self._report(
            BenchProgress(
                phase=self._phase,
                elapsed_seconds=elapsed,
                total_seconds=self._seconds,
                messages=messages,
                bytes=sum(size_bytes for _, size_bytes in self._counts.values()),
                messages_per_second=rate,
            )
        )
