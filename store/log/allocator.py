"""The allocator thread: prepares the next segments before they are needed, and recycles or deletes the expired ones.

It owns the segments that are not yet in use and those no longer in use. New files are made in `spare/` (RocketMQ refuses a
commit log with foreign names in it) and renamed into `commitlog/` when they are complete. To remove an expired segment, its
file is first moved back there, before the files that refer to it are deleted. The move is durable before any of its bytes
change; otherwise a power failure would bring the file back into the log, with zeros in it or too short. The file is kept, with
its bytes, as a *spare* for the next roll, because cached pages are ten times faster to write than fresh ones. Behind the tail
such a segment has old records, which do not count since their physical offset is not their position. Its first page
is zeroed, so that RocketMQ stops there too. Spares beyond `recycle` are deleted in small steps. No segment is reused or
cut while a view pins its map.

    move out (rename) -> retire: synced -> unpinned? -> spare -> prepare -> ready -> take
                                               |          \\-> too many: shrink step by step, unlink
                                               \\-> wait for the readers
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from ...model.clock import monotonic_ms, monotonic_ns
from ...model.errors import StoreNotWriteable, StorePoisoned, ZenitError
from .segment import (
    SYSTEM_DISK,
    Disk,
    MappedFile,
    Segment,
    create_allocated,
    disk_error,
    segment_name,
    sync_directory,
    write_fully,
)

logger = logging.getLogger(__name__)

PREPARING: Final = "preparing"  # the file that is being created
TAKE_WAIT_MS: Final = 1_000  # the longest that a roll waits for a segment that is only late
RETRY_FIRST_MS: Final = 100
RETRY_LAST_MS: Final = 2_000
PINNED_RETRY_MS: Final = 50
IDLE_MS: Final = 1_000
SHRINK_STEP_BYTES: Final = 64 << 20
POPULATE_STEP_BYTES: Final = 1 << 20
REST: Final = 3  # pause after a step, as a multiple of its time
HEAD_BYTES: Final = 4_096  # zeroed at the front of a recycled segment


class Allocator:
    """Prepares, recycles and deletes the segments of one log. One other thread calls the public methods."""

    def __init__(
        self,
        directory: str,
        spare_directory: str,
        *,
        segment_bytes: int,
        ahead: int,
        recycle: int,
        populate_bytes: int,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        """`ahead`: prepared segments (0: made when needed); `recycle`: spares kept; `populate_bytes`: of a fresh one."""
        self._directory = directory
        self._spare_directory = spare_directory
        self._segment_bytes = segment_bytes
        self._ahead = ahead
        self._recycle = recycle
        self._populate_bytes = min(populate_bytes, segment_bytes)
        self._disk = disk
        self._changed = threading.Condition()
        # guarded by `_changed`
        self._ready: deque[Segment] = deque()
        self._next_base = 0
        self._retired: deque[MappedFile] = deque()
        self._awaited = 0  # segments that `take` is waiting for
        self._failure: ZenitError | None = None
        self._poked = False
        self._stopping = False
        # the thread's own
        self._spares: list[str] = []
        self._pinned: list[MappedFile] = []
        self._doomed: list[str] = []
        self._retry_delay_ms = RETRY_FIRST_MS
        self._retry_at_ms = 0
        # the other thread's
        self._spare_number = 0
        self._thread: threading.Thread | None = None

    def start(self, next_base: int, ready: Sequence[Segment] = (), *, keep_spares: bool = True) -> None:
        """Starts the thread; it continues behind `ready`, whose segments exist. Raises OSError.

        `next_base`: the begin of the first segment that does not exist yet. `keep_spares` False deletes existing spares:
        the log is empty, so their old records could end up at their old positions.
        """
        os.makedirs(self._directory, exist_ok=True)
        os.makedirs(self._spare_directory, exist_ok=True)
        self._sync_moves()
        for name in sorted(os.listdir(self._spare_directory)):
            path = os.path.join(self._spare_directory, name)
            if name == PREPARING:  # a kill interrupted its creation; deleted at once, since the next one gets its name
                os.unlink(path)
                continue
            whole = os.path.getsize(path) == self._segment_bytes and name.isdigit() and keep_spares
            (self._spares if whole and len(self._spares) < self._recycle else self._doomed).append(path)
            self._spare_number = max(self._spare_number, int(name) + 1 if name.isdigit() else 0)
        self._ready.extend(ready)
        self._next_base = next_base
        self._thread = threading.Thread(target=self._run, name="zenit-allocator", daemon=True)
        self._thread.start()

    def take(self, base_offset: int) -> Segment:
        """The segment that begins at `base_offset`, which must be the next one.

        Blocks at most TAKE_WAIT_MS, and not at all after a failed allocation. Raises StoreNotWriteable
        (retriable: the thread tries again by itself) or StorePoisoned.
        """
        deadline_ms = monotonic_ms() + TAKE_WAIT_MS
        with self._changed:
            self._awaited = 1
            self._poke()
            while not self._ready:
                left_ms = deadline_ms - monotonic_ms()
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                if self._stopping or left_ms <= 0:
                    raise StoreNotWriteable("closing" if self._stopping else f"no segment within {TAKE_WAIT_MS} ms")
                self._changed.wait(left_ms / 1000)
            self._awaited = 0
            assert self._ready[0].base_offset == base_offset, (self._ready[0].base_offset, base_offset)
            return self._ready.popleft()

    @property
    def is_failing(self) -> bool:
        """True if the last allocation failed."""
        return self._failure is not None

    @property
    def failure(self) -> ZenitError | None:
        """Why the last allocation failed; None after a successful one."""
        return self._failure

    def move_out(self, segment: Segment) -> None:
        """Moves the file of the log's first segment out of its directory, where a start would find it. Raises OSError."""
        path = os.path.join(self._spare_directory, segment_name(self._spare_number))
        self._spare_number += 1
        try:
            os.rename(segment.path, path)
        except FileNotFoundError:
            logger.warning("an expired segment was gone already path=%s", segment.path)
        else:
            segment.path = path

    def retire(self, segment: Segment) -> None:
        """Takes a segment that was moved out of the log: recycles or deletes it later."""
        with self._changed:
            self._retired.append(segment)
            self._poke()

    def close(self) -> None:
        """Stops the thread and unmaps what it holds; prepared segments and spares stay on disk for the next start."""
        with self._changed:
            self._stopping = True
            self._poke()
        if self._thread is not None:
            self._thread.join()
        for segment in (*self._ready, *self._retired, *self._pinned):
            segment.close()

    def _poke(self) -> None:
        self._poked = True
        self._changed.notify_all()

    # ------------------------------------------------------------------------------------------ the thread's side

    def _run(self) -> None:
        try:
            while not self._stopping:
                if not self._step():
                    with self._changed:
                        self._changed.wait_for(lambda: self._poked, self._idle_ms() / 1000)
                        self._poked = False
        except Exception as error:
            logger.exception("allocator stopped directory=%s", self._directory)
            self._fail(StorePoisoned(f"the allocator thread died: {error}"))

    def _step(self) -> bool:
        """Does the most urgent piece of work; False if there is none."""
        return (
            self._prepare() or self._retire_next() or self._reclaim_pinned() or self._delete_step() or self._populate()
        )

    def _idle_ms(self) -> int:
        if self._pinned:
            return PINNED_RETRY_MS
        return max(1, self._retry_at_ms - monotonic_ms()) if self._failure is not None else IDLE_MS

    def _fail(self, failure: ZenitError | None) -> None:
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def _prepare(self) -> bool:
        """Prepares the next segment if one is missing."""
        if len(self._ready) >= max(self._ahead, self._awaited) or isinstance(self._failure, StorePoisoned):
            return False
        if self._failure is not None and not self._spares and monotonic_ms() < self._retry_at_ms:
            return False
        try:
            segment = self._make(self._next_base)
        except OSError as error:
            failure = disk_error(error, self._doing())
            if self._failure is None:
                logger.warning("no segment can be allocated base=%s reason=%s", self._next_base, failure)
            self._retry_at_ms = monotonic_ms() + self._retry_delay_ms
            self._retry_delay_ms = min(2 * self._retry_delay_ms, RETRY_LAST_MS)
            self._fail(failure)
            return False
        if self._failure is not None:
            logger.info("segments can be allocated again base=%s", segment.base_offset)
        self._retry_delay_ms = RETRY_FIRST_MS
        with self._changed:
            self._failure = None
            self._next_base = segment.end_offset
            self._ready.append(segment)
            self._changed.notify_all()
        return True

    def _doing(self) -> str:
        path = os.path.join(self._directory, segment_name(self._next_base))
        ahead = f"; store.preallocate_segments keeps {self._ahead} such files ready" if self._ahead else ""
        return f"allocating {path}, {self._segment_bytes} bytes{ahead}"

    def _make(self, base_offset: int) -> Segment:
        recycled = bool(self._spares)
        if recycled:
            path = self._spares[-1]  # the one whose pages are most likely still cached
            _zero_head(path, self._disk)
        else:
            path = os.path.join(self._spare_directory, PREPARING)
            create_allocated(path, self._segment_bytes, self._disk)
        os.rename(path, os.path.join(self._directory, segment_name(base_offset)))
        if recycled:
            self._spares.pop()
        sync_directory(self._directory)
        segment = Segment(self._directory, base_offset, self._segment_bytes)
        segment.open_fd()
        if recycled:
            segment.populated_bytes = self._segment_bytes  # its pages are cached, or reading them would be a waste
        return segment

    def _retire_next(self) -> bool:
        """Takes one retired segment from the queue."""
        with self._changed:
            if not self._retired:
                return False
            segment = self._retired.popleft()
        segment.close_fd()
        self._sync_moves()
        self._pinned.append(segment)
        self._reclaim_pinned()
        return True

    def _sync_moves(self) -> None:
        """Makes the moves out of the log durable. Raises OSError."""
        sync_directory(self._spare_directory)
        sync_directory(self._directory)

    def _reclaim_pinned(self) -> bool:
        """Makes segments that no view pins any more spares, or marks them for deletion."""
        pinned = [segment for segment in self._pinned if not segment.unmap()]
        for segment in self._pinned:
            if segment not in pinned and os.path.exists(segment.path):
                (self._spares if len(self._spares) < self._recycle else self._doomed).append(segment.path)
        freed = len(pinned) < len(self._pinned)
        self._pinned = pinned
        return freed

    def _delete_step(self) -> bool:
        """Shrinks the oldest file marked for deletion by one step: a whole deletion at once would block the disk's journal."""
        if not self._doomed:
            return False
        path = self._doomed[0]
        left = os.path.getsize(path) - SHRINK_STEP_BYTES
        if left > 0:
            os.truncate(path, left)
        else:
            os.unlink(path)
            self._doomed.pop(0)
            self._retry_at_ms = 0  # space was freed: try at once
        return True

    def _populate(self) -> bool:
        """Populates the next pages of a fresh segment: growing the page cache is what makes cold writes slow.

        If it is not the next one to be used, the thread pauses after each step, and leaves the cores to the senders.
        """
        with self._changed:
            segment = next((s for s in self._ready if s.populated_bytes < self._populate_bytes), None)
            is_next = bool(self._ready) and segment is self._ready[0]
        if segment is None:
            return False
        begin = segment.populated_bytes
        end = min(begin + POPULATE_STEP_BYTES, self._populate_bytes)
        begun_ns = monotonic_ns()
        segment.populated_bytes = end if segment.populate(begin, end) else self._populate_bytes
        rest_s = REST * (monotonic_ns() - begun_ns) / 1e9
        with self._changed:
            if not (is_next or self._stopping):
                self._changed.wait(rest_s)
        return True


def _zero_head(path: str, disk: Disk) -> None:
    """Makes the old records at the front of a recycled file unreadable, durably, before it gets its new name."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        write_fully(fd, bytes(min(HEAD_BYTES, os.fstat(fd).st_size)), 0)
        disk.fdatasync(fd)
    finally:
        os.close(fd)
