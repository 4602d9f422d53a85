"""Slopes of a series of samples, and whether they can be told from 0. Pure.

A process does not grow along a line: Python's allocator takes arenas of 1 MiB, malloc takes what its bins lack, a JVM takes
heap until it collects; and neighbouring samples resemble each other. So:

- Samples become means of a minute (blocks). The slope is least squares over those.
- The errors of the blocks are taken to follow one another with the correlation that the residuals show (lag 1): the standard
  error grows by sqrt((1 + r) / (1 - r)), and the degrees of freedom shrink to those of as many independent blocks, at
  least 3. The interval is Student's, 95 %.
- A Theil-Sen slope, the median of the slopes of all pairs, is told beside it: one step or one outlier hardly moves it.
- What grew by a step and then stood still has a slope over the whole window that is not 0. The second half of the window is
  therefore judged too: if its interval includes 0 the series has `settled`; a leak climbs in both halves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median
from typing import Final

BLOCK_S: Final = 60.0
BLOCKS_MIN: Final = 8
"""With fewer blocks no slope is told."""
CONFIDENCE: Final = 0.95
CORRELATION_MAX: Final = 0.95
FREEDOM_MIN: Final = 3.0

FLAT, SETTLED, GROWS, FALLS, SHORT = "not distinguishable from 0", "settled", "grows", "falls", "too short"

Samples = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Slope:
    """`per_h`, `low_per_h`, `high_per_h`: units of the series an hour; the interval holds the true slope in 95 of 100 cases.
    `robust_per_h`: Theil-Sen. `late_low_per_h`, `late_high_per_h`: the interval over the second half; None where that is too
    short. `correlation`: of neighbouring residuals."""

    blocks: int
    per_h: float
    low_per_h: float
    high_per_h: float
    robust_per_h: float
    correlation: float
    late_low_per_h: float | None
    late_high_per_h: float | None

    @property
    def verdict(self) -> str:
        """One of FLAT, SETTLED, GROWS, FALLS."""
        if self.low_per_h <= 0 <= self.high_per_h:
            return FLAT
        late_low, late_high = self.late_low_per_h, self.late_high_per_h
        if late_low is not None and late_high is not None and late_low <= 0 <= late_high:
            return SETTLED
        return GROWS if self.per_h > 0 else FALLS


def block_means(samples: Samples, block_s: float = BLOCK_S) -> list[tuple[float, float]]:
    """(middle of the block in seconds, mean) of each block that has samples. `samples`: (seconds, value)."""
    blocks: dict[int, list[float]] = {}
    for at_s, value in samples:
        blocks.setdefault(math.floor(at_s / block_s), []).append(value)
    return [((number + 0.5) * block_s, fmean(values)) for number, values in sorted(blocks.items())]


def slope_of(samples: Samples, block_s: float = BLOCK_S) -> Slope | None:
    """The slope of (seconds, value); None where there are fewer than BLOCKS_MIN blocks."""
    blocks = block_means(samples, block_s)
    if len(blocks) < BLOCKS_MIN:
        return None
    per_h, half_width, correlation = _least_squares(blocks)
    late = blocks[len(blocks) // 2 :]
    late_low = late_high = None
    if len(late) >= BLOCKS_MIN:
        late_slope, late_half, _ = _least_squares(late)
        late_low, late_high = late_slope - late_half, late_slope + late_half
    return Slope(
        blocks=len(blocks),
        per_h=per_h,
        low_per_h=per_h - half_width,
        high_per_h=per_h + half_width,
        robust_per_h=_theil_sen(blocks),
        correlation=correlation,
        late_low_per_h=late_low,
        late_high_per_h=late_high,
    )


def _least_squares(blocks: Samples) -> tuple[float, float, float]:
    """(slope an hour, half of the interval's width, correlation of neighbouring residuals)."""
    hours = [at_s / 3600 for at_s, _ in blocks]
    mean_x, mean_y = fmean(hours), fmean(value for _, value in blocks)
    spread = sum((x - mean_x) ** 2 for x in hours)
    slope = sum((x - mean_x) * (y - mean_y) for x, (_, y) in zip(hours, blocks, strict=True)) / spread
    residuals = [y - mean_y - slope * (x - mean_x) for x, (_, y) in zip(hours, blocks, strict=True)]
    squares = sum(residual**2 for residual in residuals)
    if squares <= 1e-18 * max(1.0, mean_y**2):  # a straight line, but for rounding
        return (0.0 if abs(slope) < 1e-9 * max(1.0, abs(mean_y)) else slope), 0.0, 0.0
    products = sum(a * b for a, b in pairwise(residuals))
    correlation = min(max(products / squares, 0.0), CORRELATION_MAX)
    inflation = (1 + correlation) / (1 - correlation)
    freedom = max(FREEDOM_MIN, len(blocks) / inflation - 2)
    error = math.sqrt(squares / (len(blocks) - 2) / spread * inflation)
    return slope, student_quantile(round(freedom, 1)) * error, correlation


def _theil_sen(blocks: Samples) -> float:
    """The median of the slopes between all pairs, an hour."""
    return median(
        (later - value) / (later_s - at_s) * 3600
        for number, (at_s, value) in enumerate(blocks)
        for later_s, later in blocks[number + 1 :]
    )


@lru_cache(maxsize=4096)
def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """How many standard errors the interval reaches to either side: bisection over Student's distribution."""
    tail = (1 - confidence) / 2
    low, high = 1.0, 1000.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance_above(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _chance_above(x: float, freedom: float) -> float:
    """Of a value over x: 1/2 less the integral of the density from 0 to x.

    Simpson's rule in the angle for which t = sqrt(freedom) tan(angle).
    """
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    steps = 400
    width = math.atan(x / math.sqrt(freedom)) / steps
    heights = [math.cos(width * step) ** (freedom - 1) for step in range(steps + 1)]
    summed = heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    return 0.5 - scale * summed * width / 3
