"""Converts Arrow batches to messages: columns in, an accumulator of records out. Pure.

Bodies become objects one request at a time, because recently used memory is four times faster than new memory. A text that
is equal in all rows is one object, and an absent column costs nothing. The types of columns were checked before
(write_columns); their values are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ...client.sending.outgoing import COMPRESS_OVER_BYTES, Fill, compress_body, fill_bodies
from ...model.errors import UnwritableColumn
from ...model.properties import RESERVED, SHARDING_KEY, TIMER_DELIVER_MS, encode_properties
from .write_columns import WriteColumns

RECORD_BYTES: Final = 200  # of a record without body and properties, approximately
REQUEST_BYTES: Final = 768 * 1024

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """The rows of one batch, column by column; a text instead of a list: for every row; None: for no row.

    `bodies`: of type binary. `sizes`: of each row's record, in bytes, approximately. `properties`: encoded, with the
    message group. `delayed`: which rows are for later delivery.
    """

    bodies: pa.Array
    sizes: list[int]
    topics: str | list[str]
    tags: str | list[str | None] | None = None
    keys: list[list[str] | None] | None = None
    groups: list[str | None] | None = None
    properties: list[bytes] | None = None
    flags: list[int] | None = None
    delayed: list[bool] | None = None

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def body_bytes(self) -> int:
        """The sum over all rows."""
        return int(pc.sum(pc.binary_length(self.bodies)).as_py() or 0)

    def topic(self, index: int) -> str:
        """The topic of a row."""
        return self.topics if isinstance(self.topics, str) else self.topics[index]

    def group(self, index: int) -> str | None:
        """The message group of a row."""
        return None if self.groups is None else self.groups[index]

    def waits(self, picks: Sequence[int]) -> bool:
        """Whether one of these rows is for later delivery."""
        return self.delayed is not None and any(self.delayed[index] for index in picks)

    def fill(self, picks: Sequence[int]) -> Fill:
        """Appends these rows, in this order. The result raises MessageTooLarge, MessageIllegal."""
        if isinstance(picks, range):
            bodies: list[bytes] = self.bodies.slice(picks.start, len(picks)).to_pylist()
        else:
            bodies = self.bodies.take(pa.array(picks, pa.int64())).to_pylist()
        tags = self.tags if self.tags is None or isinstance(self.tags, str) else _pick(self.tags, picks)
        keys = None if self.keys is None else _pick(self.keys, picks)
        if self.properties is None and self.flags is None:
            return fill_bodies(bodies, COMPRESS_OVER_BYTES, tags, keys)  # type: ignore[arg-type]  # None: a row without
        properties = None if self.properties is None else _pick(self.properties, picks)
        flags = None if self.flags is None else _pick(self.flags, picks)

        def fill(accumulator: Any) -> bool:
            for index, body in enumerate(bodies):
                packed, sys_flag = compress_body(body, COMPRESS_OVER_BYTES)
                if not accumulator.append(
                    packed,
                    tags if tags is None or isinstance(tags, str) else tags[index],
                    None if keys is None else keys[index],
                    b"" if properties is None else properties[index],
                    0 if flags is None else flags[index],
                    sys_flag,
                ):
                    return False
            return True

        return fill

    def requests(self, picks: Sequence[int]) -> list[Sequence[int]]:
        """These rows in parts of about REQUEST_BYTES, at least one row each."""
        sizes = _pick(self.sizes, picks)
        if sum(sizes) <= REQUEST_BYTES:
            return [picks]
        parts: list[Sequence[int]] = []
        begin = size_bytes = 0
        for at, own_bytes in enumerate(sizes):
            if size_bytes + own_bytes > REQUEST_BYTES and at > begin:
                parts.append(picks[begin:at])
                begin, size_bytes = at, 0
            size_bytes += own_bytes
        parts.append(picks[begin:])
        return parts


def rows_of(batch: pa.RecordBatch, columns: WriteColumns, topic: str | None) -> ArrowRows:
    """The rows of a batch. `topic`: of all of them, if an option names it. Raises UnwritableColumn, MessageIllegal."""
    names = columns.names

    def column(index: int | None) -> pa.Array | None:
        found = None if index is None else batch.column(index)
        return None if found is None or found.null_count == len(found) else found

    body = batch.column(columns.body)
    if body.null_count:
        raise UnwritableColumn(names[columns.body], "it is null in a row; a message needs a body, which may be empty")
    bodies = body if body.type == pa.binary() else body.cast(pa.binary())
    groups = _groups(column(columns.message_group), names[columns.message_group or 0])
    delivered_ms = _milliseconds(column(columns.deliver_at))
    keys = _keys(column(columns.keys))
    properties = _properties(len(body), column(columns.properties), groups, delivered_ms)
    return ArrowRows(
        bodies,
        sizes_of(bodies, keys, properties),
        topics=_topics(batch, columns, topic),
        tags=_tags(column(columns.tags)),
        keys=keys,
        groups=groups,
        properties=properties,
        flags=_flags(column(columns.flag)),
        delayed=None if delivered_ms is None else [at_ms is not None for at_ms in delivered_ms],
    )


def sizes_of(bodies: pa.Array, keys: list[list[str] | None] | None, properties: list[bytes] | None) -> list[int]:
    """The size of each row's record, in bytes, approximately."""
    sizes: list[int] = pc.add(pc.binary_length(bodies), RECORD_BYTES).to_numpy().tolist()
    if keys is not None:
        sizes = [size + sum(map(len, own or ())) for size, own in zip(sizes, keys, strict=True)]
    if properties is not None:
        sizes = [size + len(own) for size, own in zip(sizes, properties, strict=True)]
    return sizes


