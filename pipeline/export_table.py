"""Exported messages as Parquet (docs/formats/export.md): one row a message, head and end in the file's metadata. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ..model.export_line import VERSION, ExportedMessage, host_text
from ..model.properties import KEYS, TAGS, decode_properties

_ROWS: Final = 10_000
_BYTES: Final = 32 << 20  # of bodies, in one row group
_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("queue_offset", pa.int64(), nullable=False),
        pa.field("physical_offset", pa.int64(), nullable=False),
        pa.field("message_id", pa.string(), nullable=False),
        pa.field("tags", pa.string()),
        pa.field("keys", pa.list_(pa.string()), nullable=False),
        pa.field("properties", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("properties_stored", pa.binary(), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("flag", pa.int32(), nullable=False),
        pa.field("sys_flag", pa.int64(), nullable=False),
        pa.field("born_at_ms", pa.int64(), nullable=False),
        pa.field("born_host", pa.string(), nullable=False),
        pa.field("stored_at_ms", pa.int64(), nullable=False),
        pa.field("store_host", pa.string(), nullable=False),
        pa.field("reconsume_times", pa.int64(), nullable=False),
        pa.field("prepared_transaction_offset", pa.int64(), nullable=False),
    ]
)


class TableWriter:
    """An `ExportWriter` of Parquet. The file is a table only once `end` was called."""

    def __init__(self, file: BinaryIO, topics: Mapping[str, Any]) -> None:
        """Raises OSError."""
        self._rows: list[ExportedMessage] = []
        self._bytes = 0
        self._writer = pq.ParquetWriter(file, _SCHEMA, compression="zstd")
        self._writer.add_key_value_metadata({"zenit_export": json.dumps({"version": VERSION, "topics": dict(topics)})})

    def write(self, message: ExportedMessage) -> None:
        """See `ExportWriter`."""
        self._rows.append(message)
        self._bytes += len(message.body)
        if len(self._rows) >= _ROWS or self._bytes >= _BYTES:
            self._write_out()

    def end(self, counts: dict[str, int]) -> None:
        """See `ExportWriter`."""
        self._write_out()
        self._writer.add_key_value_metadata({"zenit_export_end": json.dumps(counts)})
        self._writer.close()

    def _write_out(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist([_row(message) for message in rows], _SCHEMA))


def _row(message: ExportedMessage) -> dict[str, Any]:
    properties = decode_properties(message.properties)
    row = {field.name: getattr(message, field.name) for field in _SCHEMA if hasattr(message, field.name)}
    return row | {
        "tags": properties.get(TAGS),
        "keys": properties.get(KEYS, "").split(),
        "properties": list(properties.items()),
        "properties_stored": message.properties,
        "born_host": host_text(message.born_host),
        "store_host": host_text(message.store_host),
    }
