"""What the cores know of this replica's own log: positions, confirm offset, epochs. No bytes. Pure.

One object lives as long as the process and passes from role to role: slave core, role machine and master core read and
move it, one of them at a time. Always flushed <= end (physical offsets). `damaged`: ranges of the log that cannot be sent
to anybody now, ascending: sessions wait before them, until a replica has given their bytes back. `has_hole`: the disk holds
bytes at `end` and behind that do not count, because something before them is lost (R9): nothing is appended before they
are cut away.

`confirm` grows only. It begins at what an earlier life remembered, as far as the log still has it. That stops no legal cut:
below it lie bytes that were confirmed, and every later master that nobody forced holds those, so it agrees that far. After a
forced election it may stop one, and should: the bytes may be the last copy of what was acknowledged.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from .epochs import EpochList

_end: Final = itemgetter(1)


@dataclass(slots=True)
class ReplicaLog:
    """`flushed`: synced by this process itself; after a start, nothing is (R8)."""

    begin: int = 0
    end: int = 0
    flushed: int = 0
    confirm: int = 0
    epochs: EpochList = field(default_factory=EpochList)
    damaged: tuple[tuple[int, int], ...] = ()
    has_hole: bool = False

    def on_position(self, end: int, flushed: int) -> None:
        """The log was written or flushed so far."""
        assert flushed <= end
        self.end, self.flushed = end, flushed

    def on_flushed(self, flushed: int) -> None:
        """The disk has all below `flushed`. A sync that began before a cut tells nothing and is not to be told."""
        self.flushed = min(flushed, self.end)

    def on_cut(self, offset: int) -> None:
        """The log ends at `offset` now, or before it: a power cut during the cut may have left a hole there, which stays."""
        self.has_hole = self.has_hole and self.end < offset
        self.end = min(self.end, offset)
        self.flushed = min(self.flushed, offset)

    def with_epoch(self, number: int, begin: int) -> EpochList:
        """The rows once an epoch begins there. Raises TooManyEpochs."""
        return self.epochs.with_row(number, begin, kept_from=self.begin)

    def sendable_end(self, position: int) -> int:
        """Up to where a session that was sent all below `position` may be sent more: the end, or damage before it."""
        index = bisect_right(self.damaged, position, key=_end) if self.damaged else 0
        return min(self.damaged[index][0], self.end) if index < len(self.damaged) else self.end

    @property
    def offered_epochs(self) -> EpochList:
        """The rows of what a slave offers its master: those behind a hole say nothing about what counts."""
        return self.epochs.recovered(self.end)

    @property
    def guard(self) -> int:
        """A slave never cuts below this (R4): what is below may be confirmed, here or elsewhere."""
        return min(self.confirm, self.end)

    @property
    def shortest(self) -> int:
        """A cut leaves at least so much: what is guarded, and the byte that the log begins with."""
        return max(self.guard, self.begin)
