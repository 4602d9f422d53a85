"""Units read from rows as they are kept, without their queues. Any thread."""

from __future__ import annotations

from typing import cast

from ....record.layout import UNIT
from ..queue_engine import NO_UNIT
from ..queue_places import FILLER_SIZE, UNIT_BYTES
from .rocksdb_units import RocksDbUnits
from .unit_rows import decode_end, end_key, queue_prefix, units_of

_GAP = UNIT.pack(0, FILLER_SIZE, 0)


class RowSource:
    """A UnitSource."""

    def __init__(self, rows: RocksDbUnits) -> None:
        self._rows = rows

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether the queue has a newest message."""
        return self._rows.end(end_key(topic, queue_id, is_max=True)) is not None

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """The units in the rows; filler for one that is missing between the queue's ends."""
        prefix = queue_prefix(topic, queue_id)
        values = self._rows.values(prefix, queue_offset, queue_offset + count)
        if None not in values:
            return units_of(cast("list[bytes]", values))
        newest = self._offset(topic, queue_id, is_max=True)
        first = self._rows.first(prefix, 0)
        kept = range(0 if first is None else first[0], newest + 1)
        return b"".join(
            [
                value[:UNIT_BYTES] if value is not None else _GAP if at in kept and first is not None else NO_UNIT
                for at, value in enumerate(values, queue_offset)
            ]
        )

    def _offset(self, topic: str, queue_id: int, *, is_max: bool) -> int:
        key = end_key(topic, queue_id, is_max=is_max)
        value = self._rows.end(key)
        end = None if value is None else decode_end(key, value)
        return -1 if end is None else end.queue_offset
