"""Checks whether the consume queues name the records of the log: compares each record with its unit.

    bytes of the log, as a scrub reads them -> runs of records -> expected units <-> units in the queue
                                               '- they differ: does the queue's unit name a valid record of its own?
                                               else it is wrong

A topic may have been deleted and created again: then the log still has records of the former topic, and the new one's
units name others. So a unit that names a record of this very queue and offset counts more than an earlier record, and so do
neighbouring units that name theirs: the log and each queue have the same order. A unit that names a quarantined place stays.

It reads units by a source of its own: any thread, one checker each. The loop checks a unit that it calls wrong
again before it writes (`QueueEngine.set_right`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...model.errors import CorruptRecordError, OffsetOutOfRange
from ...model.names import SCHEDULE_TOPIC
from ...model.topics.light_queues import is_light_queue
from ...record.codes import RECORD_OVERHEAD_BYTES, RUN_BLANK, SYS_FLAG_AT
from ...record.kernel import RunKernel, decode_batch, is_record_of, light_units
from ...record.layout import UNIT
from ...record.sys_flag import INNER_BATCH
from ..log.commit_log import CommitLog
from ..queues.queue_engine import NO_UNIT, UnitSource, WrongUnit, goes_to_queue, names_lights
from ..queues.queue_places import FILLER_SIZE, UNIT_BYTES
from .log_check import Read
from .quarantine import Range, overlapping, overlaps
from .scrub_reader import ScrubReader

_RUN_COUNT_MAX: Final = 8192  # records compared in one go
_SEARCH_BYTES: Final = 4 << 20  # of the log read at a time while one record is searched
_REMOVED: Final = UNIT.pack(0, FILLER_SIZE, 0)
_EXTENDED_BELOW: Final = -0x80000000  # a tag code is the address of a unit in RocketMQ's extension


@dataclass(frozen=True, slots=True)
class MisplacedUnit:
    """A unit, `held`, that does not name its own record. If the log has that record, it is in
    [begin, end): between the neighbouring messages."""

    topic: str
    queue_id: int
    queue_offset: int
    held: bytes
    begin: int
    end: int

    def replaced_by(self, unit: bytes, store_timestamp_ms: int = 0) -> WrongUnit:
        """A wrong unit, and the right one."""
        return WrongUnit(self.topic, self.queue_id, self.queue_offset, unit, self.held, store_timestamp_ms)


class QueueChecker:
    """The checker of one store. `kernel`: for records of any size that the log may hold; not shared."""

    def __init__(self, log: CommitLog, kernel: RunKernel, source: UnitSource) -> None:
        self._log = log
        self._kernel = kernel
        self._source = source
        self._at, self._is_at_blank = 0, False

    def check(self, read: Read, begin: int, end: int, damaged: Sequence[Range]) -> list[WrongUnit]:
        """Checks the records in [begin, end) of one segment, between borders of records or blanks, without damaged ranges.
        Raises OSError."""
        found: dict[tuple[str, int, int], WrongUnit] = {}
        for run in self._runs(read, begin, end, damaged):
            found.update(
                ((wrong.topic, wrong.queue_id, wrong.queue_offset), wrong) for wrong in self._wrong(run, damaged)
            )
        return list(found.values())  # of two records for one unit, the later one belongs to the present topic

    def is_still_there(self, wrong: WrongUnit) -> bool:
        """True if its queue still holds the damaged unit. Raises OSError."""
        return self._source.units(wrong.topic, wrong.queue_id, wrong.queue_offset, 1) == wrong.held

    def find(self, misplaced: MisplacedUnit, end: int, damaged: Sequence[Range]) -> WrongUnit | None:
        """The right unit, if its record is before `end` and outside damaged ranges.

        Raises OSError, OffsetOutOfRange (retention was faster).
        """
        wanted, found = (misplaced.topic, misplaced.queue_id), None
        at, window = misplaced.begin, _SEARCH_BYTES
        while at < end:
            segment_end = at - at % self._log.segment_bytes + self._log.segment_bytes
            stop = min(end, segment_end)
            limit = min(stop, at + window)
            with ScrubReader(self._log, at) as reader:
                for run in self._runs(reader.read, at, limit, damaged):
                    index = misplaced.queue_offset - run.queue_offset
                    if (run.topic, run.queue_id) == wanted and 0 <= index < run.count:
                        found = misplaced.replaced_by(run.unit(index), run.store_timestamp_ms)
                        if run.is_batch:
                            found = replace(found, queue_offset=run.queue_offset, count=run.count)
            if self._is_at_blank or (self._at == at and limit == stop):
                at = segment_end
            elif self._at == at:
                window *= 2  # one record is longer
            else:
                at, window = self._at, _SEARCH_BYTES
        return found

    def _runs(self, read: Read, begin: int, end: int, damaged: Sequence[Range]) -> Iterator[_Run]:
        """Visible runs, and each unit of a light queue as a run of its own. `_at` becomes the position up to which whole
        records were found, `_is_at_blank` whether a blank follows."""
        kernel = self._kernel
        self._at, self._is_at_blank = begin, False
        while self._at < end:
            bad = next(iter(overlapping(damaged, self._at, end)), (end, end))
            if bad[0] <= self._at:
                self._at = bad[1]
                continue
            at, data = 0, read(self._at, bad[0])
            while at < len(data):
                kernel.clear()
                count = kernel.scan(data, at, len(data), self._at + at, False, _RUN_COUNT_MAX)
                if not count:
                    self._is_at_blank = kernel.status == RUN_BLANK
                    self._at += at
                    return
                begin, at = at, kernel.end
                if goes_to_queue(kernel.sys_flag):
                    units = bytes(memoryview(kernel.units)[: kernel.units_end])
                    topic, stored_ms = kernel.topic.decode("utf-8", "replace"), kernel.store_timestamp_ms
                    is_batch = bool(kernel.sys_flag & INNER_BATCH)
                    has_lights = names_lights(kernel.sys_flag, topic)
                    units *= kernel.count if is_batch else 1
                    yield _Run(topic, kernel.queue_id, kernel.queue_offset, units, stored_ms, is_batch=is_batch)
                    for name, queue_offset, unit in light_units(data[begin:at], units) if has_lights else ():
                        yield _Run(name, 0, queue_offset, unit, stored_ms)
            self._at += at

    def _wrong(self, run: _Run, damaged: Sequence[Range]) -> Iterator[WrongUnit]:
        """Those of a run's units that the queues lack, and have nothing equally good instead of."""
        if not self._source.has_queue(run.topic, run.queue_id):
            return  # its topic was deleted
        held = self._source.units(run.topic, run.queue_id, run.queue_offset, run.count)
        if held == run.units:
            return
        if run.is_batch:
            first = held[:UNIT_BYTES]
            is_kept = NO_UNIT not in (first, held[-UNIT_BYTES:])
            if is_kept and (first == run.unit(0) or self._is_wrong(run, 0, first, damaged)):
                unit, stored_ms = run.unit(0), run.store_timestamp_ms
                yield WrongUnit(run.topic, run.queue_id, run.queue_offset, unit, first, stored_ms, run.count)
            return
        for index in range(run.count):
            unit, found = run.unit(index), held[index * UNIT_BYTES : (index + 1) * UNIT_BYTES]
            compared = 12 if run.topic == SCHEDULE_TOPIC else UNIT_BYTES  # a delayed message's tag code is its time
            if found[:compared] == unit[:compared] or found == NO_UNIT:
                continue
            if is_light_queue(run.topic) and found == _REMOVED:
                continue  # delete_light
            if found[:12] == unit[:12] and int.from_bytes(found[12:], "big", signed=True) < _EXTENDED_BELOW:
                continue
            if self._is_wrong(run, index, found, damaged):
                yield WrongUnit(run.topic, run.queue_id, run.queue_offset + index, unit, found, run.store_timestamp_ms)

    def _is_wrong(self, run: _Run, index: int, held: bytes, damaged: Sequence[Range]) -> bool:
        """True if `held` names anything but this record, which is the right one."""
        physical, size, _ = UNIT.unpack(held)
        own = run.physical(index)
        if physical != own and size != FILLER_SIZE and size > 0:
            if physical >= 0 and overlaps(damaged, physical, physical + size):
                return False
            if physical > own and self._names_own(run.topic, run.queue_id, run.queue_offset + index, held):
                return False
        slot = run.queue_offset + index
        before = self._source.units(run.topic, run.queue_id, slot - 1, 1) if slot else b""
        after = slot + (run.count if run.is_batch else 1)
        behind = self._source.units(run.topic, run.queue_id, after, 1)
        if before and _place(before) >= own and self._names_own(run.topic, run.queue_id, slot - 1, before):
            return False
        return not (_place(behind) <= own and self._names_own(run.topic, run.queue_id, after, behind))

    def _names_own(self, topic: str, queue_id: int, queue_offset: int, unit: bytes) -> bool:
        physical, size, _ = UNIT.unpack(unit)
        return names_own_record(self._log, topic, queue_id, queue_offset, physical, size)


