"""Slaves that say that their master's end closed their sockets, and a probe that the master answers or does not. Pure.

A killed process closes its sockets, so its slaves know at once; one that was paused or cut off does not. A master is gone
when every other member of the in-sync set that lives has said so, and a probe stays unanswered. Monotonic milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

REPORT_VALID_MS: Final = 1500
"""A slave repeats its report each 0.5 s while its master stays away; what it does not repeat counts no longer."""


@dataclass(slots=True)
class Suspicion:
    """Of the master of `epoch`; the probe of that number was sent at `probed_ms`."""

    epoch: int
    probe: int
    probed_ms: int
    _reported_ms: dict[str, int] = field(default_factory=dict)

    def report(self, name: str, now_ms: int) -> None:
        """A slave says so, or says so again."""
        self._reported_ms[name] = now_ms

    def reporters(self, now_ms: int) -> frozenset[str]:
        """Whose report counts."""
        return frozenset(name for name, at_ms in self._reported_ms.items() if now_ms - at_ms < REPORT_VALID_MS)
