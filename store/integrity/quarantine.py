"""The damaged ranges of the log. Readers skip them, or wait; nobody ever gets their bytes.

    recovery finds damage at a start -------------> ranges
    a scrub, a slave's chunk, a reader's doubt ---> ranges, rotten --a replica had the bytes--> repaired

*Rotten* ranges are those whose bytes were right once: they are below what was flushed and known to be undamaged.
All others are *holes*: a recovery found them, so a power failure took pages that perhaps nobody had flushed. A replica's
log counts up to its first hole only (rule R9), until the hole is cut away, or the replica leads all the same.
While a replica may still have the bytes of a range, it is *awaited*: readers wait before it. Otherwise readers are
told that it is lost, and continue behind it; if a replica only did not answer in time, the range is still *sought*. All are
[begin, end) in bytes of the log, ascending and disjoint.

A bad area of a disk below small appends may be millions of ranges. Beyond RANGES_MAX, touching ranges are joined, up to
JOINED_BYTES_MAX, so that the work of a turn does not grow with the damage; a replica must then have the joined range
as a whole.

The loop's thread changes it; any thread may read `ranges`, which is replaced, never changed in place.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ..opening.snapshot import read_snapshot, write_snapshot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Range = tuple[int, int]

FACTS_FILE: Final = os.path.join("config", "zenitStore.json")
QUEUES_AT_STOP: Final = (
    "queuesAtStop"  # in it: how many queues had files at the last clean stop, and where the log ended
)
RANGES_MAX: Final = 1024
JOINED_BYTES_MAX: Final = 1 << 20

HAS_BATCHES: Final = "hasBatchQueues"  # whether there were batch queues at the last checkpoint

_begin, _end = itemgetter(0), itemgetter(1)


def overlapping(ranges: Sequence[Range], begin: int, end: int) -> Sequence[Range]:
    """Those of some ranges, ascending and disjoint, that share a byte with [begin, end)."""
    if not ranges:
        return ranges
    first = bisect_right(ranges, begin, key=_end)
    return ranges[first : bisect_left(ranges, end, first, key=_begin)]


def overlaps(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """True if [begin, end) touches one of some ranges, ascending and disjoint."""
    return bool(overlapping(ranges, begin, end))


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same bytes as ascending disjoint ranges; ranges that only touch stay two."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        elif low < high:
            found.append((low, high))
    return tuple(found)


def without(ranges: Sequence[Range], begin: int, end: int) -> tuple[Range, ...]:
    """The parts of some ranges, ascending and disjoint, outside [begin, end)."""
    first = bisect_right(ranges, begin, key=_end)
    last = bisect_left(ranges, end, first, key=_begin)
    cut = [part for low, high in ranges[first:last] for part in ((low, min(high, begin)), (max(low, end), high))]
    return (*ranges[:first], *(part for part in cut if part[0] < part[1]), *ranges[last:])


def with_fewer(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """The same bytes; if there are more than RANGES_MAX ranges, ascending and disjoint, touching ones are joined."""
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
    """The quarantine of one store. `ranges`: all; `rotten`, `awaited`, `sought`: parts of them, as above. All are replaced,
    never changed in place."""

    __slots__ = ("_edges", "_edges_of", "awaited", "ranges", "rotten", "sought")

    def __init__(self, ranges: Iterable[Range] = (), rotten: Iterable[Range] = ()) -> None:
        self.ranges = with_fewer(joined(ranges))
        self.rotten = with_fewer(joined(rotten))
        self.awaited: tuple[Range, ...] = ()
        self.sought: tuple[Range, ...] = ()
        self._edges_of: tuple[Range, ...] = ()
        self._edges: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def add(self, ranges: Iterable[Range]) -> bool:
        """Adds rotten ranges; False if all of it was already known to be damaged."""
        new = [found for found in ranges if not _covers(self.ranges, *found)]
        if not new:
            return False
        self.ranges = with_fewer(_taken_in(self.ranges, new))
        self.rotten = with_fewer(_taken_in(self.rotten, new))
        return True

    def lift(self, begin: int, end: int) -> None:
        """The bytes [begin, end) are repaired."""
        self.ranges = without(self.ranges, begin, end)
        self.rotten = without(self.rotten, begin, end)
        self.awaited = without(self.awaited, begin, end)
        self.sought = without(self.sought, begin, end)

    @property
    def first_hole(self) -> int | None:
        """The begin of the first hole; None if there is none."""
        return self._holes[0][0] if self._holes else None

    def take_holes(self) -> tuple[Range, ...]:
        """From now on no range counts as a hole: the log continues behind them. Returns the former holes."""
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
        """True if a reader of [begin, end) waits: a replica may have the bytes."""
        return overlaps(self.awaited, begin, end)

    def may_come_back(self, begin: int, end: int) -> bool:
        """True if some replica may still have [begin, end), though readers no longer wait for it."""
        return overlaps(self.awaited, begin, end) or overlaps(self.sought, begin, end)

    def ranges_in(self, begin: int, end: int) -> tuple[Range, ...]:
        """The ranges that [begin, end) touches."""
        return tuple(overlapping(self.ranges, begin, end))

    def touched(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of many places [begin, end) touch a range. Loop thread."""
        if self._edges is None or self._edges_of is not self.ranges:
            self._edges_of, self._edges = self.ranges, _edges(self.ranges)
        lows, highs = self._edges
        touched: NDArray[np.bool_] = lows[highs.searchsorted(begins, side="right")] < ends
        return touched


