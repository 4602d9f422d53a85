"""The checksum side log: (physical offset, length, CRC-32) of every append to the commit log, as it was written.

RocketMQ's records protect only their body. This log protects headers and properties too, and after a power failure it tells
written bytes from the old bytes of a recycled file. `checksum/` holds one file for each commit-log segment, with the same name,
append-only, 16 bytes an append, big-endian (checksum_entry):

    byte 0 physical offset 8 | 8 length 4 | 12 CRC-32 4

Entries ascend. They wait in memory until the flush thread writes them, and are durable before their
appends are reported as flushed: a killed process may lose its last entries, a power failure none of flushed appends. Zeros are
written ahead of them, so that a sync need not grow the file.

A full disk costs entries, never messages; `entries_lost` counts them. Then, and if a start finds more log than entries,
the file says that they are missing from there on: one slot is always reserved for that.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from ...record.codes import BLANK_BYTES
from ..log.segment import NO_SPACE, SYSTEM_DISK, Disk, make_directory, segment_name, sync_directory
from .checksum_entry import ENTRY, ChecksumEntry, RottenEntry, entries_in, has_gap, pack_gap, raws_in, slots_in

logger = logging.getLogger(__name__)

PENDING_MAX: Final = 65_536  # entries held in memory; the appender writes them itself beyond this
AHEAD_BYTES: Final = 65_536  # of zeros written at once: 4,096 entries
_pack: Final = ENTRY.pack


class ChecksumLog:
    """The loop thread appends, the flush thread writes and syncs, any thread reads what is written."""

    def __init__(self, directory: str, *, segment_bytes: int, disk: Disk = SYSTEM_DISK) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._disk = disk
        self._pending: deque[tuple[int, int, int]] = deque()
        self._lock = threading.Lock()  # guards the following fields; never held by `append`
        self._fd = -1
        self._base = -1
        self._size_bytes = 0
        self._laid_bytes = 0  # size of the file: entries, and zeros for more of them
        self._unsynced = False
        self.entries_lost = 0

    def append(self, offset: int, length: int, crc: int) -> None:
        """Adds the entry of one append. Loop thread only. Raises OSError only if it had to write (PENDING_MAX)."""
        pending = self._pending
        pending.append((offset, length, crc))
        if len(pending) >= PENDING_MAX:
            self.write_out()

    def write_out(self) -> None:
        """Writes the waiting entries. Raises OSError; a full disk drops them instead."""
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
        done = 0
        try:
            if base != self._base:
                self._open(base)
            room = self._lay_ahead(len(data))
            done = self._disk.pwritev(self._fd, (data[:room],), self._size_bytes) if room else 0
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
        written = done // ENTRY.size
        self._size_bytes += written * ENTRY.size  # a torn rest is overwritten by the next entry
        self._unsynced = True
        if written < len(entries):
            self._note_lost(entries[written:])

    def _lay_ahead(self, size_bytes: int) -> int:
        """How many of `size_bytes` fit behind what is written, with one slot reserved; makes that room. Raises OSError."""
        end = self._size_bytes + size_bytes + ENTRY.size
        if end > self._laid_bytes:
            zeros = bytes(-(-end // AHEAD_BYTES) * AHEAD_BYTES - self._laid_bytes)
            try:
                done = self._disk.pwritev(self._fd, (zeros,), self._laid_bytes)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                done = 0
            self._laid_bytes += done - done % ENTRY.size
            self._unsynced = True
        return max(0, min(size_bytes, self._laid_bytes - ENTRY.size - self._size_bytes))

    def _note_lost(self, lost: list[tuple[int, int, int]]) -> None:
        """Marks in the present file that entries are missing; the next entry with room replaces the mark."""
        if not self.entries_lost:
            logger.warning("disk full: checksum entries are dropped base=%s", self._base_of(lost[0][0]))
        self.entries_lost += len(lost)
        self._note_gap(lost[0][0])

    def _note_gap(self, offset: int) -> None:
        """Marks in the present file, if it has room, that entries are missing from `offset` on. Raises OSError."""
        if self._fd >= 0 and self._size_bytes + ENTRY.size <= self._laid_bytes:
            self._unsynced = True
            try:
                self._disk.pwritev(self._fd, (pack_gap(offset),), self._size_bytes)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise

    def _open(self, base: int) -> None:
        """Continues in the file of another segment. If that fails, the present one stays. Raises OSError."""
        make_directory(self.directory)
        fd = os.open(self._path(base), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            found = os.pread(fd, os.fstat(fd).st_size, 0)
            size = slots_in(found, begin=base, limit=base + self._segment_bytes) * ENTRY.size
            laid = max(len(found) - len(found) % ENTRY.size, size)
            if not laid:
                laid = self._disk.pwritev(fd, (bytes(AHEAD_BYTES),), 0)
                laid -= laid % ENTRY.size
            sync_directory(self.directory)  # entries that are synced are worth nothing in a file that has lost its name
            self._close_file()
        except OSError:
            os.close(fd)
            raise
        self._fd, self._base, self._size_bytes, self._laid_bytes = fd, base, size, laid

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

    def set_right(self, rotten: RottenEntry) -> bool:
        """Replaces a rotten entry by its right value, durably; False if that is unknown, or the file is gone. Any thread.

        Raises OSError.
        """
        right = rotten.right
        if right is None:
            return False
        at, data = rotten.slot * ENTRY.size, _pack(right.offset, right.length, right.crc)
        with self._lock:
            try:
                fd = os.open(self._path(rotten.base), os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                if os.pread(fd, ENTRY.size, at) != _pack(*rotten.raw):
                    return False
                self._disk.pwritev(fd, (data,), at)
                self._disk.fdatasync(fd)
            finally:
                os.close(fd)
        return True

    def entries(self, begin: int, end: int) -> Iterator[ChecksumEntry]:
        """The written entries whose append begins in [begin, end), ascending. Raises OSError."""
        for base in range(self._base_of(begin), end, self._segment_bytes):
            for entry in self._read(base):
                if begin <= entry.offset < end:
                    yield entry

    def _read(self, base: int) -> Iterator[ChecksumEntry]:
        for _, entry in entries_in(raws_in(self._bytes_of(base)), begin=base, limit=base + self._segment_bytes):
            yield entry

    def _bytes_of(self, base: int) -> bytes:
        try:
            with open(self._path(base), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def has_gap(self, base: int) -> bool:
        """True if entries are known to be missing behind the last one of a segment. Raises OSError."""
        data = self._bytes_of(base)
        return has_gap(data, slots_in(data, begin=base, limit=base + self._segment_bytes))

    def truncate(self, end: int, *, others_follow: bool = False) -> None:
        """Drops every entry that reaches past `end`, and torn ones. If entries do not reach `end`, their file says so:
        the bytes between count without them. The same with `others_follow`, who write no entries. Durable. Raises OSError.
        """
        with self._lock:
            self._pending.clear()
            self._close_file()
            last = self._base_of(end)
            bases = self.bases()
            for base in bases:
                if base > last:
                    os.unlink(self._path(base))
            kept = [base for base in bases if base <= last]
            if kept:
                self._cut_file(kept[-1], end, others_follow)
                sync_directory(self.directory)

    def _cut_file(self, base: int, end: int, others_follow: bool) -> None:
        limit = base + self._segment_bytes
        slots, reached = 0, base
        for slot, entry in entries_in(raws_in(self._bytes_of(base)), begin=base, limit=limit):
            if entry.end <= end:
                slots, reached = slot + 1, limit if entry.length == BLANK_BYTES else entry.end
        fd = os.open(self._path(base), os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, slots * ENTRY.size)
            behind = pack_gap(reached) if reached < end or others_follow else bytes(ENTRY.size)
            self._disk.pwritev(fd, (behind,), slots * ENTRY.size)
            os.fsync(fd)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("disk full: a checksum file cannot say where it ends base=%s", base)
        finally:
            os.close(fd)

    def add_behind(self, entries: Sequence[tuple[int, int, int]], end: int) -> None:
        """Adds entries for records of a log that ends at `end`, behind all entries of their segments; entries stay missing
        around them, and their file says so. Before anything is appended. Durable. Raises OSError.
        """
        with self._lock:
            for base, group in groupby(entries, key=lambda entry: self._base_of(entry[0])):
                reached = max((int(entry.end) for entry in self._read(base)), default=base)
                new = [entry for entry in group if entry[0] >= reached]
                if new:
                    self._write(base, new)
                    behind = new[-1][0] + new[-1][1]
                    if behind < min(end, base + self._segment_bytes):
                        self._note_gap(behind)
            self._close_file()

    def bases(self) -> list[int]:
        """The base offsets of the segments with a file here, ascending; other names are ignored."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def drop(self, base: int) -> None:
        """Deletes the file of a deleted segment. Raises OSError."""
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
        """Closes without writing: after the disk failed, or if nothing was ever written."""
        self._pending.clear()
        with self._lock:
            fd, self._fd, self._base = self._fd, -1, -1
            if fd >= 0:
                os.close(fd)

    def _path(self, base: int) -> str:
        return os.path.join(self.directory, segment_name(base))
