"""The report of a drill: of each run, and of all of them. Pure.

The document is that of `zenit drill run --json`: drill, passed, lost, runs with acknowledged, lost, duplicated, reordered,
first_write_ms, longest_gap_ms, and more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from .check import Mark, Verdict, first_write_ms, longest_gap_ms
from .deliveries.account import DeliveryAccount
from .ledger import Numbers
from .timeline import counts_of

COMPARED: Final = "compared"
NOT_COMPARED: Final = "not compared"
"""Of logs, byte for byte, at the end of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotAccount:
    """The fate of bits that a run flipped in logs. A range may have several records, and so several bits.

    `ranges_found`: by scrubs; `ranges_mended`: since the bits were flipped, whoever found them. An append with several
    damaged ranges is mended as one.
    """

    bits_turned: int = 0
    ranges_found: int = 0
    ranges_mended: int = 0

    def __add__(self, other: RotAccount) -> RotAccount:
        return RotAccount(
            bits_turned=self.bits_turned + other.bits_turned,
            ranges_found=self.ranges_found + other.ranges_found,
            ranges_mended=self.ranges_mended + other.ranges_mended,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run. `times_ns`: of the acknowledgements, sorted. [begin_ns, end_ns]: the time under load.

    `group_times_ns`: the same by replica group, because each has its own pauses; empty: there is one group.
    `producer_times_ns`: the same by producer; empty: there is one. `violations`: errors and quarantined ranges
    (watch). `rot`: the fate of flipped bits. `deliveries`: what the second load did. `are_logs_compared`: byte for byte.
    """

    verdict: Verdict
    times_ns: Numbers
    begin_ns: int
    end_ns: int
    marks: tuple[Mark, ...]
    tries_failed: int = 0
    violations: tuple[str, ...] = ()
    group_times_ns: tuple[Numbers, ...] = ()
    producer_times_ns: tuple[Numbers, ...] = ()
    rot: RotAccount = field(default_factory=RotAccount)
    deliveries: DeliveryAccount = field(default_factory=DeliveryAccount)
    are_logs_compared: bool = True

    @property
    def passed(self) -> bool:
        """Whether all promises held, and writes continued after each fault, in each group."""
        goes_on = all(len(times) and int(times[-1]) > mark.end_ns for mark in self.marks for times in self._groups())
        return self.verdict.is_clean and not self.violations and goes_on

    def _first_writes(self) -> list[float | None]:
        """The time of each fault's first write; the longest pause if that is shorter, because then writes continued before
        the fault was complete.
        """
        firsts = [first_write_ms(self.times_ns, mark) for mark in self.marks]
        return [
            None if first is None else min(first, pause) for first, pause in zip(firsts, self._pauses(), strict=True)
        ]

    def _pauses(self) -> list[float]:
        """For each fault, the longest time without a write from its begin to the begin of the next one, or the end."""
        return [
            self._longest_ms(mark.begin_ns, until_ns) for mark, until_ns in zip(self.marks, self._untils(), strict=True)
        ]

    def _longest_ms(self, begin_ns: int, end_ns: int) -> float:
        """The longest time without a write, in the group that waited longest."""
        return max(longest_gap_ms(times, begin_ns, end_ns) for times in self._groups())

    def _groups(self) -> list[Numbers]:
        """The times of each group; one without a producer is left out."""
        return [times for times in self.group_times_ns if len(times)] or [self.times_ns]

    def _untils(self) -> list[int]:
        """For each fault, when the next one began, or the load ended."""
        return [*(mark.begin_ns for mark in self.marks[1:]), self.end_ns][: len(self.marks)]

    def producer_pauses(self) -> list[list[float]]:
        """For each fault, each producer's longest time without an acknowledgement until the next one, in ms."""
        return [
            [longest_gap_ms(times, mark.begin_ns, until_ns) for times in self.producer_times_ns or [self.times_ns]]
            for mark, until_ns in zip(self.marks, self._untils(), strict=True)
        ]

    def document(self) -> dict[str, Any]:
        """The run as JSON. `first_write_ms`: of the fault with the longest one; None if there was none."""
        firsts = self._first_writes()
        known = [first for first in firsts if first is not None]
        verdict = self.verdict
        first_fault_ns = self.marks[0].begin_ns if self.marks else self.end_ns
        return {
            "acknowledged": verdict.acknowledged,
            "lost": verdict.lost,
            "duplicated": verdict.duplicated,
            "reordered": verdict.reordered,
            "first_write_ms": max(known) if len(known) == len(firsts) and known else None,
            "longest_gap_ms": longest_gap_ms(self.times_ns, self.begin_ns, self.end_ns),
            "gap_before_fault_ms": longest_gap_ms(self.times_ns, self.begin_ns, first_fault_ns),
            "before_fault_ms": _since(self.begin_ns, first_fault_ns),
            "changed": verdict.changed,
            "uneven": verdict.uneven,
            "holes": verdict.holes,
            "damaged": verdict.damaged,
            "tries_failed": self.tries_failed,
            "seconds": round((self.end_ns - self.begin_ns) / 1e9, 1),
            "faults": [
                {
                    "fault": mark.name,
                    "kind": mark.kind,
                    "at_ms": _since(self.begin_ns, mark.begin_ns),
                    "mended_at_ms": _since(self.begin_ns, mark.end_ns),
                    "held_ms": _since(mark.begin_ns, mark.mend_ns),
                    "gap_while_held_ms": self._longest_ms(mark.begin_ns, mark.mend_ns),
                    "gap_once_mended_ms": self._longest_ms(mark.end_ns, until_ns),
                    "first_write_ms": first,
                    "pause_ms": pause,
                    "producer_pause_ms": max(each),
                }
                for mark, until_ns, first, pause, each in zip(
                    self.marks, self._untils(), firsts, self._pauses(), self.producer_pauses(), strict=True
                )
            ],
            "acknowledged_per_second": counts_of(self.times_ns, self.begin_ns, self.end_ns, 1_000),
            "examples": [*self.violations, *verdict.examples],
            "violations": len(self.violations),
            "logs": COMPARED if self.are_logs_compared else NOT_COMPARED,
            **asdict(self.rot),
            **asdict(self.deliveries),
        }


def document(drill: str, runs: Sequence[RunReport], *, seed: int, replicas: int, rate: float) -> dict[str, Any]:
    """The whole drill. `passed`: every run passed."""
    documents = [run.document() for run in runs]
    firsts = [each["first_write_ms"] for each in documents if each["first_write_ms"] is not None]
    pauses = [pause for run in runs for each in run.producer_pauses() for pause in each]
    return {
        "drill": drill,
        "passed": bool(runs) and all(run.passed for run in runs),
        "lost": sum(each["lost"] for each in documents),
        "changed": sum(each["changed"] for each in documents),
        "acknowledged": sum(each["acknowledged"] for each in documents),
        "replicas": replicas,
        "rate": rate,
        "seed": seed,
        "first_write_ms": {"median": round(median(firsts), 1), "worst": max(firsts)} if firsts else None,
        "producer_pauses": {"p99_ms": _p99(pauses), "worst_ms": max(pauses)} if pauses else None,
        "runs": documents,
    }


def _p99(values: Sequence[float]) -> float:
    """The value that 99 of 100 do not exceed; one of the values."""
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def _since(begin_ns: int, moment_ns: int) -> float:
    return round((moment_ns - begin_ns) / 1e6, 1)
