"""Exported messages as Parquet (docs/formats/export.md): one row a message, head and end in the file's metadata. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ..model.errors import StoreFormatError
from ..model.export_line import VERSION, ExportedMessage, checked_topics, host_bytes, host_text
from ..model.properties import KEYS, TAGS, decode_properties

_HEAD: Final = "zenit_export"
_END: Final = "zenit_export_end"
_READ_ROWS: Final = 1_000
_ROWS: Final = 10_000
_BYTES: Final = 32 << 20  # of bodies, in one row group
_OTHERWISE: Final = {
    "properties": "properties_stored",
    "born_host": "born_host",
    "store_host": "store_host",
}  # other values
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
_SAME: Final = [name for name in _SCHEMA.names if name in ExportedMessage.__slots__ and name not in _OTHERWISE]
_READ_COLUMNS: Final = [*_SAME, *_OTHERWISE.values()]


class TableWriter:
    """An `ExportWriter` of Parquet. The file is a table only once `end` was called."""

    def __init__(self, file: BinaryIO, topics: Mapping[str, Any]) -> None:
        """Raises OSError."""
        self._rows: list[ExportedMessage] = []
        self._bytes = 0
        self._writer = pq.ParquetWriter(file, _SCHEMA, compression="zstd", write_page_checksum=True)
        self._writer.add_key_value_metadata({_HEAD: json.dumps({"version": VERSION, "topics": dict(topics)})})

    def write(self, message: ExportedMessage) -> None:
        """See `ExportWriter`."""
        self._rows.append(message)
        self._bytes += len(message.body)
        if len(self._rows) >= _ROWS or self._bytes >= _BYTES:
            self._write_out()

    def end(self, counts: dict[str, int]) -> None:
        """See `ExportWriter`."""
        self._write_out()
        self._writer.add_key_value_metadata({_END: json.dumps(counts)})
        self._writer.close()

    def _write_out(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist([_row(message) for message in rows], _SCHEMA))


def read_table(path: str, file: BinaryIO) -> Iterator[tuple[int, ExportedMessage | dict[str, Any]]]:
    """What a file of `TableWriter` says, numbered as `read_export` does: 1 = the settings of the topics, 2 = the first row.

    Raises StoreFormatError for what is no whole export, naming the line; OSError.
    """
    number = 0
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as table:
            topics = _topics(table)
            number = 1
            yield number, topics
            for batch in table.iter_batches(_READ_ROWS, columns=_READ_COLUMNS):
                for row in batch.to_pylist():
                    message = _message(row, path, number + 1)
                    number += 1
                    yield number, message
            if number != 1 + table.metadata.num_rows:  # a damaged head of a page ended a column early
                raise ValueError(f"{1 + table.metadata.num_rows - number} messages are missing")
    except (ValueError, OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        place = f"behind line {number}" if number else "line 1"
        raise StoreFormatError(path, f"{place}: {error}") from error


def _topics(table: pq.ParquetFile) -> dict[str, Any]:
    facts = table.metadata.metadata or {}
    head, end = (_json(facts.get(name.encode(), b"")) for name in (_HEAD, _END))
    topics = checked_topics(head.get("version"), head.get("topics"))
    if not table.schema_arrow.equals(_SCHEMA):
        raise ValueError(f"expected the columns {', '.join(_SCHEMA.names)}, of an export's types")
    if end.get("messages") != table.metadata.num_rows:
        raise ValueError(f"it holds {table.metadata.num_rows} messages, and says another number")
    return topics


def _json(text: bytes) -> dict[str, Any]:
    document = json.loads(text) if text else {}
    return document if isinstance(document, dict) else {}


def _message(row: Mapping[str, Any], path: str, number: int) -> ExportedMessage:
    try:
        hosts: dict[str, Any] = {name: host_bytes(row[name]) for name in ("born_host", "store_host")}
    except ValueError as error:
        raise StoreFormatError(path, f"line {number}: {error}") from error
    return ExportedMessage(properties=row["properties_stored"], **{name: row[name] for name in _SAME}, **hosts)


def _row(message: ExportedMessage) -> dict[str, Any]:
    properties = decode_properties(message.properties)
    return {name: getattr(message, name) for name in _SAME} | {
        "tags": properties.get(TAGS),
        "keys": properties.get(KEYS, "").split(),
        "properties": list(properties.items()),
        "properties_stored": message.properties,
        "born_host": host_text(message.born_host),
        "store_host": host_text(message.store_host),
    }
