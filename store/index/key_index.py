"""The key index: index files in order of time, the newest of which takes the keys of new records.

Keys are the unique id, each word of KEYS, and the tags (RocketMQ 5.5 indexes them as `topic#T#tags`). A file is named by
the time of its creation, `yyyyMMddHHmmssSSS`. A worker prepares the next one when the newest is 80 % full, because
allocating and touching 420 MB takes long. A search returns candidates: hashes collide, so the caller reads the records.

The loop thread inserts; `search` and `persist` run in workers.
"""

from __future__ import annotations

import logging
import os
import threading
from array import array
from collections.abc import Callable
from functools import partial
from typing import Final

from ...model.clock import datetime_of_ms
from ...model.errors import StoreFormatError, StoreNotWriteable
from ...model.queue import PhysicalOffset
from ...record.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from ..log.segment import NO_SPACE, create_allocated, disk_error, make_directory, sync_directory
from ..log.spare_files import SPARE_INDEX_FOLDER, SpareFiles
from ..query import LogPlace
from ..queues.dispatch import Run
from .index_file import IndexFile, find_slot_count, index_file_bytes

logger = logging.getLogger(__name__)

INDEX_FOLDER: Final = "index"
_NAME_DIGITS: Final = 17
AHEAD_ENTRIES: Final = 500_000  # 10 MB; at a million keys a second that is half a second
SEARCH_STEPS: Final = (
    4096  # entries that one search examines in a file, with the interpreter locked: 0.5 ms if not cached
)
_READY_SHARE: Final = 5  # the next file is made when less than 1/5 of the newest is left


def is_indexed(sys_flag: int) -> bool:
    """True if the keys of a record with this sysFlag are indexed: all but those of rolled back transactions."""
    return sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


def index_file_name(now_ms: int) -> str:
    """The 17 digits of a time (UTC)."""
    moment = datetime_of_ms(now_ms)
    return moment.strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"


def _leave_it(_: Callable[[], None]) -> None:
    """No worker: files are created and pages touched when they are needed."""


