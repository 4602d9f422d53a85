"""All queues of a store: those of plain records, in the engine that was chosen, and those of batches, in files.

    consumequeue/         a unit a message: engine "file" or "rocksdb"
    batchconsumequeue/    a unit a batch: files

A queue is a batch queue from its first record on, if that holds a batch; only topics with `queue.type=BatchCQ` take such
records. Threads as queue_engine says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager

from ....model.queue import PhysicalOffset
from ....record.sys_flag import INNER_BATCH
from ..dispatch import Run
from ..queue_engine import LightUnit, QueueEngine, QueueKey, UnitSource, WrongUnit
from ..queue_places import QueuePlaces
from .batch_table import BatchTable

logger = logging.getLogger(__name__)


def minimum_of(queue: QueuePlaces, log_begin: PhysicalOffset) -> int:
    """Where a queue continues in a store whose log begins there; of a batch queue -1 - the queue offset."""
    minimum = int(queue.min_offset(log_begin))
    return -1 - minimum if queue.is_batched else minimum


class AllQueues:
    """StoreQueues. `plain`: the engine of the plain queues."""

    def __init__(self, plain: QueueEngine, batched: BatchTable, *, had_batches: bool = False) -> None:
        """`had_batches`: there were batch queues, as the store's facts say."""
        self.directory = plain.directory
        self.had_batches = had_batches
        self.plain = plain
        self._batched = batched
        self.are_batches_lost = had_batches and batched.is_empty and plain.count > 0
        self._plain_held = self._batched_held = PhysicalOffset(0)  # what each had when the store was opened

    def _of(self, topic: str, queue_id: int) -> QueueEngine:
        return self._batched if self._batched.has((topic, queue_id)) else self.plain

    # ---- the start

    def begin(self, *, log_end: PhysicalOffset, reflected: int, unclean: bool, is_whole: bool = False) -> None:
        """Both drop what is behind the log's end. Batch queues that do not exist lack nothing."""
        self.plain.begin(log_end=log_end, reflected=reflected, unclean=unclean, is_whole=is_whole)
        self._batched.begin(log_end=log_end, reflected=reflected, unclean=unclean, is_whole=is_whole)
        if self._batched.is_empty and self.plain.count and not self.are_batches_lost:
            self._batched.lacks_nothing_below(self.plain.reflected())
        self._plain_held, self._batched_held = self.plain.complete_below, self._batched.complete_below

    def cut(self, log_end: PhysicalOffset, runs_from: Callable[[int], Iterable[Run]]) -> None:
        """Both."""
        self.plain.cut(log_end, lambda offset: (run for run in runs_from(offset) if not run.sys_flag & INNER_BATCH))
        self._batched.cut(log_end, runs_from)

    def begin_at(self, minimums: Mapping[QueueKey, int]) -> None:
        """Each creates its own: a minimum below 0 is of a batch queue (`minimum_of`)."""
        self.plain.begin_at({key: minimum for key, minimum in minimums.items() if minimum >= 0})
        self._batched.begin_at({key: -1 - minimum for key, minimum in minimums.items() if minimum < 0})

    def work_in(self, run_in_worker: Callable[[Callable[[], None]], object]) -> None:
        """From now on slow work that is due goes there."""
        self.plain.work_in(run_in_worker)

    # ---- finding

    def get(self, topic: str, queue_id: int) -> QueuePlaces | None:
        """A queue that exists, or None."""
        queue = self.plain.get(topic, queue_id)
        if queue is not None and queue.next_offset:
            return queue
        return self._batched.get(topic, queue_id) or queue

    def get_or_create(self, topic: str, queue_id: int) -> QueuePlaces:
        """The queue; a new one is a plain queue."""
        return self._of(topic, queue_id).get_or_create(topic, queue_id)

    def get_or_create_batched(self, topic: str, queue_id: int) -> QueuePlaces:
        """The batch queue; the plain one if it has messages."""
        if not self._batched.has((topic, queue_id)):
            plain = self.plain.get(topic, queue_id)
            if plain is not None and plain.next_offset:
                return plain
        return self._batched.get_or_create(topic, queue_id)

    def private(self, topic: str, queue_id: int) -> AbstractContextManager[QueuePlaces | None]:
        """A copy of a queue. Any thread."""
        return self._of(topic, queue_id).private(topic, queue_id)

    def begins_at(self, topic: str, queue_id: int, first_offset: int) -> bool:
        """Whether the queue's kept units still begin there, or the queue is gone. Any thread."""
        return self._of(topic, queue_id).begins_at(topic, queue_id, first_offset)

    def is_loaded(self, topic: str, queue_id: int) -> bool:
        """Whether `get` needs no disk."""
        return self._of(topic, queue_id).is_loaded(topic, queue_id)

    @property
    def count(self) -> int:
        """The number of queues."""
        return self.plain.count + self._batched.count

    @property
    def lights(self) -> Collection[str]:
        """The names of all light queues, which are plain."""
        return self.plain.lights

    @property
    def has_batches(self) -> bool:
        """Whether there are batch queues. Any thread."""
        return not self._batched.is_empty

    def batches_kept(self) -> tuple[int, int]:
        """(number of batch queues on the disk, number of their files)."""
        return self._batched.kept()

    def read_records_by(self, read: Callable[[int, int], bytes | None]) -> None:
        """`read(offset, size)`: the record there, if it can be read and is whole. The last unit of a batch queue is then held
        against its record when the queue is loaded."""
        self._batched.read_record = read

    def kept(self) -> tuple[int, int]:
        """(number of queues on the disk, number of their files); (0, 0) if the engine does not tell."""
        queues, files = self.plain.kept()
        more, more_files = self._batched.kept()
        return (queues + more, files + more_files) if queues else (0, 0)

    def listed(self) -> list[QueueKey]:
        """All queues, sorted."""
        if self._batched.is_empty:
            return self.plain.listed()
        return sorted({*self.plain.listed(), *self._batched.listed()})

    def source(self) -> UnitSource:
        """For one other thread."""
        return BothSources(self.plain.source(), self._batched.source())

    # ---- dispatch

    def put(self, queue: QueuePlaces, queue_offset: int, units: memoryview | bytes, store_timestamp_ms: int) -> None:
        """Takes the units of plain records."""
        if queue.is_batched:
            self._batched.put_plain(queue, queue_offset, units, store_timestamp_ms)
        else:
            self.plain.put(queue, queue_offset, units, store_timestamp_ms)

    def put_batch(
        self, queue: QueuePlaces, queue_offset: int, unit: memoryview | bytes, store_timestamp_ms: int, count: int
    ) -> None:
        """Takes a batch; not into a plain queue, to which no broker writes one."""
        if queue.is_batched:
            self._batched.put_batch(queue, queue_offset, unit, store_timestamp_ms, count)
        else:
            logger.error("a batch in a plain queue is left out topic=%s queue=%s offset=%s", *queue.key, queue_offset)

    def put_lights(self, units: list[LightUnit], store_timestamp_ms: int) -> None:
        """Takes the units of light queues."""
        self.plain.put_lights(units, store_timestamp_ms)

    def advance(self, end: int) -> None:
        """All units below `end` were put."""
        self.plain.advance(end)
        self._batched.advance(end)

    def on_run(self, run: Run) -> None:
        """The run's own kind takes it; each skips what it reflects already."""
        if run.sys_flag & INNER_BATCH and not self._has_plain(run):
            if run.end > self._batched.reflected():
                self._batched.on_run(run)
            self.plain.advance(run.end)
        elif self._batched.has((run.topic, run.queue_id)):
            queue = self._batched.get_or_create(run.topic, run.queue_id)
            self._batched.put_plain(queue, run.queue_offset, run.units, run.store_timestamp_ms)
            self.advance(run.end)
        else:
            if run.end > self.plain.reflected() and not run.sys_flag & INNER_BATCH:
                self.plain.on_run(run)
            self.advance(run.end)

    def _has_plain(self, run: Run) -> bool:
        """Whether the queue of a batch is a plain one, so that it cannot take it."""
        if self._batched.has((run.topic, run.queue_id)):
            return False
        plain = self.plain.get(run.topic, run.queue_id)
        return plain is not None and plain.next_offset > 0

    def on_replayed(self, end: int) -> None:
        """The replay at a start came to the log's end."""
        self.plain.on_replayed(end)
        self._batched.on_replayed(end)

    @property
    def complete_below(self) -> PhysicalOffset:
        """Both reflect the log up to there."""
        return min(self.plain.complete_below, self._batched.complete_below)

    def fill_in(self, run: Run) -> None:
        """The run's own kind takes it."""
        (self._batched if run.sys_flag & INNER_BATCH else self.plain).fill_in(run)

    def set_right(self, wrong: WrongUnit) -> bool:
        """Replaces a damaged unit if it is still there; returns whether it was."""
        return self._of(wrong.topic, wrong.queue_id).set_right(wrong)

    @property
    def is_blocked(self) -> bool:
        """Whether units wait for disk space."""
        return self.plain.is_blocked or self._batched.is_blocked

    def retry_unwritten(self, end: int) -> None:
        """Writes the waiting units as far as the disk has room."""
        for engine in (self.plain, self._batched):
            if engine.is_blocked:
                engine.retry_unwritten(end)

    def reflected(self) -> PhysicalOffset:
        """Both have it on disk."""
        return min(self.plain.reflected(), self._batched.reflected())

    def persist(self) -> PhysicalOffset:
        """Worker thread."""
        return min(self.plain.persist(), self._batched.persist())

    def persist_some(self, files_max: int) -> bool:
        """Worker thread."""
        return self.plain.persist_some(files_max) or self._batched.persist_some(files_max)

    # ---- removing

    def begin_expiry(self, log_begin: PhysicalOffset) -> None:
        """Starts an expiry."""
        self.plain.begin_expiry(log_begin)
        self._batched.begin_expiry(log_begin)

    def expire_some(self, queues_max: int) -> bool:
        """Checks some queues; returns whether some are left."""
        return any([self.plain.expire_some(queues_max), self._batched.expire_some(queues_max)])

    def delete_topic(self, topic: str) -> None:
        """Deletes the queues of a topic."""
        self.plain.delete_topic(topic)
        self._batched.delete_topic(topic)

    def delete_light(self, name: str, confirmed: int, *, below: int | None = None) -> None:
        """Removes the units of a light queue."""
        self.plain.delete_light(name, confirmed, below=below)

    def set_topic_aside(self, topic: str, at: int) -> None:
        """The same, while the deletion may be cut; not again by a kind that reflects it already."""
        if at > self._plain_held:
            self.plain.set_topic_aside(topic, at)
        if at > self._batched_held:
            self._batched.set_topic_aside(topic, at)

    def purge(self, confirmed: int) -> None:
        """Worker thread."""
        self.plain.purge(confirmed)
        self._batched.purge(confirmed)

    def close(self) -> None:
        """Both."""
        self.plain.close()
        self._batched.close()


class BothSources:
    """A UnitSource of plain and batch queues."""

    def __init__(self, plain: UnitSource, batched: UnitSource) -> None:
        self._plain = plain
        self._batched = batched

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether the queue exists."""
        return self._plain.has_queue(topic, queue_id) or self._batched.has_queue(topic, queue_id)

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """A unit for each message."""
        source = self._batched if self._batched.has_queue(topic, queue_id) else self._plain
        return source.units(topic, queue_id, queue_offset, count)
