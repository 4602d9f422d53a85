"""The limit of series: what is above it is left out of a scrape, and counted. Pure.

Readers put what concerns the whole process first, so that a cluster with very many topics loses some of those, not the
state of its disks.
"""

from __future__ import annotations

from collections.abc import Iterable

from .family import FamilyKind, Reading
from .histogram import HistogramReading


def limited(readings: Iterable[Reading], series_max: int) -> tuple[list[Reading], int]:
    """The readings with at most so many lines of series, and how many lines were left out."""
    kept: list[Reading] = []
    left, dropped = series_max, 0
    for family, samples in readings:
        each = 1
        if family.kind is FamilyKind.HISTOGRAM and samples:
            first = samples[0][1]
            each = len(first.counts) + 2 if isinstance(first, HistogramReading) else 1
        fits = min(len(samples), left // each)
        dropped += (len(samples) - fits) * each
        left -= fits * each
        kept.append((family, samples if fits == len(samples) else samples[:fits]))
    return kept, dropped
