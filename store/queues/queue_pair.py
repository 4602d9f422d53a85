"""Two engines at once: the one that made a store's queues, and another that follows it until the operator switches.

    consumequeue/           the first: all that is read comes from it
    shadow/consumequeue/    the other: gets every write, and is compared with the first while the broker runs
    shadow/whole            it has all that the first has

A new shadow is filled from the log when the store opens, with what the first engine has of it. From then on either engine
goes on from what it reflects itself. `engine_choice` lets the shadow take the first one's place. Loop thread, as queue_engine
says.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from ...model.queue import PhysicalOffset
from ...record.layout import UNIT
from ..log.segment import make_directory, sync_directory
from .conversion import SHADOW_FOLDER, WHOLE_FILE
from .dispatch import Run
from .queue_engine import QUEUE_FOLDER, LightUnit, QueueEngine, QueueKey, UnitSource, WrongUnit, single_units
from .queue_places import FILLER_SIZE, QueuePlaces

logger = logging.getLogger(__name__)

_COMPARED_UNITS: Final = 16  # of a queue's newest
_COMPARED_QUEUES: Final = 32  # each second


def shadow_of(directory: str) -> str:
    """Where the shadow of a store's queues is, as if it were a store."""
    return os.path.join(directory, SHADOW_FOLDER)


def is_shadow_whole(directory: str) -> bool:
    """Whether the shadow has all that the first engine has."""
    folder = shadow_of(directory)
    return os.path.exists(os.path.join(folder, WHOLE_FILE)) and os.path.isdir(os.path.join(folder, QUEUE_FOLDER))


