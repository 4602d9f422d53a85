"""The epochs of one log, as a value: which epoch each byte was written in, and how far two logs agree.

A row (epoch, begin) says: from physical offset `begin` on, up to the next row's, the bytes were written in `epoch`.
Epochs rise from row to row, begins never fall; rows with the same begin are epochs in which nothing was written. Two
logs that hold the same row hold the same bytes below it, since an epoch has one master and a row is on the disk before
the first byte of its epoch. That is what the truncation point rests on (design rules R4 and R5).

Retention takes no rows: a slave that is behind it, or parted from its master before it, is told so by rows whose bytes
are gone. Without them nothing in common would be found, and the slave asked to forget what is confirmed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Final, Self

from ...model.queue import PhysicalOffset

ROWS_MAX: Final = 1000
"""Rows a list holds."""

_begin_of = attrgetter("begin")


@dataclass(frozen=True, slots=True)
class Epoch:
    """A term of one master, and where its first record lies."""

    number: int
    begin: PhysicalOffset


@dataclass(frozen=True, slots=True)
class EpochList:
    """The rows of one log, oldest first. Raises ValueError where they are not in order or too many."""

    rows: tuple[Epoch, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rows) > ROWS_MAX:
            raise ValueError(f"{len(self.rows)} epochs, at most {ROWS_MAX}")
        for row, after in pairwise(self.rows):
            if row.number >= after.number or row.begin > after.begin:
                raise ValueError(f"epoch {after.number} at {after.begin} behind epoch {row.number} at {row.begin}")

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int]]) -> Self:
        """From pairs (epoch, begin)."""
        return cls(tuple(Epoch(number, PhysicalOffset(begin)) for number, begin in rows))

    @property
    def newest(self) -> int:
        """The number of the last row; 0 where there is none."""
        return self.rows[-1].number if self.rows else 0

    def covering(self, offset: int) -> Epoch | None:
        """The row that the byte at `offset` belongs to; None where it lies before the first row."""
        index = bisect_right(self.rows, offset, key=_begin_of)
        return self.rows[index - 1] if index else None

    def begin_after(self, offset: int) -> int | None:
        """Where the first epoch begins that begins above `offset`; None in the last one."""
        index = bisect_right(self.rows, offset, key=_begin_of)
        return self.rows[index].begin if index < len(self.rows) else None

    def with_row(self, number: int, begin: int) -> EpochList:
        """With the row of an epoch that begins now.

        Beyond ROWS_MAX one goes that holds nothing, which changes no truncation point; where none is such, the oldest.
        Raises ValueError where the epoch is not above all others, or begins before the last one does.
        """
        rows = (*self.rows, Epoch(number, PhysicalOffset(begin)))
        if len(rows) > ROWS_MAX:
            spare = next((index for index, (row, after) in enumerate(pairwise(rows)) if row.begin == after.begin), 0)
            rows = (*rows[:spare], *rows[spare + 1 :])
        return EpochList(rows)

    def below(self, offset: int) -> EpochList:
        """Once the log was cut to end at `offset`: rows that begin there or behind are dropped (R4)."""
        return self._kept(tuple(row for row in self.rows if row.begin < offset))

    def recovered(self, end: int) -> EpochList:
        """After a start whose recovery found the log's end: rows that begin above it never got a byte (R4)."""
        return self._kept(tuple(row for row in self.rows if row.begin <= end))

    def _kept(self, rows: tuple[Epoch, ...]) -> EpochList:
        return self if len(rows) == len(self.rows) else EpochList(rows)

    def end_of(self, index: int, log_end: int) -> int:
        """Where the epoch of row `index` ends in a log that ends at `log_end`."""
        return min(self.rows[index + 1].begin, log_end) if index + 1 < len(self.rows) else log_end


NO_EPOCHS: Final = EpochList()


def truncation_point(master: EpochList, master_end: int, slave: EpochList, slave_end: int) -> int:
    """How far a slave's log is the master's (R4); it keeps that much and gets the rest.

    The newest row that both hold, then the lower of both ends of that epoch; 0 where they share none.
    """
    theirs = {row: index for index, row in enumerate(slave.rows)}
    for index in range(len(master.rows) - 1, -1, -1):
        found = theirs.get(master.rows[index])
        if found is not None:
            return min(master.end_of(index, master_end), slave.end_of(found, slave_end))
    return 0
