"""The engine that keeps consume queues in files, as RocketMQ does: each run of records becomes units of its queue.

At a start only names and sizes are read. A queue is loaded when it is first used; after an unclean stop all are loaded at
once and cleared behind their ends. If the disk is full, units that could not be written wait in memory, and the store takes
no messages until they are written.

Loop thread, except `persist_some`, which a worker calls.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import ClassVar, Final

from ...model.errors import StoreFormatError
from ...model.names import SCHEDULE_TOPIC
from ...model.queue import PhysicalOffset
from ...model.topics.light_queues import is_light_queue
from ..log.segment import NO_SPACE, sync_directory
from ..log.spare_files import SPARE_QUEUE_FOLDER, SpareFiles
from ..log.unsynced_files import UnsyncedFiles
from .consume_queue import ConsumeQueue, OpenFiles, list_queue_files
from .deleted_queues import DELETED_FOLDER, purge, restore, set_aside
from .dispatch import Run
from .light_offsets import may_be_forgotten
from .queue_engine import (
    QUEUE_FOLDER,
    LightUnit,
    QueueKey,
    UnitSource,
    WrongUnit,
    goes_to_queue,
    lights_of,
    single_units,
    with_deliver_times,
)
from .queue_places import UNIT_BYTES, QueuePlaces
from .unit_files import UnitFiles

logger = logging.getLogger(__name__)

_LOOKS_FOR_ONE: Final = 32  # checking one queue of several files takes as long as so many queues of one file
_FILES_AT_ONCE: Final = 64
_PRIVATE_FILES: Final = 4  # open at a time for one private reader


def list_queues(store_directory: str, queue_folder: str = QUEUE_FOLDER) -> Iterator[tuple[str, int, str]]:
    """(topic, queue id, directory) of each existing queue. Raises StoreFormatError for a name that is not a queue id."""
    folder = os.path.join(store_directory, queue_folder)
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


def find_queue_file_bytes(
    store_directory: str, queue_folder: str = QUEUE_FOLDER, unit_bytes: int = UNIT_BYTES
) -> int | None:
    """The size of a store's queue files, None if it has none. Raises StoreFormatError if the size is no multiple of a unit."""
    for _, _, directory in list_queues(store_directory, queue_folder):
        for name in os.listdir(directory):
            size = os.path.getsize(os.path.join(directory, name))
            if size and size % unit_bytes:
                raise StoreFormatError(
                    os.path.join(directory, name), f"it has {size} bytes, no multiple of {unit_bytes}"
                )
            if size:
                return size
    return None


