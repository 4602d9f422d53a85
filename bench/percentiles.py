"""Latencies: raw nanoseconds in a preallocated array, and their percentiles. Pure.

Nothing is binned or averaged: a percentile is an observed value. Latencies that do not fit into the array are counted, not
dropped silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Nanoseconds = npt.NDArray[np.int64]

PER_MILLE: Final = (("p50", 500), ("p90", 900), ("p99", 990), ("p99_9", 999))


class Samples:
    """Up to `capacity` latencies. One thread records; `values` is a view of those recorded so far."""

    __slots__ = ("_array", "count", "missed")

    def __init__(self, capacity: int) -> None:
        self._array: Nanoseconds = np.zeros(capacity, dtype=np.int64)
        self._array.fill(0)  # touches the pages now, not during the measurement
        self.count = 0
        self.missed = 0

    def record(self, duration_ns: int) -> None:
        """Records one latency."""
        if self.count < len(self._array):
            self._array[self.count] = duration_ns
            self.count += 1
        else:
            self.missed += 1

    def clear(self) -> None:
        """Drops all recorded latencies."""
        self.count = self.missed = 0

    def record_all(self, durations_ns: Nanoseconds) -> None:
        """Records a column of latencies."""
        taken = min(len(durations_ns), len(self._array) - self.count)
        self._array[self.count : self.count + taken] = durations_ns[:taken]
        self.count += taken
        self.missed += len(durations_ns) - taken

    @property
    def values(self) -> Nanoseconds:
        """The recorded latencies, in order, nanoseconds."""
        return self._array[: self.count]


def latency_us(values: Nanoseconds) -> dict[str, float] | None:
    """{p50, p90, p99, p99_9, max} in microseconds; None if nothing was recorded."""
    if len(values) == 0:
        return None
    ranks = [
        -(-len(values) * cut // 1000) - 1 for _, cut in PER_MILLE
    ]  # in integers, because 99.9 is not exact as a float
    ordered = np.partition(values, [*ranks, len(values) - 1])
    table = {name: float(ordered[rank]) / 1000 for (name, _), rank in zip(PER_MILLE, ranks, strict=True)}
    table["max"] = float(ordered[-1]) / 1000
    return {name: round(value, 3) for name, value in table.items()}


def percentile_curve(values: Nanoseconds, points: int = 200) -> list[tuple[float, float]]:
    """(percentile, microseconds) from p0 to p100, closer together towards the tail, for a picture."""
    if len(values) == 0:
        return []
    ordered = np.sort(values)
    depth = np.log10(max(len(ordered), 10))
    cuts = np.unique(np.concatenate([1 - 10 ** -np.linspace(0, depth, points), [1.0]]))
    places = np.clip(np.ceil(cuts * len(ordered)).astype(np.int64) - 1, 0, len(ordered) - 1)
    return [(float(cut) * 100, float(ordered[place]) / 1000) for cut, place in zip(cuts, places, strict=True)]


def joined(columns: Sequence[Nanoseconds]) -> Nanoseconds:
    """The latencies of several processes as one column."""
    return np.concatenate(columns) if columns else np.zeros(0, dtype=np.int64)
