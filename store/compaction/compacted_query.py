"""Finds single messages in compacted files: by key, bounds or place, newest first. Any thread; it waits for the disk.

A page of a query that came to the begin of the log goes on here, below that place, in the same order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ...model.errors import CorruptRecordError
from ..query import NO_END, LogPlace, Page, StoreQuery
from .compacted_files import CompactedReader
from .compacted_queues import CompactedQueues, QueueKey
from .compacted_rows import CompactedRow, key_digest

_ROWS_AT_ONCE: Final = 512
_Found = tuple[int, CompactedRow, QueueKey]


class CompactedQuery:
    """Queries one store's compacted files."""

    def __init__(self, queues: CompactedQueues) -> None:
        self._queues = queues

    def go_on(self, page: Page, log_begin: int, queue_ids: Iterable[int], has_time: Callable[[], bool]) -> Page:
        """Continues a page that came to the begin of the log; others are left as they are. It looks at one record at least.

        Raises SystemFault, StoreFormatError, OSError.
        """
        query = page.query
        keys = [(query.topic, queue_id) for queue_id in queue_ids if (query.topic, queue_id) in self._queues.manifests]
        if not keys or page.place != LogPlace.end():
            return page
        below = min(query.start.below, log_begin)
        if page.records and (page.is_full or not has_time()):
            page.place = LogPlace(below)
            return page
        walks = [self._backwards(key, query, below) for key in keys]
        for negative, row, key in heapq.merge(*walks):
            record = self._record(key, row)
            if record is not None and query.accepts(record):
                if not page.has_room([record]):
                    return page
                page.add([record])
            page.place = LogPlace(-negative)
            page.examined += 1
            page.reached_ms = row.stored_ms
            if page.is_full or not has_time():
                return page
        page.place = LogPlace.end()
        return page

    def record_at(self, physical: int) -> bytes | None:
        """The record that was at this place of the log; None if no compacted file has it. Raises CorruptRecordError."""
        for key in list(self._queues.manifests):
            for row in self._placed(key, physical):
                return self._record(key, row)
        return None

    def _placed(self, key: QueueKey, physical: int) -> Iterator[CompactedRow]:
        for file in self._queues.open_files(key):
            at = file.first_placed_from(physical)
            if at < file.file.rows:
                row = file.row(at)
                if row.physical == physical:
                    yield row
                return

    def _backwards(self, key: QueueKey, query: StoreQuery, below: int) -> Iterator[_Found]:
        """(- physical offset, row, queue) of the rows below a place of the log that may match, newest first."""
        digest = b"" if not query.key or query.unique else key_digest(query.key, 0)
        for file in self._queues.open_files(key, is_backward=True):
            end = min(file.first_placed_from(below), file.first_from(min(query.queue_end, NO_END)))
            if query.end_ms < NO_END:
                end = min(end, file.first_stored_from(query.end_ms + 1))
            while end > 0:
                begin = max(0, end - _ROWS_AT_ONCE)
                for row in reversed(file.rows(begin, end)):
                    if row.offset < query.queue_begin or row.stored_ms < query.begin_ms:
                        return
                    if not digest or row.digest == digest:
                        yield -row.physical, row, key
                end = begin

    def _record(self, key: QueueKey, row: CompactedRow) -> bytes | None:
        """The record of a row; None if a merge has removed it, or it is damaged."""
        for reader, rows in self._queues.rows_from(key, row.offset, row.offset + 1, 1):
            return _first(reader, rows, key[1])
        return None


def _first(reader: CompactedReader, rows: list[CompactedRow], queue_id: int) -> bytes | None:
    try:
        return next(record for _, record in reader.records(rows, queue_id))
    except CorruptRecordError:
        return None
