"""The list of a log's epochs: in which epoch each byte was written, and up to where two logs agree. Pure.

A row (epoch, begin) says: the bytes from physical offset `begin` up to the next row's begin were written in `epoch`.
Epochs rise from row to row, begins never fall. If rows have the same begin, nothing was written in all but the last.
Two logs with the same row have the same bytes below it, because an epoch has one master and its row is on the disk before
the first byte of the epoch. The truncation point relies on that (design rules R4 and R5).

A row is kept as long as a byte of its epoch is kept, however many rows there are. Without it a master could not say which
epoch it sends, nor find where a slave's log differs. Rows whose bytes are gone are kept while the list is short: they show
how far a slave that is behind retention agrees. Beyond ROWS_KEPT they are dropped, oldest first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Final, Self

from ...model.errors import TooManyEpochs
from ...model.queue import PhysicalOffset

ROWS_KEPT: Final = 1000
"""Beyond so many, rows that no kept byte needs are dropped."""
ROWS_MAX: Final = 60_000
"""The most rows that a list may have, all of kept bytes: an election with writes each minute, for forty days. One frame of
Opening and Refused carries a whole list, which limits it."""

_begin_of = attrgetter("begin")


@dataclass(frozen=True, slots=True)
class Epoch:
    """The term of one master: its epoch, and where its first record begins."""

    number: int
    begin: PhysicalOffset


@dataclass(frozen=True, slots=True)
class EpochList:
    """The rows of one log, oldest first. Raises ValueError if they are not in order or too many."""

    rows: tuple[Epoch, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rows) > ROWS_MAX:
            raise ValueError(f"{len(self.rows)} epochs, at most {ROWS_MAX}")
        for row, after in pairwise(self.rows):
            if row.number >= after.number or row.begin > after.begin:
                raise ValueError(f"epoch {after.number} at {after.begin} behind epoch {row.number} at {row.begin}")

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int]]) -> Self:
        """Makes a list from pairs (epoch, begin)."""
        return cls(tuple(Epoch(number, PhysicalOffset(begin)) for number, begin in rows))

    @property
    def newest(self) -> int:
        """The epoch of the last row; 0 if there is none."""
        return self.rows[-1].number if self.rows else 0

    def covering(self, offset: int) -> Epoch | None:
        """The row that the byte at `offset` belongs to; None if it is before the first row."""
        index = bisect_right(self.rows, offset, key=_begin_of)
        return self.rows[index - 1] if index else None

    def begin_after(self, offset: int) -> int | None:
        """The begin of the first epoch above `offset`; None in the last one."""
        index = bisect_right(self.rows, offset, key=_begin_of)
        return self.rows[index].begin if index < len(self.rows) else None

    def with_row(self, number: int, begin: int, *, kept_from: int = 0) -> EpochList:
        """The list with a row for an epoch that begins now. `kept_from`: where the log begins.

        Beyond ROWS_KEPT, rows without bytes are dropped first, which changes no truncation point, then rows whose
        bytes retention
        has deleted. Raises TooManyEpochs if ROWS_MAX rows have kept bytes, ValueError if the epoch is not above all others, or
        begins before the last one does.
        """
        rows = _trimmed((*self.rows, Epoch(number, PhysicalOffset(begin))), kept_from)
        if len(rows) > ROWS_MAX:
            raise TooManyEpochs(len(rows) - 1, ROWS_MAX)
        return EpochList(rows)

    def below(self, offset: int) -> EpochList:
        """The list after the log was cut to end at `offset`: rows that begin there or behind are dropped (R4)."""
        return self._kept(tuple(row for row in self.rows if row.begin < offset))

    def recovered(self, end: int) -> EpochList:
        """The list after recovery has found the log's end: rows that begin above it never got a byte (R4)."""
        return self._kept(tuple(row for row in self.rows if row.begin <= end))

    def _kept(self, rows: tuple[Epoch, ...]) -> EpochList:
        return self if len(rows) == len(self.rows) else EpochList(rows)

    def end_of(self, index: int, log_end: int) -> int:
        """The end of the epoch of row `index`, in a log that ends at `log_end`."""
        return min(self.rows[index + 1].begin, log_end) if index + 1 < len(self.rows) else log_end


NO_EPOCHS: Final = EpochList()


def _trimmed(rows: tuple[Epoch, ...], kept_from: int) -> tuple[Epoch, ...]:
    """At most ROWS_KEPT rows, if so many can be dropped. The last row stays, and so does the row that ends where the log
    begins: a slave that ends there needs it."""
    spare = len(rows) - ROWS_KEPT
    if spare <= 0:
        return rows
    kept: list[Epoch] = []
    for row, after in pairwise(rows):
        if spare and row.begin == after.begin:
            spare -= 1
        else:
            kept.append(row)
    kept.append(rows[-1])
    gone = max(0, bisect_left(kept, kept_from, key=_begin_of) - 1)  # rows that end below `kept_from`
    return tuple(kept[min(spare, gone) :])


def truncation_point(master: EpochList, master_end: int, slave: EpochList, slave_end: int) -> int | None:
    """Up to where a slave's log equals the master's (R4); the slave keeps that much and fetches the rest.

    Of the newest row that both have, the lower of both ends of that epoch; 0 if they share no row. None if they share
    no row and the master's list does not reach back to the log's first byte: then they agree on nothing that the master keeps.
    """
    theirs = {row: index for index, row in enumerate(slave.rows)}
    for index in range(len(master.rows) - 1, -1, -1):
        found = theirs.get(master.rows[index])
        if found is not None:
            return min(master.end_of(index, master_end), slave.end_of(found, slave_end))
    return None if master.rows and master.rows[0].begin > 0 else 0
