"""Latencies: raw nanoseconds in a preallocated array, and the percentiles that are told of them.

Nothing is binned or averaged away: a percentile is a value that was observed. What does not fit into the array is
counted, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Nanoseconds = npt.NDArray[np.int64]

PERCENTILES: Final = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99_9", 99.9))


class Samples:
    """Up to `capacity` latencies. One thread records; `values` is a view of what there is so far."""

    __slots__ = ("_array", "count", "missed")

    def __init__(self, capacity: int) -> None:
        self._array: Nanoseconds = np.zeros(capacity, dtype=np.int64)
        self._array.fill(0)  # touches the pages now, not while measuring
        self.count = 0
        self.missed = 0

    def record(self, duration_ns: int) -> None:
        """Keeps one latency."""
        if self.count < len(self._array):
            self._array[self.count] = duration_ns
            self.count += 1
        else:
            self.missed += 1

    def record_all(self, durations_ns: Nanoseconds) -> None:
        """Keeps a whole column of them."""
        taken = min(len(durations_ns), len(self._array) - self.count)
        self._array[self.count : self.count + taken] = durations_ns[:taken]
        self.count += taken
        self.missed += len(durations_ns) - taken

    @property
    def values(self) -> Nanoseconds:
        """What was recorded, in order, nanoseconds."""
        return self._array[: self.count]


def latency_us(values: Nanoseconds) -> dict[str, float] | None:
    """{p50, p90, p99, p99_9, max} in microseconds; None where nothing was recorded."""
    if len(values) == 0:
        return None
    cuts = np.percentile(values, [cut for _, cut in PERCENTILES], method="inverted_cdf")
    table = {name: float(value) / 1000 for (name, _), value in zip(PERCENTILES, cuts, strict=True)}
    table["max"] = float(values.max()) / 1000
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
