"""One consume queue kept as rows (unit_rows): what its units are, wherever RocksDB keeps them.

A row that is missing between two others, since its record was damaged, reads as filler like a gap in a file.
"""

from __future__ import annotations

from typing import cast

from ....model.queue import PhysicalOffset, QueueOffset
from ....record.layout import UNIT
from ..queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces
from .rocksdb_units import RocksDbUnits
from .unit_rows import queue_prefix, stored_ms_of, units_of


class RowQueue(QueuePlaces):
    """`staged_next`: behind the units that were put, readable or not; `staged_physical`: where the last one's record is.
    `first_physical`: the first one's record is not before it. `is_noted`: an expiry will come to it once that has expired."""

    __slots__ = (
        "_first",
        "_first_hint",
        "first_physical",
        "is_noted",
        "prefix",
        "staged_next",
        "staged_physical",
        "units",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        units: RocksDbUnits,
        *,
        next_offset: int,
        physical: int,
        first_hint: int,
        first_physical: int = 0,
        delays_ms: tuple[int, ...] = (),
    ) -> None:
        """`physical`: of the last message. `first_hint`: no unit that is kept is before it."""
        super().__init__(topic, queue_id, delays_ms=delays_ms, keeps_times=True)
        self.units = units
        self.prefix = queue_prefix(topic, queue_id)
        self.next_offset = self.staged_next = next_offset
        self.staged_physical = physical
        self._first: int | None = None
        self._first_hint = first_hint
        self.first_physical = first_physical
        self.is_noted = False

    @property
    def first_offset(self) -> int:
        """Looked up when it is first asked for."""
        if self._first is None:
            found = self.units.first(self.prefix, self._first_hint) if self.next_offset else None
            self._first = self.next_offset if found is None else min(found[0], self.next_offset)
            if found is not None:
                self.first_physical = int.from_bytes(found[1][:8], "big", signed=True)
        return self._first

    def begin_at(self, queue_offset: int, physical: int) -> None:
        """No unit before it is kept any more. `physical`: the next one's record is not before it."""
        self._first = queue_offset
        self.first_physical = physical
        self._min_for = -1

    def min_offset(self, log_begin: PhysicalOffset) -> QueueOffset:
        """See QueuePlaces. Rows are read only if some of the records are gone and some are not."""
        if self.staged_next == self.next_offset and 0 <= self.staged_physical < log_begin:
            return QueueOffset(self.next_offset)
        first = self.first_offset
        if self.first_physical >= log_begin:
            return QueueOffset(first)
        return super().min_offset(log_begin)

    def end_at(self, next_offset: int, physical: int) -> None:
        """No unit from `next_offset` on is kept any more. `physical`: of the last message."""
        self.next_offset = self.staged_next = next_offset
        self.staged_physical = physical
        if self._first is not None:
            self._first = min(self._first, next_offset)
        self._min_for = -1

    def publish(self) -> None:
        """What was put may be read."""
        self.next_offset = self.staged_next

    def read(self, queue_offset: int, units_max: int) -> bytes:
        """Units from `queue_offset` on, at most `units_max`, before the end; b"" if there are none."""
        if not self.first_offset <= queue_offset < self.next_offset:
            return b""
        end = min(self.next_offset, queue_offset + units_max)
        values = self.units.values(self.prefix, queue_offset, end)
        if None not in values:
            return units_of(cast("list[bytes]", values))
        return b"".join(self._filled(values, end))

    def _filled(self, values: list[bytes | None], end: int) -> list[bytes]:
        """With filler for each row that is missing: it names what follows in the log."""
        follows = self.units.first(self.prefix, end) if values[-1] is None else None
        behind = self.staged_physical if follows is None else int.from_bytes(follows[1][:8], "big")
        filled: list[bytes] = []
        for value in reversed(values):
            if value is None:
                filled.append(UNIT.pack(behind, FILLER_SIZE, 0))
            else:
                filled.append(value[:UNIT_BYTES])
                behind = int.from_bytes(value[:8], "big")
        return filled[::-1]

    def stored_ms(self, queue_offset: int) -> int | None:
        """From the row itself."""
        value = self.units.value(self.prefix, queue_offset)
        return None if value is None else stored_ms_of(value)

    def resume_offset(self, queue_offset: int) -> QueueOffset:
        """The first unit that is kept."""
        return QueueOffset(max(self.first_offset, queue_offset + 1))
