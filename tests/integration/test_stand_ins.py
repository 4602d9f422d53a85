"""What stands in for `python` and `zenit` in tests is, to whoever starts it, what it stands in for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from forks.spawning import REAL_PYTHON, SOCKET

from zenitmq.deploy.processes import birth_of, wait_ended

pytestmark = pytest.mark.skipif(SOCKET not in os.environ, reason="there is no C compiler")

WAIT_S = 60
PYTHONS = pytest.mark.parametrize("python", [sys.executable, REAL_PYTHON], ids=["stand-in", "real"])
TELLING = """
import os, resource, signal, sys
print(os.getcwd(), sys.argv[1:], os.environ.get("WORD"), resource.getrlimit(resource.RLIMIT_NOFILE))
print(os.umask(0), int(signal.getsignal(signal.SIGHUP)), sys.stdin.read(), file=sys.stderr)
sys.exit(7)
"""
WAITING = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print(os.getpid(), flush=True)
for _ in range(3000):
    time.sleep(0.02)  # a signal that comes right before a sleep does not end it
"""
LISTENING = """
import socket, sys, time
print(socket.create_server(("127.0.0.1", int(sys.argv[1]))).getsockname()[1], flush=True)
time.sleep(60)
"""
AS_GIVEN = 'trap "" HUP; ulimit -n 77; umask 31; exec "$@"'


def module(directory: Path, text: str) -> Path:
    """A folder with a module whose name is one of those that forks are made for."""
    (directory / "zenitmq_module.py").write_text(text, encoding="utf-8")
    return directory


def start(python: str, directory: Path, *arguments: str) -> tuple[subprocess.Popen[str], int]:
    """A process that waits, and the number that it told, its pid or its port."""
    command = [python, "-m", "zenitmq_module", *arguments]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def told(python: str, directory: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", AS_GIVEN, "-", python, "-m", "zenitmq_module", "a", ""]
    return subprocess.run(
        command, cwd=directory, env=environment, input="heard", capture_output=True, text=True, timeout=WAIT_S
    )


def test_it_has_what_its_starter_gave_it(tmp_path: Path) -> None:
    environment = os.environ | {"WORD": "as=it=is"}
    fork, real = (told(each, module(tmp_path, TELLING), environment) for each in (sys.executable, REAL_PYTHON))
    assert (fork.returncode, fork.stdout, fork.stderr) == (7, real.stdout, real.stderr)
    assert f"{tmp_path} ['a', ''] as=it=is (77, 77)" in fork.stdout
    assert fork.stderr.split() == [str(0o31), "1", "heard"]


@PYTHONS
def test_signals_reach_it_and_its_end_is_seen(tmp_path: Path, python: str) -> None:
    process, _ = start(python, module(tmp_path, WAITING))
    with process:
        process.terminate()
        assert process.wait(WAIT_S) == 5
    process, _ = start(python, tmp_path)
    with process:
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == -signal.SIGINT
    process, pid = start(python, tmp_path)
    with process:
        os.kill(pid, signal.SIGKILL)
        assert process.wait(WAIT_S) == -signal.SIGKILL


@PYTHONS
def test_it_does_not_outlive_who_is_killed(tmp_path: Path, python: str) -> None:
    process, pid = start(python, module(tmp_path, WAITING))
    birth = birth_of(pid)
    assert birth is not None
    with process:
        process.kill()
    assert wait_ended(pid, birth, timeout_ms=WAIT_S * 1000)


@PYTHONS
def test_one_that_was_killed_is_started_again_at_once(tmp_path: Path, python: str) -> None:
    """Its port is free, as that of a process is which has been waited for."""
    port = 0
    for _ in range(20):
        process, port = start(python, module(tmp_path, LISTENING), str(port))
        with process:
            process.kill()


def test_forks_are_made_where_that_is_the_same(tmp_path: Path) -> None:
    """Not where something works before Python's first line."""
    module(tmp_path, "import sys; print('forks.server' in sys.modules)")
    found = [told(sys.executable, tmp_path, os.environ | more).stdout.strip() for more in ({}, {"PYTHONHASHSEED": "1"})]
    assert found == ["True", "False"]
