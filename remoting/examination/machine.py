"""Reads what a process can know of its machine: limits, clock, memory, kernel settings, the disk of a directory."""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress
from typing import Final

from ...model.examination.machine_rules import DiskFacts, MachineFacts

_ADJTIMEX_BYTES: Final = 256  # of struct timex, with room
_STATUS_AT: Final = 40  # its `status`, on 64-bit Linux
_UNSYNCHRONIZED: Final = 0x40


def read_machine(directory: str | None = None) -> MachineFacts:
    """The facts; `directory`: that of a store, whether or not it exists yet."""
    memory = _memory_info()
    return MachineFacts(
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        is_clock_kept=_is_clock_kept(),
        memory_available_bytes=_available(memory),
        swappiness=_number("/proc/sys/vm/swappiness"),
        swap_bytes=memory.get("SwapTotal"),
        maps_max=_number("/proc/sys/vm/max_map_count"),
        backlog_max=_number("/proc/sys/net/core/somaxconn"),
        disk=read_disk(directory) if directory is not None else None,
    )


def read_disk(directory: str) -> DiskFacts | None:
    """The filesystem that holds a directory, or will hold it; None if it cannot be asked."""
    place = os.path.abspath(directory)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    try:
        found = os.statvfs(place)
    except OSError:
        return None
    return DiskFacts(
        directory=directory,
        filesystem=_filesystem(os.path.realpath(place)),
        is_read_only=bool(found.f_flag & os.ST_RDONLY),
        is_writable=os.access(place, os.W_OK | os.X_OK),
        total_bytes=found.f_blocks * found.f_frsize,
        free_bytes=found.f_bavail * found.f_frsize,
        inodes_free=found.f_favail if found.f_files else None,
    )


def _filesystem(place: str) -> str:
    """The kind of the filesystem that is mounted above a real path; "unknown" where nobody tells."""
    best, kind = "", "unknown"
    for line in _lines("/proc/self/mountinfo"):
        mounted, separator, source = line.partition(" - ")
        fields = mounted.split()
        if not separator or len(fields) < 5:
            continue
        point = fields[4].encode().decode("unicode_escape")
        if len(point) >= len(best) and (place == point or place.startswith(point.rstrip("/") + "/")):
            best, kind = point, source.split()[0]
    return kind


def _is_clock_kept() -> bool | None:
    """Whether the kernel's clock is synchronized with another; None if it does not say."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    adjtimex = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    if adjtimex is None:
        return None
    timex = ctypes.create_string_buffer(_ADJTIMEX_BYTES)  # modes 0: it only reads
    if adjtimex(timex) < 0:
        return None
    return not int.from_bytes(timex.raw[_STATUS_AT : _STATUS_AT + 4], "little") & _UNSYNCHRONIZED


def _memory_info() -> dict[str, int]:
    """/proc/meminfo in bytes."""
    found = {}
    for line in _lines("/proc/meminfo"):
        name, _, rest = line.partition(":")
        with suppress(ValueError, IndexError):
            found[name] = int(rest.split()[0]) * 1024
    return found


def _available(memory: dict[str, int]) -> int | None:
    """What is left for a process: of the machine, or of its control group if that is less."""
    found = [memory["MemAvailable"]] if "MemAvailable" in memory else []
    limit, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    if limit is not None and used is not None:
        cached = 0
        for line in _lines("/sys/fs/cgroup/memory.stat"):
            name, _, value = line.partition(" ")
            if name in ("active_file", "inactive_file") and value.isdigit():
                cached += int(value)
        found.append(max(0, limit - used + cached))
    return min(found, default=None)


def _number(path: str) -> int | None:
    for line in _lines(path):
        with suppress(ValueError):
            return int(line)
    return None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
