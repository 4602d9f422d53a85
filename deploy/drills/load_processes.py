"""Starts the load processes of a drill, counts during the run, and collects their records.

Every wait has a deadline; a process that does not end in time is killed by its pid: it is our child.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

import numpy as np

from ...model.clock import monotonic_ms
from ...model.errors import ClusterNotStarted, RequestTimeout, SystemFault
from .ledger import ACKNOWLEDGED, Table
from .load import LoadJob

READY_MS: Final = 30_000
STOP_MS: Final = 20_000
LOOK_MS: Final = 100


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What the producers saw. `acknowledged`: rows of ledger.ACKNOWLEDGED, by time."""

    acknowledged: Table
    tries_failed: int


class DrillLoad:
    """Several load processes. Context manager: inside, each producer had its first acknowledgement. One thread."""

    def __init__(self, job: LoadJob, *, processes: int, directory: str) -> None:
        """`job`: of all processes together; `directory`: for their records."""
        self._jobs = [
            replace(
                job,
                path=os.path.join(directory, f"acknowledged-{job.run}-{k}"),
                first_producer=job.first_producer + k * job.producers,
                rate=job.rate / processes,
            )
            for k in range(processes)
        ]
        self._children: list[Child] = []
        self._end_ms = 0

    def __enter__(self) -> Self:
        try:
            self._children = [Child(f"{__package__}.load", asdict(job)) for job in self._jobs]
            wait_children(
                self._children, lambda child: child.is_ready, READY_MS, "the first acknowledgements of the load"
            )
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def count(self) -> int:
        """How many messages are acknowledged so far, a quarter of a second ago. Raises SystemFault if a process has ended."""
        for child in self._children:
            child.read()
        return sum(child.count for child in self._children)

    def stop(self) -> LoadResult:
        """Lets every producer finish its send, ends the processes and collects the rows. Raises SystemFault."""
        for child in self._children:
            child.say_stop()
        wait_children(self._children, lambda child: child.is_done, STOP_MS, "the load's end")
        parts = [np.fromfile(job.path, dtype=ACKNOWLEDGED) for job in self._jobs]
        failed = sum(child.tries_failed for child in self._children)
        self._kill()
        for job in self._jobs:
            os.unlink(job.path)
        rows = np.concatenate(parts)
        return LoadResult(rows[np.argsort(rows["time_ns"], kind="stable")], failed)

    def _kill(self) -> None:
        for child in self._children:
            child.kill()
        self._children = []


def wait_children(children: Sequence[Child], condition: Callable[[Child], bool], timeout_ms: int, what: str) -> None:
    """Waits until it is true of all. Raises RequestTimeout, SystemFault."""
    deadline_ms = monotonic_ms() + timeout_ms
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.fileno(), selectors.EVENT_READ)
        while not all(condition(child) for child in children):
            if monotonic_ms() >= deadline_ms:
                said = next((child.said for child in children if child.said), "")
                raise RequestTimeout(f"{what}{': ' + said if said else ''}", timeout_ms)
            selector.select(LOOK_MS / 1000)
            for child in children:
                child.read()


class Child:
    """One load process: `module` of ours, which runs `job` (job_process). `found`: what it reported at its end."""

    def __init__(self, module: str, job: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
            [sys.executable, "-P", "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._pending = b""
        self.count = self.tries_failed = 0
        self.is_ready = self.is_done = False
        self.said = ""  # why it is not making progress
        self.found: dict[str, Any] = {}
        self._write(json.dumps(job))

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def read(self) -> None:
        """Reads its output. Raises SystemFault if it ended too early."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.fileno(), 1 << 16):
                self._pending += chunk
            if not self.is_done and not self._pending:
                raise SystemFault(f"a load process ended early: {self.said or self._process.poll()}")
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, said: dict[str, Any]) -> None:
        self.is_ready = self.is_ready or "ready" in said
        self.said = said.get("failure", self.said)
        self.count = said.get("count", said.get("sent", self.count))
        if "sent" in said:
            self.tries_failed, self.is_done = said["tries_failed"], True
            self.found = said.get("found", {})

    def say_stop(self) -> None:
        self._write("stop")

    def kill(self) -> None:
        """Kills it if it has not ended; then closes its pipes."""
        if self._process.poll() is None:
            if not self.is_done:
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_MS / 1000)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ClusterNotStarted("load", "ended at once", "standard error") from error
