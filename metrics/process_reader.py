"""What the system tells of this process: CPU time, memory, open files. Read at a scrape, from /proc where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from ..model.clock import now_ms, process_cpu_ns
from .family import Reading
from .table import ANONYMOUS, BUILD_INFO, CLOCK, CPU, OPEN_FILES, RESIDENT, START_TIME

STATUS: Final = "/proc/self/status"
DESCRIPTORS: Final = "/proc/self/fd"


def memory_bytes(status: str) -> dict[str, int]:
    """{VmRSS, RssAnon: bytes}, as far as the text of /proc/self/status has them."""
    found = {}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon"):
            found[name] = int(value.split()[0]) * 1024
    return found


class ProcessReader:
    """Any thread."""

    def __init__(self, *, version: str, kernel: str) -> None:
        self._build = version, kernel
        self._started = now_ms() / 1000

    def readings(self) -> Iterator[Reading]:
        """What there is of them on this system."""
        yield BUILD_INFO, [(self._build, 1)]
        yield CLOCK, [((), now_ms() / 1000)]
        yield START_TIME, [((), self._started)]
        yield CPU, [((), process_cpu_ns() / 1e9)]
        try:
            with open(STATUS, encoding="ascii") as file:
                memory = memory_bytes(file.read())
            descriptors = len(os.listdir(DESCRIPTORS))
        except OSError:
            return
        for family, name in ((RESIDENT, "VmRSS"), (ANONYMOUS, "RssAnon")):
            if name in memory:
                yield family, [((), memory[name])]
        yield OPEN_FILES, [((), descriptors)]
