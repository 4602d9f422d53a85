"""A batch consume queue: which record of the commit log holds the batch with message n of one queue.

`batchconsumequeue/{topic}/{queueId}/` holds files of units of 46 bytes (`docs/formats/batch_consume_queue.md`), one a batch,
which name the batch's first queue offset and its size. The n-th message is found by binary search. To its readers the queue
has a unit of 20 bytes for each message, like every other (queue_places): the messages of one batch have the same one.

A queue that begins at a higher offset begins with one unit of filler for the message before it. A gap (damage in the log)
has no unit; it reads as filler. Loop thread.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from ....model.errors import CorruptRecordError
from ....model.queue import PhysicalOffset, QueueOffset
from ....record.codes import INNER_MAX, RECORD_OVERHEAD_BYTES
from ....record.kernel import decode_batch, decode_record
from ....record.layout import BATCH_UNIT, UNIT
from ....record.sys_flag import INNER_BATCH
from ..consume_queue import ConsumeQueue
from ..queue_places import FILLER_SIZE

logger = logging.getLogger(__name__)

BATCH_UNIT_BYTES: Final = BATCH_UNIT.size
NOT_COMPACTED: Final = -1
_BLOCK_UNITS: Final = 64  # read at a time
_FIRST_MAX: Final = 1 << 48  # what the first unit of a queue may begin at, if it is damaged


@dataclass(frozen=True, slots=True)
class Batch:
    """One unit: a record of `size` bytes at `physical` holds messages [begin, end) of the queue."""

    physical: int
    size: int
    code: int
    stored_ms: int
    begin: int
    end: int

    @property
    def unit(self) -> bytes:
        """The unit of each of its messages."""
        return UNIT.pack(self.physical, self.size, self.code)


def encode_batch(unit: bytes | memoryview, stored_ms: int, begin: int, count: int) -> bytes:
    """The 46 bytes of a batch whose record has this unit of 20 bytes."""
    return BATCH_UNIT.pack(*UNIT.unpack(unit), stored_ms, begin, count, NOT_COMPACTED, 0)


def decode_batches(data: bytes) -> list[Batch]:
    """The units in `data`."""
    return [
        Batch(physical, size, code, stored_ms, begin, begin + count)
        for physical, size, code, stored_ms, begin, count, _, _ in BATCH_UNIT.iter_unpack(data)
    ]


def messages_of(record: bytes, key: tuple[str, int]) -> tuple[int, int] | None:
    """(first queue offset, count) of the batch in a record of that queue; None if it is none."""
    try:
        held = decode_record(record)
        if (held.topic, held.queue_id) != key or not held.body_crc_matches:
            return None
        count = len(decode_batch(record)) if held.sys_flag & INNER_BATCH else 1
    except CorruptRecordError:
        return None
    return held.queue_offset, count


class BatchQueue(ConsumeQueue):
    """One loaded queue."""

    unit_bytes: ClassVar[int] = BATCH_UNIT_BYTES
    is_batched: ClassVar[bool] = True
    __slots__ = ()

    # ---- its batches, by place

    def _batch(self, place: int) -> Batch:
        """The unit at this place, counted from the queue's first file as it was when the queue began."""
        position = place * BATCH_UNIT_BYTES
        base = position // self._file_bytes * self._file_bytes
        return decode_batches(os.pread(self._files.fd(self._path(base)), BATCH_UNIT_BYTES, position - base))[0]

    def _places(self) -> range:
        """Of all its units."""
        return range(self._bases[0] // BATCH_UNIT_BYTES, self._end // BATCH_UNIT_BYTES) if self._bases else range(0)

    def _place_of(self, queue_offset: int) -> int:
        """The place of the first batch that ends behind `queue_offset`."""
        places = self._places()
        return places.start + bisect_left(places, x=True, key=lambda place: self._batch(place).end > queue_offset)

    def _note_end(self) -> None:
        """A damaged last unit counts as the longest batch: no queue offset is used twice, whatever it was."""
        last = self.last
        self.next_offset = 0 if last is None else last.end if self.is_plausible(last) else self._unknown_last(last).end

    @property
    def last(self) -> Batch | None:
        """The last unit; None if there is none."""
        places = self._places()
        return self._batch(places[-1]) if places else None

    def is_plausible(self, last: Batch) -> bool:
        """Whether the last unit can be what was written, by itself and by the one before, which a crash may have left twice."""
        if not (last.end > last.begin >= 0 and (last.size >= RECORD_OVERHEAD_BYTES) and last.physical >= 0):
            return False
        places = self._places()
        before = self._batch(places[-2]) if len(places) > 1 else None
        if before is None or before == last:
            return last.begin <= _FIRST_MAX
        missing, room = last.begin - before.end, last.physical - before.physical
        return 0 <= missing * RECORD_OVERHEAD_BYTES <= room * INNER_MAX

    def _unknown_last(self, last: Batch) -> Batch:
        """What stands for a last unit that nothing is known of."""
        places = self._places()
        before = self._batch(places[-2]) if len(places) > 1 else None
        begin = max(0, min(last.begin, _FIRST_MAX)) if before is None else before.end
        return Batch(0 if before is None else before.physical, FILLER_SIZE, 0, 0, begin, begin + INNER_MAX)

    def mend_last(self, begin: int, count: int, *, is_known: bool) -> None:
        """Writes the last unit again: messages [begin, begin + count) of its record. Not `is_known`: what its messages are is
        not known, they read as lost until a scrub finds their record. Raises OSError."""
        last = self.last
        assert last is not None
        right = replace(last, begin=begin, end=begin + count) if is_known else self._unknown_last(last)
        logger.error(
            "a damaged unit of a queue is written again topic=%s queue=%s held=%s now=%s",
            self.topic, self.queue_id, last, right,
        )  # fmt: skip
        unit = encode_batch(right.unit, right.stored_ms, right.begin, right.end - right.begin)
        self._write_units(self._places()[-1] * BATCH_UNIT_BYTES, unit)
        self._min_for = -1

    def batches(self, queue_offset: int, count_max: int) -> list[Batch]:
        """The batches from the one of that message on, or behind a gap that it is in: at most so many, within one file; none
        before the queue's first unit."""
        if not self.first_offset <= queue_offset < self.next_offset:
            return []
        place = self._place_of(queue_offset)
        position = place * BATCH_UNIT_BYTES
        base = position // self._file_bytes * self._file_bytes
        size = min(self._end - position, count_max * BATCH_UNIT_BYTES, base + self._file_bytes - position)
        return decode_batches(os.pread(self._files.fd(self._path(base)), size, position - base)) if size > 0 else []

    # ---- as messages

    @property
    def first_offset(self) -> int:
        """The queue offset of the first message in the first file."""
        places = self._places()
        return self._batch(places.start).begin if places else 0

    def read(self, queue_offset: int, units_max: int) -> bytes:
        """A unit for each message from `queue_offset` on, at most `units_max`, of batches in one file."""
        units, at, end = bytearray(), queue_offset, min(queue_offset + units_max, self.next_offset)
        while at < end:
            batches = self.batches(at, min(_BLOCK_UNITS, end - at))
            if not batches or (units and batches[0].begin > at):
                break
            for batch in batches:
                if at < batch.begin:
                    gap = min(batch.begin, end) - at
                    units += UNIT.pack(batch.physical, FILLER_SIZE, 0) * gap
                    at += gap
                count = min(batch.end, end) - at
                if count > 0:
                    units += batch.unit * count
                    at += count
        return bytes(units)

    def first_of(self, queue_offset: int) -> int:
        """The first message of its batch."""
        found = self.batches(queue_offset, 1)
        return min(queue_offset, found[0].begin) if found else queue_offset

    def resume_offset(self, queue_offset: int) -> QueueOffset:
        """Where to go on if nothing can be read at `queue_offset`: at the next batch."""
        later = self._place_of(queue_offset) + 1
        places = self._places()
        return QueueOffset(max(queue_offset + 1, self._batch(later).begin if later in places else self.next_offset))

    def stored_ms(self, queue_offset: int) -> int | None:
        """Of the message's batch, from its unit; None for filler."""
        found = self.batches(queue_offset, 1)
        return found[0].stored_ms if found and found[0].size != FILLER_SIZE else None

    def min_offset(self, log_begin: PhysicalOffset) -> QueueOffset:
        """The first message of the first batch whose record is at or behind `log_begin`."""
        if log_begin != self._min_for:
            places = self._places()
            first = bisect_left(places, x=True, key=lambda place: self._is_at_or_behind(place, log_begin))
            found = self._batch(places[first]).begin if first < len(places) else self.next_offset
            self._min_offset, self._min_for = QueueOffset(found), log_begin
        return self._min_offset

    def _is_at_or_behind(self, place: int, log_begin: int) -> bool:
        batch = self._batch(place)
        return batch.physical >= log_begin and not (batch.size == FILLER_SIZE and batch.physical == 0)

    # ---- writing

    def append(self, queue_offset: int, units: memoryview | bytes) -> list[str]:
        """Writes units of 46 bytes, of batches from `queue_offset` on; returns the paths written to.

        A batch that the queue has is written again (a replay, or a unit that was damaged); one that it lacks between two others
        (its record was damaged and is whole again) is put in. Raises OSError (disk full).
        """
        paths: dict[str, None] = {}
        for at in range(0, len(units), BATCH_UNIT_BYTES):
            unit = bytes(units[at : at + BATCH_UNIT_BYTES])
            batch = decode_batches(unit)[0]
            if batch.begin < 0 or batch.end <= batch.begin:
                logger.error(
                    "a batch's queue offset cannot be true, it is left out topic=%s queue=%s offset=%s next=%s",
                    self.topic, self.queue_id, queue_offset, self.next_offset,
                )  # fmt: skip
            elif batch.begin >= self.next_offset:
                paths.update(dict.fromkeys(self._write_units(self._end, unit)))
            else:
                paths.update(dict.fromkeys(self._write_earlier(batch, unit)))
        return list(paths)

    def _write_earlier(self, batch: Batch, unit: bytes) -> Iterable[str]:
        """Writes a batch that ends before the queue does to its place, by its place in the log."""
        places = self._places()
        place = places.start + bisect_left(places, x=True, key=lambda at: self._batch(at).physical >= batch.physical)
        for near in (place, place - 1):  # a damaged unit is known by its other half
            held = self._batch(near) if near in places else None
            if held is not None and (held.begin == batch.begin or held.physical == batch.physical):
                return self._write_units(near * BATCH_UNIT_BYTES, unit)
        if place == places.start:
            return ()  # its file has expired
        return self._put_in(place, unit)

    def _put_in(self, place: int, unit: bytes) -> Iterable[str]:
        """Moves all units from `place` on by one, the last one first: a crash in between leaves one of them twice, which reads
        like once."""
        paths: dict[str, None] = {}
        for at in range(self._places().stop - 1, place - 1, -1):
            base = at * BATCH_UNIT_BYTES // self._file_bytes * self._file_bytes
            moved = os.pread(self._files.fd(self._path(base)), BATCH_UNIT_BYTES, at * BATCH_UNIT_BYTES - base)
            paths.update(dict.fromkeys(self._write_units((at + 1) * BATCH_UNIT_BYTES, moved)))
        paths.update(dict.fromkeys(self._write_units(place * BATCH_UNIT_BYTES, unit)))
        self._min_for = -1
        return paths

    def _write_units(self, position: int, unit: bytes) -> list[str]:
        if not self._bases:
            self._add_file(position // self._file_bytes * self._file_bytes)
        return self._write_across(position, unit)

    def begin_at(self, next_offset: int) -> str | None:
        """Lets a queue without files continue at `next_offset`; returns the path of its file, if any."""
        assert not self._bases
        if not next_offset:
            return None
        self._write_units(0, encode_batch(UNIT.pack(0, FILLER_SIZE, 0), 0, next_offset - 1, 1))
        return self.tail_path

    def cut(self, next_offset: int) -> None:
        """Removes all batches from that of message `next_offset` on."""
        places = self._places()
        place = places.start + bisect_left(places, x=True, key=lambda at: self._batch(at).end > next_offset)
        self._cut_at(place * BATCH_UNIT_BYTES)

    def _physical_before(self, position: int) -> int:
        return self._batch(position // BATCH_UNIT_BYTES - 1).physical
