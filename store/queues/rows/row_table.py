"""The engine that keeps consume queues as rows of RocksDB (unit_rows), for very many queues.

    a turn's runs --put--> one batch: units, ends of queues, dispatched position --advance--> written as a whole
                                                                                 '- worker: flushed

So what the rows reflect is always one position in the log, and after a kill they go on from there: nothing is read or checked
at a start but the ends of queues. Only a log that ends before that position (after a power failure) makes rows be deleted. If
the disk is full, the batch waits, and the store takes no messages until it is written.

Loop thread, except `persist_some`, `purge` and what says so.
"""

from __future__ import annotations

import copy
import errno
import logging
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ....model.names import SCHEDULE_TOPIC
from ....model.queue import PhysicalOffset
from ....model.topics.light_queues import is_light_queue
from ....record.codes import RECORD_OVERHEAD_BYTES
from ...log.segment import NO_SPACE
from ..dispatch import Run
from ..light_offsets import begun_anew_at, forgettable_from, may_be_forgotten
from ..queue_engine import (
    QUEUE_FOLDER,
    LightUnit,
    QueueKey,
    WrongUnit,
    goes_to_queue,
    lights_of,
    single_units,
    with_deliver_times,
)
from ..queue_places import UNIT_BYTES, QueuePlaces
from .deleted_rows import QueueNote, notes_behind, purge_notes, write_note
from .expiry_order import ExpiryOrder
from .rocksdb_units import RocksDbUnits
from .row_queue import RowQueue
from .row_source import RowSource
from .unit_rows import (
    POSITION_KEY,
    TIME,
    bounds,
    decode_end,
    decode_position,
    end_key,
    end_key_of,
    end_value,
    position_value,
    rows,
    unit_key,
    unit_keys,
)

logger = logging.getLogger(__name__)

BATCH_UNITS: Final = 1000  # a write holds the interpreter's lock, about 0.3 us a unit
_LOOKS_FOR_ONE: Final = 16  # deleting rows of one queue takes as long as looking at so many
_RANGE_UNITS: Final = 64  # more of them are deleted as a range
_LOOKS_FOR_UNLOADED: Final = 16
_NOWHERE: Final = (0, -1)


