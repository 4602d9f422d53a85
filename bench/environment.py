"""The environment of a figure: machine, kernel, versions and file system.

A figure is meaningless without it. Unreadable values are None, never guessed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from typing import Final

from ..model.clock import process_cpu_ns
from ..record import kernel
from ..remoting.raw_socket import zmq_version

_ROUNDS: Final = 50_000
_TRIES: Final = 5


def kernel_kind() -> str:
    """Whether this process's record kernel is compiled."""
    return "compiled" if kernel.COMPILED else "interpreted"


def python_round_ns() -> float:
    """CPU nanoseconds of one round of a fixed loop of plain Python on this machine, the best of some tries.

    It shows differences that no version shows: how Python was built (without profile-guided optimization it takes up to
    half as long again, and so does every step of a broker's loop), and slow hours of a shared machine.
    """
    best = min(_rounds_ns() for _ in range(_TRIES))
    return round(best / _ROUNDS, 1)


def _rounds_ns() -> int:
    table: dict[int, tuple[int, bytes]] = {}
    begin = process_cpu_ns()
    for number in range(_ROUNDS):
        table[number & 255] = _entry(number)
    return process_cpu_ns() - begin


def _entry(number: int) -> tuple[int, bytes]:
    return number, b"x"


def environment(directory: str) -> dict[str, object]:
    """The environment block of every result. `directory`: of the measured store."""
    disk = os.statvfs(directory)
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "python_round_ns": python_round_ns(),
        "pyzmq": _version("pyzmq"),
        "libzmq": zmq_version(),
        "zenitmq": _version("zenitmq"),
        "crc32": "isal" if "isal" in sys.modules else "zlib",
        "record_kernel": kernel_kind(),
        "filesystem": _filesystem(directory),
        "disk_free_bytes": disk.f_bavail * disk.f_frsize,
        "load_average": list(os.getloadavg()),
        "revision": _revision(),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _read(path: str) -> str:
    """A small text file of /proc; "" if there is none (another system, an ended process)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _filesystem(directory: str) -> str | None:
    """Type and device of the mount that holds `directory`: the longest mount point that is a prefix of it."""
    real = os.path.realpath(directory)
    best: tuple[int, str] | None = None
    for line in _read("/proc/mounts").splitlines():
        device, point, kind = line.split(" ")[:3]
        if (real + "/").startswith(point.rstrip("/") + "/") and (best is None or len(point) > best[0]):
            best = (len(point), f"{kind} on {device}")
    return best[1] if best else None


def _revision() -> str | None:
    """The checkout's commit, if the package runs from one."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.exists(os.path.join(package, ".git")):
        return None
    try:
        found = subprocess.run(  # noqa: S603 (a fixed command)
            ["git", "-C", package, "rev-parse", "--short", "HEAD"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
