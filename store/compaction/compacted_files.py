"""The compacted files of one queue: written whole, made durable, then listed by one rename; never changed afterwards.

    {store}/compacted/queues/{topic}/{queue id}/manifest
                                               /{number}.compacted    records as in the log, then a row for each

A crash before the rename leaves files that nobody lists; the next run deletes them. A crash behind it leaves old files
that nobody lists any more; they go the same way. A reader opens a file by its name. Files are deleted only once the manifest
in memory does not name them; so a reader that comes too late finds there which file has the records now.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ...model.errors import CorruptRecordError, StoreFormatError
from ...record.codes import PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT
from ..log.segment import make_directory, sync_directory, write_fully
from ..opening.small_file import SYSTEM_FILES, SmallFiles
from .compacted_manifest import MANIFEST_BYTES_MAX, ListedFile, Manifest
from .compacted_rows import ROW_BYTES, CompactedRow, decode_row, encode_row, rows_of

if TYPE_CHECKING:
    from .compacted_rows import Rows

MANIFEST_FILE: Final = "manifest"
_SUFFIX: Final = ".compacted"


def read_manifest(folder: str, files: SmallFiles = SYSTEM_FILES) -> Manifest:
    """The manifest in a queue's folder; an empty one if there is none. Raises StoreFormatError, OSError."""
    path = os.path.join(folder, MANIFEST_FILE)
    data = files.read(path, MANIFEST_BYTES_MAX)
    manifest = Manifest() if data is None else Manifest.decode(data, path)
    for file in manifest.files:
        path = os.path.join(folder, file.name)
        found = os.path.getsize(path) if os.path.exists(path) else -1
        if found != file.size_bytes:
            raise StoreFormatError(path, f"it has {found} bytes where the manifest says {file.size_bytes}")
    return manifest


def write_manifest(folder: str, manifest: Manifest, files: SmallFiles = SYSTEM_FILES) -> None:
    """Makes these the files of the queue, durably. Raises OSError; the old or the new manifest is there then."""
    sync_directory(folder)
    files.replace(os.path.join(folder, MANIFEST_FILE), manifest.encode())


def delete_unlisted(folder: str, manifest: Manifest) -> None:
    """Deletes compacted files that do not count (any more). `manifest`: the one on the disk. Raises OSError."""
    listed = {file.name for file in manifest.files}
    names = os.listdir(folder) if os.path.isdir(folder) else []
    unlisted = [name for name in names if name.endswith(_SUFFIX) and name not in listed]
    if unlisted:
        sync_directory(folder)  # a former process may have been killed before its manifest was durable
    for name in unlisted:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))


class CompactedWriter:
    """Writes one new file, row by row; a context manager. The file is durable once `finish` has returned."""

    def __init__(self, folder: str, number: int) -> None:
        """Raises OSError."""
        make_directory(folder)
        self._listed = ListedFile(number, 0, 0, 0, 0, 0, 0)
        self._fd = os.open(
            os.path.join(folder, self._listed.name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
        )
        self._rows: list[bytes] = []
        self._waiting: list[bytes | memoryview] = []
        self._waiting_bytes = self._written = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._fd)

    @property
    def record_bytes(self) -> int:
        """How long its records are so far."""
        return self._listed.record_bytes

    @property
    def row_count(self) -> int:
        """How many records it has so far."""
        return self._listed.rows

    def add(self, row: CompactedRow, record: bytes | memoryview) -> None:
        """Adds a record behind the others. Raises OSError."""
        listed = self._listed
        self._rows.append(encode_row(replace(row, position=listed.record_bytes)))
        self._listed = replace(
            listed,
            record_bytes=listed.record_bytes + len(record),
            rows=listed.rows + 1,
            first=row.offset if listed.rows == 0 else listed.first,
            last=row.offset,
            tombstones=listed.tombstones + row.is_tombstone,
        )
        self._waiting.append(record)
        self._waiting_bytes += len(record)
        if self._waiting_bytes >= 1 << 20:
            self._write_out()

    def _write_out(self) -> None:
        data = b"".join(self._waiting)
        write_fully(self._fd, data, self._written)
        self._written += len(data)
        self._waiting, self._waiting_bytes = [], 0

    def finish(self, sync: Callable[[int], None] = os.fsync) -> ListedFile:
        """Writes the rows and makes the file durable. Raises OSError."""
        rows = b"".join(self._rows)
        self._waiting.append(rows)
        self._write_out()
        sync(self._fd)
        return replace(self._listed, rows_crc=zlib.crc32(rows))


