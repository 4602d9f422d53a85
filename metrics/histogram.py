"""A histogram of plain integers, owned by one thread and read by others without a lock. Pure.

An observation costs one bisection and two additions. A reader may see a bucket without its share of the sum, which the next
scrape has; buckets never go back.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from ..model.plain_dataclass import dataclass

TIME_BOUNDS_US: Final = (
    *(50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000),
    *(100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000),
)
SIZE_BOUNDS_BYTES: Final = (1 << 7, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """`bounds`: the upper bounds in base units, ascending, without infinity; `counts`: what fell into each bucket alone, the
    last one above all bounds; `total`: the sum of what was observed, in base units."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Histogram:
    """`unit`: how many observed units make one base unit: 1,000,000 for microseconds."""

    __slots__ = ("_bounds", "counts", "total", "unit")

    def __init__(self, bounds: tuple[int, ...], unit: int = 1) -> None:
        """`bounds`: ascending, in observed units; a value that equals one belongs below it."""
        self._bounds = bounds
        self.unit = unit
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0

    def observe(self, value: int, times: int = 1) -> None:
        """Counts a value, so many times. Its owner's thread."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def reading(self) -> HistogramReading:
        """A copy. Any thread."""
        unit = self.unit
        bounds = tuple(bound / unit for bound in self._bounds) if unit != 1 else self._bounds
        return HistogramReading(bounds, tuple(self.counts), self.total / unit if unit != 1 else self.total)


def time_histogram() -> Histogram:
    """Of times that are observed in microseconds and read in seconds."""
    return Histogram(TIME_BOUNDS_US, 1_000_000)
