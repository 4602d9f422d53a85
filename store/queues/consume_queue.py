"""A consume queue: which record of the commit log is the n-th message of one queue of one topic.

`consumequeue/{topic}/{queueId}/` holds files of a fixed number of units (queue_places), each named by the 20 digits of its
first byte's position in the queue. Message n is the unit at byte 20 n.

A queue that begins at a higher offset is filled up to it with units (0, 0x7FFFFFFF, 0), as RocketMQ does. A gap inside a
queue (damage in the log) is filled with (physical offset of what follows, 0x7FFFFFFF, 0). Readers skip both.

Files are sparse, except that a busy queue continues in an expired file filled with zeros (`spare_files`). Files are not
read before their queue is used: a start with ten thousand queues reads only names. Units are read by `pread`, not through
maps: a pull copies some kilobytes, and the number of maps and descriptors does not grow with the number of queues.
Everything here belongs to the loop thread.
"""

from __future__ import annotations

import copy
import logging
import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Final

from ...model.errors import StoreFormatError
from ...model.queue import PhysicalOffset, QueueOffset
from ...model.topics.light_queues import is_light_queue
from ...record.codes import RECORD_OVERHEAD_BYTES
from ...record.layout import UNIT
from ..log.segment import NAME_DIGITS, clear_range, create_sparse, first_hole, is_blank, segment_name, write_fully
from ..log.spare_files import SpareFiles
from ..log.unsynced_files import UnsyncedFiles, folders_to_sync
from .light_offsets import begun_anew_at
from .queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces

logger = logging.getLogger(__name__)

_FILL_STEP_UNITS: Final = 4096
_ROOM_BYTES: Final = 64 * 1024  # 3,276 messages
_ROOM: Final = memoryview(bytes(_ROOM_BYTES))


