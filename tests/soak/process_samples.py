"""What processes take of the machine, sampled from /proc, and their series: one for each life of a process.

Memory is RssAnon: pages of files (the mapped log) come and go as the system likes, and are not the process's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .slopes import BLOCK_S, GROWS, SHORT, Samples, Slope, slope_of

METRICS: Final[Mapping[str, str]] = {
    "memory_kib": "memory, KiB",
    "descriptors": "descriptors",
    "threads": "threads",
    "sockets": "sockets",
    "blocks": "Python blocks",
    "malloc_kib": "malloc in use, KiB",
    "processes": "processes",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process, now."""

    memory_kib: int
    descriptors: int
    threads: int
    sockets: int


@dataclass(slots=True)
class Life:
    """One process from its start to its end. `birth`: with `pid` which it is. `kind`: "python" or "java". `samples`: a list of
    (seconds since the run began, value) for each metric."""

    name: str
    role: str
    number: int
    pid: int
    birth: str
    kind: str
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, at_s: float, values: Mapping[str, float]) -> None:
        """One more sample of some metrics."""
        for metric, value in values.items():
            self.samples.setdefault(metric, []).append((round(at_s, 1), value))

    def window(self, metric: str, warm_up_s: float) -> Samples:
        """What the slope is told of: each life from its own warm-up on, in which it fills its tables and caches."""
        samples = self.samples.get(metric, [])
        return [sample for sample in samples if sample[0] >= samples[0][0] + warm_up_s]

    def document(self, warm_up_s: float) -> dict[str, Any]:
        """Its series, and the slope of each."""
        return {
            "name": self.name,
            "role": self.role,
            "life": self.number,
            "pid": self.pid,
            "kind": self.kind,
            "series": {metric: [list(sample) for sample in samples] for metric, samples in self.samples.items()},
            "slopes": {
                metric: _slope_document(slope_of(self.window(metric, warm_up_s), BLOCK_S)) for metric in self.samples
            },
        }


def _slope_document(slope: Slope | None) -> dict[str, Any]:
    if slope is None:
        return {"verdict": SHORT}
    document: dict[str, Any] = {"verdict": slope.verdict, "blocks": slope.blocks}
    for name in (
        "per_h",
        "low_per_h",
        "high_per_h",
        "robust_per_h",
        "correlation",
        "late_low_per_h",
        "late_high_per_h",
    ):
        value = getattr(slope, name)
        document[name] = None if value is None else round(value, 3)
    return document


def growing(lives: list[dict[str, Any]]) -> list[str]:
    """The series of life documents whose slope is greater than 0 in the whole window and in its second half."""
    return [
        f"{life['name']} (life {life['life']}): {metric} {slope['per_h']:+,.1f} an hour"
        for life in lives
        for metric, slope in life["slopes"].items()
        if slope["verdict"] == GROWS
    ]


def usage_of(pid: int) -> Usage | None:
    """What a process takes now; None where it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            status = dict(line.split(":", 1) for line in file if ":" in line)
        links = [_link(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
        return Usage(
            memory_kib=int(status["RssAnon"].split()[0]),
            descriptors=len(links),
            threads=int(status["Threads"]),
            sockets=sum(link.startswith("socket:") for link in links),
        )
    except (OSError, KeyError, ValueError):  # it has ended, or has just begun to
        return None


def _link(path: str) -> str:
    """Where a descriptor leads; "" where it was closed meanwhile."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def children_of(pid: int) -> list[int]:
    """The processes that a process started, and theirs."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        return found
    return found + [grandchild for child in found for grandchild in children_of(child)]


def is_java(pid: int) -> bool:
    """Whether a process is a Java machine."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip() == "java"
    except OSError:
        return False