class QueuePair:
    """A QueueEngine. `differences`: how often the two did not agree."""

    def __init__(self, directory: str, first: QueueEngine, shadow: QueueEngine) -> None:
        self.directory = first.directory
        self._store_directory = directory
        self._first, self._shadow = first, shadow
        self._first_held = self._shadow_held = 0  # what each had when the store was opened
        self._is_aligned = is_shadow_whole(directory)
        self._touched: dict[QueueKey, None] = {}
        self.differences = 0

    # ---- the start

    def begin(self, *, log_end: PhysicalOffset, reflected: int, unclean: bool, is_whole: bool = False) -> None:
        """Each drops what is behind the log's end."""
        self._first.begin(log_end=log_end, reflected=reflected, unclean=unclean, is_whole=is_whole)
        held = reflected if self._is_aligned else 0
        self._shadow.begin(log_end=log_end, reflected=held, unclean=unclean, is_whole=is_whole and self._is_aligned)
        self._first_held, self._shadow_held = self._first.reflected(), self._shadow.reflected()

    def cut(self, log_end: PhysicalOffset, runs_from: Callable[[int], Iterable[Run]]) -> None:
        """Both."""
        self._first.cut(log_end, runs_from)
        self._shadow.cut(log_end, runs_from)

    def begin_at(self, minimums: Mapping[QueueKey, int]) -> None:
        """Both."""
        self._first.begin_at(minimums)
        self._shadow.begin_at(minimums)

    def work_in(self, run_in_worker: Callable[[Callable[[], None]], object]) -> None:
        """Both."""
        self._first.work_in(run_in_worker)
        self._shadow.work_in(run_in_worker)

    # ---- finding: the first

    def get(self, topic: str, queue_id: int) -> QueuePlaces | None:
        """A queue that exists, or None."""
        queue = self._first.get(topic, queue_id)
        if queue is not None:
            queue.keeps_times = True  # one of the two does
        return queue

    def get_or_create(self, topic: str, queue_id: int) -> QueuePlaces:
        """The queue; a new one exists once it has a unit."""
        queue = self._first.get_or_create(topic, queue_id)
        queue.keeps_times = True
        return queue

    def private(self, topic: str, queue_id: int) -> AbstractContextManager[QueuePlaces | None]:
        """A copy of a queue. Any thread."""
        return self._first.private(topic, queue_id)

    def begins_at(self, topic: str, queue_id: int, first_offset: int) -> bool:
        """Whether the queue's kept units still begin there. Any thread."""
        return self._first.begins_at(topic, queue_id, first_offset)

    def is_loaded(self, topic: str, queue_id: int) -> bool:
        """Whether `get` needs no disk."""
        return self._first.is_loaded(topic, queue_id)

    @property
    def count(self) -> int:
        """The number of queues."""
        return self._first.count

    @property
    def lights(self) -> Collection[str]:
        """The names of all light queues."""
        return self._first.lights

    def kept(self) -> tuple[int, int]:
        """Nothing that a start could miss: the other may be the first then."""
        return 0, 0

    def listed(self) -> list[QueueKey]:
        """All queues, sorted."""
        return self._first.listed()

    def source(self) -> UnitSource:
        """For one other thread."""
        return self._first.source()

    # ---- dispatch: both

    def put(self, queue: QueuePlaces, queue_offset: int, units: memoryview | bytes, store_timestamp_ms: int) -> None:
        """Both take the units."""
        self._first.put(queue, queue_offset, units, store_timestamp_ms)
        twin = self._shadow.get_or_create(queue.topic, queue.queue_id)
        self._shadow.put(twin, queue_offset, units, store_timestamp_ms)
        self._touched[queue.key] = None

    def put_lights(self, units: list[LightUnit], store_timestamp_ms: int) -> None:
        """Both."""
        self._first.put_lights(units, store_timestamp_ms)
        self._shadow.put_lights(units, store_timestamp_ms)
        self._touched.update(dict.fromkeys([(name, 0) for name, _, _ in units]))

    def advance(self, end: int) -> None:
        """All units below `end` were put."""
        self._first.advance(end)
        self._shadow.advance(end)

    def on_run(self, run: Run) -> None:
        """Gives the run to whoever lacks it; to a new shadow as far as the first has it: its topic may have been deleted."""
        if run.end > self._first_held:
            self._first.on_run(run)
            self._shadow.on_run(run)
        elif run.end > self._shadow_held:
            for topic, queue_id, offset, unit in single_units(run):
                queue = self._first.get(topic, queue_id)
                if queue is not None and queue.read(offset, 1)[:12] == unit[:12]:
                    self._shadow.put(self._shadow.get_or_create(topic, queue_id), offset, unit, run.store_timestamp_ms)
            self._shadow.advance(run.end)

    def on_replayed(self, end: int) -> None:
        """A new shadow gets the ends of queues, and is whole once it is durable."""
        self.advance(end)
        if not self._is_aligned:
            for key in self._first.listed():
                queue, twin = self._first.get(*key), self._shadow.get(*key)
                if queue is not None and queue.next_offset > (0 if twin is None else twin.next_offset):
                    self._align(queue, twin, end)
            self.advance(end)
            self._shadow.persist()
            self._note_whole()
        self._compare_ends()

    def _align(self, queue: QueuePlaces, twin: QueuePlaces | None, end: int) -> None:
        if twin is None or not twin.next_offset:
            self._shadow.begin_at({queue.key: queue.next_offset})
        else:
            missing = queue.next_offset - twin.next_offset
            self._shadow.put(twin, twin.next_offset, UNIT.pack(end, FILLER_SIZE, 0) * missing, 0)

    def _note_whole(self) -> None:
        folder = shadow_of(self._store_directory)
        make_directory(folder)
        with open(os.path.join(folder, WHOLE_FILE), "wb"):
            pass
        sync_directory(folder)
        self._is_aligned = True

    @property
    def complete_below(self) -> PhysicalOffset:
        """The first's."""
        return PhysicalOffset(self._first_held)

    def fill_in(self, run: Run) -> None:
        """Both."""
        self._first.fill_in(run)
        self._shadow.fill_in(run)

    def set_right(self, wrong: WrongUnit) -> bool:
        """Both; whether the first had the damaged unit."""
        self._shadow.set_right(wrong)
        return self._first.set_right(wrong)

    @property
    def is_blocked(self) -> bool:
        """Whether units of either wait for disk space."""
        return self._first.is_blocked or self._shadow.is_blocked

    def retry_unwritten(self, end: int) -> None:
        """Writes what waits."""
        for engine in (self._first, self._shadow):
            if engine.is_blocked:
                engine.retry_unwritten(end)

    def reflected(self) -> PhysicalOffset:
        """Both have it."""
        return min(self._first.reflected(), self._shadow.reflected())

    def persist(self) -> PhysicalOffset:
        """Both. Worker thread."""
        return min(self._first.persist(), self._shadow.persist())

    def persist_some(self, files_max: int) -> bool:
        """The first's some, then the other's. Worker thread."""
        return self._first.persist_some(files_max) or self._shadow.persist_some(files_max)

    # ---- comparing

    def _compare_ends(self) -> None:
        for key in self._first.listed():
            self._compare(key)

    def _compare(self, key: QueueKey) -> None:
        """Compares the end of a queue, and its newest units."""
        queue, twin = self._first.get(*key), self._shadow.get(*key)
        end = 0 if queue is None else queue.next_offset
        if end != (0 if twin is None else twin.next_offset):
            self._tell(key, end)
        elif queue is not None and twin is not None:
            for at in range(max(queue.first_offset, twin.first_offset, end - _COMPARED_UNITS), end):
                ours, theirs = queue.unit(at), twin.unit(at)
                if ours != theirs and FILLER_SIZE not in (ours[1], theirs[1]):
                    self._tell(key, at)
                    return

    def _tell(self, key: QueueKey, queue_offset: int) -> None:
        self.differences += 1
        logger.error("the two kinds of a queue differ topic=%s queue=%s offset=%s", *key, queue_offset)

    # ---- removing: both

    def begin_expiry(self, log_begin: PhysicalOffset) -> None:
        """Starts an expiry."""
        self._first.begin_expiry(log_begin)
        self._shadow.begin_expiry(log_begin)

    def expire_some(self, queues_max: int) -> bool:
        """Also compares some of the queues that were written to; it is called each second."""
        for _ in range(min(_COMPARED_QUEUES, len(self._touched))):
            if not self.is_blocked:
                self._compare(self._touched.popitem()[0])
        return any([self._first.expire_some(queues_max), self._shadow.expire_some(queues_max)])

    def delete_topic(self, topic: str) -> None:
        """Deletes the queues of a topic."""
        self._first.delete_topic(topic)
        self._shadow.delete_topic(topic)

    def delete_light(self, name: str, confirmed: int, *, below: int | None = None) -> None:
        """Both."""
        self._first.delete_light(name, confirmed, below=below)
        self._shadow.delete_light(name, confirmed, below=below)

    def set_topic_aside(self, topic: str, at: int) -> None:
        """The same, while the deletion may be cut."""
        self._first.set_topic_aside(topic, at)
        self._shadow.set_topic_aside(topic, at)

    def purge(self, confirmed: int) -> None:
        """Worker thread."""
        self._first.purge(confirmed)
        self._shadow.purge(confirmed)

    def close(self) -> None:
        """Both."""
        self._first.close()
        self._shadow.close()