class CompactedReader:
    """Reads one file; a context manager. Any thread, one at a time."""

    def __init__(self, folder: str, file: ListedFile) -> None:
        """Raises FileNotFoundError if a merge has just deleted it."""
        self.file = file
        self.path = os.path.join(folder, file.name)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def raw(self, begin: int, size: int) -> bytes:
        """At most `size` bytes of the file from `begin` on, unchecked. Raises StoreFormatError."""
        try:
            return os.pread(self._fd, size, begin)
        except OSError as error:
            raise StoreFormatError(self.path, f"the disk cannot read it: {error.strerror}") from error

    def row(self, index: int) -> CompactedRow:
        """Raises StoreFormatError if it is damaged."""
        return self.rows(index, index + 1)[0]

    def rows(self, begin: int, end: int) -> list[CompactedRow]:
        """Rows [begin, end). Raises StoreFormatError if one is damaged."""
        data = self._row_bytes(begin, end)
        found = [decode_row(data[at : at + ROW_BYTES]) for at in range(0, (end - begin) * ROW_BYTES, ROW_BYTES)]
        rows = [row for row in found if row is not None]
        if len(rows) != len(found):
            raise StoreFormatError(self.path, f"a row from {begin} to {end} is damaged")
        return rows

    def all_rows(self) -> Rows:
        """All rows. Raises StoreFormatError if they are damaged."""
        data = self._row_bytes(0, self.file.rows)
        if len(data) != self.file.rows * ROW_BYTES or zlib.crc32(data) != self.file.rows_crc:
            raise StoreFormatError(self.path, "checksum: its rows are damaged")
        return rows_of(data)

    def _row_bytes(self, begin: int, end: int) -> bytes:
        return self.raw(self.file.record_bytes + begin * ROW_BYTES, (end - begin) * ROW_BYTES)

    def first_from(self, offset: int) -> int:
        """The index of the first row at or behind a queue offset; the number of rows if there is none."""
        return self._first(lambda row: row.offset >= offset)

    def first_stored_from(self, stored_ms: int) -> int:
        """The same for rows stored at or after a time."""
        return self._first(lambda row: row.stored_ms >= stored_ms)

    def first_placed_from(self, physical: int) -> int:
        """The same for rows whose records were at or behind a physical offset of the log."""
        return self._first(lambda row: row.physical >= physical)

    def _first(self, is_behind: Callable[[CompactedRow], bool]) -> int:
        return bisect_left(range(self.file.rows), x=True, key=lambda index: is_behind(self.row(index)))

    def records(self, rows: list[CompactedRow], queue_id: int) -> Iterator[tuple[CompactedRow, bytes]]:
        """The records of rows, in their order. Raises CorruptRecordError at the first one that is not what was written."""
        at = 0
        while at < len(rows):
            begin, end, last = rows[at].position, rows[at].position + rows[at].size, at + 1
            while last < len(rows) and rows[last].position == end and end - begin < 1 << 20:
                end += rows[last].size
                last += 1
            try:
                data = os.pread(self._fd, end - begin, begin)
            except OSError:
                data = b""  # no record matches its checksum then
            for row in rows[at:last]:
                record = data[row.position - begin : row.position - begin + row.size]
                _check(record, row, queue_id)
                yield row, record
            at = last


def _check(record: bytes, row: CompactedRow, queue_id: int) -> None:
    is_whole = len(record) == row.size and zlib.crc32(record) == row.crc
    if not is_whole or (
        int.from_bytes(record[QUEUE_ID_AT : QUEUE_ID_AT + 4], "big") != queue_id
        or int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8], "big") != row.offset
        or int.from_bytes(record[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big") != row.physical
    ):
        raise CorruptRecordError(row.physical, row.size, "its compacted copy is damaged")
