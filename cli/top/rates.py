"""Rates from two samples of counters. Pure.

A counter begins anew when its process starts, and a queue's end goes back where a new master lacks what nobody had
acknowledged. Such a counter says nothing until it is read twice more: no rate is ever negative.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from ...model.plain_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CounterSample:
    """Counters at one moment (monotonic ms). Those of two samples are comparable if `life` is the same: a process's start."""

    at_ms: int
    counts: Mapping[Hashable, int]
    life: Hashable = None


@dataclass(frozen=True, slots=True)
class CounterSamples:
    """The last two of one thing."""

    now: CounterSample
    before: CounterSample | None = None

    def then(self, sample: CounterSample) -> CounterSamples:
        """With one more."""
        return CounterSamples(sample, self.now)

    def per_second(self) -> dict[Hashable, float]:
        """The rate of each counter that is in both samples and did not go back; empty if none is."""
        before, now = self.before, self.now
        if before is None or before.life != now.life or now.at_ms <= before.at_ms:
            return {}
        seconds = (now.at_ms - before.at_ms) / 1000
        return {
            key: (count - before.counts[key]) / seconds
            for key, count in now.counts.items()
            if count >= before.counts.get(key, count + 1)
        }

    @property
    def span_seconds(self) -> float | None:
        """The time between the two."""
        return None if self.before is None else (self.now.at_ms - self.before.at_ms) / 1000


def total(rates: list[float]) -> float | None:
    """The sum; None = there is no rate."""
    return round(sum(rates), 3) if rates else None