class QueueTable:
    """A QueueEngine. The class variables are of its kind of queues (batches/batch_table has another kind)."""

    folder: ClassVar[str] = QUEUE_FOLDER
    deleted_folder: ClassVar[str] = DELETED_FOLDER
    spare_folder: ClassVar[str | None] = SPARE_QUEUE_FOLDER  # None: expired files are deleted
    queue_class: ClassVar[type[ConsumeQueue]] = ConsumeQueue

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
        """Reads names and sizes. Existing files determine the file size; `file_units` applies if there are none.

        `spare_bytes`: how much of expired files is kept for reuse, at least one file; 0: none. Raises StoreFormatError,
        OSError.
        """
        unit_bytes = self.queue_class.unit_bytes
        self.directory = os.path.join(store_directory, self.folder)
        self.file_bytes = find_queue_file_bytes(store_directory, self.folder, unit_bytes) or file_units * unit_bytes
        self._deleted = os.path.join(store_directory, self.deleted_folder)
        self._delays_ms = delays_ms
        self._writable = writable
        self._spares: SpareFiles | None = None
        if writable and self.spare_folder is not None:
            self._spares = SpareFiles(
                os.path.join(store_directory, self.spare_folder),
                size_bytes=self.file_bytes,
                blank_bytes=self.file_bytes,
                bytes_max=spare_bytes,
            )
        self._files = OpenFiles(open_max)
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._unloaded: dict[QueueKey, tuple[int, ...]] = {}  # {queue: the positions at which its files begin}
        self._unsynced = UnsyncedFiles()
        self._persisting: PhysicalOffset | None = None  # the new `_reflected` when the current round ends
        self._unwritten: list[tuple[ConsumeQueue, int, bytes]] = []
        self._expiring: list[QueueKey] | None = []
        self._is_whole = False
        self._log_end = self._expired_below = PhysicalOffset(0)
        self._taken = self._reflected = PhysicalOffset(0)
        self._unloaded.update(self._found())
        self.lights = {topic for topic, _ in self._unloaded if is_light_queue(topic)}

    def _found(self) -> Iterator[tuple[QueueKey, tuple[int, ...]]]:
        for topic, queue_id, directory in list_queues(os.path.dirname(self.directory), self.folder):
            yield (topic, queue_id), tuple(list_queue_files(directory, self.file_bytes, writable=self._writable))

    def begin(self, *, log_end: PhysicalOffset, reflected: int, unclean: bool, is_whole: bool = False) -> None:
        """Sets where the log ended when the store was opened, and below which offset all units are on disk.

        `is_whole`: we stopped cleanly, so everything in a queue's files is a message's unit.
        """
        self._is_whole = is_whole
        self._log_end = log_end
        self._taken = self._reflected = PhysicalOffset(reflected if self._unloaded else 0)
        if unclean:
            for key in list(self._unloaded):
                self._load(key, scrub=True)

    def cut(self, log_end: PhysicalOffset, runs_from: Callable[[int], Iterable[Run]]) -> None:  # noqa: ARG002
        """Called instead of `begin`: removes, durably, all units of records that end above `log_end`, and takes back deletions
        of topics above it. May be repeated after a crash. Raises StoreFormatError, OSError.
        """
        restored = restore(self._deleted, self.directory, log_end)
        if restored:
            self._unloaded.update(self._found())
            self.lights.update(topic for topic, _ in self._unloaded if is_light_queue(topic))
        self._log_end = log_end
        for key in self.listed():
            queue = self._load(key, scrub=True)
            if queue.is_blank:
                queue.remove()
                self.lights.discard(key[0])
                self._remove_topic_folder(key[0])
            else:
                _sync_file(queue.tail_path)
                sync_directory(queue.directory)
        if os.path.isdir(self.directory):
            sync_directory(self.directory)

    def begin_at(self, minimums: Mapping[QueueKey, int]) -> None:
        """Creates queues that continue at these offsets, durably. Raises OSError."""
        for key, next_offset in minimums.items():
            path = self._load(key, scrub=False).begin_at(next_offset)
            if path is not None:
                _sync_file(path)
                sync_directory(os.path.dirname(path))
                sync_directory(os.path.dirname(os.path.dirname(path)))
        if os.path.isdir(self.directory):
            sync_directory(self.directory)

    def work_in(self, run_in_worker: Callable[[Callable[[], None]], object]) -> None:
        """From now on expired files are blanked there."""
        if self._spares is not None:
            self._spares.run_soon = run_in_worker

    # ---- finding

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue that exists, or None. Raises StoreFormatError, OSError."""
        key = (topic, queue_id)
        queue = self._queues.get(key)
        if queue is None and key in self._unloaded:
            queue = self._load(key, scrub=False)
        return queue

    @contextmanager
    def private(self, topic: str, queue_id: int) -> Iterator[ConsumeQueue | None]:
        """A copy of a queue at this moment, for reading with descriptors of its own. Any thread."""
        files = OpenFiles(_PRIVATE_FILES)
        try:
            queue = self._queues.get((topic, queue_id))
            if queue is not None:
                yield queue.private(files)
            elif (topic, queue_id) in self._unloaded:
                yield self._make((topic, queue_id), files, scrub=False, writable=False)
            else:
                yield None
        finally:
            files.close()

    def begins_at(self, topic: str, queue_id: int, first_offset: int) -> bool:
        """Whether the queue's first file still begins there, or the queue is gone. Any thread."""
        queue = self._queues.get((topic, queue_id))  # a queue that is not loaded has lost no file
        return queue is None or queue.first_offset == first_offset

    def source(self) -> UnitSource:
        """Reads the files as they are, for one other thread."""
        return UnitFiles(self.directory, file_bytes=self.file_bytes)

    def is_loaded(self, topic: str, queue_id: int) -> bool:
        """Whether `get` needs no disk: the queue is loaded, or does not exist."""
        return (topic, queue_id) not in self._unloaded

    @property
    def count(self) -> int:
        """The number of queues."""
        return len(self._queues) + len(self._unloaded)

    def kept(self) -> tuple[int, int]:
        """(number of queues with files, number of their files)."""
        counts = [self._file_count(key) for key in self.listed()]
        return len(counts) - counts.count(0), sum(counts)

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; its first file is created with its first unit. `topic` must be a checked name."""
        return self.get(topic, queue_id) or self._load((topic, queue_id), scrub=False)

    def _load(self, key: QueueKey, *, scrub: bool) -> ConsumeQueue:
        queue = self._queues[key] = self._make(key, self._files, scrub=scrub, writable=self._writable)
        self._unloaded.pop(key, None)
        if is_light_queue(key[0]):
            self.lights.add(key[0])
        return queue

    def _make(self, key: QueueKey, files: OpenFiles, *, scrub: bool, writable: bool) -> ConsumeQueue:
        topic, queue_id = key
        return self.queue_class(
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
            spares=self._spares if writable else None,
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
        """Takes the units of a run if its records are visible."""
        if goes_to_queue(run.sys_flag):
            queue = self.get_or_create(run.topic, run.queue_id)
            self.put(queue, run.queue_offset, run.units, run.store_timestamp_ms)
            self.put_lights(lights_of(run), run.store_timestamp_ms)
        self.advance(run.end)

    def on_replayed(self, end: int) -> None:
        """The replay at a start came to the log's end."""
        self.advance(end)

    @property
    def complete_below(self) -> PhysicalOffset:
        """What the queues reflect."""
        return self._reflected

    def fill_in(self, run: Run) -> None:
        """Takes the units of records that were damaged and are whole again, if their queue has only filler in their place.

        Records of a deleted topic stay out of the queues of a new topic of the same name.
        """
        for topic, queue_id, queue_offset, unit in single_units(run):
            queue = self.get(topic, queue_id)
            if queue is not None and queue.is_place_of(queue_offset, int.from_bytes(unit[:8], "big")):
                self.put(queue, queue_offset, unit, run.store_timestamp_ms)

    def set_right(self, wrong: WrongUnit) -> bool:
        """Replaces a damaged unit if it is still there; returns whether it was."""
        queue = self.get(wrong.topic, wrong.queue_id)
        if queue is None or wrong.queue_offset >= queue.next_offset or queue.read(wrong.queue_offset, 1) != wrong.held:
            return False
        self.put(queue, wrong.queue_offset, wrong.unit, wrong.store_timestamp_ms)
        return True

    def put(self, queue: QueuePlaces, queue_offset: int, units: memoryview | bytes, store_timestamp_ms: int) -> None:
        """Writes units, or keeps them until the disk has room."""
        assert isinstance(queue, ConsumeQueue)
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

    def put_lights(self, units: list[LightUnit], store_timestamp_ms: int) -> None:
        """The same for light queues."""
        for name, queue_offset, unit in units:
            self.put(self.get_or_create(name, 0), queue_offset, unit, store_timestamp_ms)

    def advance(self, end: int) -> None:
        """Notes that all units below `end` were put."""
        if end > self._taken and not self._unwritten:
            self._taken = PhysicalOffset(end)

    @property
    def is_blocked(self) -> bool:
        """Whether units wait for disk space."""
        return bool(self._unwritten)

    def retry_unwritten(self, end: int) -> None:
        """Writes the waiting units as far as the disk has room; `end`: the end of the dispatched log."""
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
        """The units of all records below this offset are on disk."""
        return self._reflected

    def persist(self) -> PhysicalOffset:
        """Persists a whole round. Worker thread. Raises OSError."""
        while self.persist_some(_FILES_AT_ONCE):
            pass
        return self._reflected

    def persist_some(self, files_max: int) -> bool:
        """Makes some of the files durable that were written to before the round began; returns whether some are left.

        `reflected` grows only at a round's end. If a file is gone, its topic may have been set aside just now: then this
        round proves nothing, and the next one does. Worker thread. Raises OSError.
        """
        if self._persisting is None:
            self._persisting = self._taken  # read before the files: everything below it is noted in them
        are_whole = self._unsynced.sync_some(files_max)
        if are_whole is None:
            return True
        if are_whole:
            self._reflected = max(self._reflected, self._persisting)
        self._persisting = None
        return False

    # ---- removing

    def begin_expiry(self, log_begin: PhysicalOffset) -> None:
        """Starts an expiry: `expire_some` then removes the files in which every record is below `log_begin`."""
        self._expired_below = log_begin
        self._expiring = None

    def expire_some(self, queues_max: int) -> bool:
        """Checks `queues_max` queues of more than one file, whose last file stays; returns whether some are left.

        Checking a queue of one file is much faster: `_LOOKS_FOR_ONE` of them count as one. Raises OSError; the rest is then
        removed by the next expiry.
        """
        if self._expiring is None:
            self._expiring = [*self._unloaded, *self._queues]
        left = queues_max * _LOOKS_FOR_ONE
        while self._expiring and left > 0:
            key = self._expiring.pop()
            left -= 1
            if is_light_queue(key[0]):
                left -= _LOOKS_FOR_ONE - 1
                self._expire_light(key)
            elif self._file_count(key) > 1:
                left -= _LOOKS_FOR_ONE - 1
                queue = self.get(*key)
                if queue is not None:
                    queue.remove_before(self._expired_below)
        return bool(self._expiring)

    def _expire_light(self, key: QueueKey) -> None:
        """Removes it with its folders if all its records are gone; else it is as any queue."""
        queue = self.get(*key)
        if queue is None:
            return
        if queue.min_offset(self._expired_below) == queue.next_offset and may_be_forgotten(
            queue.next_offset, self._expired_below
        ):
            self._remove_light(queue)
        else:
            queue.remove_before(self._expired_below)

    def _remove_light(self, queue: ConsumeQueue) -> None:
        """Not durably: after a loss of power it may be there again, and expires again."""
        queue.remove()
        self._queues.pop(queue.key, None)
        self.lights.discard(queue.topic)
        with suppress(OSError):
            os.rmdir(os.path.dirname(queue.directory))

    def delete_light(self, name: str, confirmed: int, *, below: int | None = None) -> None:
        """Removes the units of a light queue, or those of records below a physical offset. Raises OSError."""
        queue = self.get(name, 0)
        if queue is None:
            return
        kept = queue.next_offset if below is None else queue.min_offset(PhysicalOffset(below))
        if kept < queue.next_offset:
            queue.empty_below(kept)
        elif may_be_forgotten(queue.next_offset, confirmed):
            self._remove_light(queue)
        else:
            queue.empty_below(queue.next_offset)

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
        self.lights.discard(topic)
        self._unsynced.forget(os.path.join(self.directory, topic))
        self._remove_topic_folder(topic)

    def set_topic_aside(self, topic: str, at: int) -> None:
        """The same for a deletion that ends at byte `at` of the log and may still be cut from it. Raises OSError."""
        folder = os.path.join(self.directory, topic)
        for key in self._of_topic(topic):
            queue = self._queues.pop(key, None)
            if queue is not None:
                queue.forget_files()
            self._unloaded.pop(key, None)
        self.lights.discard(topic)
        if os.path.isdir(folder):
            target = set_aside(self._deleted, folder, at)
            self._unsynced.forget(folder)
            for inner, _, names in os.walk(target):  # all, so that a worker that was about to sync one finds it gone
                self._unsynced.note(os.path.join(inner, name) for name in names)
                self._unsynced.note_names([inner])

    def _remove_topic_folder(self, topic: str) -> None:
        """Removes the topic's folder if it has no queue."""
        folder = os.path.join(self.directory, topic)
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
            sync_directory(self.directory)

    def purge(self, confirmed: int) -> None:
        """Deletes the queues whose deletion is confirmed. Worker thread. Raises OSError."""
        purge(self._deleted, confirmed)

    def close(self) -> None:
        """Closes all files."""
        self._files.close()


def _sync_file(path: str) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
