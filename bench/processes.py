"""Load processes, separate as in real use: one JSON job in, JSON lines out.

A worker prints {"ready": ...} after its setup, waits for "go" on its standard input, then prints {"progress": [messages,
bytes]} now and then and ends with {"result": {...}} or {"error": text}. Latencies go to a .npy file named in the job. The
parent never waits without a deadline, and ends only processes that it started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, TextIO

from ..model.clock import monotonic_ns
from ..model.errors import RequestTimeout, SystemFault

_LINE_BYTES_MAX: Final = 1 << 20
_STOP_SECONDS: Final = 10.0
PROGRESS_NS: Final = 250_000_000


class BenchWorker:
    """A process that runs `python -m zenitmq.bench.worker ROLE`. Context manager: it has ended on exit."""

    def __init__(self, role: str, job: object) -> None:
        """`job`: a dataclass instance, passed to the role's function."""
        if not dataclasses.is_dataclass(job) or isinstance(job, type):
            raise TypeError("a job is a dataclass instance")
        self.role = role
        self._pending = b""
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
            [sys.executable, "-m", f"{__package__}.worker", role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the terminal ends the run, which ends its workers
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._write(json.dumps(dataclasses.asdict(job)))

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait_ready(self, seconds: float) -> dict[str, Any]:
        """The worker's facts after its setup."""
        return self._wait_for("ready", seconds)

    def go(self) -> None:
        """Starts the measurement."""
        self._write("go")

    def ask(self, what: str, seconds: float) -> dict[str, Any]:
        """Sends another word and waits for the {"result": ...} that answers it."""
        self._write(what)
        return self._wait_for("result", seconds)

    def stop(self) -> None:
        """Closes its input, which ends it, and its output: a load in the middle of its work looks at that only. Kills it if
        it does not end."""
        self.close_pipes()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)

    def close_pipes(self) -> None:
        """It should end; `stop` waits for that."""
        with contextlib.suppress(BrokenPipeError):  # it has ended already, with unread input
            self._input.close()
        self._output.close()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def fileno(self) -> int:
        """Its output, for a selector."""
        return self._output.fileno()

    def read_events(self) -> list[dict[str, Any]]:
        """The lines that have come (blocks if there is none). Raises SystemFault if the worker failed or ended."""
        chunk = os.read(self.fileno(), 1 << 16)
        if not chunk:
            raise SystemFault(f"bench {self.role} worker ended early")
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        if len(self._pending) > _LINE_BYTES_MAX:
            raise SystemFault(f"bench {self.role} worker sent an endless line")
        events: list[dict[str, Any]] = [json.loads(line) for line in lines]
        for event in events:
            if "error" in event:
                raise SystemFault(f"bench {self.role} worker: {event['error']}")
        return events

    def _write(self, line: str) -> None:
        try:
            self._input.write(line.encode() + b"\n")
            self._input.flush()
        except BrokenPipeError as error:
            raise SystemFault(f"bench {self.role} worker ended early") from error

    def _wait_for(self, kind: str, seconds: float) -> dict[str, Any]:
        found: dict[str, Any] | None = None

        def take(_: BenchWorker, event: dict[str, Any]) -> bool:
            nonlocal found
            found = event.get(kind, found)
            return found is not None

        gather([self], take, seconds=seconds, what=f"bench {self.role} worker: {kind}")
        assert found is not None
        return found


def gather(
    workers: Sequence[BenchWorker],
    on_event: Callable[[BenchWorker, dict[str, Any]], bool],
    *,
    seconds: float,
    what: str,
    on_tick: Callable[[], None] | None = None,
) -> None:
    """Passes each worker's lines to `on_event` until that returned True for every worker. Raises RequestTimeout."""
    deadline = monotonic_ns() + int(seconds * 1e9)
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        while selector.get_map():
            left = (deadline - monotonic_ns()) / 1e9
            if left <= 0:
                raise RequestTimeout(what, int(seconds * 1000))
            for key, _ in selector.select(min(left, 0.25)):
                worker = key.data
                ended = [on_event(worker, event) for event in worker.read_events()]
                if any(ended):
                    selector.unregister(key.fileobj)
            if on_tick is not None:
                on_tick()


class WorkerChannel:
    """The worker's end of the connection. Used by one thread only."""

    def __init__(self, lines_in: TextIO, lines_out: TextIO) -> None:
        self._in, self._out = lines_in, lines_out
        self._told_ns = 0

    def close(self) -> None:
        """The parent sees the end."""
        self._in.close()
        with contextlib.suppress(BrokenPipeError):  # it has closed first
            self._out.close()

    def job(self) -> dict[str, Any]:
        """The first line of standard input."""
        job: dict[str, Any] = json.loads(self._in.readline(_LINE_BYTES_MAX))
        return job

    def ready(self, facts: Mapping[str, object]) -> bool:
        """Reports that it is set up and waits for "go"; False if the parent has closed."""
        self._tell({"ready": facts})
        return self.next_word() == "go"

    def next_word(self) -> str:
        """Blocks for the parent's next line; "" = it has closed: end."""
        return self._in.readline(_LINE_BYTES_MAX).strip()

    def progress(self, now_ns: int, messages: int, size_bytes: int) -> None:
        """Reports progress, at most four times a second. Raises BrokenPipeError if the parent has closed: end."""
        if now_ns - self._told_ns >= PROGRESS_NS:
            self._told_ns = now_ns
            self._tell({"progress": [messages, size_bytes]})

    def result(self, facts: Mapping[str, object]) -> None:
        """Reports the result of "go" (or another word)."""
        self._tell({"result": facts})

    def error(self, text: str) -> None:
        """Reports a failure, in one line for the user."""
        self._tell({"error": text})

    def _tell(self, line: Mapping[str, object]) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()
