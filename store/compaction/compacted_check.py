"""Checks compacted files piece by piece, and writes a record again that has rotted. It waits for the disk: any thread.

Only bytes that match the row's checksum are written, in their place: whoever reads meanwhile tests them against the same row.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from ...model.errors import CorruptRecordError, StoreFormatError
from ..log.segment import write_fully
from .compacted_files import CompactedReader
from .compacted_manifest import ListedFile
from .compacted_queues import QueueKey
from .compacted_rows import DamagedRow

_ROWS_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """`end`: the row up to which it was read, None: the file's end; `read_bytes` of records. `reason`: why the rows cannot be
    read, "" if they can."""

    end: int | None
    read_bytes: int
    damaged: tuple[DamagedRow, ...] = ()
    reason: str = ""


def check_rows(folder: str, key: QueueKey, file: ListedFile, begin: int, bytes_max: int) -> CheckedRows:
    """Checks about `bytes_max` bytes of records from row `begin` on, and all rows before the first. A file that a merge has
    replaced counts as whole: the merge checked what it copied. Raises OSError."""
    try:
        with CompactedReader(folder, file) as reader:
            if begin == 0:
                reader.all_rows()
            return _checked(reader, key, begin, bytes_max)
    except FileNotFoundError:
        return CheckedRows(None, 0)
    except StoreFormatError as error:
        return CheckedRows(None, 0, (), error.reason)


def _checked(reader: CompactedReader, key: QueueKey, begin: int, bytes_max: int) -> CheckedRows:
    damaged: list[DamagedRow] = []
    at, read_bytes = begin, 0
    while at < reader.file.rows and read_bytes < bytes_max:
        for row in reader.rows(at, min(at + _ROWS_AT_ONCE, reader.file.rows)):
            try:
                for _ in reader.records([row], key[1]):
                    read_bytes += row.size
            except CorruptRecordError:
                read_bytes += row.size
                damaged.append(DamagedRow(key, reader.path, row))
            at += 1
            if read_bytes >= bytes_max:
                break
    return CheckedRows(at if at < reader.file.rows else None, read_bytes, tuple(damaged))


def mend_row(found: DamagedRow, record: bytes) -> bool:
    """Writes the record of a row again, durably; False if a merge has replaced the file. Raises OSError."""
    assert found.is_whole(record)
    try:
        fd = os.open(found.path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        write_fully(fd, record, found.row.position)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return True
