"""What each thread of a process has used: nanoseconds on a core, of these in the kernel, and waiting for a core.

From /proc, so only on Linux; elsewhere there is nothing. The kernel counts all the time, so reading it costs the measured
work nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

TASKS: Final = "/proc/{}/task"
IO_THREAD: Final = "ZMQbg/IO"  # how ZeroMQ names its own
MAIN: Final = "main"

Times = Mapping[str, list[int]]
"""Thread id and name, "123 python" -> [nanoseconds on a core, ticks in the program, ticks in the kernel, nanoseconds that it
waited for a core] so far."""


def thread_times(pid: int) -> dict[str, list[int]]:
    """Of all threads of a process now; empty where the system does not tell."""
    found: dict[str, list[int]] = {}
    folder = TASKS.format(pid)
    for task in sorted(os.listdir(folder), key=int) if os.path.isdir(folder) else ():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            name = _read(f"{folder}/{task}/comm").strip()
            times = times_of(_read(f"{folder}/{task}/stat"), _read(f"{folder}/{task}/schedstat"))
            found[f"{task} {MAIN if int(task) == pid else name}"] = times
    return found


def times_of(stat: str, schedstat: str) -> list[int]:
    """The four numbers of a thread from the texts of these files. The kernel counts the first and the last exactly; at each
    tick it looks where a thread is."""
    user, kernel = map(int, stat.rpartition(")")[2].split()[11:13])
    on_core, waited, _ = map(int, schedstat.split())
    return [on_core, user, kernel, waited]


def used(before: Times, after: Times, *, name: str = "", besides: Iterable[str] = ()) -> list[int]:
    """[on a core, of that in the kernel, waited for a core], nanoseconds: the sum over the threads whose name begins with
    `name`, without those of `besides`."""
    left_out = set(besides)
    kept = [key for key in after if key not in left_out and key.partition(" ")[2].startswith(name)]
    on_core, user, kernel, waited = (
        sum(after[key][number] - before.get(key, [0] * 4)[number] for key in kept) for number in range(4)
    )
    return [on_core, on_core * kernel // max(user + kernel, 1), waited]


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
