"""Reads the log in chunks for a slave: whole records, never across a segment.

    segment | record | record | record | blank: 8 bytes, the rest is never read |
            ^ begin           ^ end of a chunk that had no room for more
                                       '-- the last chunk's bytes end after these 8; its end is the segment's

Bytes that this process wrote recently are sent as they are: they are still in memory, and their checksum was computed when
they were written. Older bytes are first compared with their checksum entries (`ChunkCheck`), so that rotten bytes are never
sent. The views pin their segment until they are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...model.errors import CorruptRecordError, OffsetOutOfRange, RemoteProtocolError
from ...model.queue import PhysicalOffset
from ...record.codes import BLANK_BYTES, RECORD_OVERHEAD_BYTES, RUN_BLANK
from ...record.kernel import whole_records
from ..integrity.log_check import LogChecker
from ..integrity.quarantine import Range, overlapping
from .commit_log import CommitLog
from .segment import page_in

TAIL_BYTES: Final = 16 * 1024 * 1024
"""Of the newest bytes that this process wrote: four times what a slave may be behind while it keeps up."""
FOLLOWED_BYTES: Final = 16 * 1024 * 1024
"""Of the records before a doubtful position, in one go: more than a kill leaves without entries, and about 20 ms."""
DOUBTS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class LogChunk:
    """`data`: the bytes from `begin` on. `end`: where the next chunk begins; beyond the data if that ends with a blank."""

    begin: PhysicalOffset
    end: PhysicalOffset
    data: memoryview


def read_chunk(
    log: CommitLog, begin: int, *, bytes_max: int, limit: int, quarantined: Sequence[Range] = ()
) -> LogChunk:
    """At most `bytes_max` from `begin` on, at least one record; nothing at or behind `limit`; empty if there is nothing.

    Records begin at `begin` and `limit`. Raises OffsetOutOfRange (behind retention, or above the end),
    CorruptRecordError if the log is damaged at `begin`; what is before damage is returned.
    """
    written = log.written
    segments = log.segments()
    first = segments[0].base_offset if segments else log.begin
    if not first <= begin <= written:
        raise OffsetOutOfRange("commit log", begin, first, written)
    index = (begin - first) // log.segment_bytes
    damaged = next(iter(overlapping(quarantined, begin, written)), (written, written))
    if damaged[0] <= begin < damaged[1]:
        raise CorruptRecordError(begin, damaged[1] - begin, "quarantined")
    stop = min(written, limit, damaged[0])
    if stop <= begin or index >= len(segments):
        return LogChunk(PhysicalOffset(begin), PhysicalOffset(begin), memoryview(b""))
    segment = segments[index]
    whole = segment.map
    if len(whole) != segment.size_bytes:  # released since
        raise OffsetOutOfRange("commit log", begin, log.begin, written)
    base = segment.base_offset
    at = begin - base
    if stop >= segment.end_offset or stop - begin > bytes_max:
        if not _is_given(whole, at, at + bytes_max):
            raise CorruptRecordError(begin, stop - begin, "the disk cannot read it")
        end, size = _records_end(whole, base, at, min(stop - base, segment.size_bytes), at + bytes_max)
    else:
        end, size = stop, stop - begin
    return LogChunk(PhysicalOffset(begin), PhysicalOffset(end), whole[at : at + size])


class ChunkCheck:
    """Compares chunks with the log's checksums. Loop thread. `fresh_from`: this process wrote everything behind it.

    An append shared by several chunks is read once: `_whole` is what the last checks found undamaged. A slave
    names the begin of a chunk. Without entries, damage found from there counts only if the records before it lead to that
    position: otherwise a slave could have whole messages quarantined, by asking for the log from their middle on.
    """

    def __init__(self, log: CommitLog, checker: LogChecker, *, fresh_from: int) -> None:
        self._log = log
        self._checker = checker
        self._fresh_from = fresh_from
        self._whole: Range = (0, 0)
        self._led_to: dict[int, int] = {}  # {doubtful position: how far the records before it were followed}

    def damage(self, begin: int, end: int, *, is_doubted: bool = False) -> tuple[Range, ...]:
        """Damaged ranges of the appends in [begin, end), which is in one segment; none if all is undamaged.

        They may be outside: then no checksum confirms what is inside. `is_doubted`: it could not be cut into records, and is
        checked, however recently it was written.

        Raises RemoteProtocolError if `begin` is inside a record; CorruptRecordError if that is not known yet: ask again.
        """
        written = self._log.written
        if is_doubted:
            self._whole = (0, 0)
        at, stop = begin, end if is_doubted else min(end, max(self._fresh_from, written - TAIL_BYTES))
        while at < stop:
            low, high = self._whole
            if low <= at < high:
                at = high
                continue
            checked = self._checker.check(self._log.read, at, bytes_max=end - at, limit=written)
            if checked.damaged:
                return self._damage_before(at) or checked.damaged
            self._whole = (low if high == at else at, checked.end)
            at = checked.end
        return ()

    def _damage_before(self, at: int) -> tuple[Range, ...]:
        """Follows the records from the last known position before `at`: no damage if they lead there, otherwise the damage in
        between. Raises like `damage`; reads at most FOLLOWED_BYTES."""
        check, read, written = self._checker.check, self._log.read, self._log.written
        reached = self._led_to.pop(at, None) or self._checker.ground_before(at)
        limit = min(at, reached + FOLLOWED_BYTES)
        while reached < limit:
            checked = check(read, reached, bytes_max=limit - reached, limit=at)
            damaged, reached = checked.damaged, checked.end
            if damaged and damaged[-1][1] == at:  # or a record that goes on behind
                reached = damaged[-1][0]
                last = check(read, reached, bytes_max=1, limit=written).damaged
                damaged = (*damaged[:-1], *last)
                if not damaged:
                    raise RemoteProtocolError(f"a slave asks for the log from {at} on, where no record begins")
            if damaged:
                self._remember(at, reached)
                return damaged
        if reached < at:
            self._remember(at, reached)
            raise CorruptRecordError(at, 0, f"the records before it are checked only up to {reached} yet")
        if reached > at:  # a blank's filler
            raise RemoteProtocolError(f"a slave asks for the log from {at} on, where no record begins")
        return ()

    def _remember(self, at: int, reached: int) -> None:
        while len(self._led_to) >= DOUBTS_MAX:
            del self._led_to[next(iter(self._led_to))]
        self._led_to[at] = min(reached, at)

    def forget(self) -> None:
        """Bytes were repaired in place."""
        self._whole = (0, 0)
        self._led_to.clear()


def _is_given(whole: memoryview, begin: int, full: int) -> bool:
    """True if the records from position `begin` up to `full`, and the header of the next one, may be touched."""
    head = whole[begin : begin + RECORD_OVERHEAD_BYTES]
    if not page_in(head):
        return False
    first_end = begin + int.from_bytes(head[:4], "big")
    return page_in(whole[begin : max(full, first_end) + RECORD_OVERHEAD_BYTES])


def _records_end(whole: memoryview, base: int, begin: int, stop: int, full: int) -> tuple[int, int]:
    """(end of the chunk in the log, its number of bytes): records from position `begin` on, up to `full`."""
    at, followed_by = whole_records(whole, begin, stop, full)
    if followed_by == RUN_BLANK:
        return base + len(whole), at + BLANK_BYTES - begin
    if at == begin:
        raise CorruptRecordError(base + at, int.from_bytes(whole[at : at + 4], "big"), "size")
    return base + at, at - begin
