"""Which ranges of the log hold damage. Readers pass over them, or wait; nobody is ever given their bytes.

    recovery finds damage at a start -------------> ranges
    a scrub, a slave's chunk, a consumer's doubt -> ranges, rotten --a replica had the bytes--> neither

*Rotten* ranges are those whose bytes were whole once and rotted: they lie below what was flushed and known to be well.
All others are *holes*: a recovery found them, so a loss of power took pages that perhaps nobody had flushed. A replica's
log counts up to its first hole only (rule R9), until the hole is cut away, or the replica leads all the same.
While a replica may still have the bytes of one it is *awaited*: a reader that comes to it waits. Of others a reader is
told that they are lost, and goes on behind; where a replica has only not answered in time they are *sought* still. All are
[begin, end) in bytes of the log, ascending and apart.

A bad area of a disk below small appends may be millions of ranges. Beyond RANGES_MAX those that touch become one, of up to
JOINED_BYTES_MAX, so that no turn of the loop grows with the damage; a replica must then have such a range as a whole.

The loop's thread changes it; any thread may read `ranges`, which is replaced as a whole.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..opening.snapshot import read_snapshot, write_snapshot

Range = tuple[int, int]

FACTS_FILE: Final = os.path.join("config", "zenitStore.json")
QUEUES_AT_STOP: Final = (
    "queuesAtStop"  # in it: how many queues had files at the last clean stop, and where the log ended
)
RANGES_MAX: Final = 1024
JOINED_BYTES_MAX: Final = 1 << 20

_begin, _end = itemgetter(0), itemgetter(1)


def overlapping(ranges: Sequence[Range], begin: int, end: int) -> Sequence[Range]:
    """Those of some ranges, ascending and apart, that share a byte with [begin, end)."""
    if not ranges:
        return ranges
    first = bisect_right(ranges, begin, key=_end)
    return ranges[first : bisect_left(ranges, end, first, key=_begin)]


def overlaps(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """Whether [begin, end) touches one of some ranges, ascending and apart."""
    return bool(overlapping(ranges, begin, end))


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same bytes as ascending ranges that are apart; those that only touch stay two."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        elif low < high:
            found.append((low, high))
    return tuple(found)


def without(ranges: Sequence[Range], begin: int, end: int) -> tuple[Range, ...]:
    """What is left of some ranges, ascending and apart, outside [begin, end)."""
    first = bisect_right(ranges, begin, key=_end)
    last = bisect_left(ranges, end, first, key=_begin)
    cut = [part for low, high in ranges[first:last] for part in ((low, min(high, begin)), (max(low, end), high))]
    return (*ranges[:first], *(part for part in cut if part[0] < part[1]), *ranges[last:])


def with_fewer(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """The same bytes; where the ranges, ascending and apart, are more than RANGES_MAX, those that touch are joined."""
    if len(ranges) <= RANGES_MAX:
        return ranges
    found: list[Range] = []
    for low, high in ranges:
        if found and low == found[-1][1] and high - found[-1][0] <= JOINED_BYTES_MAX:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return tuple(found)


class Quarantine:
    """One store's. `ranges`: all; `rotten`, `awaited`, `sought`: some of their bytes, as above. Each is replaced as a whole."""

    __slots__ = ("_edges", "_edges_of", "awaited", "ranges", "rotten", "sought")

    def __init__(self, ranges: Iterable[Range] = (), rotten: Iterable[Range] = ()) -> None:
        self.ranges = with_fewer(joined(ranges))
        self.rotten = with_fewer(joined(rotten))
        self.awaited: tuple[Range, ...] = ()
        self.sought: tuple[Range, ...] = ()
        self._edges_of: tuple[Range, ...] = ()
        self._edges = _edges(())

    def add(self, ranges: Iterable[Range]) -> bool:
        """Takes in ranges that have rotted; False where all of it was known to be damaged."""
        new = [found for found in ranges if not _covers(self.ranges, *found)]
        if not new:
            return False
        self.ranges = with_fewer(_taken_in(self.ranges, new))
        self.rotten = with_fewer(_taken_in(self.rotten, new))
        return True

    def lift(self, begin: int, end: int) -> None:
        """The bytes [begin, end) are whole."""
        self.ranges = without(self.ranges, begin, end)
        self.rotten = without(self.rotten, begin, end)
        self.awaited = without(self.awaited, begin, end)
        self.sought = without(self.sought, begin, end)

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
        if self.ranges == self.rotten:
            return ()
        return joined(
            part for low, high in self.ranges for part in _outside((low, high), overlapping(self.rotten, low, high))
        )

    def is_awaited(self, begin: int, end: int) -> bool:
        """Whether a reader of [begin, end) waits: a replica may have it."""
        return overlaps(self.awaited, begin, end)

    def may_come_back(self, begin: int, end: int) -> bool:
        """Whether some replica has not said yet that it has not [begin, end) whole, though readers may go on behind."""
        return overlaps(self.awaited, begin, end) or overlaps(self.sought, begin, end)

    def ranges_in(self, begin: int, end: int) -> tuple[Range, ...]:
        """Those that [begin, end) touches."""
        return tuple(overlapping(self.ranges, begin, end))

    def touched(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of many places [begin, end) touch a range. Loop thread."""
        if self._edges_of is not self.ranges:
            self._edges_of, self._edges = self.ranges, _edges(self.ranges)
        lows, highs = self._edges
        touched: NDArray[np.bool_] = lows[np.searchsorted(highs, begins, side="right")] < ends
        return touched


def _edges(ranges: Sequence[Range]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where ranges begin, with one more behind all that nothing touches, and where they end."""
    never = np.iinfo(np.int64).max
    return (
        np.array([*(low for low, _ in ranges), never], dtype=np.int64),
        np.array([high for _, high in ranges], dtype=np.int64),
    )


def _taken_in(ranges: tuple[Range, ...], new: Sequence[Range]) -> tuple[Range, ...]:
    """Ranges, ascending and apart, with some more: only those near the new ones are put in order."""
    first = bisect_right(ranges, min(low for low, _ in new), key=_end)
    last = bisect_left(ranges, max(high for _, high in new), first, key=_begin)
    return (*ranges[:first], *joined((*ranges[first:last], *new)), *ranges[last:])


def _covers(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """Whether all of [begin, end) lies in the ranges."""
    at = begin
    for low, high in overlapping(ranges, begin, end):
        if low > at:
            return False
        at = high
    return at >= end


def _outside(whole: Range, inside: Sequence[Range]) -> Iterable[Range]:
    """What is left of `whole` without ranges that are ascending and apart."""
    at = whole[0]
    for low, high in inside:
        yield at, max(at, low)
        at = high
    yield at, max(at, whole[1])


def note_quarantine(directory: str, ranges: Sequence[Range], rotten: Sequence[Range], log_end: int) -> None:
    """Writes the ranges down, durably, beside what else is known of the store. A worker's. Raises OSError."""
    written = {"quarantined": [list(found) for found in ranges], "rotten": [list(found) for found in rotten]}
    note_facts(directory, written, log_end)


def note_facts(directory: str, written: Mapping[str, Any], log_end: int) -> None:
    """Writes these facts down, durably, beside what else is known of the store. Raises OSError."""
    known = read_snapshot(os.path.join(directory, FACTS_FILE))
    document = {} if known is None else known.document
    write_facts(directory, {**document, **written}, log_end)


def write_facts(directory: str, document: Mapping[str, Any], log_end: int) -> None:
    """Writes what is known of a store, durably and twice: one of the two may rot (`read_snapshot` takes the other then).
    Raises OSError."""
    path = os.path.join(directory, FACTS_FILE)
    for copy in (path, path + ".bak"):
        write_snapshot(copy, document, log_end)


def are_facts_lost(directory: str) -> bool:
    """Whether what was known of a store was written down, and cannot be read. Raises OSError."""
    path = os.path.join(directory, FACTS_FILE)
    return read_snapshot(path) is None and any(os.path.exists(copy) for copy in (path, path + ".bak"))
