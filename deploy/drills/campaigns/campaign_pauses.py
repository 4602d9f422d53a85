"""Compares the pause of each fault of a campaign with what the design explains. Pure.

A pause is *explained* only for kinds of fault and cluster for which writes wait by design (catalogue.writes_wait). If
writes continue while a fault is held, no pause within that time is explained, and none for longer than a limit after the
fault was mended. A pause over `LONG_MS` that is not explained is too long: it is counted, because the time of an election
depends on the machine. A pause over the limits below is a *stall*, which fails the leg: no machine is that slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..catalogue import Conditions, waits_for_its_mending, writes_wait

LONG_MS: Final = 4_000
STALL_MS: Final = 30_000
"""Limit of a pause that the design does not explain."""
MENDED_STALL_MS: Final = 60_000
"""Limit of a pause after the last step of a fault's mending, if writes wait for that by design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The pause of one fault.

    `fault`: the fault and its target; `at_ms`: under load. `by_design`: explained, or at most LONG_MS.
    """

    fault: str
    at_ms: float
    pause_ms: float
    by_design: bool
    stalled: bool

    @property
    def is_long(self) -> bool:
        """Whether it is listed individually."""
        return self.pause_ms > LONG_MS

    def document(self) -> dict[str, Any]:
        """The pause as in the account."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.fault}: a stall, {self.pause_ms:,.0f} ms without a write"


def pauses_of(run: Mapping[str, Any], conditions: Conditions) -> list[Pause]:
    """The pauses of a leg's run (report.RunReport.document), one per fault. `conditions`: of its cluster."""
    return [_judged(fault, conditions) for fault in run["faults"]]


def _judged(fault: Mapping[str, Any], conditions: Conditions) -> Pause:
    waits = writes_wait(fault["kind"], conditions)
    unexplained_ms = fault["pause_ms"]
    if waits:
        unexplained_ms = fault["gap_while_held_ms"] if waits_for_its_mending(fault["kind"]) else 0.0
    return Pause(
        fault=fault["fault"],
        at_ms=fault["at_ms"],
        pause_ms=fault["pause_ms"],
        by_design=waits and unexplained_ms <= LONG_MS,
        stalled=unexplained_ms > STALL_MS or (waits and fault["gap_once_mended_ms"] > MENDED_STALL_MS),
    )
