"""Where Spark reads a stream of ours, it starts a Python that plans the batches: a new one for each query, never a fork.

To import pyspark, pyarrow and ZenitMQ is a quarter of a second of such a process, and tests start some 250. So one Python
imports them, and forks. What Spark starts as Python (quick_start.py) writes its pid to a pipe that is named by FORKS in its
environment, and sleeps: Spark kills it as it would kill Python. Our fork has its environment, its directory and its output,
ends when it is killed, and kills it at its own end.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from select import POLLIN, poll
from typing import Final, Self

RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
FORKS: Final = "ZENIT_RUNNER_FORKS"


class RunnerForks:
    """Context manager: entered, it forks for each Java that was started with its environment."""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="zenit-forks-")
        pipe = Path(self._directory.name, "pids")
        os.mkfifo(pipe)
        self.environment: Mapping[str, str] = {FORKS: str(pipe)}
        self._process = subprocess.Popen([sys.executable, __file__, pipe], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has opened the pipe: who writes to it does not wait
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.terminate()
        self._directory.cleanup()


def _import_all() -> None:
    import pyspark.sql.streaming.python_streaming_source_runner  # noqa: F401

    import zenitmq.pipeline.reading.stream_reader
    import zenitmq.pipeline.schema
    import zenitmq.pipeline.source  # noqa: F401

    del sys.modules[RUNNER]  # it runs as the main module


def _become(pid: int) -> None:
    """In the fork: what the process with that pid would be if it ran Python."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    process = Path("/proc", str(pid))
    lines = _environment(process).decode(errors="surrogateescape").split("\0")
    os.environ.clear()
    os.environ.update(line.split("=", 1) for line in lines if line)
    for stream in (1, 2):
        os.dup2(os.open(process / "fd" / str(stream), os.O_WRONLY), stream)
    os.chdir(process / "cwd")
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [os.getcwd(), *(each for each in path if each and not each.endswith((".jar", ".zip")))]
    sys.argv[:] = [RUNNER]
    runpy.run_module(RUNNER, run_name="__main__", alter_sys=True)


def _environment(process: Path) -> bytes:
    """Empty for the moment in which the shell becomes `sleep`."""
    for _ in range(1000):
        if told := process.joinpath("environ").read_bytes():
            return told
        time.sleep(0.01)
    raise TimeoutError(process)


class Forks:
    """The forks of this process, each with the process that sleeps for it, by descriptors that tell the end of both."""

    def __init__(self, pids: int) -> None:
        self._pids = pids
        self._events = poll()
        self._events.register(pids, POLLIN)
        self._partners: dict[
            int, tuple[int, int]
        ] = {}  # by descriptor: that of the partner, and which pid the fork has

    def run(self) -> None:
        """Serves until it is killed; returns in a fork, when that has done its work."""
        while True:
            for descriptor, _ in self._events.poll():
                if descriptor == self._pids:
                    for pid in os.read(self._pids, 4096).split():
                        if self._fork(int(pid)):
                            return
                elif descriptor in self._partners:
                    self._on_end(descriptor)

    def _fork(self, pid: int) -> bool:
        """Whether this is the fork."""
        try:
            sleeping = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        fork = os.fork()
        if fork == 0:
            for descriptor in (self._pids, sleeping, *self._partners):
                os.close(descriptor)
            _become(pid)
            return True
        working = os.pidfd_open(fork)
        self._partners |= {sleeping: (working, fork), working: (sleeping, fork)}
        for descriptor in (sleeping, working):
            self._events.register(descriptor, POLLIN)
        return False

    def _on_end(self, descriptor: int) -> None:
        """One of two has ended: the other one follows."""
        other, fork = self._partners.pop(descriptor)
        del self._partners[other]
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(other, signal.SIGTERM)
        os.waitpid(fork, 0)
        for each in (descriptor, other):
            self._events.unregister(each)
            os.close(each)


def main() -> None:
    _import_all()
    gc.freeze()
    pids = os.open(sys.argv[1], os.O_RDWR)
    print(flush=True)
    Forks(pids).run()


if __name__ == "__main__":
    main()
