"""Which ranges of the log hold damage. Readers pass over them, or wait; nobody is ever given their bytes.

    recovery finds damage at a start -------------> ranges
    a scrub, a slave's chunk, a consumer's doubt -> ranges, rotten --a replica had the bytes--> neither

*Rotten* ranges are those whose bytes were whole once and rotted: they lie below what was flushed and known to be well.
All others are *holes*: a recovery found them, so a loss of power took pages that perhaps nobody had flushed. A replica's
log counts up to its first hole only (rule R9), until the hole is cut away, or the replica leads all the same.
While a replica may still have the bytes of one it is *awaited*: a reader that comes to it waits. Others are gone for
good: a reader is told so, and goes on behind. All are [begin, end) in bytes of the log, ascending and apart.

The loop's thread changes it; any thread may read `ranges`, which is replaced as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from .snapshot import read_snapshot, write_snapshot

Range = tuple[int, int]

FACTS_FILE: Final = os.path.join("config", "zenitStore.json")


def overlaps(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """Whether [begin, end) touches one of the ranges."""
    return any(low < end and begin < high for low, high in ranges)


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same bytes as ascending ranges that are apart; those that only touch stay two."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        elif low < high:
            found.append((low, high))
    return tuple(found)


def without(ranges: Iterable[Range], begin: int, end: int) -> tuple[Range, ...]:
    """What is left of the ranges outside [begin, end)."""
    rest = [part for low, high in ranges for part in ((low, min(high, begin)), (max(low, end), high))]
    return joined((low, high) for low, high in rest if low < high)


class Quarantine:
    """One store's. `ranges`: all; `rotten`, `awaited`: some of their bytes, as above."""

    __slots__ = ("awaited", "ranges", "rotten")

    def __init__(self, ranges: Iterable[Range] = (), rotten: Iterable[Range] = ()) -> None:
        self.ranges = joined(ranges)
        self.rotten = joined(rotten)
        self.awaited: tuple[Range, ...] = ()

    def add(self, begin: int, end: int) -> bool:
        """Takes in a range that has rotted; False where all of it was known to be damaged."""
        ranges = joined((*self.ranges, (begin, end)))
        if ranges == self.ranges:
            return False
        self.ranges, self.rotten = ranges, joined((*self.rotten, (begin, end)))
        return True

    def lift(self, begin: int, end: int) -> None:
        """The bytes [begin, end) are whole."""
        self.ranges = without(self.ranges, begin, end)
        self.rotten = without(self.rotten, begin, end)
        self.awaited = without(self.awaited, begin, end)

    @property
    def first_hole(self) -> int | None:
        """Where the first range begins that has not rotted, but was never whole on this disk; None without one."""
        return self._holes[0][0] if self._holes else None

    def take_holes(self) -> tuple[Range, ...]:
        """From now on no range counts as a hole: the log goes on behind them. Returns those that did."""
        holes, self.rotten = self._holes, self.ranges
        return holes

    @property
    def _holes(self) -> tuple[Range, ...]:
        holes = self.ranges
        for low, high in self.rotten:
            holes = without(holes, low, high)
        return holes

    def is_awaited(self, begin: int, end: int) -> bool:
        """Whether a reader of [begin, end) waits: a replica may have it."""
        return overlaps(self.awaited, begin, end)

    def ranges_in(self, begin: int, end: int) -> tuple[Range, ...]:
        """Those that [begin, end) touches."""
        return tuple(found for found in self.ranges if overlaps((found,), begin, end))


def note_quarantine(directory: str, ranges: Sequence[Range], rotten: Sequence[Range], log_end: int) -> None:
    """Writes the ranges down, durably, beside what else is known of the store. A worker's. Raises OSError."""
    path = os.path.join(directory, FACTS_FILE)
    known = read_snapshot(path)
    document = {} if known is None else known.document
    written = {"quarantined": [list(found) for found in ranges], "rotten": [list(found) for found in rotten]}
    write_snapshot(path, {**document, **written}, log_end)