def _edges(ranges: Sequence[Range]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The begins of the ranges, with an unreachable one behind, and their ends."""
    import numpy as np  # a broker without damage need not load it

    never = np.iinfo(np.int64).max
    return (
        np.array([*(low for low, _ in ranges), never], dtype=np.int64),
        np.array([high for _, high in ranges], dtype=np.int64),
    )


def _taken_in(ranges: tuple[Range, ...], new: Sequence[Range]) -> tuple[Range, ...]:
    """Ranges, ascending and disjoint, with some more: only those near the new ones are sorted."""
    first = bisect_right(ranges, min(low for low, _ in new), key=_end)
    last = bisect_left(ranges, max(high for _, high in new), first, key=_begin)
    return (*ranges[:first], *joined((*ranges[first:last], *new)), *ranges[last:])


def _covers(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """True if all of [begin, end) is in the ranges."""
    at = begin
    for low, high in overlapping(ranges, begin, end):
        if low > at:
            return False
        at = high
    return at >= end


def _outside(whole: Range, inside: Sequence[Range]) -> Iterable[Range]:
    """The parts of `whole` outside some ranges, ascending and disjoint."""
    at = whole[0]
    for low, high in inside:
        yield at, max(at, low)
        at = high
    yield at, max(at, whole[1])


def note_quarantine(directory: str, ranges: Sequence[Range], rotten: Sequence[Range], log_end: int) -> None:
    """Records the ranges, durably, beside the other facts about the store. A worker's. Raises OSError."""
    written = {"quarantined": [list(found) for found in ranges], "rotten": [list(found) for found in rotten]}
    note_facts(directory, written, log_end)


def note_facts(directory: str, written: Mapping[str, Any], log_end: int) -> None:
    """Records these facts, durably, beside the other facts about the store. Raises OSError."""
    known = read_snapshot(os.path.join(directory, FACTS_FILE))
    document = {} if known is None else known.document
    write_facts(directory, {**document, **written}, log_end)


def write_facts(directory: str, document: Mapping[str, Any], log_end: int) -> None:
    """Records the facts about a store, durably and twice: one copy may rot (`read_snapshot` uses the other then).
    Raises OSError."""
    path = os.path.join(directory, FACTS_FILE)
    for copy in (path, path + ".bak"):
        write_snapshot(copy, document, log_end)


def are_facts_lost(directory: str) -> bool:
    """True if the facts about a store were recorded, and cannot be read. Raises OSError."""
    path = os.path.join(directory, FACTS_FILE)
    return read_snapshot(path) is None and any(os.path.exists(copy) for copy in (path, path + ".bak"))
