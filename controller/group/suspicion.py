"""Reports of slaves that their master's end closed the sockets, and an unanswered probe of the master. Pure.

A killed process closes its sockets, so its slaves notice at once; a paused or cut-off process does not. A master is gone
when every other living member of the in-sync set has reported so, and a probe stays unanswered. Monotonic milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

REPORT_VALID_MS: Final = 1500
"""A slave repeats its report each 0.5 s while its master stays away; a report that is not repeated no longer counts."""


@dataclass(slots=True)
class Suspicion:
    """The suspicion against the master of `epoch`; the probe of that number was sent at `probed_ms`."""

    epoch: int
    probe: int
    probed_ms: int
    _reported_ms: dict[str, int] = field(default_factory=dict)

    def report(self, name: str, now_ms: int) -> None:
        """A slave reports, for the first time or again."""
        self._reported_ms[name] = now_ms

    def reporters(self, now_ms: int) -> frozenset[str]:
        """The slaves whose reports count."""
        return frozenset(name for name, at_ms in self._reported_ms.items() if now_ms - at_ms < REPORT_VALID_MS)
