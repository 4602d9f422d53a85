"""All consume queues of a store, as a dispatcher: each run of records becomes units of its queue.

At a start only names and sizes are read; a queue is loaded when it is first used, and after an unclean stop all are
loaded at once and cleared behind their ends. Where the disk is full, units that could not be written wait in memory
and the store takes no messages until they are.

Loop thread, `persist_some` apart, which is a worker's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ...model.errors import StoreFormatError
from ...model.names import SCHEDULE_TOPIC
from ...model.queue import PhysicalOffset
from ...record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from ..log.segment import NO_SPACE, sync_directory
from ..log.spare_files import SPARE_QUEUE_FOLDER, SpareFiles
from ..log.unsynced_files import UnsyncedFiles
from .consume_queue import UNIT_BYTES, ConsumeQueue, OpenFiles, list_queue_files
from .deleted_queues import set_aside
from .dispatch import Run

logger = logging.getLogger(__name__)

QUEUE_FOLDER: Final = "consumequeue"
_LOOKS_FOR_ONE: Final = 32  # queues of one file, in the time that one of several takes
_FILES_AT_ONCE: Final = 64

QueueKey = tuple[str, int]


def goes_to_queue(sys_flag: int) -> bool:
    """Whether a record with this sysFlag is visible in its queue: plain and committed ones are."""
    return sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)


def with_deliver_times(units: memoryview, store_timestamp_ms: int, delay_ms: int) -> bytearray:
    """Units of the schedule topic: their tags code is the time to deliver, as RocketMQ has it."""
    patched = bytearray(units)
    code = (store_timestamp_ms + delay_ms).to_bytes(8, "big")
    for at in range(12, len(patched), UNIT_BYTES):
        patched[at : at + 8] = code
    return patched


def list_queues(store_directory: str) -> Iterator[tuple[str, int, str]]:
    """(topic, queue id, directory) of each queue that exists. Raises StoreFormatError for a name that is no queue id."""
    folder = os.path.join(store_directory, QUEUE_FOLDER)
    try:
        topics = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for topic in topics:
        for name in sorted(os.listdir(os.path.join(folder, topic))):
            path = os.path.join(folder, topic, name)
            if not name.isascii() or not name.isdigit():
                raise StoreFormatError(path, "its name is not a queue id")
            yield topic, int(name), path


def find_queue_file_bytes(store_directory: str) -> int | None:
    """The size of the queue files of a store, None where it has none. Raises StoreFormatError where it holds no units."""
    for _, _, directory in list_queues(store_directory):
        for name in os.listdir(directory):
            size = os.path.getsize(os.path.join(directory, name))
            if size and size % UNIT_BYTES:
                raise StoreFormatError(
                    os.path.join(directory, name), f"it has {size} bytes, no multiple of {UNIT_BYTES}"
                )
            if size:
                return size
    return None


@dataclass(frozen=True, slots=True)
class WrongUnit:
    """The unit of this queue offset, `held`, does not name its record. `unit`: what it should be, but for a delayed message's
    time."""

    topic: str
    queue_id: int
    queue_offset: int
    unit: bytes
    held: bytes
    store_timestamp_ms: int


class QueueTable:
    """{(topic, queue id): consume queue}."""

    def __init__(
        self,
        store_directory: str,
        *,
        file_units: int,
        open_max: int,
        delays_ms: tuple[int, ...],
        spare_bytes: int = 0,
        writable: bool = True,
    ) -> None:
        """Reads names and sizes. Existing files tell their size; `file_units` counts where there are none.

        `spare_bytes`: so much of expired files is kept to be written over, one file at least; 0: none.
        Raises StoreFormatError, OSError.
        """
        self.directory = os.path.join(store_directory, QUEUE_FOLDER)
        self.file_bytes = find_queue_file_bytes(store_directory) or file_units * UNIT_BYTES
        self._delays_ms = delays_ms
        self._writable = writable
        self.spares: SpareFiles | None = None
        if writable:
            self.spares = SpareFiles(
                os.path.join(store_directory, SPARE_QUEUE_FOLDER),
                size_bytes=self.file_bytes,
                blank_bytes=self.file_bytes,
                bytes_max=spare_bytes,
            )
        self._files = OpenFiles(open_max)
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._unloaded: dict[QueueKey, tuple[int, ...]] = {}  # where their files begin
        self._unsynced = UnsyncedFiles()
        self._persisting: PhysicalOffset | None = (
            None  # what is on disk once the round that is under way has come to its end
        )
        self._unwritten: list[tuple[ConsumeQueue, int, bytes]] = []
        self._expiring: list[QueueKey] | None = []
        self._is_whole = False
        self._log_end = self._expired_below = PhysicalOffset(0)
        self._taken = self._reflected = PhysicalOffset(0)
        for topic, queue_id, directory in list_queues(store_directory):
            self._unloaded[topic, queue_id] = tuple(list_queue_files(directory, self.file_bytes, writable=writable))

    def begin(self, *, log_end: PhysicalOffset, reflected: int, unclean: bool, is_whole: bool = False) -> None:
        """Says where the log ended when the store was opened, and below which offset all units are on disk. `is_whole`: we
        stopped cleanly, so whatever stands in a queue is a message's unit."""
        self._is_whole = is_whole
        self._log_end = log_end
        self._taken = self._reflected = PhysicalOffset(reflected if self._unloaded else 0)
        if unclean:
            for key in list(self._unloaded):
                self._load(key, scrub=True)

    def cut(self, log_end: PhysicalOffset) -> None:
        """Instead of `begin`: leaves nothing of records that end above `log_end`, durably. Raises StoreFormatError, OSError."""
        self._log_end = log_end
        for key in self.listed():
            queue = self._load(key, scrub=True)
            if queue.is_blank:
                queue.remove()
                self._remove_topic_folder(key[0])
            else:
                _sync_file(queue.tail_path)
                sync_directory(queue.directory)
        if os.path.isdir(self.directory):
            sync_directory(self.directory)

    def begin_at(self, minimums: Mapping[QueueKey, int]) -> None:
        """Makes queues that go on at these offsets, durably. Raises OSError."""
        for key, next_offset in minimums.items():
            path = self._load(key, scrub=False).begin_at(next_offset)
            if path is not None:
                _sync_file(path)
                sync_directory(os.path.dirname(path))
                sync_directory(os.path.dirname(os.path.dirname(path)))
        if os.path.isdir(self.directory):
            sync_directory(self.directory)

    # ---- finding

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue that exists, or None. Raises StoreFormatError, OSError."""
        key = (topic, queue_id)
        queue = self._queues.get(key)
        if queue is None and key in self._unloaded:
            queue = self._load(key, scrub=False)
        return queue

    def private(self, topic: str, queue_id: int, files: OpenFiles) -> ConsumeQueue | None:
        """A queue as it is at this moment, for reading through descriptors of one's own. Any thread."""
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            return queue.private(files)
        if (topic, queue_id) in self._unloaded:
            return self._make((topic, queue_id), files, scrub=False, writable=False)
        return None

    def begins_at(self, topic: str, queue_id: int, first_offset: int) -> bool:
        """Whether that is still where a queue's first file begins, or it is gone altogether. Any thread."""
        queue = self._queues.get((topic, queue_id))  # one that is not loaded lost no file
        return queue is None or queue.first_offset == first_offset

    def is_loaded(self, topic: str, queue_id: int) -> bool:
        """Whether `get` finds it, or that there is none, without the disk."""
        return (topic, queue_id) not in self._unloaded

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._queues) + len(self._unloaded)

    def kept(self) -> tuple[int, int]:
        """(how many have files, how many files these are)."""
        counts = [self._file_count(key) for key in self.listed()]
        return len(counts) - counts.count(0), sum(counts)

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; its first file is made with its first unit. `topic` must have been checked as a name."""
        return self.get(topic, queue_id) or self._load((topic, queue_id), scrub=False)

    def _load(self, key: QueueKey, *, scrub: bool) -> ConsumeQueue:
        queue = self._queues[key] = self._make(key, self._files, scrub=scrub, writable=self._writable)
        self._unloaded.pop(key, None)
        return queue

    def _make(self, key: QueueKey, files: OpenFiles, *, scrub: bool, writable: bool) -> ConsumeQueue:
        topic, queue_id = key
        return ConsumeQueue(
            topic,
            queue_id,
            directory=f"{self.directory}/{topic}/{queue_id}",
            files=files,
            file_bytes=self.file_bytes,
            log_end=self._log_end,
            scrub=scrub,
            is_whole=self._is_whole,
            writable=writable,
            delays_ms=self._delays_ms if topic == SCHEDULE_TOPIC else (),
            spares=self.spares if writable else None,
            unsynced=self._unsynced if writable else None,
            bases=self._unloaded.get(key),
        )

    def listed(self) -> list[QueueKey]:
        """All queues, sorted."""
        return sorted({*self._queues, *self._unloaded})

    def _of_topic(self, topic: str) -> list[QueueKey]:
        return [key for table in (self._queues, self._unloaded) for key in table if key[0] == topic]

    # ---- dispatch

    def on_run(self, run: Run) -> None:
        """Takes the units of a run, where its records are visible."""
        if goes_to_queue(run.sys_flag):
            queue = self.get_or_create(run.topic, run.queue_id)
            self.put(queue, run.queue_offset, run.units, run.store_timestamp_ms)
        self.advance(run.end)

    def fill_in(self, run: Run) -> None:
        """Takes the units of records that were damaged and are whole again, where their queue has nothing else in their place:
        records of a deleted topic stay out of the queues of one of the same name that was made since."""
        queue = self.get(run.topic, run.queue_id) if goes_to_queue(run.sys_flag) else None
        if queue is None:
            return
        for at in range(run.count):
            queue_offset, unit = run.queue_offset + at, run.units[at * UNIT_BYTES : (at + 1) * UNIT_BYTES]
            if queue.is_place_of(queue_offset, int.from_bytes(unit[:8], "big")):
                self.put(queue, queue_offset, unit, run.store_timestamp_ms)

    def set_right(self, wrong: WrongUnit) -> bool:
        """Writes a unit over a damaged one, if that is still there; whether it was."""
        queue = self.get(wrong.topic, wrong.queue_id)
        if queue is None or wrong.queue_offset >= queue.next_offset or queue.read(wrong.queue_offset, 1) != wrong.held:
            return False
        self.put(queue, wrong.queue_offset, wrong.unit, wrong.store_timestamp_ms)
        return True

    def put(self, queue: ConsumeQueue, queue_offset: int, units: memoryview | bytes, store_timestamp_ms: int) -> None:
        """Writes units, or keeps them until the disk has room."""
        if queue.delays_ms:
            delay_ms = queue.delays_ms[min(queue.queue_id, len(queue.delays_ms) - 1)]
            units = bytes(with_deliver_times(memoryview(units), store_timestamp_ms, delay_ms))
        if self._unwritten:
            self._unwritten.append((queue, queue_offset, bytes(units)))
            return
        try:
            self._unsynced.note(queue.append(queue_offset, units))
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("disk full: queue units wait topic=%s queue=%s", queue.topic, queue.queue_id)
            self._unwritten.append((queue, queue_offset, bytes(units)))

    def advance(self, end: int) -> None:
        """Says that all below `end` has been put."""
        if end > self._taken and not self._unwritten:
            self._taken = PhysicalOffset(end)

    @property
    def is_blocked(self) -> bool:
        """Whether units wait for the disk."""
        return bool(self._unwritten)

    def retry_unwritten(self, end: int) -> None:
        """Writes the units that wait, as far as the disk has room; `end`: where the dispatched log ends."""
        waiting, self._unwritten = self._unwritten, []
        for queue, queue_offset, units in waiting:
            if self._unwritten:
                self._unwritten.append((queue, queue_offset, units))
            else:
                try:
                    self._unsynced.note(queue.append(queue_offset, units))
                except OSError as error:
                    if error.errno not in NO_SPACE:
                        raise
                    self._unwritten.append((queue, queue_offset, units))
        self.advance(end)

    def reflected(self) -> PhysicalOffset:
        """Units of all records below are on disk."""
        return self._reflected

    def persist(self) -> PhysicalOffset:
        """A whole round. A worker's. Raises OSError."""
        while self.persist_some(_FILES_AT_ONCE):
            pass
        return self._reflected

    def persist_some(self, files_max: int) -> bool:
        """Makes some of the files durable that were written to before the round began; whether some are left. A worker's.

        Only at a round's end `reflected` says more. Where a file is gone it may be that its topic was set aside just now:
        that says nothing, and the next round tells. Raises OSError.
        """
        if self._persisting is None:
            self._persisting = self._taken  # before the files: what is below it has been noted in them
        are_whole = self._unsynced.sync_some(files_max)
        if are_whole is None:
            return True
        if are_whole:
            self._reflected = max(self._reflected, self._persisting)
        self._persisting = None
        return False

    # ---- removing

    def begin_expiry(self, log_begin: PhysicalOffset) -> None:
        """From here on `expire_some` gives up the files whose every record lies below `log_begin`."""
        self._expired_below = log_begin
        self._expiring = None

    def expire_some(self, queues_max: int) -> bool:
        """Looks at so many queues that have more than one file, the last of which stays; whether some are left. At a queue that
        has one file it looks in a fraction of that time: `_LOOKS_FOR_ONE` such count as one.

        Raises OSError; the rest goes then with the next expiry.
        """
        if self._expiring is None:
            self._expiring = [*self._unloaded, *self._queues]
        left = queues_max * _LOOKS_FOR_ONE
        while self._expiring and left > 0:
            key = self._expiring.pop()
            left -= 1
            if self._file_count(key) > 1:
                left -= _LOOKS_FOR_ONE - 1
                queue = self.get(*key)
                if queue is not None:
                    queue.remove_before(self._expired_below)
        return bool(self._expiring)

    def _file_count(self, key: QueueKey) -> int:
        queue = self._queues.get(key)
        return len(self._unloaded.get(key, ())) if queue is None else queue.file_count

    def delete_topic(self, topic: str) -> None:
        """Deletes the queue files of a topic. Its records stay in the log until they expire. Raises OSError."""
        for key in self._of_topic(topic):
            queue = self.get(*key)
            if queue is not None:
                queue.remove()
            self._queues.pop(key, None)
        self._unsynced.forget(os.path.join(self.directory, topic))
        self._remove_topic_folder(topic)

    def set_topic_aside(self, topic: str, at: int) -> None:
        """The same by a deletion that ends at byte `at` of the log and may yet be cut from it. Raises OSError."""
        folder = os.path.join(self.directory, topic)
        for key in self._of_topic(topic):
            queue = self._queues.pop(key, None)
            if queue is not None:
                queue.forget_files()
            self._unloaded.pop(key, None)
        if os.path.isdir(folder):
            target = set_aside(os.path.dirname(self.directory), folder, at)
            self._unsynced.forget(folder)
            for inner, _, names in os.walk(target):  # all: a worker that was about to sync one finds it gone
                self._unsynced.note(os.path.join(inner, name) for name in names)
                self._unsynced.note_names([inner])

    def _remove_topic_folder(self, topic: str) -> None:
        """Where no queue is left in it."""
        folder = os.path.join(self.directory, topic)
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
            sync_directory(self.directory)

    def close(self) -> None:
        """Closes all files."""
        self._files.close()


def _sync_file(path: str) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
