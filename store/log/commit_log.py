"""The commit log: every message of every topic, in one append-only run of segments.

A *physical offset* is a byte position in that run. Only the loop thread appends; any thread may read below `written`.
Always begin <= flushed <= written (bytes). An append never straddles two segments: if one does not fit with 8 bytes
to spare, the rest of the segment becomes a blank record (8 bytes: the remaining length, magic) and the log rolls. Each
append ends with at least 8 zero bytes (`_zeros_behind`), which the next one overwrites, because a recycled segment has old
records behind them.

Life: the constructor maps the existing segments for reading (`written` = the end of the last one); recovery finds the true
end and calls `truncate`; `start` makes the log writable. A tool that only reads stops after the constructor.
Not here: what a record is (record/), where the log ends after a crash (recovery), when segments are deleted (retention).
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final

from ...metrics.histogram import Histogram
from ...model.errors import MessageTooLarge, OffsetOutOfRange, StoreNotWriteable, StorePoisoned
from ...model.queue import PhysicalOffset
from ...record.codes import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_OVERHEAD_BYTES, TERMINATOR_BYTES
from ...record.crc32 import crc32
from ...record.kernel import encode_blank
from ...record.layout import physical_offset_of, store_timestamp_of
from ..checksum.checksum_log import ChecksumLog
from ..worker_threads import WorkerThreads
from .allocator import Allocator
from .flusher import Flusher
from .segment import SYSTEM_DISK, Disk, Segment, disk_error, list_segments, page_in, sync_directory

logger = logging.getLogger(__name__)

COMMIT_LOG_FOLDER: Final = "commitlog"
CHECKSUM_FOLDER: Final = "checksum"
SPARE_FOLDER: Final = "spare"
VIEWS_MAX: Final = 1_000  # buffers of one append: the kernel's limit is 1,024
BLOCK_BYTES: Final = 4096  # of the file systems that are likely to hold a log
_TERMINATOR: Final = bytes(TERMINATOR_BYTES)
_ZEROS: Final = memoryview(bytes(TERMINATOR_BYTES + BLOCK_BYTES))


_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_POSITION_AT: Final = 28  # in a record: its physical offset
_MAGIC_BEGINNINGS: Final = frozenset(magic[:cut] + bytes(4 - cut) for magic in _MAGICS for cut in range(5))


def may_follow_append(data: memoryview, at: int, offset: int) -> bool:
    """True if the bytes at `at`, the log's byte `offset`, are what may stand behind a completed append.

    That is the append's eight zero bytes and the zeros up to the end of their block, unchanged, or overwritten from the front
    by part of the next append: then a complete magic is followed by this very position, as far as that is in the
    block. Otherwise the append itself was torn over the old bytes of a recycled segment. Its last
    record may then look whole, since no body CRC covers its properties. It was never acknowledged. Used only for a record
    before a torn tail or before lost pages, if no checksum entry confirms it.
    """
    magic = bytes(data[at + 4 : at + 8])
    if len(magic) < 4 or magic not in _MAGICS:
        return len(magic) < 4 or magic in _MAGIC_BEGINNINGS
    if magic == _MAGICS[-1]:
        return True
    block_end = -(-(at + TERMINATOR_BYTES) // BLOCK_BYTES) * BLOCK_BYTES
    found = bytes(data[at + _POSITION_AT : min(at + _POSITION_AT + 8, block_end)])
    expected = offset.to_bytes(8, "big")[: len(found)]
    return any(found == expected[:cut] + bytes(len(found) - cut) for cut in range(len(found) + 1))


def _parted(
    views: Sequence[bytes | memoryview], size: int
) -> tuple[list[bytes | memoryview], list[bytes | memoryview]]:
    """The first `size` bytes of the views, and the rest."""
    before: list[bytes | memoryview] = []
    for index, view in enumerate(views):
        if len(view) > size:
            whole = memoryview(view)
            return [*before, whole[:size]], [whole[size:], *views[index + 1 :]]
        before.append(view)
        size -= len(view)
    raise ValueError("there is nothing behind")


def _ignore_flush() -> None:
    """Nobody waits."""


def _ignore_poison(error: StorePoisoned) -> None:
    """The exception itself tells the callers."""


class CommitLog:
    """`written`, `flushed`, `begin`: physical offsets; `fresh_from`: this process wrote everything behind it;
    `room_bytes`: how much one append may still add to the current segment."""

    def __init__(
        self,
        store_directory: str,
        *,
        segment_bytes: int,
        preallocate_segments: int = 2,
        recycle_segments: int = 2,
        populate_bytes: int = 256 * 1024 * 1024,
        flush_interval_ms: int = 500,
        on_flushed: Callable[[], None] = _ignore_flush,
        on_poisoned: Callable[[StorePoisoned], None] = _ignore_poison,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        """Maps the existing segments. `on_flushed` runs in the flush thread, `on_poisoned` (once) in the thread that failed.

        Raises StoreFormatError if a file does not belong to a log of such segments, OSError.
        """
        self.directory = os.path.join(store_directory, COMMIT_LOG_FOLDER)
        self.segment_bytes = segment_bytes
        self.checksums = ChecksumLog(
            os.path.join(store_directory, CHECKSUM_FOLDER), segment_bytes=segment_bytes, disk=disk
        )
        self._disk = disk
        self._pwritev = disk.pwritev
        self._on_poisoned = on_poisoned
        self.poisoned: StorePoisoned | None = None
        self._poison_lock = threading.Lock()
        self._started = False
        bases = list_segments(self.directory, segment_bytes)
        self._segments = tuple(Segment(self.directory, base, segment_bytes) for base in bases)
        self.begin = PhysicalOffset(bases[0] if bases else 0)
        self.written = PhysicalOffset(self._segments[-1].end_offset if bases else 0)
        self.flushed = self.begin  # until this process has synced it itself; but see `trust_flushed`
        self.fresh_from = PhysicalOffset(0)
        self._prepared: tuple[Segment, ...] = ()
        self.room_bytes = -1  # no current segment
        self._was_refused = False  # the last attempt to begin a segment
        self._fd = -1
        self._base = 0
        self._zeroed = 0  # position in the current segment up to which zeros follow the written bytes
        self._allocator = Allocator(
            self.directory,
            os.path.join(store_directory, SPARE_FOLDER),
            segment_bytes=segment_bytes,
            ahead=preallocate_segments,
            recycle=recycle_segments,
            populate_bytes=populate_bytes,
            disk=disk,
        )
        self._beside = WorkerThreads(1, "zenit-vouch")  # used by the flush thread to sync the checksum entries
        self._flusher = Flusher(self, interval_ms=flush_interval_ms, on_flushed=on_flushed)

    # ------------------------------------------------------------------------------------------------ writing

    def place(self, size_bytes: int) -> PhysicalOffset:
        """The begin of the next append of `size_bytes`; rolls to the next segment if it does not fit.

        Blocks at most allocator.TAKE_WAIT_MS, and only if the next segment is late. Raises MessageTooLarge,
        StoreNotWriteable (retriable; nothing has changed) or StorePoisoned.
        """
        if size_bytes <= self.room_bytes:
            return self.written
        return self._roll(size_bytes)

    def append(self, views: Sequence[bytes | memoryview]) -> PhysicalOffset:
        """Writes the views at `written`, one after another; returns their begin.

        They must fit (`place`). Raises StorePoisoned if the write fails; then nothing was published.
        """
        size = crc = 0
        for view in views:
            crc = crc32(view, crc)
            size += len(view)
        begin = self.written
        room = self.room_bytes - size
        if room < 0 or not size or self.poisoned is not None:
            raise self.poisoned or ValueError(f"an append of {size} bytes was not placed")
        at = begin - self._base
        zeros = self._zeros_behind(at + size)
        try:
            self._write((*views, zeros), size + len(zeros), at)
            self.checksums.append(begin, size, crc)
        except OSError as error:
            raise self.poison(f"append at {begin}: {error.strerror or error}") from error
        self.room_bytes = room
        self.written = PhysicalOffset(begin + size)  # published last: whoever sees it sees the bytes
        return begin

    def append_copy(self, records: bytes | memoryview, blank: bytes | memoryview, *, crc: int | None = None) -> None:
        """Writes at `written` the same bytes as another log: whole records, and the blank if the segment ends with one.

        `crc`: of the records, if known.

        They must fit as they did there (`place(0)` returns the room). Raises StorePoisoned.
        """
        begin, size = self.written, len(records)
        if size > self.room_bytes or self.poisoned is not None:
            raise self.poisoned or ValueError(f"{size} bytes were not placed")
        at = begin - self._base
        behind = blank or self._zeros_behind(at + size)
        try:
            self._write((records, behind), size + len(behind), at)
            if size:
                self.checksums.append(begin, size, crc32(records) if crc is None else crc)
            if blank:
                self.checksums.append(begin + size, len(blank), crc32(blank))
        except OSError as error:
            raise self.poison(f"append at {begin}: {error.strerror or error}") from error
        self.room_bytes = -1 if blank else self.room_bytes - size  # behind a blank nothing fits
        self.written = PhysicalOffset(self._base + self.segment_bytes if blank else begin + size)

    def _zeros_behind(self, end: int) -> bytes | memoryview:
        """The zeros behind an append that ends at this position of the segment: eight bytes, and if they
        begin a new block, the whole rest of that block.

        When only part of a block is written, the kernel reads the rest from the disk first, unless it is cached. After days a
        recycled segment is not cached: without the zeros each append would wait for the disk.
        """
        if end + TERMINATOR_BYTES <= self._zeroed:
            return _TERMINATOR
        blocks = -(-(end + TERMINATOR_BYTES) // BLOCK_BYTES)
        self._zeroed = min(blocks * BLOCK_BYTES, self.segment_bytes)
        return _ZEROS[: self._zeroed - end]

    def _write(self, views: Sequence[bytes | memoryview], size: int, at: int) -> None:
        """Writes the views, `size` bytes; the block in which the log ends now comes last. Raises OSError.

        A killed process may leave any block of a write undone, and a recycled segment may have records there that somebody
        prepared. Until the last write is done, zeros end the log where it ended before, and that last write is
        complete or absent.
        If those eight bytes reach into the next block, the two come last, from the front: the second one is all zeros before.
        """
        first = BLOCK_BYTES - at % BLOCK_BYTES
        if first < TERMINATOR_BYTES:
            first += BLOCK_BYTES
        if size > first:
            views, behind = _parted(views, first)
            done = self._pwritev(self._fd, behind, at + first)
            if done != size - first:
                self._write_rest(behind, done, at + first)
            size = first
        done = self._pwritev(self._fd, views, at)
        if done != size:
            self._write_rest(views, done, at)

    def _write_rest(self, views: Sequence[bytes | memoryview], done: int, at: int) -> None:
        """Continues a short write. Raises OSError."""
        rest = memoryview(b"".join(views))
        while done < len(rest):
            count = self._pwritev(self._fd, (rest[done:],), at + done)
            if count <= 0:
                raise OSError(f"the disk took {count} bytes")
            done += count

    def _roll(self, size_bytes: int) -> PhysicalOffset:
        if self.poisoned is not None:
            raise self.poisoned
        if not self._started:
            raise StoreNotWriteable("not started, or closed")
        if size_bytes + TERMINATOR_BYTES > self.segment_bytes:
            raise MessageTooLarge("append", size_bytes, self.segment_bytes - TERMINATOR_BYTES)
        self._was_refused = True
        if self._fd < 0 and self._segments and self.written < self._segments[-1].end_offset:
            self._enter_last()
            return self.place(size_bytes)
        base = self._base + self.segment_bytes if self._fd >= 0 else self.written
        try:
            segment = self._allocator.take(base)
        except StorePoisoned as error:
            raise self.poison(error.what) from error
        if self._fd >= 0 and self.written < base:
            self._write_blank()
        self._enter(segment, base)
        self._segments = (*self._segments, segment)
        logger.info("segment begun base=%s", base)
        return self.written

    @property
    def lacks_room(self) -> bool:
        """True if an append was refused because a segment was missing, and none could be made since."""
        return self._was_refused and self._allocator.is_failing

    @property
    def refusal(self) -> str | None:
        """Why no append is accepted, though the disk works; None if the next one may be. An empty log knows at once."""
        failure = self._allocator.failure
        is_refused = self._was_refused or not self._segments
        return failure.reason if is_refused and isinstance(failure, StoreNotWriteable) else None

    def _write_blank(self) -> None:
        """Ends the current segment; 8 bytes are always left."""
        begin = self.written
        blank = encode_blank(self._base + self.segment_bytes - begin)
        try:
            self._write((blank,), len(blank), begin - self._base)
            self.checksums.append(begin, len(blank), crc32(blank))
        except OSError as error:
            raise self.poison(f"roll at {begin}: {error.strerror or error}") from error

    def _enter(self, segment: Segment, written: int) -> None:
        self._was_refused = False
        self._fd = segment.open_fd()
        self._base = segment.base_offset
        self._zeroed = 0
        self.room_bytes = segment.end_offset - written - TERMINATOR_BYTES
        self.written = PhysicalOffset(written)

    def _enter_last(self) -> None:
        """Continues in the last segment found at the start; RocketMQ's may have holes, which are filled here."""
        segment = self._segments[-1]
        try:
            self._disk.fallocate(segment.open_fd(), 0, segment.size_bytes)
        except OSError as error:
            raise disk_error(error, f"allocating {segment.path}, {segment.size_bytes} bytes") from error
        self._enter(segment, self.written)

    # ------------------------------------------------------------------------------------------------ reading

    def view(self, begin: int, end: int) -> memoryview:
        """The bytes [begin, end), which are in one segment, without a copy; they pin the segment. Raises OffsetOutOfRange."""
        segments = self._segments
        if segments and self.begin <= begin <= end <= self.written:
            index = (begin - segments[0].base_offset) // self.segment_bytes
            if 0 <= index < len(segments):
                at = begin - segments[index].base_offset
                view = segments[index].map[at : at + end - begin]
                if len(view) == end - begin:
                    return view
        raise OffsetOutOfRange("commit log", begin, self.begin, self.written)

    def read(self, begin: int, end: int) -> memoryview:
        """The same, in memory, for callers that may wait for the disk. Also raises OSError, if the disk cannot read
        them: touching them in a `view` would be SIGBUS."""
        view = self.view(begin, end)
        if not page_in(view):
            raise OSError(errno.EIO, os.strerror(errno.EIO), f"bytes {begin} to {end} of the log")
        return view

    def view_onwards(self, begin: int, limit: int) -> memoryview:
        """The bytes from `begin` to its segment's end, or to `limit` where that comes first. Raises OffsetOutOfRange."""
        segments = self._segments
        base = segments[0].base_offset if segments else 0
        segment_end = base + ((begin - base) // self.segment_bytes + 1) * self.segment_bytes
        return self.view(begin, min(limit, segment_end))

    def stored_ms(self, offset: int) -> int | None:
        """The store time of the record at `offset`, ms; None if the log has no record there (any more) or the disk cannot read
        it."""
        try:
            record = self.read(offset, offset + RECORD_OVERHEAD_BYTES)
        except (OffsetOutOfRange, OSError):
            return None
        return store_timestamp_of(record) if physical_offset_of(record) == offset else None

    def segments(self) -> tuple[Segment, ...]:
        """The segments from `begin` to the one that holds `written`, oldest first."""
        return self._segments

    # ------------------------------------------------------------------------------------- beginning and end

    def truncate(self, end: int, *, wipe_bytes: int | None = None) -> None:
        """Makes `end` the end of the log, before `start`. Raises OSError, OffsetOutOfRange.

        Bytes behind `end` must never be taken for records again, though they may look like them. `wipe_bytes`
        limits their extent: 0 after a clean stop, the largest append if only the process was killed (the
        kernel wrote in order), None if they may be anywhere: then everything behind `end` is zeroed, and the segments
        behind it are deleted.
        """
        if not self.begin <= end <= self.written:
            raise OffsetOutOfRange("commit log", end, self.begin, self.written)
        assert not self._started
        kept = tuple(segment for segment in self._segments if segment.base_offset <= end)
        later = self._segments[len(kept) :]
        if wipe_bytes is None:
            for segment in reversed(later):
                segment.close()
                os.unlink(segment.path)
            later = ()
        if kept:
            at = end - kept[-1].base_offset
            wiped = self.segment_bytes if wipe_bytes is None else at + max(wipe_bytes, TERMINATOR_BYTES)
            kept[-1].wipe(at, min(self.segment_bytes, wiped))
        self._segments, self._prepared = kept, later
        self.written = PhysicalOffset(end)
        self.checksums.truncate(end)

    def vouch_for(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Before `start`: adds checksum entries for records, ascending, that count although none covers them. Raises
        OSError."""
        entries = [(begin, end - begin, crc32(self.view(begin, end))) for begin, end in ranges]
        self.checksums.add_behind(entries, self.written)

    def trust_flushed(self, offset: int) -> None:
        """Before `start`, after a clean stop: the last process made everything below `offset` durable."""
        self.flushed = PhysicalOffset(max(self.begin, min(offset, self.written)))

    def cut(self, end: int) -> None:
        """The same for good, and durably: bytes behind `end` never come back. Raises OSError, OffsetOutOfRange."""
        self.truncate(end, wipe_bytes=None)
        if self._segments:
            self._disk.fdatasync(self._segments[-1].open_fd())
            sync_directory(self.directory)

    def drop_cached_pages(self, begin: int) -> None:
        """Drops cached pages from offset `begin` on, before recovery reads the log after an unclean stop. Raises OSError.

        A failed sync leaves pages that look clean and never reached the disk; a later sync would not write them.
        """
        for segment in self._segments:
            if segment.end_offset > begin:
                segment.drop_cached_pages(max(0, begin - segment.base_offset))

    def start(self) -> None:
        """Starts the allocator and the flush thread; from here on the log takes appends. Raises OSError."""
        os.makedirs(self.directory, exist_ok=True)
        self._drop_empty_file()
        end = (self._prepared or self._segments)[-1].end_offset if self._segments else self.begin
        self._allocator.start(end, self._prepared, keep_spares=bool(self._segments))
        sync_directory(os.path.dirname(self.directory))  # files completed so far keep their names
        self._flusher.start()
        self.fresh_from = self.written
        self._started = True

    def _drop_empty_file(self) -> None:
        """An empty last file (RocketMQ was killed while making it) is where our next segment belongs."""
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            if os.path.getsize(path) == 0:
                os.unlink(path)

    def remove_before(self, offset: int) -> list[Segment]:
        """Removes the segments that end at or below `offset`; returns them. Never the current nor an unflushed one.

        Their files leave the log's directory at once: so after a kill they are not found again, while the files that
        refer to them
        (queue files, index files) may already be deleted. The allocator recycles or deletes them once no view pins
        them. Loop thread only. Raises OSError.
        """
        limit = min(offset, self.flushed)
        removed = [segment for segment in self._segments[:-1] if segment.end_offset <= limit]
        for segment in removed:
            self._allocator.move_out(segment)
            self._segments = self._segments[1:]
            self.begin = PhysicalOffset(segment.end_offset)
            self.checksums.drop(segment.base_offset)
            self._allocator.retire(segment)
        return removed

    def close(self) -> None:
        """Flushes, stops both threads and unmaps; a pinned segment is unmapped with its last view."""
        self._started = False
        self.room_bytes = -1
        self._flusher.close()
        self._beside.shutdown()
        self._allocator.close()
        try:
            if self.poisoned is None:
                self.checksums.close()
        except OSError as error:
            raise self.poison(f"closing the checksum log: {error.strerror or error}") from error
        finally:
            self.checksums.abandon()
            for segment in (*self._segments, *self._prepared):
                segment.close()
            self._fd = -1

    # ----------------------------------------------------------------------------------------------- flushing

    def request_flush(self, up_to: int) -> None:
        """Requests a flush now; returns at once. `on_flushed` is called when `flushed` has passed `up_to`."""
        if self.flushed < up_to:
            self._flusher.request()

    @property
    def flush_times(self) -> Histogram:
        """How long each sync took. Any thread may read it."""
        return self._flusher.times

    @property
    def sync_pending_ms(self) -> int:
        """How long the present sync has taken so far; 0 if none is running. Any thread."""
        return self._flusher.pending_ms

    def wait_flushed(self, up_to: int, timeout_ms: int) -> None:
        """Blocks until `flushed` >= `up_to`. Raises FlushTimeout or StorePoisoned. Never on the loop."""
        self._flusher.wait(up_to, timeout_ms)

    def sync_to(self, target: int) -> None:
        """In the flush thread: makes everything below `target` durable, with its checksum entries, and publishes it. Raises
        OSError.
        """
        self.checksums.write_out()
        vouching = self._beside.submit(self.checksums.sync)  # two syncs at once take hardly longer than one
        for segment in self._segments:
            if segment.end_offset > self.flushed and segment.base_offset < target:
                self._disk.fdatasync(segment.open_fd())
                if segment.end_offset <= target:
                    segment.close_fd()  # the loop has rolled to another segment
        vouching.result()  # after a power failure only appends with an entry count (recovery)
        self.flushed = PhysicalOffset(target)

    def write_entries(self, end: int) -> None:
        """Writes the waiting checksum entries of appends below `end`; not durably. Any thread.
        Raises StorePoisoned.
        """
        if end <= self.flushed:
            return
        try:
            self.checksums.write_out()
        except OSError as error:
            raise self.poison(f"checksum entries: {error.strerror or error}") from error

    def poison(self, what: str) -> StorePoisoned:
        """Stops all writes for good: the disk failed. The first reason stays, and `on_poisoned` gets it once."""
        with self._poison_lock:
            told, self.poisoned = self.poisoned is not None, self.poisoned or StorePoisoned(what)
        self.room_bytes = -1
        if not told:
            self._on_poisoned(self.poisoned)
        return self.poisoned
