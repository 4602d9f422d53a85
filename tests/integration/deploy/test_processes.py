"""Real processes: recognised by pid and birth, ended politely or not, and strangers left alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest

from zenitmq.deploy.processes import (
    birth_of,
    descendants_of,
    end_descendants,
    is_running,
    last_line,
    port_is_free,
    spawn,
    stand_still,
    terminate,
    wait_ended,
)
from zenitmq.model.clock import monotonic_ms, sleep_ms

READY = "import sys, time; print('ready', flush=True); time.sleep(60)"
LED_BY_THE_DEAD = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print('ready', flush=True)
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)  # exit: of this thread alone
"""
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"


class Processes:
    """Starts Python one-liners and ends, by pid, whatever a test leaves."""

    def __init__(self, directory: Path) -> None:
        self.log = str(directory / "process.log")
        self.started: list[tuple[int, str]] = []

    def start(self, code: str, *, until: str = "ready") -> tuple[int, str]:
        pid = spawn([sys.executable, "-c", code], log_path=self.log, environ=os.environ)
        birth = birth_of(pid)
        assert birth is not None
        self.started.append((pid, birth))
        deadline = monotonic_ms() + 20_000
        while until and last_line(self.log) != until:
            assert monotonic_ms() < deadline, last_line(self.log)
            sleep_ms(10)
        return pid, birth


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    for pid, birth in made.started:
        if is_running(pid, birth):
            os.kill(pid, signal.SIGKILL)
            wait_ended(pid, birth, timeout_ms=5000)


def test_a_process_ends_when_asked(processes: Processes) -> None:
    pid, birth = processes.start(READY)
    assert is_running(pid, birth)
    assert os.getsid(pid) == pid  # Ctrl-C at our terminal does not reach it
    assert terminate(pid, birth, timeout_ms=10_000) is False
    assert not is_running(pid, birth)
    assert birth_of(pid) is None


def test_a_process_that_would_hand_over_is_told_twice(processes: Processes) -> None:
    """SIGTERM alone begins that; with SIGINT it ends at once, and so does one that has not set its handlers yet."""
    told = (
        "import signal; signal.signal(signal.SIGTERM, lambda *_: None); signal.signal(signal.SIGINT, signal.SIG_DFL); "
    )
    pid, birth = processes.start(told + READY)
    assert terminate(pid, birth, timeout_ms=10_000, hands_over=False) is False
    pid, birth = processes.start(READY)
    assert terminate(pid, birth, timeout_ms=10_000, hands_over=False) is False


def test_a_process_that_does_not_listen_is_killed(processes: Processes) -> None:
    pid, birth = processes.start(STUBBORN)
    assert terminate(pid, birth, timeout_ms=300) is True
    assert not is_running(pid, birth)


def test_a_process_runs_as_long_as_one_of_its_threads(processes: Processes) -> None:
    """One that is killed ends thread by thread: until the last has gone it holds its ports and files."""
    pid, birth = processes.start(LED_BY_THE_DEAD)
    deadline = monotonic_ms() + 10_000
    while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert monotonic_ms() < deadline
        sleep_ms(10)
    assert is_running(pid, birth)
    terminate(pid, birth, timeout_ms=10_000)
    assert not is_running(pid, birth)


def test_a_stranger_with_the_same_pid_is_left_alone(processes: Processes) -> None:
    pid, birth = processes.start(READY)
    assert terminate(pid, birth + "0", timeout_ms=100) is False
    assert is_running(pid, birth)


def test_what_a_process_prints_last_is_found(processes: Processes) -> None:
    pid, birth = processes.start(
        "import sys; print('one', flush=True); sys.exit('the reason\\n\\n')", until="the reason"
    )
    assert wait_ended(pid, birth, timeout_ms=5000)
    assert last_line(processes.log) == "the reason"


def test_nothing_is_said_where_there_is_no_log(tmp_path: Path) -> None:
    assert last_line(str(tmp_path / "none")) == ""


def test_a_bound_port_is_not_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not port_is_free(port)
    assert port_is_free(port)


def test_who_stands_still_does_so_with_all_threads() -> None:
    script = (
        "import threading\nfor _ in range(8): threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        for _ in range(5):
            stand_still(process.pid)
            tasks = [Path(path).read_text() for path in glob(f"/proc/{process.pid}/task/*/stat")]
            assert {text.rpartition(")")[2].split()[0] for text in tasks} == {"T"}
            process.send_signal(signal.SIGCONT)
    finally:
        process.kill()
        process.wait()


def test_descendants_end_with_those_that_they_started_and_the_stubborn(processes: Processes) -> None:
    """Of a process that is ended: its child, which ignores SIGTERM, and that one's own; not a stranger."""
    stranger = processes.start(READY)
    grandchild = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]).wait()"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {grandchild!r}]).wait()"
    Path(processes.log).unlink()
    pid, birth = processes.start(child)
    below = {each: birth_of(each) or "" for each in descendants_of(pid)}
    assert len(below) == 2
    end_descendants(pid, timeout_ms=300)
    assert [each for each in below if is_running(each, below[each])] == []
    assert is_running(*stranger)
    assert wait_ended(pid, birth, timeout_ms=20_000)  # since what it waited for has ended
