"""All batch queues of a store, in files, whatever engine keeps the others (as RocketMQ does)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar, Final

from ....model.queue import PhysicalOffset
from ....record.layout import UNIT
from ..consume_queue import ConsumeQueue, OpenFiles
from ..deleted_queues import DELETED_BATCH_FOLDER
from ..dispatch import Run
from ..queue_engine import NO_UNIT, QueueKey, UnitSource, WrongUnit
from ..queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces
from ..queue_table import QueueTable
from .batch_queue import BatchQueue, encode_batch, messages_of

BATCH_FOLDER: Final = "batchconsumequeue"
_FILES: Final = 4  # open at a time for one reader
_NO_END: Final = PhysicalOffset(1 << 62)


class BatchTable(QueueTable):
    """A QueueEngine of batch queues."""

    folder: ClassVar[str] = BATCH_FOLDER
    deleted_folder: ClassVar[str] = DELETED_BATCH_FOLDER
    spare_folder: ClassVar[str | None] = None
    queue_class: ClassVar[type[ConsumeQueue]] = BatchQueue

    read_record: Callable[[int, int], bytes | None] | None = (
        None  # the record of the log at (offset, size), if it is one
    )

    def _load(self, key: QueueKey, *, scrub: bool) -> ConsumeQueue:
        """The last unit says where the queue goes on. So its record is asked, too: it may have rotted."""
        queue = super()._load(key, scrub=scrub)
        assert isinstance(queue, BatchQueue)
        last = queue.last
        if self.read_record is not None and last is not None and last.size != FILLER_SIZE:
            record = self.read_record(last.physical, last.size)
            found = None if record is None else messages_of(record, key)
            if found is None and not queue.is_plausible(last):
                queue.mend_last(0, 0, is_known=False)
            elif found is not None and found != (last.begin, last.end - last.begin):
                queue.mend_last(*found, is_known=True)
        return queue

    def has(self, key: QueueKey) -> bool:
        """Whether there is such a queue. Any thread."""
        return key in self._queues or key in self._unloaded

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self._queues and not self._unloaded

    def lacks_nothing_below(self, reflected: int) -> None:
        """There is no batch queue because none was ever made."""
        self._taken = self._reflected = PhysicalOffset(reflected)

    def put_batch(
        self, queue: QueuePlaces, queue_offset: int, unit: memoryview | bytes, store_timestamp_ms: int, count: int
    ) -> None:
        """Takes the batch of a record, messages [queue_offset, queue_offset + count), with its unit of 20 bytes."""
        self.put(queue, queue_offset, encode_batch(unit, store_timestamp_ms, queue_offset, count), store_timestamp_ms)

    def put_plain(
        self, queue: QueuePlaces, queue_offset: int, units: memoryview | bytes, store_timestamp_ms: int
    ) -> None:
        """Takes plain records that somebody wrote into the queue: batches of one."""
        for index in range(len(units) // UNIT_BYTES):
            unit = units[index * UNIT_BYTES : (index + 1) * UNIT_BYTES]
            self.put_batch(queue, queue_offset + index, unit, store_timestamp_ms, 1)

    def on_run(self, run: Run) -> None:
        """Takes a batch."""
        queue = self.get_or_create(run.topic, run.queue_id)
        self.put_batch(queue, run.queue_offset, run.units[:UNIT_BYTES], run.store_timestamp_ms, run.count)
        self.advance(run.end)

    def fill_in(self, run: Run) -> None:
        """Takes a batch whose record was damaged and is whole again, if its messages are missing."""
        queue = self.get(run.topic, run.queue_id)
        unit = run.units[:UNIT_BYTES]
        if queue is not None and queue.is_place_of(run.queue_offset, int.from_bytes(unit[:8], "big")):
            self.put_batch(queue, run.queue_offset, unit, run.store_timestamp_ms, run.count)

    def set_right(self, wrong: WrongUnit) -> bool:
        """Writes the right unit of a batch, if the damaged one is still there."""
        queue = self.get(wrong.topic, wrong.queue_id)
        if queue is None or queue.read(wrong.queue_offset, 1) != wrong.held:
            return False
        if UNIT.unpack(wrong.unit)[1] == FILLER_SIZE:
            return False  # no record of it was found: its messages stay as they read now
        self.put_batch(queue, wrong.queue_offset, wrong.unit, wrong.store_timestamp_ms, wrong.count)
        return True

    def source(self) -> UnitSource:
        """Reads the files as they are, for one other thread."""
        return BatchSource(self.directory, file_bytes=self.file_bytes)


class BatchSource:
    """A UnitSource of the batch queues in `directory`."""

    def __init__(self, directory: str, *, file_bytes: int) -> None:
        self._directory = directory
        self._file_bytes = file_bytes

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether the queue has a folder."""
        return os.path.isdir(os.path.join(self._directory, topic, str(queue_id)))

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """A unit for each message. Raises OSError, StoreFormatError."""
        files = OpenFiles(_FILES)
        try:
            queue = BatchQueue(
                topic,
                queue_id,
                directory=os.path.join(self._directory, topic, str(queue_id)),
                files=files,
                file_bytes=self._file_bytes,
                log_end=_NO_END,
                writable=False,
            )
            held = b""
            while len(held) < count * UNIT_BYTES:
                more = queue.read(queue_offset + len(held) // UNIT_BYTES, count - len(held) // UNIT_BYTES)
                held += more or NO_UNIT
            return held
        finally:
            files.close()
