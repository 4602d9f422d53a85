"""Converts pulled records to Arrow record batches, without an object per message and with one copy of its bytes.

The column kernel fills Arrow's buffers. The batches made of them have exactly the schema of the requested columns, because
Spark checks only the first batch of a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from ...record.codes import ENTRIES_ROOM, NO_ROOM, PROPERTIES_ROOM_BYTES
from ...record.kernel import BytesColumn, ColumnFiller, MessageBatch
from ..column_names import SYS_FLAG
from ..schema import arrow_schema

ROWS_MAX: Final = 16_384
BODIES_BYTES: Final = 4 << 20  # of one batch; a single larger body gets a batch of its own
_TEXT_BYTES: Final = 48  # per row; if texts are longer, a batch has fewer rows
_MAP_BYTES: Final = 128  # per row, of names and of values each
_MAP_ENTRIES: Final = 8  # per row

_INTS: Final = ("queueId", "reconsumeTimes", "flag", SYS_FLAG)
_LONGS: Final = ("queueOffset", "bodyCrc", "bornTimestamp", "storeTimestamp")
_TEXTS: Final = ("messageId", "keys", "tags", "messageGroup", "traceparent")

Build = Callable[[int], pa.Array]
"""Makes a column of so many rows from what the kernel has filled."""


class BatchBuilder:
    """Makes record batches of one queue's messages. One thread."""

    def __init__(
        self,
        names: tuple[str, ...],
        *,
        topic: str,
        broker: str,
        tags: tuple[bytes, ...] | None = None,
        check_crc: bool = True,
        rows_max: int = ROWS_MAX,
        bodies_bytes: int = BODIES_BYTES,
    ) -> None:
        """`names`: the columns. `tags`: only messages with one of these; None = all. `bodies_bytes`: of a batch."""
        self._schema = arrow_schema(names)
        self._places = {"topic": topic, "broker": broker}
        self._tags = tags
        self._check_crc = check_crc
        self._rows_max = rows_max
        self._bodies_bytes = bodies_bytes
        self._begin(bodies_bytes)

    def _begin(self, bodies_bytes: int) -> None:
        """Allocates new buffers: the old ones belong to the last batch."""
        filled: dict[str, Any] = {}
        self._build = {name: self._new_column(name, filled, bodies_bytes) for name in self._schema.names}
        self._filler = ColumnFiller(self._rows_max, filled, tags=self._tags, check_crc=self._check_crc)

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return int(self._filler.rows)

    def add(self, batch: MessageBatch, first: int, begin: int, end: int) -> tuple[int, int]:
        """Takes messages from index `first` on, those with queue offsets [begin, end).

        Returns the index of the first one not taken, and why it stopped there: the kernel's ALL_TAKEN, BEHIND_END, NO_ROOM
        (call `finish`, then continue), or the reason why that message cannot be taken at all.
        """
        index = self._filler.fill(batch, first, begin, end)
        if self._filler.status == NO_ROOM and not self._filler.rows:
            self._begin(self._filler.needed_bytes)
            index = self._filler.fill(batch, index, begin, end)
        return index, self._filler.status

    def finish(self) -> pa.RecordBatch:
        """Returns the rows so far, and begins the next batch."""
        rows = self.rows
        batch = pa.RecordBatch.from_arrays(
            [self._build[name](rows) for name in self._schema.names], schema=self._schema
        )
        self._begin(self._bodies_bytes)
        return batch

    def _new_column(self, name: str, filled: dict[str, Any], bodies_bytes: int) -> Build:
        """Adds the buffers for the kernel to `filled`; returns the function that makes a column of them."""
        if name in self._places:
            place = self._places[name]
            return lambda rows: pa.repeat(pa.scalar(place, pa.string()), rows)
        kind = self._schema.field(name).type
        if name in _INTS or name in _LONGS:
            letter, width = ("i", 4) if name in _INTS else ("q", 8)
            values = pa.allocate_buffer(width * self._rows_max)
            filled[name] = _writable(values, letter)
            return lambda rows: pa.Array.from_buffers(kind, rows, [None, values], null_count=0)
        if name in _TEXTS:
            return self._new_bytes(filled, name, kind, self._rows_max * _TEXT_BYTES + PROPERTIES_ROOM_BYTES)
        if name == "body":
            return self._new_bytes(filled, name, kind, bodies_bytes, has_nulls=False)
        if name == "deliverTimestamp":
            return self._new_due(filled, name, kind)
        return self._new_map(filled, name, kind)

    def _new_bytes(
        self, filled: dict[str, Any], name: str, kind: pa.DataType, size_bytes: int, *, has_nulls: bool = True
    ) -> Build:
        column, build = _bytes_column(self._rows_max, size_bytes, kind, has_nulls=has_nulls)
        filled[name] = column
        return build

    def _new_due(self, filled: dict[str, Any], name: str, kind: pa.DataType) -> Build:
        values, valid = pa.allocate_buffer(8 * self._rows_max), pa.allocate_buffer(_bitmap_bytes(self._rows_max))
        filled[name] = _writable(values, "q"), _writable(valid, "B")
        return lambda rows: pa.Array.from_buffers(kind, rows, [valid, values], null_count=self._filler.undelayed)

    def _new_map(self, filled: dict[str, Any], name: str, kind: pa.DataType) -> Build:
        entries = self._rows_max * _MAP_ENTRIES + ENTRIES_ROOM
        size_bytes = self._rows_max * _MAP_BYTES + PROPERTIES_ROOM_BYTES
        ends = pa.allocate_buffer(4 * (self._rows_max + 1))
        names, build_names = _bytes_column(entries, size_bytes, kind.key_type, has_nulls=False)
        values, build_values = _bytes_column(entries, size_bytes, kind.item_type, has_nulls=False)
        filled[name] = _writable(ends, "i"), names, values

        def build(rows: int) -> pa.Array:
            count = self._filler.entries
            row_ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, ends], null_count=0)
            return pa.MapArray.from_arrays(row_ends, build_names(count), build_values(count), kind)

        return build


def _bytes_column(rows_max: int, size_bytes: int, kind: pa.DataType, *, has_nulls: bool) -> tuple[BytesColumn, Build]:
    ends, data = pa.allocate_buffer(4 * (rows_max + 1)), pa.allocate_buffer(size_bytes)
    valid = pa.allocate_buffer(_bitmap_bytes(rows_max)) if has_nulls else None
    bits = memoryview(bytearray()) if valid is None else _writable(valid, "B")
    column = BytesColumn(_writable(ends, "i"), _writable(data, "B"), bits)

    def build(rows: int) -> pa.Array:
        bitmap = valid if column.null_count else None
        return pa.Array.from_buffers(
            kind, rows, [bitmap, ends, data.slice(0, column.used_bytes)], null_count=column.null_count
        )

    return column, build


def _bitmap_bytes(rows: int) -> int:
    return (rows + 7) // 8


def _writable(buffer: pa.Buffer, letter: str) -> memoryview:
    return memoryview(buffer).cast("B").cast(letter)  # type: ignore[call-overload, no-any-return]