class OpenFiles:
    """Descriptors of queue files by path, at most `limit`; the least recently used one is closed for a new one."""

    __slots__ = ("_fds", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._fds: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._fds)

    def fd(self, path: str) -> int:
        """The descriptor of an existing file. Raises OSError."""
        fd = self._fds.get(path)
        if fd is not None:
            self._fds.move_to_end(path)
            return fd
        if len(self._fds) >= self._limit:
            os.close(self._fds.popitem(last=False)[1])
        fd = self._fds[path] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return fd

    def forget(self, path: str) -> None:
        """Closes the file if it is open, before it is moved or deleted."""
        fd = self._fds.pop(path, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Closes all files."""
        while self._fds:
            os.close(self._fds.popitem()[1])


def list_queue_files(directory: str, file_bytes: int, *, writable: bool = True) -> list[int]:
    """The positions of a queue's files, ascending. An empty last file (left by an interrupted start) is left out and
    deleted.

    Raises StoreFormatError if a name is not a position, a size is not `file_bytes`, or a file between two is missing.
    """
    bases: list[int] = []
    with os.scandir(directory) as entries:
        files = sorted((entry.name, entry.stat().st_size) for entry in entries)
    for name, size in files:
        path = os.path.join(directory, name)
        if len(name) != NAME_DIGITS or not name.isascii() or not name.isdigit():
            raise StoreFormatError(path, "its name is not the 20 digits of a position")
        if size == 0 and name == files[-1][0]:
            if writable:
                os.unlink(path)
            continue
        if size != file_bytes:
            raise StoreFormatError(path, f"it has {size} bytes where the other queue files have {file_bytes}")
        if int(name) % file_bytes or (bases and int(name) != bases[-1] + file_bytes):
            raise StoreFormatError(path, "it does not follow the file before it")
        bases.append(int(name))
    return bases


class ConsumeQueue(QueuePlaces):
    """One loaded queue. `tail_path`: its last file; "" if it has none.

    A batch queue (batches/batch_queue) keeps other units in the same files: it has another `unit_bytes`, and finds its
    messages in another way.
    """

    unit_bytes: ClassVar[int] = UNIT_BYTES

    __slots__ = (
        "_bases", "_end", "_file_bytes", "_files", "_room_end", "_spares", "_tail_base", "_unsynced", "directory", "tail_path",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        queue_id: int,
        *,
        directory: str,
        files: OpenFiles,
        file_bytes: int,
        log_end: PhysicalOffset,
        scrub: bool = False,
        is_whole: bool = False,
        writable: bool = True,
        delays_ms: tuple[int, ...] = (),
        spares: SpareFiles | None = None,
        unsynced: UnsyncedFiles | None = None,
        bases: Sequence[int] | None = None,
    ) -> None:
        """Finds the end: behind the last unit of a record that ends within `log_end`, the log's end when it was opened.

        `scrub`: clear everything behind it (after an unclean stop). If not `writable`, nothing is changed. `is_whole`:
        everything in the files is a message's unit (after a clean stop); then a unit that looks wrong is damaged, and
        counts. `delays_ms`: only for the schedule topic, whose tags codes are delivery times. `spares`: keeps expired files
        for new ones; without it they are deleted and created. `unsynced`: is notified of folders that get a new name.
        `bases`: of its files, if they are listed already. Raises StoreFormatError, OSError.
        """
        super().__init__(topic, queue_id, delays_ms=delays_ms, keeps_times=self.is_batched)
        self.directory = directory
        self._files = files
        self._file_bytes = file_bytes
        self._spares = spares
        self._unsynced = unsynced
        if bases is None:
            bases = list_queue_files(directory, file_bytes, writable=writable) if os.path.isdir(directory) else ()
        self._bases = list(bases)
        self._end = self._find_end(log_end, writable=writable, is_whole=is_whole)
        self._set_tail()
        while is_whole and self._bases and self._end_unit_is_dirty():
            self._end += self.unit_bytes
        if writable and self._bases and (self._is_dirty_behind_end() if scrub else self._end_unit_is_dirty()):
            self._clear_behind_end()
        self._note_end()

    # ---- the end

    def _note_end(self) -> None:
        """Sets `next_offset` as the files end."""
        self.next_offset = self._end // UNIT_BYTES

    def _find_end(self, log_end: PhysicalOffset, *, writable: bool, is_whole: bool) -> int:
        """The byte position behind the last unit that points below `log_end`; removes later files."""
        while self._bases:
            base = self._bases[-1]
            fd = self._files.fd(self._path(base))
            size = self.unit_bytes
            written = -(-first_hole(fd, self._file_bytes) // size)
            units = bisect_left(range(written), x=True, key=lambda n: not _lies_below(fd, n, written, log_end, size))
            if units or len(self._bases) == 1 or (is_whole and any(os.pread(fd, size, 0))):
                return base + units * size
            if writable:
                self._remove_file(base)
            else:
                self._bases.remove(base)
        return 0

    def private(self, files: OpenFiles) -> ConsumeQueue:
        """A copy of this queue for a reader with its own descriptors. Any thread."""
        twin = copy.copy(self)
        twin.read_through(files)
        return twin

    def read_through(self, files: OpenFiles) -> None:
        """Makes this copy of a queue independent of the original."""
        self._files = files
        self._bases = list(self._bases)
        self._min_for = -1

    def _set_tail(self) -> None:
        self._tail_base = self._bases[-1] if self._bases else -self._file_bytes
        self.tail_path = self._path(self._tail_base) if self._bases else ""
        self._room_end = 0

    def _end_unit_is_dirty(self) -> bool:
        at = self._end - self._tail_base
        return any(os.pread(self._files.fd(self.tail_path), self.unit_bytes, at)) if at < self._file_bytes else False

    def _is_dirty_behind_end(self) -> bool:
        """Whether anything but zeros may lie behind the end."""
        fd, at = self._files.fd(self.tail_path), self._end - self._tail_base
        return not is_blank(fd, at, self._file_bytes, read_max=_ROOM_BYTES)

    def _clear_behind_end(self) -> None:
        """Zeroes the file behind the end. It never changes size: a file of another size could not be opened after a kill."""
        clear_range(self._files.fd(self.tail_path), self._end - self._tail_base, self._file_bytes)

    def cut(self, next_offset: int) -> None:
        """Removes all units from `next_offset` on."""
        self._cut_at(next_offset * UNIT_BYTES)

    def _cut_at(self, position: int) -> None:
        self._end = max(position, self._bases[0] if self._bases else 0)
        while len(self._bases) > 1 and self._bases[-1] >= self._end:
            self._remove_file(self._bases[-1])
        self._set_tail()
        if self._bases:
            self._clear_behind_end()
        self._note_end()
        self._min_for = -1

    def begin_at(self, next_offset: int) -> str | None:
        """Lets a queue without files continue at `next_offset`, with filler before it; returns the path of its file, if any."""
        assert not self._bases
        position = next_offset * UNIT_BYTES
        if not position:
            return None
        self._add_file(position // self._file_bytes * self._file_bytes)
        self._end = self._tail_base
        while self._end < position:
            count = min((position - self._end) // UNIT_BYTES, _FILL_STEP_UNITS)
            self._write_across(self._end, UNIT.pack(0, FILLER_SIZE, 0) * count)
        self.next_offset = next_offset
        return self.tail_path

    @property
    def is_blank(self) -> bool:
        """Whether it is empty and always was: no unit, and no file that was removed."""
        return self._end == 0

    # ---- writing

    def append(self, queue_offset: int, units: memoryview | bytes) -> list[str]:
        """Writes units at `queue_offset`; returns the paths written to.

        Existing units are written again (a replay); a gap is filled. Nothing is written at an offset that no record of this
        log can have. Raises OSError (disk full).
        """
        position = queue_offset * UNIT_BYTES
        size = len(units)
        at = position - self._tail_base
        if position == self._end and 0 <= at <= self._file_bytes - size:
            if at + size > self._room_end:
                self._make_room(at)
            done = os.pwrite(self._files.fd(self.tail_path), units, at)
            if done != size:
                write_fully(self._files.fd(self.tail_path), units[done:], at + done)
            self._end = position + size
            self.next_offset = queue_offset + size // UNIT_BYTES
            return [self.tail_path]
        begin = begun_anew_at(queue_offset, self.next_offset) if self._bases and is_light_queue(self.topic) else None
        if begin is not None:
            self._remove_files()
            self.begin_at(begin)
        elif not self._may_be_next(queue_offset, units):
            logger.error(
                "a record's queue offset cannot be true, it is left out topic=%s queue=%s offset=%s next=%s",
                self.topic, self.queue_id, queue_offset, self.next_offset,
            )  # fmt: skip
            return []
        if position > self._end or not self._bases:
            self._fill_to(position, units)
        return self._write_across(position, units)

    def _may_be_next(self, queue_offset: int, units: memoryview | bytes) -> bool:
        """Whether the log has room for the messages missing between the last one and `queue_offset`.

        If not, the offset comes from a damaged record: it could be any number, and each missing unit would be written.
        """
        missing = queue_offset - self.next_offset
        if queue_offset < 0 or missing <= 0:
            return queue_offset >= 0
        begin = self.unit(self.next_offset - 1)[0] if self._bases and self._end > self._bases[0] else 0
        return missing * RECORD_OVERHEAD_BYTES <= int.from_bytes(units[:8], "big") - begin

    def _make_room(self, at: int) -> None:
        """Zero-fills behind the end, at byte `at` of the last file, in a busy queue: page by page it costs twice as much.

        That range was a hole, so its content does not change. A queue of few messages keeps its few pages.
        """
        self._room_end = (at // _ROOM_BYTES + 1) * _ROOM_BYTES
        if at >= _ROOM_BYTES:
            with suppress(OSError):  # a full or broken disk refuses the units themselves
                os.pwrite(self._files.fd(self.tail_path), _ROOM[: min(self._room_end, self._file_bytes) - at], at)

    def _write_across(self, position: int, units: memoryview | bytes) -> list[str]:
        paths = []
        done = max(
            0, (self._bases[0] if self._bases else 0) - position
        )  # a replay may begin before the first kept file
        while done < len(units):
            base = (position + done) // self._file_bytes * self._file_bytes
            if base >= self._tail_base + self._file_bytes:
                self._add_file(base)
            part = units[done : done + base + self._file_bytes - position - done]
            write_fully(self._files.fd(self._path(base)), part, position + done - base)
            paths.append(self._path(base))
            done += len(part)
        self._end = max(self._end, position + len(units))
        self._note_end()
        return paths

    def _fill_to(self, position: int, units: memoryview | bytes) -> None:
        """Writes filler from the queue's end up to `position`; if the queue is empty, only from the start of that file."""
        filler = UNIT.pack(0, FILLER_SIZE, 0)
        if self._bases:
            filler = UNIT.pack(int.from_bytes(units[:8], "big"), FILLER_SIZE, 0)
        else:
            self._add_file(position // self._file_bytes * self._file_bytes)
            self._end = self._tail_base
        while self._end < position:
            count = min((position - self._end) // UNIT_BYTES, _FILL_STEP_UNITS)
            self._write_across(self._end, filler * count)

    def _add_file(self, base: int) -> None:
        """Adds a file.

        A queue that has filled a file may fill another, so it gets a spare one, whose pages are all allocated.
        """
        path = self._path(base)
        changed = folders_to_sync(self.directory)
        try:
            os.makedirs(self.directory, exist_ok=True)
            is_spare = bool(self._bases) and self._spares is not None and self._spares.take(path)
            if not is_spare:
                create_sparse(path, self._file_bytes)
        finally:
            if self._unsynced is not None:
                self._unsynced.note_names(changed)  # after they exist: a worker may sync them at any time
        self._bases.append(base)
        self._set_tail()
        if is_spare:
            self._room_end = self._file_bytes

    # ---- reading

    def read(self, queue_offset: int, units_max: int) -> bytes:
        """Units from `queue_offset` on: at most `units_max`, within one file, before the end; b"" if there are none."""
        position = queue_offset * UNIT_BYTES
        base = position // self._file_bytes * self._file_bytes
        size = min(self._end - position, units_max * UNIT_BYTES, base + self._file_bytes - position)
        if size <= 0 or not self._bases or base < self._bases[0]:
            return b""
        return os.pread(self._files.fd(self._path(base)), size, position - base)

    def stored_ms(self, queue_offset: int) -> int | None:  # noqa: ARG002
        """Only the log knows."""
        return None

    @property
    def file_count(self) -> int:
        """The number of its files."""
        return len(self._bases)

    @property
    def first_offset(self) -> int:
        """The queue offset at which the first file begins."""
        return self._bases[0] // UNIT_BYTES if self._bases else 0

    def resume_offset(self, queue_offset: int) -> QueueOffset:
        """Where to go on if nothing can be read at `queue_offset`: at the begin of the next file."""
        units = self._file_bytes // UNIT_BYTES
        return QueueOffset((queue_offset // units + 1) * units)

    # ---- removing

    def remove_before(self, log_begin: PhysicalOffset) -> int:
        """Removes the files, except the last one, in which every record is below `log_begin`; returns how many."""
        removed = 0
        while len(self._bases) > 1:
            if self._physical_before(self._bases[1]) >= log_begin:
                break
            self._give_up_file(self._bases[0])
            removed += 1
        if removed:
            self._min_for = -1
        return removed

    def _physical_before(self, position: int) -> int:
        """The physical offset in the unit that ends at a byte position of the queue."""
        return self.unit(position // UNIT_BYTES - 1)[0]

    def remove(self) -> None:
        """Deletes all files and the directory."""
        self._remove_files()
        if os.path.isdir(self.directory):
            os.rmdir(self.directory)

    def _remove_files(self) -> None:
        for base in list(self._bases):
            self._remove_file(base)
        self._end = self.next_offset = 0
        self._min_for = -1
        self._set_tail()

    def empty_below(self, queue_offset: int) -> None:
        """Removes the units before an offset; the next one gets the offset that it would have had."""
        for base in [base for base in self._bases[:-1] if base + self._file_bytes <= queue_offset * UNIT_BYTES]:
            self._remove_file(base)
        filler = UNIT.pack(0, FILLER_SIZE, 0)
        for begin in range(self.first_offset, queue_offset, _FILL_STEP_UNITS):
            count = min(_FILL_STEP_UNITS, queue_offset - begin)
            self._write_across(begin * UNIT_BYTES, filler * count)
        self._min_for = -1

    def forget_files(self) -> None:
        """Closes the files before they are moved."""
        for base in self._bases:
            self._files.forget(self._path(base))

    def _remove_file(self, base: int) -> None:
        self._bases.remove(base)
        self._files.forget(self._path(base))
        os.unlink(self._path(base))

    def _give_up_file(self, base: int) -> None:
        if self._spares is None:
            return self._remove_file(base)
        self._bases.remove(base)
        self._files.forget(self._path(base))
        return self._spares.keep(self._path(base))

    def _path(self, base: int) -> str:
        return f"{self.directory}/{segment_name(base)}"


def _lies_below(fd: int, unit: int, written: int, log_end: int, unit_bytes: int) -> bool:
    """`_points_below`, decided by the majority of three units of the first `written`: offsets ascend, so a damaged one is
    out of order.
    """
    near = range(max(unit - 1, 0), min(unit + 2, written))
    if len(near) < 3:
        return _points_below(fd, unit * unit_bytes, log_end)
    return sum(_points_below(fd, at * unit_bytes, log_end) for at in near) > 1


def _points_below(fd: int, at: int, log_end: int) -> bool:
    """Whether the unit at a byte of a file belongs to a record that ends within `log_end`, or is filler."""
    physical, size, _ = UNIT.unpack(os.pread(fd, UNIT_BYTES, at))
    if size == FILLER_SIZE:
        return bool(physical <= log_end)
    return bool(size > 0 and physical + size <= log_end)
