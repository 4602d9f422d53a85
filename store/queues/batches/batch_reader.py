"""Reads a batch queue for a pull: whole batches, from the one on that holds the asked message. Loop thread.

The limits count messages and bytes, but one batch is always given. By tags, a batch passes if its record has one of them, or
none: then its messages may have any, and their reader tests each. Otherwise as queue_reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ....model.errors import OffsetOutOfRange
from ....model.get_status import GetStatus
from ....model.queue import PhysicalOffset
from ....record.codes import RECORD_OVERHEAD_BYTES
from ....record.kernel import is_record_of
from ...config import StoreConfig
from ...get_result import GetResult
from ...integrity.quarantine import Quarantine, overlaps
from ...log.commit_log import CommitLog
from ...log.known_pages import KnownPages
from ..queue_places import FILLER_SIZE, QueuePlaces
from .batch_queue import Batch, BatchQueue

_BATCHES_AT_ONCE: Final = 256


class BatchQueueReader:
    """Of one store."""

    def __init__(
        self, log: CommitLog, config: StoreConfig, pages: KnownPages, quarantine: Quarantine, *, hot_bytes: int
    ) -> None:
        self._log = log
        self._config = config
        self._pages = pages
        self._quarantine = quarantine
        self._hot_bytes = hot_bytes

    def read(
        self,
        queue: QueuePlaces,
        result: GetResult,
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...],
        confirm_offset: PhysicalOffset,
    ) -> GetResult:
        """Completes `result`, which says where the reader is."""
        assert isinstance(queue, BatchQueue)
        taken: list[Batch] = []
        units_left = self._config.pull_units_max
        while not taken and units_left > 0 and result.next_offset < result.max_offset:
            batches = queue.batches(result.next_offset, min(_BATCHES_AT_ONCE, units_left))
            if not batches:
                result.status = GetStatus.OFFSET_FOUND_NULL
                result.next_offset = queue.resume_offset(result.next_offset)
                break
            units_left -= len(batches)
            before = result.next_offset
            taken = self._take(queue, result, batches, max_messages, max_bytes, codes, confirm_offset)
            if result.next_offset == before or result.status == GetStatus.MESSAGES_LOST:
                break
        if taken:
            self._show(queue, result, taken)
        return result

    def _take(
        self,
        queue: BatchQueue,
        result: GetResult,
        batches: Sequence[Batch],
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...],
        confirm_offset: PhysicalOffset,
    ) -> list[Batch]:
        """The batches for this answer; `result` goes on behind what was looked at."""
        messages_max = min(max_messages, self._config.pull_messages_max)
        bytes_max = min(max_bytes, self._config.pull_bytes_max)
        if confirm_offset - batches[0].physical > self._hot_bytes:
            result.is_cold = True
            bytes_max = min(bytes_max, self._config.pull_cold_bytes_max)
        taken: list[Batch] = []
        size_bytes = 0
        for batch in batches:
            if batch.begin > result.next_offset:
                if not taken:
                    self._note_lost(queue, result, batch.begin)
                return taken
            if batch.size == FILLER_SIZE:
                result.next_offset = batch.end
                continue
            if not self._names_record(batch):
                result.misplaced = None if taken else result.next_offset
                return taken
            if overlaps(self._quarantine.ranges, batch.physical, batch.physical + batch.size):
                if not taken:
                    self._note_lost(queue, result, batch.end, batch)
                return taken
            if batch.physical + batch.size > confirm_offset:
                return taken
            if codes and batch.code and batch.code not in codes:
                result.next_offset = batch.end
                continue
            count = batch.end - result.next_offset
            if taken and (result.count + count > messages_max or size_bytes + batch.size > bytes_max):
                return taken
            taken.append(batch)
            size_bytes += batch.size
            result.count += count
            result.next_offset = batch.end
        return taken

    def _names_record(self, batch: Batch) -> bool:
        return (
            batch.size >= RECORD_OVERHEAD_BYTES
            and self._log.begin <= batch.physical
            and batch.physical + batch.size <= self._log.written
        )

    def _note_lost(self, queue: BatchQueue, result: GetResult, behind: int, batch: Batch | None = None) -> None:
        """The messages [next_offset, behind) are in a quarantined batch, or in a gap."""
        if batch is None:
            begin, end = queue.places_beside(result.next_offset, self._log.begin, self._log.written)
        else:
            begin, end = batch.physical, batch.physical + batch.size
        if self._quarantine.is_awaited(begin, end):
            result.status = GetStatus.OFFSET_OVERFLOW_ONE
            return
        touched = self._quarantine.ranges_in(begin, end)
        result.status = GetStatus.MESSAGES_LOST
        result.lost_from, result.next_offset = result.next_offset, behind
        result.lost = (touched[0][0], touched[-1][1]) if touched else (begin, end)

    def _show(self, queue: BatchQueue, result: GetResult, taken: Sequence[Batch]) -> None:
        """Adds the records to `result`, as far as the units name their own."""
        places: list[tuple[int, int]] = []
        for batch in taken:
            end = batch.physical + batch.size
            if places and places[-1][1] == batch.physical and batch.physical % self._log.segment_bytes:
                places[-1] = places[-1][0], end
            else:
                places.append((batch.physical, end))
        is_touched = not result.is_cold and (taken[0].physical >= self._log.fresh_from or self._pages.hold(places))
        if not result.is_cold and not is_touched:
            result.untouched = tuple(places)
        find = partial(_find_misplaced, self._log, queue.topic.encode(), queue.queue_id, tuple(taken))
        misplaced = find() if is_touched else None
        if misplaced is not None:
            result.count, result.next_offset, result.misplaced = 0, taken[0].begin, misplaced
            return
        try:
            result.slices = [self._log.view(begin, end) for begin, end in places]
        except OffsetOutOfRange:
            result.count, result.next_offset, result.misplaced = 0, taken[0].begin, taken[0].begin
            return
        if not is_touched:
            result.find_misplaced = find
        result.status = GetStatus.FOUND


def _find_misplaced(log: CommitLog, topic: bytes, queue_id: int, batches: Sequence[Batch]) -> int | None:
    """The queue offset of the first batch whose record is not its own; None if all are right. Touches the records."""
    for batch in batches:
        try:
            record = log.view(batch.physical, batch.physical + batch.size)
        except OffsetOutOfRange:  # before the log, or across two segments
            return batch.begin
        if not is_record_of(record, batch.physical, topic, queue_id, batch.begin):
            return batch.begin
    return None
