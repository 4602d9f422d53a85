"""The checksum side log: (physical offset, length, CRC-32) of every append to the commit log, as it was written.

RocketMQ's records protect only their body; this protects headers and properties too. `checksum/` holds one file per
commit-log segment, with the same name, append-only, 16 bytes an append, big-endian:

    byte 0 physical offset 8 | 8 length 4 | 12 CRC-32 4

Entries ascend. They wait in memory until the flush thread writes them (each flush, before the log itself is synced)
and are synced each second: a killed process may lose the entries of its last moments, and a record without an entry is
checked by its structure and body CRC alone. A torn or implausible entry ends its file. A full disk costs entries,
never messages; `entries_lost` counts them.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..model.queue import PhysicalOffset
from .segment import NO_SPACE, SYSTEM_DISK, Disk, make_directory, segment_name, sync_directory

try:
    from isal.isal_zlib import crc32 as crc32
except ImportError:  # no wheel for this machine: the same value, slower
    from zlib import crc32 as crc32

logger = logging.getLogger(__name__)

ENTRY: Final = struct.Struct(">QII")
PENDING_MAX: Final = 65_536  # entries held in memory; the appender writes them itself beyond this
_pack: Final = ENTRY.pack


@dataclass(frozen=True, slots=True)
class ChecksumEntry:
    """One append: bytes [offset, offset + length) of the commit log had this CRC-32."""

    offset: PhysicalOffset
    length: int
    crc: int

    @property
    def end(self) -> PhysicalOffset:
        """Just past the append."""
        return PhysicalOffset(self.offset + self.length)


class ChecksumLog:
    """The loop thread appends, the flush thread writes and syncs, anybody reads what is written."""

    def __init__(self, directory: str, *, segment_bytes: int, disk: Disk = SYSTEM_DISK) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._disk = disk
        self._pending: deque[tuple[int, int, int]] = deque()
        self._lock = threading.Lock()  # guards what follows; never held by `append`
        self._fd = -1
        self._base = -1
        self._size_bytes = 0
        self._unsynced = False
        self.entries_lost = 0

    def append(self, offset: int, length: int, crc: int) -> None:
        """Notes one append. Loop thread only. Raises OSError only where it had to write (PENDING_MAX)."""
        pending = self._pending
        pending.append((offset, length, crc))
        if len(pending) >= PENDING_MAX:
            self.write_out()

    def write_out(self) -> None:
        """Writes the entries that wait. Raises OSError; a full disk drops them instead."""
        with self._lock:
            pending = self._pending
            entries = [pending.popleft() for _ in range(len(pending))]
            begin = 0
            while begin < len(entries):
                base = self._base_of(entries[begin][0])
                end = len(entries)
                if entries[-1][0] >= base + self._segment_bytes:
                    end = next(i for i in range(begin, end) if entries[i][0] >= base + self._segment_bytes)
                self._write(base, entries[begin:end])
                begin = end

    def _base_of(self, offset: int) -> int:
        return offset - offset % self._segment_bytes

    def _write(self, base: int, entries: list[tuple[int, int, int]]) -> None:
        data = b"".join([_pack(*entry) for entry in entries])
        try:
            if base != self._base:
                self._open(base)
            done = self._disk.pwritev(self._fd, (data,), self._size_bytes)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            done = 0
        written = done // ENTRY.size
        self._size_bytes += written * ENTRY.size  # a torn rest is overwritten by the next entry
        if written < len(entries) and not self.entries_lost:
            logger.warning("disk full: checksum entries are dropped base=%s", base)
        self.entries_lost += len(entries) - written
        self._unsynced = True

    def _open(self, base: int) -> None:
        self._close_file()
        make_directory(self.directory)
        fd = os.open(self._path(base), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._fd, self._base = fd, base
        self._size_bytes = os.fstat(fd).st_size // ENTRY.size * ENTRY.size
        sync_directory(self.directory)  # entries that are synced are worth nothing in a file that has lost its name

    def _close_file(self) -> None:
        fd, self._fd, self._base = self._fd, -1, -1
        if fd >= 0:
            try:
                if self._unsynced:
                    self._disk.fdatasync(fd)
                    self._unsynced = False
            finally:
                os.close(fd)

    def sync(self) -> None:
        """Makes what is written durable. Raises OSError."""
        with self._lock:
            fd = self._fd
            if fd < 0 or not self._unsynced:
                return
            self._unsynced = False
            fd = os.dup(fd)  # so that nobody waits on the lock for the disk
        try:
            self._disk.fdatasync(fd)
        finally:
            os.close(fd)

    def entries(self, begin: int, end: int) -> Iterator[ChecksumEntry]:
        """The written entries whose append begins in [begin, end), ascending. Raises OSError."""
        for base in range(self._base_of(begin), end, self._segment_bytes):
            for entry in self._read(base):
                if begin <= entry.offset < end:
                    yield entry

    def _read(self, base: int) -> Iterator[ChecksumEntry]:
        try:
            with open(self._path(base), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        expected = base
        for at in range(0, len(data) - ENTRY.size + 1, ENTRY.size):
            offset, length, crc = ENTRY.unpack_from(data, at)
            if length == 0 or offset < expected or offset + length > base + self._segment_bytes:
                return
            yield ChecksumEntry(PhysicalOffset(offset), length, crc)
            expected = offset + length

    def truncate(self, end: int) -> None:
        """Forgets every append that reaches past `end`, and cuts what is torn before it. Raises OSError."""
        with self._lock:
            self._pending.clear()
            self._close_file()
            last = self._base_of(end)
            for base in self.bases():
                if base > last:
                    os.unlink(self._path(base))
            kept = sum(1 for entry in self._read(last) if entry.end <= end)
            if os.path.exists(self._path(last)):
                os.truncate(self._path(last), kept * ENTRY.size)

    def sync_cut(self, end: int) -> None:
        """Makes a `truncate` durable. Raises OSError."""
        path = self._path(self._base_of(end))
        if os.path.exists(path):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.fsync(fd)  # its size changed
            finally:
                os.close(fd)
        if os.path.isdir(self.directory):
            sync_directory(self.directory)

    def bases(self) -> list[int]:
        """The base offsets of the segments that have a file here, ascending; other names are left alone."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def drop(self, base: int) -> None:
        """Deletes the file of a segment that is gone. Raises OSError."""
        with self._lock:
            if base == self._base:
                self._close_file()
            try:
                os.unlink(self._path(base))
            except FileNotFoundError:
                return  # nothing was appended to that segment, or RocketMQ wrote it

    def close(self) -> None:
        """Writes, syncs and closes. Raises OSError."""
        self.write_out()
        with self._lock:
            self._close_file()

    def abandon(self) -> None:
        """Closes without writing: after the disk failed, or where nothing was ever written."""
        self._pending.clear()
        with self._lock:
            fd, self._fd, self._base = self._fd, -1, -1
            if fd >= 0:
                os.close(fd)

    def _path(self, base: int) -> str:
        return os.path.join(self.directory, segment_name(base))
