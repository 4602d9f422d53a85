"""The replication cores' view of this replica's own log: positions, confirm offset, epochs, but no bytes. Pure.

One object lives as long as the process and is passed from role to role: slave core, role machine and master core read and
move it, one of them at a time. Always flushed <= end (physical offsets). `damaged`: ranges of the log that cannot be sent
now, ascending; sessions wait before them until a replica has returned their bytes. `has_hole`: the disk holds
bytes at `end` and behind that do not count, because something before them is lost (R9); they are cut away before anything
is appended.

`confirm` only grows. It begins at what an earlier incarnation remembered, as far as the log still reaches. That stops no
legal cut: every later master that was not forced has the confirmed bytes, so it agrees that far. After a
forced election it may stop a cut, and should: the bytes may be the last copy of what was acknowledged.
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
        """The log was written or flushed up to here."""
        assert flushed <= end
        self.end, self.flushed = end, flushed

    def on_flushed(self, flushed: int) -> None:
        """Everything below `flushed` is on the disk. The end of a sync that began before a cut must not be reported here."""
        self.flushed = min(flushed, self.end)

    def on_cut(self, offset: int) -> None:
        """The log now ends at `offset`, or before it: a power failure during the cut may have left a hole there, which
        stays."""
        self.has_hole = self.has_hole and self.end < offset
        self.end = min(self.end, offset)
        self.flushed = min(self.flushed, offset)

    def with_epoch(self, number: int, begin: int) -> EpochList:
        """The rows after an epoch has begun there. Raises TooManyEpochs."""
        return self.epochs.with_row(number, begin, kept_from=self.begin)

    def sendable_end(self, position: int) -> int:
        """Up to where a session that was sent everything below `position` may be sent more: the end, or damage before it."""
        index = bisect_right(self.damaged, position, key=_end) if self.damaged else 0
        return min(self.damaged[index][0], self.end) if index < len(self.damaged) else self.end

    @property
    def offered_epochs(self) -> EpochList:
        """The rows that a slave offers its master: rows behind a hole do not count."""
        return self.epochs.recovered(self.end)

    @property
    def guard(self) -> int:
        """A slave never cuts below this (R4): bytes below may be confirmed, here or elsewhere."""
        return min(self.confirm, self.end)

    @property
    def shortest(self) -> int:
        """The least length that a cut may leave: the guarded bytes, and the first byte of the log."""
        return max(self.guard, self.begin)