@dataclass(frozen=True, slots=True)
class _Run:
    topic: str
    queue_id: int
    queue_offset: int
    units: bytes
    store_timestamp_ms: int
    is_batch: bool = False  # all are of one record

    @property
    def count(self) -> int:
        return len(self.units) // UNIT_BYTES

    def unit(self, index: int) -> bytes:
        return self.units[index * UNIT_BYTES : (index + 1) * UNIT_BYTES]

    def physical(self, index: int) -> int:
        return _place(self.unit(index))


def _place(unit: bytes) -> int:
    return int.from_bytes(unit[:8], "big")


def read_record(log: CommitLog, physical: int, size: int) -> bytes | None:
    """What the log has at [physical, physical + size); None if that cannot be a record, or cannot be read. Any thread."""
    if not (RECORD_OVERHEAD_BYTES <= size <= log.segment_bytes and log.begin <= physical <= log.written - size):
        return None
    try:
        with ScrubReader(log, physical) as reader:
            return reader.read(physical, physical + size)
    except (OffsetOutOfRange, OSError):
        return None


def names_own_record(log: CommitLog, topic: str, queue_id: int, queue_offset: int, physical: int, size: int) -> bool:
    """True if [physical, physical + size) is a readable record of this queue and offset. Any thread."""
    record = read_record(log, physical, size)
    if record is None:
        return False
    if record[SYS_FLAG_AT + 3] & INNER_BATCH:
        queue_offset = _first_of_batch(record, queue_offset)
    return is_record_of(record, physical, topic.encode(), queue_id, queue_offset)


def _first_of_batch(record: bytes, queue_offset: int) -> int:
    """The queue offset of the batch's first message, if it has message `queue_offset`; else that."""
    try:
        messages = decode_batch(record)
    except CorruptRecordError:
        return queue_offset
    first = messages[0].queue_offset if len(messages) else queue_offset
    return first if first <= queue_offset < first + len(messages) else queue_offset
