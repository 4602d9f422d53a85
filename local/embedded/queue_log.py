"""One log: the records of one queue, or of the engine's state, in a run of files that are read through a map.

    queues/TOPIC/QUEUE/00000001099511627776     each file is named by the physical offset of its first byte

A physical offset is the log's number times 2 ** 40, plus the position in that log: so a record is found by it alone. The log
is written by `pwrite` and resumes inside its last file: an opening reads that file, and cuts what follows its last whole
record. What is cut is kept in CUT_FOLDER. Files are sparse: a disk without room fails the write, which leaves nothing behind.
The units of a file (record/layout) are made when it is first read from. Guarded by the engine's lock, but `sync`: the flush
thread.
"""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ...model.errors import MessageIllegal, ZenitError
from ...record.codes import BLANK_BYTES, RUN_BLANK
from ...record.kernel import RunKernel, encode_blank, index_topic_hash
from ...record.layout import UNIT_LAYOUT, store_timestamp_of
from ...store.log.segment import (
    SYSTEM_DISK,
    Disk,
    Segment,
    create_sparse,
    disk_error,
    is_blank,
    list_segments,
    make_directory,
    segment_name,
    sync_directory,
    write_fully,
)

log = logging.getLogger(__name__)

NUMBER_SHIFT: Final = 40
SEGMENT_BYTES: Final = 32 << 20
CUT_FOLDER: Final = "cut"
UNIT_BYTES: Final = UNIT_LAYOUT.size_bytes or 0
QUEUE_OFFSET_FIELD: Final = slice(20, 28)  # of a record

Poison = Callable[[str], ZenitError]
"""Notes that the disk failed, and returns the error to raise."""


@dataclass(slots=True)
class LogFile:
    """One file. `first`: the queue offset of its first record. `units`: of its records, None until it is read from."""

    segment: Segment
    first: int
    units: bytearray | None = None

    @property
    def count(self) -> int:
        """Its records; 0 until its units are made."""
        return len(self.units or b"") // UNIT_BYTES