class RowTable:
    """A QueueEngine."""

    def __init__(self, store_directory: str, *, delays_ms: tuple[int, ...], writable: bool = True) -> None:
        """Reads the ends of all queues. Raises StoreLocked, StoreFormatError, OSError."""
        self.directory = os.path.join(store_directory, QUEUE_FOLDER)
        self._store_directory = store_directory
        self._delays_ms = delays_ms
        self._writable = writable
        self._rows = RocksDbUnits(self.directory, writable=writable)
        self._queues: dict[str, dict[int, RowQueue]] = {}
        self._ends: dict[
            str, dict[int, tuple[int, int]]
        ] = {}  # of those not loaded: (next offset, last record's place)
        self._mins: dict[str, dict[int, tuple[int, int]]] = {}  # (first offset, its record is not before this place)
        self.count = 0  # of queues
        self.lights: set[str] = set()
        self._load_ends()
        self._taken = self._reflected = PhysicalOffset(decode_position(self._rows.end(POSITION_KEY)))
        self._put_end = self._taken  # the end of what is in the batch
        self._persisting: PhysicalOffset | None = None
        self._batch = self._rows.batch()
        self._touched: dict[QueueKey, RowQueue] = {}
        self.is_blocked = False
        self._expired_below = PhysicalOffset(0)
        self._expiring = ExpiryOrder()
        self._unseen: list[QueueKey] = []  # the first expiry looks at all queues that were here at the start
        self._unseen_topics: list[str] | None = None if self._ends else []

    def _load_ends(self) -> None:
        topics: dict[str, str] = {}  # one string a topic, however many queues it has
        for key, value in self._rows.ends():
            end = decode_end(key, value)
            if end is not None:
                topic = topics.setdefault(end.topic, end.topic)
                if end.is_max:
                    self._ends.setdefault(topic, {})[end.queue_id] = end.queue_offset + 1, end.physical
                    self.count += 1
                    if is_light_queue(topic):
                        self.lights.add(topic)
                else:
                    self._mins.setdefault(topic, {})[end.queue_id] = end.queue_offset, end.physical

    # ---- the start

    def begin(self, *, log_end: PhysicalOffset, reflected: int, unclean: bool, is_whole: bool = False) -> None:  # noqa: ARG002
        """The rows themselves know what they reflect; what is behind the log's end goes. Raises StoreFormatError, OSError."""
        if self._taken > log_end:
            self._drop_behind(log_end)
        self._taken = self._reflected = self._put_end = PhysicalOffset(min(self._taken, log_end))

    def cut(self, log_end: PhysicalOffset, runs_from: Callable[[int], Iterable[Run]]) -> None:
        """See QueueEngine. Raises StoreFormatError, OSError."""
        if self._taken > log_end:
            self._drop_behind(log_end)
        self._taken = self._put_end = PhysicalOffset(min(self._taken, log_end))
        for path, topic, queues in notes_behind(self._store_directory, log_end):
            self.delete_topic(topic)
            self._make_again(topic, queues, log_end, runs_from)
            self._flush_all()
            os.unlink(path)
        self._flush_all()

    def _flush_all(self) -> None:
        """Nothing waits for room on the disk afterwards. Raises OSError."""
        if self.is_blocked:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.directory)
        self._rows.flush()

    def _make_again(
        self, topic: str, notes: Mapping[int, QueueNote], log_end: int, runs_from: Callable[[int], Iterable[Run]]
    ) -> None:
        """The rows of a topic's queues as they were, but for records at or behind `log_end`."""
        for queue_id, note in notes.items():
            if note.first_offset:
                self._continue_at(topic, queue_id, note.first_offset)
        begin = min((note.first_physical for note in notes.values() if note.first_physical >= 0), default=log_end)
        for run in runs_from(begin) if begin < log_end else ():
            known = notes.get(run.queue_id) if run.topic == topic and goes_to_queue(run.sys_flag) else None
            if known is not None and run.begin >= known.first_physical and run.end <= log_end:
                queue = self.get_or_create(topic, run.queue_id)
                self.put(queue, run.queue_offset, run.units, run.store_timestamp_ms)
                if self._batch.count >= BATCH_UNITS:
                    self._write()
        for queue_id, note in notes.items():
            if note.last_physical < log_end:
                made = self.get_or_create(topic, queue_id)
                made.staged_next = max(made.staged_next, note.next_offset)
                made.staged_physical = max(made.staged_physical, note.last_physical)
                self._touched[made.key] = made
        self._write()

    def _drop_behind(self, log_end: int) -> None:
        """Deletes the units of records that end above `log_end`, and the queues that held nothing else."""
        logger.warning(
            "rows of queues behind the end of the log are dropped position=%s log_end=%s", self._taken, log_end
        )
        for topic, queue_id in self.listed():
            queue = self._load(topic, queue_id)
            if queue.staged_physical < log_end:
                continue
            first, next_offset = queue.first_offset, _next_below(queue, log_end)
            self._batch.delete_units(unit_key(queue.prefix, next_offset), bounds(queue.prefix)[1])
            if next_offset == 0:
                self._delete_ends(queue)
                self._forget(topic, queue_id)
            else:
                last = queue.unit(next_offset - 1)[0] if next_offset > first else 0
                queue.end_at(next_offset, last)
                self._touched[queue.key] = queue
            if self._writable and self._batch.count >= BATCH_UNITS:
                self._write()
        self._put_end = PhysicalOffset(log_end)
        if self._writable:
            self._write()
            self._rows.flush()
        else:
            self._batch, self._touched = self._rows.batch(), {}

    def begin_at(self, minimums: Mapping[QueueKey, int]) -> None:
        """Creates queues that continue at these offsets, durably. Raises OSError."""
        for (topic, queue_id), next_offset in minimums.items():
            if next_offset:
                self._continue_at(topic, queue_id, next_offset)
                if self._batch.count >= BATCH_UNITS:
                    self._write()
        self._write()
        self._flush_all()

    def _continue_at(self, topic: str, queue_id: int, next_offset: int) -> None:
        queue = self.get_or_create(topic, queue_id)
        queue.begin_at(next_offset, 0)
        queue.staged_next = next_offset
        self._put_first(queue, 0, next_offset)
        self._note_next(queue)
        self._touched[queue.key] = queue
        self._batch.count += 1

    def work_in(self, run_in_worker: Callable[[Callable[[], None]], object]) -> None:
        """Nothing here is due but by `persist_some`."""

    # ---- finding

    def get(self, topic: str, queue_id: int) -> RowQueue | None:
        """A queue that exists, or None."""
        queue = self._queues.get(topic, {}).get(queue_id)
        if queue is not None:
            return queue
        return self._load(topic, queue_id) if self._has(topic, queue_id) else None

    def _has(self, topic: str, queue_id: int) -> bool:
        """Whether there is such a queue that is not loaded."""
        return queue_id in self._ends.get(topic, {})

    def get_or_create(self, topic: str, queue_id: int) -> RowQueue:
        """The queue; a new one exists once it has a unit."""
        return self.get(topic, queue_id) or self._load(topic, queue_id)

    def _load(self, topic: str, queue_id: int) -> RowQueue:
        queue = self._queues.get(topic, {}).get(queue_id)
        if queue is None:
            queue = self._make(topic, queue_id)
            self._queues.setdefault(topic, {})[queue_id] = queue
            if self._ends.get(topic, {}).pop(queue_id, None) is None:
                self.count += 1
                if is_light_queue(topic):
                    self.lights.add(topic)
        return queue

    def _make(self, topic: str, queue_id: int) -> RowQueue:
        next_offset, physical = self._ends.get(topic, {}).get(queue_id, (0, 0))
        first_hint, first_physical = self._mins.get(topic, {}).get(queue_id, (0, 0))
        return RowQueue(
            topic,
            queue_id,
            self._rows,
            next_offset=next_offset,
            physical=physical,
            first_hint=first_hint,
            first_physical=first_physical,
            delays_ms=self._delays_ms if topic == SCHEDULE_TOPIC else (),
        )

    @contextmanager
    def private(self, topic: str, queue_id: int) -> Iterator[RowQueue | None]:
        """A copy of a queue at this moment. Any thread."""
        queue = self._queues.get(topic, {}).get(queue_id)
        if queue is not None:
            yield copy.copy(queue)
        elif queue_id in self._ends.get(topic, {}):
            yield self._make(topic, queue_id)
        else:
            yield None

    def begins_at(self, topic: str, queue_id: int, first_offset: int) -> bool:
        """Whether the queue's kept units still begin there, or the queue is gone. Any thread."""
        queue = self._queues.get(topic, {}).get(queue_id)
        return queue is None or queue.first_offset == first_offset

    def is_loaded(self, topic: str, queue_id: int) -> bool:
        """Whether `get` needs no disk: it never does, but the queue's first unit is looked up once."""
        return queue_id not in self._ends.get(topic, {})

    def kept(self) -> tuple[int, int]:
        """(number of queues with rows, 0: no file is a queue's)."""
        loaded = sum(queue.next_offset > 0 for queues in self._queues.values() for queue in queues.values())
        return loaded + sum(map(len, self._ends.values())), 0

    def listed(self) -> list[QueueKey]:
        """All queues, sorted."""
        return sorted(
            (topic, queue_id)
            for table in (self._queues, self._ends)
            for topic, queues in table.items()
            for queue_id in queues
        )

    def source(self) -> RowSource:
        """Any thread."""
        return RowSource(self._rows)

    # ---- dispatch

    def on_run(self, run: Run) -> None:
        """Takes the units of a run if its records are visible; several runs share a write."""
        if goes_to_queue(run.sys_flag):
            self.put(self.get_or_create(run.topic, run.queue_id), run.queue_offset, run.units, run.store_timestamp_ms)
            self.put_lights(lights_of(run), run.store_timestamp_ms)
        self._put_end = PhysicalOffset(max(self._put_end, run.end))
        if self._batch.count >= BATCH_UNITS:
            self._write()

    def on_replayed(self, end: int) -> None:
        """The replay at a start came to the log's end."""
        self.advance(end)

    @property
    def complete_below(self) -> PhysicalOffset:
        """What the queues reflect."""
        return self._reflected

    def fill_in(self, run: Run) -> None:
        """See QueueEngine."""
        for topic, queue_id, queue_offset, unit in single_units(run):
            queue = self.get(topic, queue_id)
            if queue is not None and queue.is_place_of(queue_offset, int.from_bytes(unit[:8], "big")):
                self.put(queue, queue_offset, unit, run.store_timestamp_ms)
        self._write()

    def set_right(self, wrong: WrongUnit) -> bool:
        """Replaces a damaged unit if it is still there; returns whether it was."""
        queue = self.get(wrong.topic, wrong.queue_id)
        if queue is None or wrong.queue_offset >= queue.next_offset or queue.read(wrong.queue_offset, 1) != wrong.held:
            return False
        self.put(queue, wrong.queue_offset, wrong.unit, wrong.store_timestamp_ms)
        self._write()
        return True

    def put(self, queue: QueuePlaces, queue_offset: int, units: memoryview | bytes, store_timestamp_ms: int) -> None:
        """Adds the units of one run to the batch. Nothing is added at an offset that no record of this log can have."""
        assert isinstance(queue, RowQueue)
        if queue.delays_ms:
            delay_ms = queue.delays_ms[min(queue.queue_id, len(queue.delays_ms) - 1)]
            units = bytes(with_deliver_times(memoryview(units), store_timestamp_ms, delay_ms))
        data = bytes(units)
        anew = begun_anew_at(queue_offset, queue.staged_next) if queue_offset > queue.staged_next > 0 else None
        if anew is not None and is_light_queue(queue.topic):
            self._begin_anew(queue, anew)
        elif not _may_be_next(queue, queue_offset, data):
            logger.error(
                "a record's queue offset cannot be true, it is left out topic=%s queue=%s offset=%s next=%s",
                queue.topic, queue.queue_id, queue_offset, queue.staged_next,
            )  # fmt: skip
            return
        end = queue_offset + len(data) // UNIT_BYTES
        if not queue.staged_next:
            queue.begin_at(queue_offset, 0)
            if queue_offset:
                self._put_first(queue, int.from_bytes(data[:8], "big"), queue_offset)
        begin = max(queue_offset, queue.first_offset)  # a replay may begin before the first kept unit
        if begin < end:
            kept = data[(begin - queue_offset) * UNIT_BYTES :]
            self._batch.put_units(unit_keys(queue.prefix, begin, end), rows(kept, store_timestamp_ms))
            if begin == queue.first_offset:
                queue.first_physical = int.from_bytes(kept[:8], "big")
            if begin == queue.first_offset or not queue.is_noted:
                self._note(queue, queue.first_physical)
        if end >= queue.staged_next:
            queue.staged_next = end
            queue.staged_physical = int.from_bytes(data[-UNIT_BYTES : 8 - UNIT_BYTES], "big")
            self._touched[queue.key] = queue

    def _begin_anew(self, queue: RowQueue, queue_offset: int) -> None:
        self._delete_below(queue, queue.staged_next)
        self._put_first(queue, 0, queue_offset)
        queue.begin_at(queue_offset, 0)
        queue.staged_next = queue_offset

    def put_lights(self, units: list[LightUnit], store_timestamp_ms: int) -> None:
        """The same for light queues: one message each, as a rule."""
        time = TIME.pack(store_timestamp_ms)
        keys: list[bytes] = []
        values: list[bytes] = []
        queues, touched = self._queues, self._touched
        for name, queue_offset, unit in units:
            loaded = queues.get(name)
            queue = self._load(name, 0) if loaded is None else loaded[0]
            if queue_offset != queue.staged_next or not queue_offset:
                self._batch.put_units(keys, values)
                keys, values = [], []
                self.put(queue, queue_offset, unit, store_timestamp_ms)
                continue
            keys.append(unit_key(queue.prefix, queue_offset))
            values.append(unit + time)
            queue.staged_next = queue_offset + 1
            queue.staged_physical = int.from_bytes(unit[:8], "big")
            touched[queue.key] = queue
            if not queue.is_noted:
                self._note(queue, queue.staged_physical)
        self._batch.put_units(keys, values)

    def advance(self, end: int) -> None:
        """All units below `end` were put: they are written with the new position, and may be read. Raises OSError."""
        if end > self._put_end:
            self._put_end = PhysicalOffset(end)
        if self._put_end > self._taken or self._batch.count:
            self._write()

    def _write(self) -> None:
        if not self.is_blocked:
            self._write_batch()

    def _write_batch(self) -> None:
        self._put_ends()
        try:
            self._rows.write(self._batch)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("disk full: rows of queues wait error=%s", error)
            self.is_blocked = True
            return
        self._publish()

    def _put_ends(self) -> None:
        batch = self._batch
        for queue in self._touched.values():
            batch.put_end(end_key_of(queue.prefix), end_value(queue.staged_physical, queue.staged_next - 1))
        batch.put_end(POSITION_KEY, position_value(self._put_end))

    def _publish(self) -> None:
        for queue in self._touched.values():
            queue.publish()
        self._touched.clear()
        self._batch = self._rows.batch()
        self._taken = self._put_end

    def retry_unwritten(self, end: int) -> None:
        """Writes the waiting batch if the disk has room; `end`: the end of the dispatched log."""
        self._put_end = PhysicalOffset(max(self._put_end, end))
        self._put_ends()
        try:
            self._rows.write_again(self._batch)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return
        self.is_blocked = False
        self._publish()

    def reflected(self) -> PhysicalOffset:
        """The units of all records below this offset are on disk."""
        return self._reflected

    def persist(self) -> PhysicalOffset:
        """Makes durable what was written. Worker thread. Raises OSError."""
        self.persist_some(0)
        return self._reflected

    def persist_some(self, files_max: int) -> bool:  # noqa: ARG002
        """The same; nothing is left then. Worker thread. Raises OSError."""
        taken = self._taken
        if taken > self._reflected and not self.is_blocked:
            self._rows.flush()
            self._reflected = max(self._reflected, taken)
        return False

    # ---- removing

    def _note(self, queue: RowQueue, physical: int) -> None:
        """The queue's first record is not before there. One that is wrong, behind the log's end, must not hide the queue."""
        self._expiring.note(queue.key, min(physical, self._put_end))
        queue.is_noted = True

    def begin_expiry(self, log_begin: PhysicalOffset) -> None:
        """Starts an expiry."""
        self._expired_below = log_begin
        self._expiring.begin(log_begin)
        if self._unseen_topics is None:
            self._unseen_topics = list({*self._queues, *self._ends})

    def expire_some(self, queues_max: int) -> bool:
        """Deletes the rows of some queues whose records are below the log's begin; returns whether some are left.

        Looking at a queue is much faster than deleting: `_LOOKS_FOR_ONE` of them count as one. A queue that is not loaded
        stays so. Raises OSError; the rest is then removed by the next expiry.
        """
        left = queues_max * _LOOKS_FOR_ONE
        while left > 0 and not self.is_blocked and (key := self._expiring.first) is not None:
            left -= self._expire(*key)
            self._expiring.done()
        while left > 0 and not self.is_blocked and (self._unseen or self._unseen_topics):
            left -= self._see_one()
        self._write_if_any()
        return self._expiring.first is not None or bool(self._unseen or self._unseen_topics)

    def _see_one(self) -> int:
        """Goes on with the queues that were here at the start; returns how many looks that took."""
        if not self._unseen and self._unseen_topics:
            topic = self._unseen_topics.pop()
            self._unseen = [(topic, number) for table in (self._queues, self._ends) for number in table.get(topic, ())]
            return 1
        looks = self._expire(*self._unseen[-1])
        self._unseen.pop()
        return looks

    def _expire(self, topic: str, queue_id: int) -> int:
        """Deletes the rows of one queue that have expired, and notes when it is due again; returns how many looks that
        took."""
        loaded = self._queues.get(topic, {}).get(queue_id)
        if loaded is None and not self._has(topic, queue_id):
            return 1
        _, begin = self._mins.get(topic, {}).get(queue_id, _NOWHERE)
        if loaded is None and begin >= self._expired_below:
            self._expiring.note((topic, queue_id), begin)
            return 1
        queue = loaded or self._make(topic, queue_id)
        low = queue.min_offset(self._expired_below)
        if (
            low == queue.staged_next
            and is_light_queue(topic)
            and may_be_forgotten(queue.staged_next, self._expired_below)
        ):
            self._remove_queue(queue)
            return _LOOKS_FOR_ONE
        is_first = low <= queue.first_offset
        if not is_first:
            self._delete_below(queue, low)
            physical = queue.unit(low)[0] if low < queue.next_offset else int(self._expired_below)
            self._put_first(queue, physical, low)
            queue.begin_at(low, physical)
        self._note_next(queue)
        if loaded is None:
            self._mins.setdefault(topic, {})[queue_id] = queue.first_offset, queue.first_physical
            return _LOOKS_FOR_UNLOADED
        return 1 if is_first else _LOOKS_FOR_ONE

    def _note_next(self, queue: RowQueue) -> None:
        """Notes when an expiry next has something to do with it; an empty queue is noted with its next message."""
        if queue.first_offset < queue.staged_next:
            self._note(queue, queue.first_physical)
            return
        queue.is_noted = False
        if is_light_queue(queue.topic):
            self._expiring.note(queue.key, forgettable_from(queue.staged_next))

    def _delete_below(self, queue: RowQueue, end: int) -> None:
        first = queue.first_offset
        if end - first <= _RANGE_UNITS:
            self._batch.delete_each(unit_keys(queue.prefix, first, end))
        else:
            self._batch.delete_units(bounds(queue.prefix)[0], unit_key(queue.prefix, end))

    def _remove_queue(self, queue: RowQueue) -> None:
        self._delete_below(queue, queue.staged_next)
        self._delete_ends(queue)
        self._touched.pop(queue.key, None)
        self._forget(queue.topic, queue.queue_id)

    def _write_if_any(self) -> None:
        if self._batch.count:
            self._write()

    def _put_first(self, queue: RowQueue, physical: int, queue_offset: int) -> None:
        key = end_key(queue.topic, queue.queue_id, is_max=False)
        self._batch.put_end(key, end_value(physical, queue_offset))

    def delete_light(self, name: str, confirmed: int, *, below: int | None = None) -> None:
        """Removes the units of a light queue, or those of records below a physical offset. Raises OSError."""
        queue = self.get(name, 0)
        if queue is None:
            return
        self._write_if_any()
        kept = queue.staged_next if below is None else queue.min_offset(PhysicalOffset(below))
        if kept < queue.next_offset:
            if kept > queue.first_offset:
                physical = queue.unit(kept)[0]
                self._delete_below(queue, kept)
                self._put_first(queue, physical, kept)
                queue.begin_at(kept, physical)
        elif may_be_forgotten(queue.staged_next, confirmed):
            self._remove_queue(queue)
        else:
            self._delete_below(queue, queue.staged_next)
            self._put_first(queue, 0, queue.staged_next)
            queue.begin_at(queue.staged_next, 0)
            self._note_next(queue)
        self._write_if_any()

    def delete_topic(self, topic: str) -> None:
        """Deletes the rows of a topic. Its records stay in the log until they expire. Raises OSError."""
        for queue_id in [*self._queues.get(topic, ()), *self._ends.get(topic, ())]:
            queue = self._load(topic, queue_id)
            self._touched.pop(queue.key, None)
            self._batch.delete_units(*bounds(queue.prefix))
            self._delete_ends(queue)
            self.count -= 1
        for table in (self._queues, self._ends, self._mins):
            table.pop(topic, None)
        self.lights.discard(topic)
        self._write_if_any()

    def _delete_ends(self, queue: RowQueue) -> None:
        for is_max in (True, False):
            self._batch.delete_end(end_key(queue.topic, queue.queue_id, is_max=is_max))

    def _forget(self, topic: str, queue_id: int) -> None:
        for table in (self._queues, self._ends, self._mins):
            queues = table.get(topic, {})
            queues.pop(queue_id, None)
            if not queues:
                table.pop(topic, None)
        self.lights.discard(topic)
        self.count -= 1

    def set_topic_aside(self, topic: str, at: int) -> None:
        """The same for a deletion that ends at byte `at` of the log and may still be cut from it. Raises OSError."""
        self._write_if_any()
        notes = {}
        for queue_id in [*self._queues.get(topic, ()), *self._ends.get(topic, ())]:
            queue = self._load(topic, queue_id)
            if queue.next_offset:
                first = queue.first_offset
                physical = queue.unit(first)[0] if first < queue.next_offset else -1
                notes[queue_id] = QueueNote(first, physical, queue.next_offset, queue.staged_physical)
        if notes:
            write_note(self._store_directory, topic, at, notes)
        self.delete_topic(topic)

    def purge(self, confirmed: int) -> None:
        """Deletes the notes of what can no longer be cut. Worker thread. Raises OSError."""
        purge_notes(self._store_directory, confirmed)

    def close(self) -> None:
        """Closes the rows; what waits in the batch follows from the log again."""
        self._rows.close()


def _next_below(queue: RowQueue, log_end: int) -> int:
    """Behind the last unit of a record that ends within `log_end`; at the first kept unit if there is none."""
    kept = range(queue.first_offset, queue.next_offset)
    return kept.start + bisect_left(kept, x=True, key=lambda at: queue.end_of(at) > log_end)


def _may_be_next(queue: RowQueue, queue_offset: int, units: bytes) -> bool:
    """Whether the log has room for the messages missing between the last one and `queue_offset`.

    If not, the offset comes from a damaged record: it could be any number.
    """
    missing = queue_offset - queue.staged_next
    if queue_offset < 0 or missing <= 0:
        return queue_offset >= 0
    return missing * RECORD_OVERHEAD_BYTES <= int.from_bytes(units[:8], "big") - queue.staged_physical
