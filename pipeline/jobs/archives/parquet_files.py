"""Writes rows to Parquet files, and describes them for the manifest: the work of an archive's task.

Rows come as Arrow batches of all columns. A file has one topic's messages of one day (UTC, by store time), ascending by
broker, queue and offset; a row that would break this order begins the next file. `topic` is not in the file but in its
path. Bodies are compressed with zstd. One thread, one directory; files are synced when they are complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ....record.crc32 import crc32
from ...column_names import COLUMN_NAMES
from ...schema import arrow_schema
from .archive_tree import StagedFile
from .manifest import ArchivedFile, FileRange
from .row_runs import codes, joined, runs

OPEN_FILES_MAX: Final = 16
ROW_GROUP_BYTES: Final = 32 << 20  # size of one row group in memory
PENDING_BYTES_MAX: Final = 128 << 20  # of all open files together
DAY_US: Final = 86_400_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

STORED_NAMES: Final = tuple(name for name in COLUMN_NAMES if name != "topic")
DICTIONARY_NAMES: Final = ["broker", "tags"]  # few different texts; Parquet drops the dictionary if there are many


class RowFiles:
    """Files that a task writes into `directory`, each at most about `target_bytes` long."""

    def __init__(self, directory: str, target_bytes: int) -> None:
        self._directory = directory
        self._target_bytes = target_bytes
        self._open: dict[tuple[str, int], _OpenFile] = {}
        self._done: list[StagedFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows of all columns (in any order, timestamps of any zone)."""
        if batch.num_rows == 0:
            return
        rows = conform(batch)
        stored_us = rows.column("storeTimestamp").cast(pa.int64()).to_numpy()
        days, topics = stored_us // DAY_US, rows.column("topic")
        stored = rows.select(STORED_NAMES)
        for begin, end, offsets in runs(rows, codes(topics), days):
            times = stored_us[begin:end]
            run = _FileRun(offsets, int(times.min()) // 1000, int(times.max()) // 1000)
            self._add_run((topics[begin].as_py(), int(days[begin])), run, stored.slice(begin, end - begin))
        while sum(each.pending_bytes for each in self._open.values()) > PENDING_BYTES_MAX:
            max(self._open.values(), key=lambda each: each.pending_bytes).write_pending()

    def finish(self) -> list[StagedFile]:
        """Closes open files; returns all files."""
        for key in list(self._open):
            self._close(key)
        return self._done

    def abandon(self) -> None:
        """Closes open files after an error: they are not used."""
        for each in self._open.values():
            each.abandon()
        self._open.clear()

    def _add_run(self, key: tuple[str, int], run: _FileRun, rows: pa.RecordBatch) -> None:
        current = self._open.get(key)
        if current is not None and (not current.may_follow(run) or current.size_bytes >= self._target_bytes):
            self._close(key)
            current = None
        if current is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            current = self._open[key] = _OpenFile(os.path.join(self._directory, f"{uuid.uuid4().hex}.part"))
        current.add(run, rows)

    def _close(self, key: tuple[str, int]) -> None:
        topic, day = key
        file = self._open.pop(key)
        date = (EPOCH + timedelta(days=day)).date().isoformat()
        self._done.append(StagedFile(file.path, topic, date, file.finish()))


@dataclass(frozen=True, slots=True)
class _FileRun:
    """Contiguous rows of one queue, and the first and last of their store times, ms."""

    range: FileRange
    stored_from_ms: int
    stored_to_ms: int


@dataclass(slots=True)
class _OpenFile:
    """One file that is being written."""

    path: str
    ranges: list[FileRange] = field(default_factory=list)
    rows: int = 0
    stored_from_ms: int = (1 << 63) - 1
    stored_to_ms: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_bytes: int = 0
    _sink: _CheckedSink | None = None
    _writer: Any = None

    @property
    def size_bytes(self) -> int:
        """The bytes written to the file so far."""
        return 0 if self._sink is None else self._sink.size_bytes

    def may_follow(self, run: _FileRun) -> bool:
        """Whether these rows come after all rows in the file."""
        last, new = self.ranges[-1], run.range
        return (last.broker, last.queue_id, last.end) <= (new.broker, new.queue_id, new.begin)

    def add(self, run: _FileRun, rows: pa.RecordBatch) -> None:
        joined(self.ranges, run.range)
        self.rows += rows.num_rows
        self.stored_from_ms = min(self.stored_from_ms, run.stored_from_ms)
        self.stored_to_ms = max(self.stored_to_ms, run.stored_to_ms)
        self.pending.append(rows)
        self.pending_bytes += rows.nbytes
        if self.pending_bytes >= ROW_GROUP_BYTES:
            self.write_pending()

    def write_pending(self) -> None:
        """Writes the collected rows as one row group."""
        if self._sink is None:
            self._sink = _CheckedSink(self.path)
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._sink, mode="w"),
                arrow_schema(STORED_NAMES),
                compression="zstd",
                compression_level=1,
                use_dictionary=DICTIONARY_NAMES,
            )
        if self.pending:
            self._writer.write_table(pa.Table.from_batches(self.pending))
            self.pending, self.pending_bytes = [], 0

    def finish(self) -> ArchivedFile:
        """Writes the rest, closes and syncs; returns the file's description with an empty path."""
        self.write_pending()
        assert self._sink is not None
        self._writer.close()
        self._sink.sync_and_close()
        return ArchivedFile(
            "",
            self.rows,
            self._sink.size_bytes,
            self._sink.crc32,
            self.stored_from_ms,
            self.stored_to_ms,
            tuple(self.ranges),
        )

    def abandon(self) -> None:
        """Closes the file, which is not used."""
        if self._sink is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
            self._sink.discard()


class _CheckedSink:
    """A file that is written front to back, and its CRC-32 so far. Has what pa.PythonFile needs of a file."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed when the Parquet file is done
        self.size_bytes = 0
        self.crc32 = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.crc32 = crc32(view, self.crc32)
        written = 0
        while written < len(view):
            written += self._file.write(view[written:])
        self.size_bytes += len(view)
        return len(view)

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """Does nothing; `sync_and_close` closes: Arrow would close the file before it is synced."""

    def discard(self) -> None:
        """Closes the file, whatever its content."""
        self._file.close()
        self.closed = True

    def sync_and_close(self) -> None:
        os.fsync(self._file.fileno())
        self.discard()


def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with exactly the columns and types of the schema: Spark's own batches have the session's time zone."""
    schema = arrow_schema(COLUMN_NAMES)
    columns = [batch.column(batch.schema.get_field_index(name)) for name in COLUMN_NAMES]
    columns = [
        column if column.type == wanted.type else pc.cast(column, wanted.type)
        for column, wanted in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_rows(batches: Iterator[pa.RecordBatch], directory: str, target_bytes: int) -> list[StagedFile]:
    """Writes a task's rows into files; all of them are synced."""
    files = RowFiles(directory, target_bytes)
    try:
        for batch in batches:
            files.add(batch)
        return files.finish()
    except BaseException:
        files.abandon()
        raise


def staged_text(staged: StagedFile) -> str:
    """A staged file as text, for its way to the driver."""
    return json.dumps(asdict(staged))


def staged_of(text: str) -> StagedFile:
    """The reverse of `staged_text`."""
    document = json.loads(text)
    file = document.pop("file")
    ranges = tuple(FileRange(**each) for each in file.pop("ranges"))
    return StagedFile(**document, file=ArchivedFile(**file, ranges=ranges))
