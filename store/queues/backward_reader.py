"""Reads a topic's messages from the newest to the oldest, over several queues, for viewers. Any thread.

Each queue is walked backwards by its units; of the walks the one that stands at the highest place in the log goes on, so the
messages come in the reverse order of the log. A page ends where it is full or its time is over, and another call goes on
below that place, also in another process or at another replica.

Queue files may expire meanwhile, and be written over as files of other queues: a unit counts only if the record that it names
is of its queue and has its queue offset.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ...model.errors import OffsetOutOfRange, SystemFault
from ...model.queue import PhysicalOffset
from ...record.codes import INNER_BATCH_BIT, QUEUE_ID_AT, QUEUE_OFFSET_AT, RECORD_OVERHEAD_BYTES, SYS_FLAG_AT
from ...record.kernel import accepted_messages
from ...record.layout import UNIT, store_timestamp_of
from ..integrity.quarantine import Quarantine, overlaps
from ..log.commit_log import CommitLog
from ..query import NO_END, LogPlace, Page, StoreQuery
from .confirmation import Confirmation
from .queue_engine import QueueEngine
from .queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces
from .queue_reader import QueueReader

_TRIES_MAX: Final = 8
_BLOCK_UNITS: Final = 256
_SPAN_BYTES: Final = 1 << 22  # of the log, asked for at once however little of it is of the queue


@dataclass(slots=True)
class _Walk:
    """Of one queue: messages [low, high) are left; `ready` are the last ones of them, one for each record: (queue offset,
    physical offset, size).

    Bytes [memory_begin, memory_end) of the log have been asked for.
    """

    queue_id: int
    low: int
    high: int
    ready: list[tuple[int, int, int]] = field(default_factory=list)
    memory_begin: int = 0
    memory_end: int = 0

    def read(self, queue: QueuePlaces) -> None:
        """Makes the next messages ready, if there are any left."""
        begin = max(self.low, queue.first_of(self.high - _BLOCK_UNITS))
        at, last = begin, -1
        while at < self.high:
            units = queue.read(at, self.high - at)
            if not units:
                at = max(at + 1, queue.resume_offset(at))
                continue
            for number, (physical, size, _) in enumerate(UNIT.iter_unpack(units)):
                if RECORD_OVERHEAD_BYTES <= size < FILLER_SIZE and physical >= 0 and physical != last:
                    self.ready.append((at + number, physical, size))
                    last = physical
            at += len(units) // UNIT_BYTES
        self.high = begin

    def ask_for(self, log: CommitLog) -> None:
        """Brings the records that are ready into memory at once, if they lie close together."""
        begin, end = self.ready[0][1], self.ready[-1][1] + self.ready[-1][2]
        if 0 < end - begin <= max(_SPAN_BYTES, 2 * sum(size for _, _, size in self.ready)):
            with suppress(OffsetOutOfRange, OSError):  # then each record is asked for alone
                log.read(begin, end)
                self.memory_begin, self.memory_end = begin, end

    def record(self, log: CommitLog, physical: int, size: int) -> bytes:
        """Its bytes. Raises OffsetOutOfRange, OSError."""
        end = physical + size
        is_in_memory = self.memory_begin <= physical and end <= self.memory_end
        return bytes(log.view(physical, end) if is_in_memory else log.read(physical, end))


class BackwardReader:
    """Reads one store."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueEngine,
        reader: QueueReader,
        *,
        confirmation: Confirmation,
        quarantine: Quarantine,
    ) -> None:
        self._log = log
        self._queues = queues
        self._reader = reader
        self._confirmation = confirmation
        self._quarantine = quarantine

    def page(self, query: StoreQuery, queue_ids: Iterable[int], has_time: Callable[[], bool]) -> Page:
        """The next page of a query without a key, of these queues. It looks at one record at least, then while `has_time`.

        Raises SystemFault if files of a queue expired at every attempt.
        """
        page = Page(query, query.start)
        walks = [_Walk(queue_id, 0, NO_END) for queue_id in queue_ids]
        heads: list[tuple[int, int]] = []  # (- physical offset of the last message that is ready, which walk)
        for number, walk in enumerate(walks):
            self._read(walk, query)
            if walk.ready:
                heads.append((-walk.ready[-1][1], number))
        heapq.heapify(heads)
        while heads:
            negative, number = heads[0]
            walk = walks[number]
            found = self._accepted(walk, page)
            if found and not page.has_room(found):
                return page
            page.add(found)
            page.place = LogPlace(-negative)
            page.examined += 1
            walk.ready.pop()
            if not walk.ready:
                self._read(walk, query)
            if walk.ready:
                heapq.heapreplace(heads, (-walk.ready[-1][1], number))
            else:
                heapq.heappop(heads)
            if heads and (page.is_full or not has_time()):
                return page
        page.place = LogPlace.end()
        return page

    def _read(self, walk: _Walk, query: StoreQuery) -> None:
        """Makes the next messages of a walk ready, if any are left; the first time, those below the query's bounds."""
        low, high = walk.low, walk.high
        for _ in range(_TRIES_MAX):
            try:
                with self._queues.private(query.topic, walk.queue_id) as queue:
                    if queue is None:
                        walk.high = walk.low
                        return
                    if walk.high == NO_END:
                        walk.low, walk.high = self._bounds(queue, query)
                    while walk.low < walk.high and not walk.ready:
                        walk.read(queue)
                    if self._queues.begins_at(query.topic, walk.queue_id, queue.first_offset):
                        if walk.ready:
                            walk.ask_for(self._log)
                        return
            except (FileNotFoundError, OffsetOutOfRange):
                pass
            walk.ready, walk.low, walk.high = [], low, high  # what was read may be of another queue
        raise SystemFault(f"files of {query.topic} queue {walk.queue_id} expire as fast as they are searched")

    def _bounds(self, queue: QueuePlaces, query: StoreQuery) -> tuple[int, int]:
        """From the query's place, times and queue offsets down."""
        low = int(queue.min_offset(self._log.begin))
        high = min(self._confirmation.next_offset(queue), query.queue_end)
        if query.start.below < NO_END:
            high = min(high, queue.min_offset(PhysicalOffset(query.start.below)))
        elif query.end_ms < NO_END:
            high = min(high, self._reader.by_time(queue, query.end_ms + 1, upper=False))
        if query.begin_ms > 0:
            low = max(low, self._reader.by_time(queue, query.begin_ms, upper=False))
        return max(low, query.queue_begin), high

    def _accepted(self, walk: _Walk, page: Page) -> list[bytes]:
        """The messages of a walk's last ready record that the query accepts; none as well if it has expired or is damaged."""
        queue_offset, physical, size = walk.ready[-1]
        if self._quarantine.ranges and overlaps(self._quarantine.ranges, physical, physical + size):
            return []
        try:
            record = walk.record(self._log, physical, size)
        except (OffsetOutOfRange, OSError):
            return []
        if int.from_bytes(record[:4], "big") != size:
            return []
        page.reached_ms = store_timestamp_of(record)
        place = record[QUEUE_ID_AT : QUEUE_ID_AT + 4], record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8]
        first = queue_offset if not record[SYS_FLAG_AT + 3] & INNER_BATCH_BIT else min(queue_offset, _number(place[1]))
        if place != (walk.queue_id.to_bytes(4, "big"), first.to_bytes(8, "big")):
            return []
        return accepted_messages(record, page.query.accepts)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")
