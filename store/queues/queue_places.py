"""Where the messages of one queue are, computed from its units: the same for every engine. Pure.

Message n of a queue is its unit n (`docs/formats/consume_queue.md`), 20 bytes wherever it is kept:

    byte 0 physical offset 8 | 8 record size 4 | 12 tags code 8

A gap inside a queue (damage in the log) reads as (physical offset of what follows, 0x7FFFFFFF, 0), the beginning of a queue
that does not begin at 0 as (0, 0x7FFFFFFF, 0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import ClassVar, Final

from ...model.queue import PhysicalOffset, QueueOffset
from ...record.layout import UNIT

UNIT_BYTES: Final = 20
FILLER_SIZE: Final = 0x7FFFFFFF


class QueuePlaces(ABC):
    """One queue. `next_offset`: the queue offset of the next message. `delays_ms`: of the schedule topic's levels, whose tags
    codes are delivery times; else empty. `keeps_times`: its units need the store time of their run.
    """

    is_batched: ClassVar[bool] = False  # its records hold batches (batches/batch_queue)
    __slots__ = ("_min_for", "_min_offset", "delays_ms", "keeps_times", "key", "next_offset", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, *, delays_ms: tuple[int, ...], keeps_times: bool = False) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.key = (topic, queue_id)
        self.delays_ms = delays_ms
        self.keeps_times = keeps_times or bool(delays_ms)
        self.next_offset = 0
        self._min_for = -1
        self._min_offset = QueueOffset(0)

    @property
    @abstractmethod
    def first_offset(self) -> int:
        """The queue offset of the first unit that is kept, whether the log still has its record or not."""

    @abstractmethod
    def read(self, queue_offset: int, units_max: int) -> bytes:
        """Units from `queue_offset` on, at most `units_max`, before the end; b"" if there are none."""

    @abstractmethod
    def resume_offset(self, queue_offset: int) -> QueueOffset:
        """Where to go on if nothing can be read at `queue_offset`."""

    @abstractmethod
    def stored_ms(self, queue_offset: int) -> int | None:
        """When the record was stored; None if only the log knows."""

    def first_of(self, queue_offset: int) -> int:
        """The first message in the record of this one: of a plain record itself."""
        return queue_offset

    def unit(self, queue_offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tags code) of one unit in [first_offset, next_offset). Raises IndexError."""
        found = self.read(queue_offset, 1)
        if not found:
            raise IndexError(queue_offset)
        physical, size, code = UNIT.unpack(found)
        return physical, size, code

    def end_of(self, queue_offset: int) -> int:
        """The physical offset behind a message; for filler, the offset in it. Raises IndexError."""
        physical, size, _ = self.unit(queue_offset)
        return physical if size == FILLER_SIZE else physical + size

    def is_place_of(self, queue_offset: int, physical_offset: int) -> bool:
        """Whether the unit there belongs to the record at this physical offset, or is filler that may stand for it.

        Filler may, if the next message of the queue is behind the record in the log and the message before is before it.
        """
        if not self.first_offset <= queue_offset < self.next_offset:
            return False
        held, size, _ = self.unit(queue_offset)
        if size != FILLER_SIZE:
            return held == physical_offset
        return physical_offset < held and self._lies_behind_message_before(queue_offset, physical_offset)

    def places_beside(self, queue_offset: int, log_begin: int, log_end: int) -> tuple[int, int]:
        """The range of the log in which a message's record can be: behind the record of the message before, before the next
        one's.

        Offsets outside the log are ignored.
        """
        begin, end = log_begin, log_end
        if queue_offset > self.first_offset:
            behind = self.end_of(queue_offset - 1)
            begin = behind if log_begin <= behind <= log_end else begin
        if queue_offset + 1 < self.next_offset:
            before = self.unit(queue_offset + 1)[0]
            end = before if begin < before <= log_end else end
        return begin, end

    def _lies_behind_message_before(self, queue_offset: int, physical_offset: int) -> bool:
        for before in range(queue_offset - 1, self.first_offset - 1, -1):
            held, size, _ = self.unit(before)
            if size != FILLER_SIZE:
                return held < physical_offset
        return True

    def min_offset(self, log_begin: PhysicalOffset) -> QueueOffset:
        """The first message whose record is at or behind `log_begin`; `next_offset` if there is none."""
        if log_begin != self._min_for:
            first = self.first_offset
            offsets = range(first, self.next_offset)
            self._min_offset = QueueOffset(
                first + bisect_left(offsets, x=True, key=lambda n: self._is_kept(n, log_begin))
            )
            self._min_for = log_begin
        return self._min_offset

    def _is_kept(self, queue_offset: int, log_begin: int) -> bool:
        """Decided by the majority of three units: offsets ascend, so a damaged one is out of order."""
        low, high = max(queue_offset - 1, self.first_offset), min(queue_offset + 2, self.next_offset)
        if high - low < 3:
            return self._lies_behind(queue_offset, log_begin)
        held = self.read(low, 3)  # at once: each read of rows costs as much as ten comparisons
        if len(held) < 3 * UNIT_BYTES:  # they are in two files
            return sum(self._lies_behind(near, log_begin) for near in range(low, high)) > 1
        near = enumerate(UNIT.iter_unpack(held), low)
        return sum(self._is_unit_behind(at, physical, size, log_begin) for at, (physical, size, _) in near) > 1

    def _lies_behind(self, queue_offset: int, log_begin: int) -> bool:
        physical, size, _ = self.unit(queue_offset)
        return self._is_unit_behind(queue_offset, physical, size, log_begin)

    def _is_unit_behind(self, queue_offset: int, physical: int, size: int, log_begin: int) -> bool:
        if physical < 0:  # damaged: treated as being where the next one is
            return queue_offset + 1 >= self.next_offset or self._lies_behind(queue_offset + 1, log_begin)
        return physical >= log_begin and not (size == FILLER_SIZE and physical == 0)