@dataclass(slots=True)
class QueueLog:
    """Records of `topic` in `queue_id`; of any topic where it is `mixed`. `end`: physical, behind the last record;
    `synced`: all below is on the disk. `is_dirty`: there is more than that."""

    directory: str
    number: int
    topic: str
    queue_id: int
    kernel: RunKernel
    poison: Poison
    cut_directory: str
    segment_bytes: int = SEGMENT_BYTES
    mixed: bool = False
    disk: Disk = SYSTEM_DISK
    files: list[LogFile] = field(default_factory=list)
    next_offset: int = 0
    end: int = 0
    synced: int = 0
    is_dirty: bool = False
    topic_bytes: bytes = b""
    topic_hash: int = 0
    flushing: threading.Lock = field(default_factory=threading.Lock)  # a deleted topic is closed during a flush too

    def open(self) -> None:
        """Finds the end, inside the last file; makes the first file where there is none. Raises StoreFormatError, OSError."""
        self.topic_bytes = self.topic.encode()
        self.topic_hash = index_topic_hash(self.topic_bytes)
        make_directory(self.directory)
        for base in list_segments(self.directory, self.segment_bytes):
            segment = Segment(self.directory, base, self.segment_bytes)
            first = int.from_bytes(segment.map[QUEUE_OFFSET_FIELD], "big")
            if segment.map[:4] == bytes(4) and self.files:  # made, and nothing written yet
                before = self.files[-1]
                first = before.first + len(self.units_of(before)) // UNIT_BYTES
            self.files.append(LogFile(segment, first))
        if not self.files:
            self._add_file(self.number << NUMBER_SHIFT)
        self._find_end(self.files[-1])

    def close(self) -> None:
        """Unmaps its files, after a flush that is under way."""
        with self.flushing:
            for file in self.files:
                file.segment.close()
            self.files.clear()

    @property
    def begin(self) -> int:
        """The queue offset of the first record that is kept."""
        return self.files[0].first

    # ---- writing

    def make_room(self, size: int) -> None:
        """Goes on in a new file if `size` bytes do not fit into the present one. Raises MessageIllegal, StoreNotWriteable."""
        segment = self.files[-1].segment
        if self.end + size + BLANK_BYTES <= segment.end_offset:
            return
        if size + BLANK_BYTES > self.segment_bytes:
            raise MessageIllegal(
                f"a batch of {size} bytes; a file of this engine holds {self.segment_bytes - BLANK_BYTES}"
            )
        left = segment.end_offset - self.end
        if left >= BLANK_BYTES:
            self._put(encode_blank(left))
        try:
            self._add_file(segment.end_offset)
        except OSError as error:
            raise disk_error(error, f"a new file of {self.topic} in {self.directory}") from error
        self.end = segment.end_offset

    def append(self, records: memoryview | bytes, units: bytes | bytearray) -> None:
        """Appends stamped records, for which `make_room` was called. Raises StoreNotWriteable, StorePoisoned; then nothing
        of them is kept."""
        self._put(records)
        file, size, count = self.files[-1], len(records), len(units) // UNIT_BYTES
        assert file.units is not None
        # No call from here on, so a signal handler never sees a half of this done.
        file.units += units
        self.end += size
        self.next_offset += count
        self.is_dirty = True  # last: `sync` takes the flag first, and then the end

    def _put(self, data: memoryview | bytes) -> None:
        segment = self.files[-1].segment
        at = self.end - segment.base_offset
        try:
            fd = segment.open_fd()
            done = self.disk.pwritev(fd, (data,), at)
            if done < len(data):
                write_fully(fd, memoryview(data)[done:], at + done)
        except OSError as error:
            refusal = disk_error(error, f"writing to {segment.path}")
            try:  # a part of it, with the offsets of the next records, would come back with the next opening
                segment.wipe(at, min(at + len(data), self.segment_bytes))
            except OSError as second:
                raise self.poison(f"{segment.path}: {second.strerror}") from second
            raise refusal from error

    def _add_file(self, base: int) -> None:
        create_sparse(os.path.join(self.directory, segment_name(base)), self.segment_bytes)
        sync_directory(self.directory)
        self.files.append(LogFile(Segment(self.directory, base, self.segment_bytes), self.next_offset, bytearray()))

    def sync(self) -> None:
        """Flush thread. Makes what is written durable. Raises OSError."""
        self.is_dirty = False
        end = self.end
        with self.flushing:
            for file in list(self.files):
                if file.segment.end_offset > self.synced and file.segment.fd >= 0:
                    self.disk.fdatasync(file.segment.fd)
                    if file is not self.files[-1]:
                        file.segment.close_fd()
        self.synced = end

    # ---- reading

    def units_from(self, queue_offset: int, count_max: int) -> tuple[bytes, LogFile, int]:
        """(the units from there on, of one file; that file; the first offset behind it). No units: they are damaged."""
        index = bisect_right(self.files, queue_offset, key=lambda file: file.first) - 1
        file = self.files[index]
        behind = self.files[index + 1].first if index + 1 < len(self.files) else self.next_offset
        units = self.units_of(file)
        begin = (queue_offset - file.first) * UNIT_BYTES
        return bytes(units[begin : begin + count_max * UNIT_BYTES]), file, behind

    def units_of(self, file: LogFile) -> bytearray:
        """The units of a file; it is read through where they are not known."""
        if file.units is None:
            file.units, _ = self._scan(file, check_bodies=False)
        return file.units

    def stored_ms(self, queue_offset: int) -> int:
        """When the message was stored."""
        units, file, _ = self.units_from(queue_offset, 1)
        at = int.from_bytes(units[:8], "big") - file.segment.base_offset
        return store_timestamp_of(file.segment.map[at : at + 80]) if units else 0

    def record_at(self, physical: int) -> bytes | None:
        """The whole record that begins there; None if none does."""
        for file in self.files:
            segment = file.segment
            if segment.base_offset <= physical < min(self.end, segment.end_offset):
                at = physical - segment.base_offset
                self.kernel.clear()
                if self.kernel.scan(segment.map, at, self.segment_bytes, physical, False, 1) == 1:
                    return bytes(segment.map[at : self.kernel.end])
        return None

    def drop_files_below(self, physical: int) -> None:
        """Deletes the files that end there or before, but never the last one. Raises OSError."""
        while len(self.files) > 1 and self.files[0].segment.end_offset <= physical:
            file = self.files.pop(0)
            file.segment.close()
            os.unlink(file.segment.path)

    def expire(self, before_ms: int, needed: int | None) -> None:
        """Deletes files that were last written before then, and from which no group has anything to consume: `needed` is the
        first queue offset that one has; None: there is no group. Never the last file. Raises OSError."""
        while len(self.files) > 1 and self.files[0].segment.modified_ms() < before_ms:
            if needed is not None and needed < self.files[1].first:
                return
            self.drop_files_below(self.files[0].segment.end_offset)

    # ---- the opening

    def _scan(self, file: LogFile, *, check_bodies: bool) -> tuple[bytearray, int]:
        """The units of a file's whole records, and where those end in it."""
        kernel, segment, units, at = self.kernel, file.segment, bytearray(), 0
        expected = file.first
        while True:
            kernel.clear()
            count = kernel.scan(segment.map, at, self.segment_bytes, segment.base_offset + at, check_bodies)
            is_ours = self.mixed or (kernel.topic == self.topic_bytes and kernel.queue_id == self.queue_id)
            if not count or not is_ours or kernel.queue_offset != expected:
                break
            units += kernel.units[: kernel.units_end]
            expected += count
            at = kernel.end
        kernel.clear()
        return units, at

    def _find_end(self, file: LogFile) -> None:
        segment = file.segment
        file.units, at = self._scan(file, check_bodies=True)
        self.kernel.scan(segment.map, at, self.segment_bytes, segment.base_offset + at, False, 1)
        if self.kernel.status == RUN_BLANK:
            at = self.segment_bytes
        elif not is_blank(segment.open_fd(), at, self.segment_bytes, read_max=self.segment_bytes):
            self._cut(segment, at)
        self.kernel.clear()
        self.next_offset = file.first + file.count
        self.end = self.synced = segment.base_offset + at

    def _cut(self, segment: Segment, at: int) -> None:
        """What follows the last whole record was not written whole: it makes room, and is kept aside."""
        rest = bytes(segment.map[at:]).rstrip(b"\0")
        make_directory(self.cut_directory)
        kept = os.path.join(self.cut_directory, segment_name(segment.base_offset + at))
        with open(kept, "wb") as file:
            file.write(rest)
        log.warning("a torn end is cut log=%s bytes=%s kept_in=%s", segment.path, len(rest), kept)
        segment.wipe(at, self.segment_bytes)
