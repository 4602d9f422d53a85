"""Reads the log for a scrub: limited reads by its own descriptor, which leave the page cache as it was.

Cached pages are read from memory; pages that came from the disk are dropped again after the check, so that a scrub
of a large log does not displace what consumers read. A worker's, one at a time.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final, Self

from ...model.errors import OffsetOutOfRange
from ..log.commit_log import CommitLog
from .log_check import Checked, LogChecker

_IS_LINUX: Final = hasattr(os, "RWF_NOWAIT")


class ScrubReader:
    """A context manager over one segment's file, found by an offset in it."""

    def __init__(self, log: CommitLog, offset: int) -> None:
        """Raises OffsetOutOfRange if the log does not hold the offset (any more), OSError."""
        segment = next((found for found in log.segments() if found.base_offset <= offset < found.end_offset), None)
        if segment is None:
            raise OffsetOutOfRange("commit log", offset, log.begin, log.written)
        self._base = segment.base_offset
        self._path = segment.path
        try:
            self._fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:  # it has just gone to retention
            raise OffsetOutOfRange("commit log", offset, log.begin, log.written) from error
        self._cold: list[tuple[int, int]] = []  # (position, size) of what had to come from the disk

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for at, size in self._cold:
                os.posix_fadvise(self._fd, at, size, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(self._fd)

    def is_there(self) -> bool:
        """True if the file still has its name: then all bytes read so far were the log's. Raises OSError."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def read(self, begin: int, end: int) -> bytes:
        """Bytes [begin, end) of the log, of this segment. Raises OSError."""
        at, size = begin - self._base, end - begin
        cached = self._read_cached(at, size)
        if cached is not None:
            return cached
        data = b""
        while len(data) < size:
            part = os.pread(self._fd, size - len(data), at + len(data))
            if not part:
                raise OSError(f"the file ends at {at + len(data)}")
            data = data + part if data else part
        if _IS_LINUX:
            self._cold.append((at, size))
        return data

    def _read_cached(self, at: int, size: int) -> bytes | None:
        """True if all of it is in memory; None if that is unknown on this platform."""
        if not _IS_LINUX:
            return None
        data = bytearray(size)
        try:
            done = os.preadv(self._fd, (data,), at, os.RWF_NOWAIT)
        except OSError:
            return None
        return bytes(data) if done == size else None


def check_log(log: CommitLog, checker: LogChecker, begin: int, *, bytes_max: int, limit: int) -> Checked:
    """Checks the log like `LogChecker.check`. Raises OffsetOutOfRange, OSError."""
    with ScrubReader(log, begin) as reader:
        return checker.check(reader.read, begin, bytes_max=bytes_max, limit=limit)
