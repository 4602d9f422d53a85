"""Several processes that serve the same ports: forked before anything is opened, looked after by their parent.

The kernel spreads new connections over them (SO_REUSEPORT). The parent opens nothing and waits for signals: SIGTERM and SIGINT
end all, SIGHUP is passed on, and a process that has ended by itself is replaced (process_places).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ..model.clock import monotonic_ms
from .process_places import ProcessPlaces

log = logging.getLogger(__name__)

GRACE_MS: Final = 5_000
"""So much longer than it was given a process may take to end before it is killed."""
LOOK_MS: Final = 1_000
FAULT: Final = 70
SIGNALLED: Final = 128
"""The exit status of a process that signal N ended is that and N, as a shell says it."""
ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
AWAITED: Final = ENDING | {signal.SIGCHLD, signal.SIGHUP}


class Processes:
    """The parent. Main thread, while no other one runs."""

    def __init__(self, count: int, serve: Callable[[int], int], *, end_ms: int) -> None:
        """`serve(number)`: what each process runs, number from 0; returns its exit status. It has to end when its parent has.
        `end_ms`: how long it may take to end after SIGTERM."""
        self._serve = serve
        self._end_ms = end_ms
        self._places = ProcessPlaces(count)

    def run(self) -> int:
        """Starts them, and waits until they have ended; returns the exit status."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
        try:
            status = self._look_after()
            for pid in self._places.running():
                os.kill(pid, signal.SIGTERM)
            self._await_ends()
            return status
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _look_after(self) -> int:
        """Until a signal ends them, or one cannot start."""
        while True:
            now_ms = monotonic_ms()
            for number in self._places.due(now_ms):
                self._places.on_begun(number, self._fork(number), now_ms)
            received = _next_signal(self._places.wait_ms(now_ms, LOOK_MS))
            if received in ENDING:
                return 0
            if received == signal.SIGHUP:
                for pid in self._places.running():
                    os.kill(pid, signal.SIGHUP)
            refused = []
            for (
                pid,
                status,
            ) in _ended():  # of all, before anything is returned: an ended one's number may be another's soon
                if not self._places.on_ended(pid, monotonic_ms(), is_killed=status > SIGNALLED):
                    refused.append(status or FAULT)
                else:
                    log.error("a process ended, another one takes its place pid=%s status=%s", pid, status)
            if refused:
                return refused[0]

    def _await_ends(self) -> None:
        """Kills those that do not end in time."""
        deadline_ms = monotonic_ms() + self._end_ms + GRACE_MS
        left = set(self._places.running())
        while left:
            left -= {pid for pid, _ in _ended()}
            now_ms = monotonic_ms()
            if left and now_ms >= deadline_ms:
                for pid in left:
                    log.error("a process did not end and is killed pid=%s", pid)
                    os.kill(pid, signal.SIGKILL)
                deadline_ms = now_ms + GRACE_MS
            elif left:
                _next_signal(min(LOOK_MS, deadline_ms - now_ms))

    def _fork(self, number: int) -> int:
        _flush()
        pid = os.fork()
        if pid:
            return pid
        status = FAULT
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
            status = self._serve(number)
        except BaseException:
            log.exception("a process of the proxy failed number=%s", number)
        finally:
            _flush()
            os._exit(status)


def _next_signal(timeout_ms: int) -> int:
    """The next of AWAITED; 0 if none comes in time."""
    found = signal.sigtimedwait(AWAITED, timeout_ms / 1000)
    return found.si_signo if found is not None else 0


def _ended() -> list[tuple[int, int]]:
    """(pid, exit status) of the processes that have ended."""
    found = []
    with suppress(ChildProcessError):
        while True:
            pid, waited = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            status = os.waitstatus_to_exitcode(waited)
            found.append((pid, status if status >= 0 else SIGNALLED - status))
    return found


def _flush() -> None:
    """What is buffered would be written once more by the child, or lost with it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
