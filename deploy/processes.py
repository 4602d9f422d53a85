"""Real processes on this machine: started in their own session, identified by pid and start time, ended by pid.

The only file of this folder that uses the operating system's processes and ports.
"""

from __future__ import annotations

import http
import http.client
import os
import signal
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from ..model.clock import monotonic_ms, sleep_ms

TAIL_BYTES: Final = 8192
POLL_MS: Final = 20
STILL_TIMEOUT_MS: Final = 5_000
READY_TIMEOUT_S: Final = 2.0


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could bind this port now (another program may be faster afterwards)."""
    return not bind_refusal(host, port)


def bind_refusal(host: str, port: int) -> str:
    """Why a server could not bind this port of an IP address now; "" if it could."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def is_ready(address: str) -> bool:
    """Whether a process says so at its port for metrics and health, "host:port"."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=READY_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def spawn(command: Sequence[str], *, log_path: str, environ: Mapping[str, str]) -> int:
    """Starts `command` in a session of its own, with its output appended to `log_path`; returns its pid.

    It outlives us, so nothing here keeps a reference to it. Raises OSError if the program or the log cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        command[0],
        list(command),
        environ,
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log_path, flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
        setsid=True,
    )


def birth_of(pid: int) -> str | None:
    """The start time of process `pid`, in the machine's own format; None if none runs (or one has ended without being
    reaped).
    """
    _reap(pid)
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        ended = fields[0] in "ZX" and int(fields[17]) <= 1  # otherwise threads are left, with its ports and files open
        return None if ended else fields[19]
    except (FileNotFoundError, ProcessLookupError):
        return None if os.path.isdir("/proc/self") else _birth_by_ps(pid)


def is_running(pid: int, birth: str) -> bool:
    """Whether exactly that process still runs."""
    return birth_of(pid) == birth


def terminate(pid: int, birth: str, *, timeout_ms: int, hands_over: bool = True) -> bool:
    """Asks exactly that process to stop and waits for its end; True if it had to be killed. Ignores other processes.

    `hands_over`: a broker first lets another replica take over; False where its whole group stops.
    """
    if not _send(pid, birth, signal.SIGTERM):
        return False
    if not hands_over:  # a second signal ends it at once; the first alone ends one that is still starting
        _send(pid, birth, signal.SIGINT)
    if wait_ended(pid, birth, timeout_ms=timeout_ms):
        return False
    _send(pid, birth, signal.SIGKILL)
    wait_ended(pid, birth, timeout_ms=timeout_ms)
    return True


def stand_still(pid: int, *, timeout_ms: int = STILL_TIMEOUT_MS) -> None:
    """Stops a process (SIGSTOP), and returns when each of its threads has stopped: a thread on another core continues for a
    moment.
    """
    os.kill(pid, signal.SIGSTOP)
    _wait_still(pid, timeout_ms=timeout_ms)


def wait_ended(pid: int, birth: str, *, timeout_ms: int) -> bool:
    """Whether the process ended within the time."""
    deadline = monotonic_ms() + timeout_ms
    while is_running(pid, birth):
        if monotonic_ms() >= deadline:
            return False
        sleep_ms(POLL_MS)
    return True


def descendants_of(pid: int) -> set[int]:
    """The processes that `pid` started, those that they started, and so on; not those whose parent has ended."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    unseen = [pid]
    while unseen:
        below = children.get(unseen.pop(), [])
        found.update(below)
        unseen += below
    return found


def end_descendants(pid: int, *, spared: Collection[int] = (), timeout_ms: int) -> None:
    """Ends all descendants of `pid`, except `spared`, and waits for them; those that run after `timeout_ms` are killed.

    They are stopped before the first one is ended: a process started meanwhile would otherwise lose its parent, by which it
    is found.
    """
    found: dict[int, str] = {}
    while new := {each: birth_of(each) for each in descendants_of(pid).difference(spared, found)}:
        for each, birth in new.items():
            found[each] = birth or ""
            if birth is not None and _send(each, birth, signal.SIGSTOP):
                _wait_still(each, timeout_ms=STILL_TIMEOUT_MS)
    for number in (signal.SIGTERM, signal.SIGCONT):
        for each, birth in found.items():
            _send(each, birth, number)
    deadline = monotonic_ms() + timeout_ms
    for each, birth in found.items():
        if not wait_ended(each, birth, timeout_ms=max(0, deadline - monotonic_ms())):
            _send(each, birth, signal.SIGKILL)
            wait_ended(each, birth, timeout_ms=timeout_ms)


def last_line(path: str) -> str:
    """The last non-empty line of a log; "" if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _send(pid: int, birth: str, number: signal.Signals) -> bool:
    if not is_running(pid, birth):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _wait_still(pid: int, *, timeout_ms: int) -> None:
    deadline = monotonic_ms() + timeout_ms
    while _moves(pid) and monotonic_ms() < deadline:
        sleep_ms(POLL_MS)


def _moves(pid: int) -> bool:
    """Whether a thread of the process is not stopped; False if the system does not say, or it has ended."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtZX":
                    return True
    except OSError:
        pass
    return False


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # not our child: its own parent, or the system, reaps it


def _parents() -> Iterator[tuple[int, int]]:
    """(pid, pid of its parent) of every process."""
    if not os.path.isdir("/proc/self"):
        found = subprocess.run(["/bin/ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False)
        yield from ((int(pid), int(parent)) for pid, parent in map(str.split, found.stdout.splitlines()))
        return
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                yield int(entry), int(file.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue


def _birth_by_ps(pid: int) -> str | None:
    command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]  # only a number varies
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    state, _, began = found.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else began.strip()
