"""Completion in the shells themselves: each has `zenit --install-completion` run once, and completes a name afterwards."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from forks.spawning import REAL

from zenitmq.testing import LocalCluster

ZENIT = str(REAL / "zenit")  # which sees in what shell it was started
WAIT_S = 60.0
LINE = "zenit topic describe tabb"


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


def environment(cluster: LocalCluster, home: Path) -> dict[str, str]:
    path = f"{Path(ZENIT).parent}:{os.environ['PATH']}"
    return {**cluster.environ, "PATH": path, "HOME": str(home), "TERM": "xterm"}


@pytest.fixture(scope="module")
def named(one_broker: LocalCluster) -> LocalCluster:
    """With the one topic whose name begins so."""
    command = [ZENIT, "topic", "create", "tabbed-in-shells", "--queues", "1", "--namesrv", one_broker.namesrv]
    subprocess.run(command, env=one_broker.environ, capture_output=True, timeout=WAIT_S, check=True)
    return one_broker


def install(cluster: LocalCluster, shell: str, home: Path) -> dict[str, str]:
    """Has the shell install it, as a user does, and returns the environment for the next one."""
    environ = environment(cluster, home)
    command = [shell, "-c", "zenit --install-completion; true"]  # `true`: it is the shell that starts the command
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert f"{shell} completion installed" in done.stdout, done.stderr
    return environ


@needs("fish")
def test_fish(named: LocalCluster, tmp_path: Path) -> None:
    environ = install(named, "fish", tmp_path)
    command = ["fish", "-c", f"complete -C '{LINE}'"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert "tabbed-in-shells" in done.stdout.split(), done.stderr


@pytest.mark.parametrize("shell", [pytest.param("bash", marks=needs("bash")), pytest.param("zsh", marks=needs("zsh"))])
def test_the_tab_key(named: LocalCluster, tmp_path: Path, shell: str) -> None:
    """The rest of the name is written by the shell: nobody typed it."""
    environ = install(named, shell, tmp_path)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(shell, [shell, "-i"], environ)
    try:
        os.write(terminal, b"echo rea''dy\n")
        read_until(terminal, b"ready")
        os.write(terminal, f"{LINE}\t".encode())
        if shell == "zsh":  # its first one only loads the file (docs/guide/command-line.md)
            read_until(terminal, b"\a")
            os.write(terminal, b"\t")
        read_until(terminal, b"ed-in-shells")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, wanted: bytes) -> None:
    read = b""
    deadline = time.monotonic() + WAIT_S
    while wanted not in read:
        left = deadline - time.monotonic()
        assert left > 0, read
        if select.select([terminal], [], [], left)[0]:
            read += os.read(terminal, 4096)
