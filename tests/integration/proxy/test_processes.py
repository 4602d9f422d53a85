"""Processes that share a port: replaced when they end, ended together, and killed if they do not end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.timeout(60)

PROGRAM = r"""
import os, signal, sys, threading
from zenitmq.proxy import process_places, processes
process_places.SOUND_MS, processes.GRACE_MS = 0, 100

parent = os.getpid()

def serve(number):
    ended = threading.Event()
    signal.signal(signal.SIGTERM, {on_term})
    signal.signal(signal.SIGHUP, lambda *_: os.write(1, f"hangup {number}\n".encode()))
    os.write(1, f"{number} {os.getpid()}\n".encode())
    while not ended.wait(0.02) and os.getppid() == parent:
        pass
    return 0

sys.exit(processes.Processes(2, serve, end_ms=100).run())
"""


def started(on_term: str = "lambda *_: ended.set()") -> subprocess.Popen[str]:
    program = PROGRAM.replace("{on_term}", on_term)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    process = started()
    yield process
    process.kill()
    process.communicate(timeout=10)


def pids(process: subprocess.Popen[str], count: int) -> dict[int, int]:
    assert process.stdout is not None
    return {int(number): int(pid) for number, pid in (process.stdout.readline().split() for _ in range(count))}


def test_one_that_is_killed_is_replaced_and_all_end_together(parent: subprocess.Popen[str]) -> None:
    first = pids(parent, 2)
    assert sorted(first) == [0, 1]
    os.kill(first[1], signal.SIGKILL)
    second = pids(parent, 1)
    assert second.keys() == {1}
    parent.terminate()
    _, said = parent.communicate(timeout=20)
    assert parent.returncode == 0
    assert f"another one takes its place pid={first[1]} status=137" in said
    for pid in (first[0], second[1]):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_hangup_reaches_all(parent: subprocess.Popen[str]) -> None:
    pids(parent, 2)
    parent.send_signal(signal.SIGHUP)
    assert parent.stdout is not None
    assert sorted(parent.stdout.readline() for _ in range(2)) == ["hangup 0\n", "hangup 1\n"]


def test_those_that_do_not_end_are_killed() -> None:
    process = started("signal.SIG_IGN")
    first = pids(process, 2)
    process.terminate()
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    assert said.count("is killed") == 2
    with pytest.raises(ProcessLookupError):
        os.kill(first[0], 0)


def test_a_first_one_that_cannot_start_ends_all() -> None:
    program = (
        "from zenitmq.proxy.processes import Processes; raise SystemExit(Processes(3, lambda _: 2, end_ms=0).run())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (2, "")
