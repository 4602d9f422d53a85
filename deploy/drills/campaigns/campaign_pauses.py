"""Compares the pause of each fault of a campaign with what the design explains. Pure.

A pause is *explained* by kind of fault and of cluster (catalogue.writes_wait), and no further than that: where writes go on
while a fault is held, no pause within that time is, and none is for longer than a bound once the fault is mended.
Over `LONG_MS` one that is not explained is too long: counted, since how long an election takes depends on the machine.
Over the bounds below it is a *stall*, which fails the leg: no machine is that slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..catalogue import Conditions, waits_for_its_mending, writes_wait

LONG_MS: Final = 4_000
STALL_MS: Final = 30_000
"""No pause that the design does not explain."""
MENDED_STALL_MS: Final = 60_000
"""No pause once the last step of a fault's mending is done, where writes wait for that by design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Of one fault. `fault`: what was done to whom; `at_ms`: under load. `by_design`: explained, but for LONG_MS at most."""

    fault: str
    at_ms: float
    pause_ms: float
    by_design: bool
    stalled: bool

    @property
    def is_long(self) -> bool:
        """Whether it is told by itself."""
        return self.pause_ms > LONG_MS

    def document(self) -> dict[str, Any]:
        """As the account has it."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.fault}: a stall, {self.pause_ms:,.0f} ms without a write"


def pauses_of(run: Mapping[str, Any], conditions: Conditions) -> list[Pause]:
    """Of the run of a leg (report.RunReport.document), a pause a fault. `conditions`: of its cluster."""
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