def list_index_files(directory: str, *, writable: bool = True) -> list[str]:
    """Paths of the index files, oldest first; raises StoreFormatError for a name that is no time."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    paths = []
    for name in names:
        path = os.path.join(directory, name)
        if name.endswith(".new"):  # an interrupted preparation
            if writable:
                os.unlink(path)
            continue
        if len(name) != _NAME_DIGITS or not name.isascii() or not name.isdigit():
            raise StoreFormatError(path, "its name is not the 17 digits of a time")
        paths.append(path)
    return paths


def find_index_sizes(store_directory: str, *, slots: int, entries: int) -> tuple[int, int] | None:
    """(slots, entries) of each index file of a store that is not open; None if it has no file. Expected are `slots` and
    `entries`. Raises StoreFormatError, OSError."""
    index = KeyIndex(store_directory, slots=slots, entries=entries, now_ms=lambda: 0, writable=False)
    try:
        return (index.slots, index.entries) if index.file_count else None
    finally:
        index.close()


class KeyIndex:
    """The series of index files, as a dispatcher."""

    def __init__(
        self,
        store_directory: str,
        *,
        slots: int,
        entries: int,
        now_ms: Callable[[], int],
        spare_bytes: int = 0,
        writable: bool = True,
    ) -> None:
        """Maps the existing files, with the slot counts that they have. `run_soon` may pass slow work to a worker.

        `spare_bytes`: how much of expired files is kept to be written over, at least one file; 0: none.
        Raises StoreFormatError, OSError. Invalid files are left out, with all behind them, and deleted once
        `trust` or `cut` is called: the log must then be read again from `needs_from` on.
        """
        self.directory = os.path.join(store_directory, INDEX_FOLDER)
        self.slots = slots
        self.entries = entries
        self._now_ms = now_ms
        self._writable = writable
        self.run_soon: Callable[[Callable[[], None]], object] = _leave_it
        self._touched = 0  # entries of the newest file whose pages a worker has touched, or was asked to
        self._asked = False
        self._making = (
            threading.Lock()
        )  # for creating a file: by the worker in advance, or by the loop if that was too late
        self._waiting: list[tuple[list[int], list[int], int]] = []
        self._prepared: IndexFile | None = None
        self._reflected = PhysicalOffset(0)
        self.needs_from: int | None = None  # where a replay must begin, whatever the checkpoint says
        self._refused: list[str] = []  # paths of left-out files
        self._taken = PhysicalOffset(0)  # dispatched up to here
        self._held_offset = -1  # of this record `_held_keys` keys are held: a replay leaves them out
        self._held_keys = 0
        self._files: tuple[IndexFile, ...] = self._open_files()
        self.spares: SpareFiles | None = None
        if writable:
            self.spares = SpareFiles(
                os.path.join(store_directory, SPARE_INDEX_FOLDER),
                size_bytes=index_file_bytes(self.slots, self.entries),
                blank_bytes=index_file_bytes(self.slots, 0),
                bytes_max=spare_bytes,
            )
        self._dirty: dict[IndexFile, None] = {}

    def _open_files(self) -> tuple[IndexFile, ...]:
        paths = list_index_files(self.directory, writable=self._writable)
        if not paths:
            return ()
        size = os.path.getsize(paths[0])
        for path in paths:
            if os.path.getsize(path) != size:
                raise StoreFormatError(
                    path, f"it has {os.path.getsize(path)} bytes where the first index file has {size}"
                )
        found = find_slot_count(paths[0], size, slots=self.slots, entries=self.entries)
        files: list[IndexFile] = []
        refusal = "no slot count explains it"
        if found is not None:
            self.slots, self.entries = found
            try:
                files.extend(  # the keys before the refused one
                    IndexFile(path, slots=self.slots, entries=self.entries, writable=self._writable) for path in paths
                )
            except StoreFormatError as error:
                refusal = str(error)
        self._refused = paths[len(files) :]
        if self._refused:
            self.needs_from = max([0, *(file.header.end_offset for file in files if not file.is_unused)])
            logger.warning(
                "index files are left out and made anew from the log first=%s count=%s reason=%s",
                self._refused[0], len(self._refused), refusal,
            )  # fmt: skip
        return tuple(files)

    # ---- what is held after a start

    def trust(self, reflected: int) -> None:
        """After a clean stop: everything below `reflected` is here. Raises OSError."""
        self._drop_refused()
        self._drop_unused()
        self._begin(reflected if self._files else 0)

    def cut(self, reflected: int, timestamp_of: Callable[[int], int | None]) -> None:
        """After an unclean stop: keeps only keys of records below `reflected`.

        `timestamp_of`: the store time of a record; None if the log does not have it (any more): the header's stays then,
        which is no earlier. Raises StoreNotWriteable (a file of RocketMQ's with holes, on a full disk), OSError.
        """
        known = bool(self._files) or not reflected
        self._drop_refused()
        self._drop_unused()
        while self._files and self._files[-1].header.begin_offset >= reflected:
            self._drop_last()
        if self._files:
            newest = self._files[-1]
            count = newest.count_below(reflected)
            if count <= 1:
                self._drop_last()
            else:
                end_ms = timestamp_of(newest.entry_offset(count - 1))
                newest.reserve()
                newest.cut(count, newest.header.end_timestamp_ms if end_ms is None else end_ms)
                self._dirty[newest] = None
        self._begin(reflected if known else 0)

    def cut_newer(self, timestamp_ms: int) -> None:
        """Like RocketMQ after an unclean stop: drops files that end later than its checkpoint. Raises OSError."""
        self._drop_refused()
        self._drop_unused()
        while self._files and self._files[-1].header.end_timestamp_ms > timestamp_ms:
            self._drop_last()
        self.needs_from = max(self.end_offset, 0)
        self._begin(self.needs_from)

    def _drop_refused(self) -> None:
        """Deletes the last one first: after a kill the rest is refused again."""
        while self._refused:
            os.unlink(self._refused[-1])
            self._refused.pop()

    def _drop_unused(self) -> None:
        while self._files and self._files[-1].is_unused:
            self._drop_last()

    def _drop_last(self) -> None:
        *kept, last = self._files
        self._files = tuple(kept)
        last.close()
        os.unlink(last.path)

    def _begin(self, reflected: int) -> None:
        """From here on keys are inserted: behind the held ones, which a replay dispatches again."""
        if self.needs_from is not None:
            reflected = min(reflected, self.needs_from)
        self._reflected = self._taken = PhysicalOffset(reflected)
        if self._files:
            newest = self._files[-1]
            self._held_offset = newest.header.end_offset
            self._held_keys = newest.keys_at_end()
            try:
                newest.reserve()
            except StoreNotWriteable as error:
                logger.warning("the newest index file takes no more keys path=%s error=%s", newest.path, error)
                newest.seal()

    # ---- dispatch

    def on_run(self, run: Run) -> None:
        """Inserts the keys of a run, each message once, however often it is dispatched."""
        if is_indexed(run.sys_flag) and run.keys_begin < run.keys_end:
            self.put(run.hashes, run.key_offsets, run.keys_begin, run.keys_end, run.store_timestamp_ms)
        self.advance(run.end)

    def advance(self, end: int) -> None:
        """Everything below `end` has been inserted."""
        if end > self._taken and not self._waiting:
            self._taken = PhysicalOffset(end)

    def put(self, hashes: memoryview, offsets: memoryview, begin: int, end: int, store_timestamp_ms: int) -> None:
        """Inserts keys [begin, end), all with one store time; they wait in memory if no file can be created."""
        if offsets[begin] <= self._held_offset:
            begin = self._skip_held(offsets, begin, end)
        while begin < end:
            file = self._files[-1] if self._files else None
            room = file.room if file is not None else 0
            if file is None or not room:
                file = self._add_file()
                if file is None:
                    self._waiting.append((hashes[begin:end].tolist(), offsets[begin:end].tolist(), store_timestamp_ms))
                    return
                room = file.room
            taken = min(room, end - begin)
            file.put(hashes, offsets, begin, begin + taken, store_timestamp_ms)
            self._dirty[file] = None
            begin += taken
            if file.header.count > self._touched - AHEAD_ENTRIES:
                self._touch_ahead(file)
            if not self._asked and room - taken < file.entries // _READY_SHARE:
                self._asked = True
                self.run_soon(self.prepare_next)

    def _touch_ahead(self, file: IndexFile) -> None:
        """Lets a worker touch the pages of the next keys: the first touch of a page costs more than its keys."""
        begin = max(self._touched, file.header.count)
        self._touched = file.header.count + 2 * AHEAD_ENTRIES
        self.run_soon(partial(file.populate_entries, begin, self._touched))

    def _skip_held(self, offsets: memoryview, begin: int, end: int) -> int:
        while begin < end and offsets[begin] < self._held_offset:
            begin += 1
        while begin < end and offsets[begin] == self._held_offset and self._held_keys:
            self._held_keys -= 1
            begin += 1
        return begin

    def _add_file(self) -> IndexFile | None:
        if self._waiting:
            return None
        with self._making:
            try:
                file = self._prepared if self._prepared is not None else self._make()
            except StoreNotWriteable as error:
                logger.warning("index keys wait error=%s", error)
                return None
            self._prepared = None
            if self._files:
                file.prime(self._files[-1].header)
            self._files = (*self._files, file)  # before a worker may create one: each is named after the newest
        self._asked = False
        self._touched = 0
        return file

    @property
    def is_blocked(self) -> bool:
        """True if keys wait for the disk."""
        return bool(self._waiting)

    def retry_waiting(self, end: int) -> None:
        """Inserts the waiting keys, as far as the disk has room; `end`: where the dispatched log ends."""
        waiting, self._waiting = self._waiting, []
        for hashes, offsets, store_timestamp_ms in waiting:
            count = len(hashes)
            self.put(memoryview(array("I", hashes)), memoryview(array("q", offsets)), 0, count, store_timestamp_ms)
        self.advance(end)

    def prepare_next(self) -> None:
        """Prepares the next file. A worker's; on a full disk it is created when it is needed."""
        with self._making:
            if self._prepared is not None:
                return
            try:
                file = self._prepared = self._make()
            except StoreNotWriteable as error:
                logger.warning("the next index file cannot be made yet error=%s", error)
                return
        file.populate_slots()

    def _make(self) -> IndexFile:
        newest = os.path.basename(self._files[-1].path) if self._files else ""
        name = index_file_name(self._now_ms())
        if name <= newest:
            name = str(int(newest) + 1)  # two in one millisecond, or the clock went back
        path = os.path.join(self.directory, name)
        try:
            make_directory(self.directory)
            if self.spares is None or not self.spares.take(path):
                create_allocated(path + ".new", index_file_bytes(self.slots, self.entries))
                os.rename(path + ".new", path)
            sync_directory(self.directory)
            return IndexFile(path, slots=self.slots, entries=self.entries)
        except OSError as error:
            if error.errno in NO_SPACE:
                size_bytes = index_file_bytes(self.slots, self.entries)
                raise StoreNotWriteable(f"disk full: no room for {path}, {size_bytes} bytes") from error
            raise disk_error(error, f"making {path}") from error

    def reflected(self) -> PhysicalOffset:
        """The keys of all records below are on disk."""
        return self._reflected

    def persist(self) -> PhysicalOffset:
        """Makes the inserted keys durable. A worker's. Raises OSError."""
        taken = self._taken
        for file in list(self._dirty):  # each of now, however often the loop notes one of them again meanwhile
            self._dirty.pop(file, None)
            os.fdatasync(file.open_fd())
        self._reflected = max(self._reflected, taken)
        return self._reflected

    # ---- reading

    def search(
        self, key_hash: int, *, begin_ms: int, end_ms: int, start: LogPlace, found_max: int
    ) -> tuple[list[int], LogPlace]:
        """Physical offsets of candidates, newest first, from `start` on; and where to go on. Any thread.

        It is over at `LogPlace.end`. A bounded number of entries of one file is examined, so it may find nothing and yet have
        to go on. A record that has a key twice is found twice.
        """
        found: list[int] = []
        for file in reversed(self._files):
            if file.header.begin_offset >= start.below:
                continue
            number = int(os.path.basename(file.path))
            offsets, last, offset, has_more = file.search(
                key_hash,
                begin_ms=begin_ms,
                end_ms=end_ms,
                below=start.below,
                behind=start.entry if number == start.file else 0,
                steps_max=SEARCH_STEPS,
                found_max=found_max - len(found),
            )
            found += offsets
            if has_more or len(found) >= found_max:
                return found, LogPlace(min(offset, start.below), number, last)
        return found, LogPlace.end()

    @property
    def end_offset(self) -> int:
        """The physical offset of the last entry; -1 where there is none."""
        used = [file for file in self._files if not file.is_unused]
        return used[-1].header.end_offset if used else -1

    @property
    def file_count(self) -> int:
        """The number of files."""
        return len(self._files)

    @property
    def entry_count(self) -> int:
        """The number of held keys."""
        return sum(file.header.count - 1 for file in self._files)

    # ---- removing

    def remove_before(self, log_begin: int) -> list[IndexFile]:
        """Removes the files, except the newest, whose every record is below `log_begin`; returns them, for `retire`."""
        removed: list[IndexFile] = []
        while len(self._files) > 1 and self._files[0].header.end_offset < log_begin:
            first, *rest = self._files
            self._files = tuple(rest)
            self._dirty.pop(first, None)
            removed.append(first)
        return removed

    def retire(self, file: IndexFile) -> None:
        """Keeps a removed file to be written over; deletes it if a search still uses it. A worker's.

        Raises OSError.
        """
        if self.spares is not None and file.close():
            self.spares.keep(file.path)
        else:
            os.unlink(file.path)

    def close(self) -> None:
        """Unmaps all files; the kernel writes what is not persisted."""
        for file in (*self._files, *((self._prepared,) if self._prepared is not None else ())):
            file.close()
        self._files = ()
