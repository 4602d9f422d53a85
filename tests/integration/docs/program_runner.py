"""Runs the Python programs of pages, each in a process of its own, as `python -W error FILE` would.

To import ZenitMQ and its libraries is most of what a short program costs. So one Python imports them, and forks for each
program. A line of its input is a call, and the line that answers it is the exit status of the last program that ran; what
the programs print is in a file.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from select import select
from typing import Any, Final, Self

PRINTED: Final = "printed.txt"


class ProgramRunner:
    """Context manager: entered, it runs programs."""

    def __enter__(self) -> Self:
        self._python = subprocess.Popen(
            [sys.executable, "-W", "error", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # of which the programs are
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._python as python:
            python.terminate()

    def run(
        self, programs: Sequence[Sequence[str]], environment: Mapping[str, str], *, cwd: Path, timeout_s: float
    ) -> None:
        """Runs programs with their arguments, one after the other; each must succeed. AssertionError has what they print."""
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        call = {"programs": programs, "environment": dict(environment), "cwd": str(cwd)}
        self._python.stdin.write(json.dumps(call) + "\n")
        self._python.stdin.flush()
        ready, _, _ = select([self._python.stdout], [], [], timeout_s)
        if not ready:
            os.killpg(self._python.pid, signal.SIGKILL)
        status = self._python.stdout.readline().strip() if ready else f"not ended after {timeout_s} s"
        assert status == "0", f"{programs}: {status}\n{(cwd / PRINTED).read_text(encoding='utf-8')}"


def _import_all() -> None:
    """What programs of pages import, but Spark."""
    import asyncio  # noqa: F401
    import concurrent.futures  # noqa: F401

    import psycopg  # noqa: F401

    import zenitmq
    import zenitmq.aio
    import zenitmq.local.embedded.engine
    import zenitmq.local.engine
    import zenitmq.testing

    for name in zenitmq.__all__:
        getattr(zenitmq, name)


def _become(call: Mapping[str, Any], program: Sequence[str]) -> None:
    """In the fork: what a shell that starts the program gives it."""
    os.environ.clear()
    os.environ.update(call["environment"])
    os.chdir(call["cwd"])
    printed = os.open(PRINTED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, printed), (2, printed)):
        os.dup2(file, stream)
    sys.argv[:] = program
    sys.path[0] = call["cwd"]
    runpy.run_path(program[0], run_name="__main__")


def main() -> None:
    """Forks for each program of each call."""
    _import_all()
    gc.freeze()
    for line in sys.stdin:
        call = json.loads(line)
        status = 0
        for program in call["programs"]:
            fork = os.fork()
            if fork == 0:
                _become(call, program)
                return
            status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
            if status:
                break
        print(status, flush=True)


if __name__ == "__main__":
    main()
