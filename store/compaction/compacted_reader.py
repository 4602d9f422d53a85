"""Reads what the log no longer has of compacted queues: the newest record of each key, at its own queue offset.

Where a merge has removed records there are gaps: a read goes on at the next record. Every record is checked against its
row's checksum before it is handed out; one that is damaged is told as lost. It waits for the disk: any thread, but not the
loop's where that matters.
"""

from __future__ import annotations

from typing import Final

from ...model.errors import CorruptRecordError
from ...model.get_status import GetStatus
from ...model.properties import decode_properties
from ...record.kernel import decode_record
from ..get_result import GetResult, Search
from .compacted_queues import CompactedQueues, QueueKey
from .compacted_rows import CompactedRow

_LOWEST_HASH: Final = -0x80000000  # a tags code below it names a unit in RocketMQ's extension: it counts as a match
_ROWS_AT_ONCE: Final = 512


def read_compacted(
    queues: CompactedQueues,
    key: QueueKey,
    result: GetResult,
    *,
    below: int,
    max_messages: int,
    max_bytes: int,
    codes: tuple[int, ...] = (),
    search: Search | None = None,
    rows_max: int,
) -> None:
    """Continues `result` from its next offset: at most that many messages and bytes, at least one message, of at most
    `rows_max` rows examined. Where nothing is left below `below`, its next offset is that.

    Raises StoreFormatError if rows are damaged, SystemFault, OSError.
    """
    result.is_compacted = True
    left, room = rows_max, max_bytes
    for reader, rows in queues.rows_from(key, result.next_offset, below, min(_ROWS_AT_ONCE, rows_max)):
        wanted = [row for row in rows[:left] if _has_tag(row, codes)]
        examined, left = rows[:left], left - len(rows)
        try:
            for row, record in reader.records(wanted, key[1]):
                if search is not None and not _matches(record, search):
                    result.next_offset = row.offset + 1
                    continue
                if result.count and (result.count == max_messages or len(record) > room):
                    return
                result.slices.append(memoryview(record))
                result.count += 1
                result.status = GetStatus.FOUND
                result.next_offset = row.offset + 1
                room -= len(record)
        except CorruptRecordError as error:
            _tell_lost(result, error, wanted)
            return
        result.next_offset = examined[-1].offset + 1
        if left <= 0 or result.count == max_messages or room <= 0 or (search is not None and not search.has_time()):
            return
    result.next_offset = max(result.next_offset, below)


def _has_tag(row: CompactedRow, codes: tuple[int, ...]) -> bool:
    return not codes or row.code in codes or row.code < _LOWEST_HASH


def _matches(record: bytes, search: Search) -> bool:
    properties = decode_properties(decode_record(record).properties_as_stored)
    values = [properties.get(name.decode()) for name in search.condition.names]
    return search.condition.matches([None if value is None else value.encode() for value in values])


def _tell_lost(result: GetResult, error: CorruptRecordError, rows: list[CompactedRow]) -> None:
    """The messages before the damaged one are handed out first."""
    if result.count:
        return
    row = next(row for row in rows if row.offset >= result.next_offset)
    result.status = GetStatus.MESSAGES_LOST
    result.lost_from, result.next_offset = row.offset, row.offset + 1
    result.lost = (error.offset, error.offset + row.size)