def _pick(values: list[_V], picks: Sequence[int]) -> list[_V]:
    if isinstance(picks, range):
        return values[picks.start : picks.stop]
    return [values[index] for index in picks]


def _topics(batch: pa.RecordBatch, columns: WriteColumns, topic: str | None) -> str | list[str]:
    if columns.topic is None:
        assert topic is not None  # otherwise the plan would have one
        return topic
    column = batch.column(columns.topic)
    if column.null_count:
        raise UnwritableColumn(
            columns.names[columns.topic], "it is null in a row; set the option topic to give one topic to all rows"
        )
    distinct = column.unique()
    only: str = distinct[0].as_py() if len(distinct) == 1 else ""
    return only or column.to_pylist()


def _tags(column: pa.Array | None) -> str | list[str | None] | None:
    if column is None:
        return None
    distinct = column.unique()
    if len(distinct) == 1:
        return distinct[0].as_py() or None
    return [text or None for text in column.to_pylist()]


def _keys(column: pa.Array | None) -> list[list[str] | None] | None:
    """A text is keys separated by blanks, as in the source."""
    if column is None:
        return None
    if column.type == pa.string():
        return [text.split() or None if text else None for text in column.to_pylist()]
    return [[key for key in keys if key] or None if keys else None for keys in column.to_pylist()]


def _groups(column: pa.Array | None, name: str) -> list[str | None] | None:
    if column is None:
        return None
    try:
        return [text or None for text in column.cast(pa.string()).to_pylist()]
    except pa.ArrowInvalid:
        raise UnwritableColumn(name, "its bytes are not UTF-8 in a row") from None


def _milliseconds(column: pa.Array | None) -> list[int | None] | None:
    if column is None:
        return None
    microseconds = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return pc.divide(microseconds, 1000).to_pylist()  # type: ignore[no-any-return]


def _flags(column: pa.Array | None) -> list[int] | None:
    if column is None:
        return None
    return column.fill_null(0).to_pylist()  # type: ignore[no-any-return]


def _properties(
    count: int,
    column: pa.Array | None,
    groups: list[str | None] | None,
    delivered_ms: list[int | None] | None,
) -> list[bytes] | None:
    """The properties of each row, encoded, without the system's own: the written message is a new one."""
    if column is None and groups is None and delivered_ms is None:
        return None
    encoded = [b""] * count if column is None else [_encode(entries) for entries in column.to_pylist()]
    if groups is not None:
        of_group = {group: encode_properties({SHARDING_KEY: group}) if group else b"" for group in set(groups)}
        encoded = [own + of_group[group] for own, group in zip(encoded, groups, strict=True)]
    if delivered_ms is not None:
        encoded = [
            own if at_ms is None else own + encode_properties({TIMER_DELIVER_MS: str(max(0, at_ms))})
            for own, at_ms in zip(encoded, delivered_ms, strict=True)
        ]
    return encoded


def _encode(entries: list[tuple[str, str | None]] | None) -> bytes:
    """A property without a value counts as absent."""
    return encode_properties({name: value for name, value in entries or () if value and name not in RESERVED})
