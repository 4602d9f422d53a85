"""Reading the log in the pieces in which it is sent to a slave: whole records, never across a segment.

    segment | record | record | record | blank: 8 bytes, the rest is never read |
            ^ begin           ^ end of a chunk that had no room for more
                                       '-- the last chunk's bytes end behind the blank's 8; its end is the segment's

Any thread. The views pin their segment until they are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..model.errors import CorruptRecordError, OffsetOutOfRange
from ..model.queue import PhysicalOffset
from .commit_log import CommitLog
from .queue_reader import Range
from .record_kernel import RUN_BLANK, whole_records

BLANK_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class LogChunk:
    """`data`: the bytes from `begin` on. `end`: where the next chunk begins; beyond the data where that ends with a blank."""

    begin: PhysicalOffset
    end: PhysicalOffset
    data: memoryview


def read_chunk(
    log: CommitLog, begin: int, *, bytes_max: int, limit: int, quarantined: Sequence[Range] = ()
) -> LogChunk:
    """At most `bytes_max` from `begin` on, one record at least; nothing at or behind `limit`; empty where nothing is.

    `begin` and `limit` are where records begin. Raises OffsetOutOfRange (behind retention, or above the end),
    CorruptRecordError where the log is damaged at `begin`; what lies before damage is given.
    """
    written = log.written
    segments = log.segments()
    first = segments[0].base_offset if segments else log.begin
    if not first <= begin <= written:
        raise OffsetOutOfRange("commit log", begin, first, written)
    index = (begin - first) // log.segment_bytes
    damaged = next(((low, high) for low, high in quarantined if begin < high), (written, written))
    if damaged[0] <= begin < damaged[1]:
        raise CorruptRecordError(begin, damaged[1] - begin, "quarantined")
    stop = min(written, limit, damaged[0])
    if stop <= begin or index >= len(segments):
        return LogChunk(PhysicalOffset(begin), PhysicalOffset(begin), memoryview(b""))
    segment = segments[index]
    whole = segment.map
    if len(whole) != segment.size_bytes:  # given up since
        raise OffsetOutOfRange("commit log", begin, log.begin, written)
    base = segment.base_offset
    at = begin - base
    if stop >= segment.end_offset or stop - begin > bytes_max:
        end, size = _records_end(whole, base, at, min(stop - base, segment.size_bytes), at + bytes_max)
    else:
        end, size = stop, stop - begin
    return LogChunk(PhysicalOffset(begin), PhysicalOffset(end), whole[at : at + size])


def _records_end(whole: memoryview, base: int, begin: int, stop: int, full: int) -> tuple[int, int]:
    """(where the chunk ends in the log, how many bytes it has): records from position `begin` on, up to `full`."""
    at, followed_by = whole_records(whole, begin, stop, full)
    if followed_by == RUN_BLANK:
        return base + len(whole), at + BLANK_BYTES - begin
    if at == begin:
        raise CorruptRecordError(base + at, int.from_bytes(whole[at : at + 4], "big"), "size")
    return base + at, at - begin
