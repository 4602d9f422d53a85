"""What a start finds out: where the log ends, what in it is damaged, and what follows from it once more.

After a clean stop the end is where the last stop said. After any other, the log is read from the checkpoint on (never
from its beginning, so a restart takes as long whatever its size):

- an append whose checksum entry matches is valid whatever it holds; without an entry, or where it does not match, each
  record is judged by its structure, its position and its body's checksum;
- a blank ends its segment where its entry says so, where only the process was killed, or where something valid follows;
- bytes that are no record, with nothing valid behind them, are a *torn tail*: the log ends before them. So is the last
  record where no entry vouches for it and the bytes behind it are not those of an append that came to its end;
- the same with something valid behind them is *damage*: the range is quarantined, never cut.

Something valid is looked for by the checksum entries behind, in the next `resync_bytes`, and at the next segment's
start. Then the records from the lowest `reflected` on are told to the dispatchers again.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..model.queue import PhysicalOffset, QueueOffset
from .checksum_log import ChecksumEntry, crc32
from .commit_log import CommitLog, may_follow_append
from .dispatch import Dispatcher, Run
from .record_kernel import MAGIC_BLANK, RUN_BLANK, RUN_END, RUN_MORE, UNIT_BYTES, RunKernel, decode_record
from .segment import Segment

logger = logging.getLogger(__name__)

Range = tuple[int, int]

REPLAY_COUNT_MAX: Final = 8192  # records told at once
_MAGIC_HEAD: Final = b"\xda\xa3\x20"  # both record magics begin with it
_MAGIC_TAILS: Final = (b"\xa7", b"\xab")
_PROGRESS_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Survey:
    """`end`: behind the last valid record or blank. `damaged`: ranges before it that hold no valid record, ascending."""

    end: PhysicalOffset
    damaged: tuple[Range, ...] = ()


class LogSurvey:
    """Reads the log from one position to its end. Used once, before the log is started."""

    def __init__(
        self,
        log: CommitLog,
        kernel: RunKernel,
        *,
        check_body_crc: bool,
        resync_bytes: int,
        written_in_order: bool = False,
    ) -> None:
        """`written_in_order`: only the process was killed, so that the kernel has all it wrote, up to some byte."""
        self._log = log
        self._written_in_order = written_in_order
        self._kernel = kernel
        self._check_body_crc = check_body_crc
        self._resync_bytes = resync_bytes
        self._entries: dict[int, ChecksumEntry] = {}
        self._offsets: list[int] = []  # of the entries, ascending
        self._unvouched: int | None = None  # where the record before the current position begins, if no entry vouches

    def run(self, begin: int, flushed: int = 0) -> Survey:
        """`begin` must be where a record, a blank or nothing begins. What lies below `flushed` was on the disk, so it is
        damaged, not torn, where it is not valid; a record begins or the log ended there."""
        segments = self._log.segments()
        self._entries = {entry.offset: entry for entry in self._log.checksums.entries(begin, self._log.written)}
        self._offsets = sorted(self._entries)
        damaged: list[Range] = []
        at = end = begin
        while at < self._log.written:
            segment = _segment_at(segments, at)
            at, status, mismatched = self._valid_until(segment, at)
            following = segment.end_offset
            if at == following or (
                status == RUN_BLANK
                and (self._blank_counts(segment, at) or self._valid_from(segments, following) is not None)
            ):
                end = at = following
                continue
            found = self._after_damage(segments, at, status, mismatched, flushed)
            if found is None and at < flushed <= self._log.written:
                found = flushed
            if found is None:
                end = self._without_torn(segment, at) if mismatched is None else mismatched.offset
                break
            damaged.append((at, found))
            end = at = found
        return Survey(PhysicalOffset(end), tuple(damaged))

    def _blank_counts(self, segment: Segment, at: int) -> bool:
        """Whether the segment ends with this blank though nothing is behind it: a slave may have said that it has it."""
        if int.from_bytes(segment.map[at - segment.base_offset : at - segment.base_offset + 4], "big") != (
            segment.end_offset - at
        ):
            return False
        entry = self._entries.get(at)
        return self._written_in_order or (entry is not None and self._matches(entry))

    def _valid_until(self, segment: Segment, at: int) -> tuple[int, int, ChecksumEntry | None]:
        """(where valid records end, why there: a RUN_ status of the kernel, the entry that did not match there)."""
        while at < segment.end_offset:
            entry = self._entries.get(at)
            if entry is not None and self._matches(entry):
                if _is_blank(self._log, at):
                    return at, RUN_BLANK, None
                at = entry.end
                self._unvouched = None
                continue
            limit = entry.end if entry is not None else self._next_entry(at, segment.end_offset)
            stop, status = self._scan(segment, at, limit)
            if entry is not None and stop == limit:
                return at, RUN_MORE, entry  # each record looks well, but together they are not what was written
            if stop < limit:
                return stop, status, entry
            at = stop
        return at, RUN_END, None

    def _after_damage(
        self, segments: Sequence[Segment], at: int, status: int, mismatched: ChecksumEntry | None, flushed: int
    ) -> int | None:
        """Where something valid begins behind `at`; None where nothing does, or where only a part of the last append
        does: that is torn as a whole, since nothing says which of its pages reached the disk."""
        if mismatched is None:
            return self._next_valid(segments, at)
        if mismatched.end > flushed and self._valid_from(segments, mismatched.end) is None:
            return None
        return mismatched.end if status == RUN_MORE else self._next_valid(segments, at)

    def _valid_from(self, segments: Sequence[Segment], at: int) -> int | None:
        """The first position at `at` or behind it where something valid begins."""
        if at < self._log.written:
            entry = self._entries.get(at)
            if (entry is not None and self._matches(entry)) or self._is_valid_at(_segment_at(segments, at), at):
                return at
        return self._next_valid(segments, at)

    def _next_entry(self, after: int, limit: int) -> int:
        index = bisect_right(self._offsets, after)
        return min(self._offsets[index], limit) if index < len(self._offsets) else limit

    def _matches(self, entry: ChecksumEntry) -> bool:
        return crc32(self._log.view(entry.offset, entry.end)) == entry.crc

    def _scan(self, segment: Segment, at: int, limit: int) -> tuple[int, int]:
        """Records one by one from `at` to `limit`, or to where the next entry vouches for what follows."""
        kernel, base = self._kernel, segment.base_offset
        status = RUN_MORE
        while at < limit and status == RUN_MORE:
            kernel.clear()
            kernel.scan(segment.map, at - base, limit - base, at, self._check_body_crc, REPLAY_COUNT_MAX)
            at, status = base + kernel.end, kernel.status
            if kernel.count:
                last_unit = kernel.units_end - UNIT_BYTES
                self._unvouched = int.from_bytes(kernel.units[last_unit : last_unit + 8], "big")
        return at, status

    def _without_torn(self, segment: Segment, end: int) -> int:
        """The end without a last record that looks whole only because nothing covers its properties."""
        begin = self._unvouched
        if begin is None or not segment.base_offset <= begin < end:
            return end
        at = end - segment.base_offset
        last = decode_record(bytes(segment.map[begin - segment.base_offset : at]))
        is_whole = may_follow_append(segment.map, at) and 0 not in last.properties_as_stored
        return end if is_whole else begin

    def _next_valid(self, segments: Sequence[Segment], after: int) -> int | None:
        """The first position behind `after` where something valid begins, None where nothing does."""
        behind = self._offsets[bisect_right(self._offsets, after) :]
        vouched = next((offset for offset in behind if self._matches(self._entries[offset])), None)
        if after >= self._log.written:
            return vouched
        segment = _segment_at(segments, after)
        limit = min(
            after + self._resync_bytes, segment.end_offset, vouched if vouched is not None else segment.end_offset
        )
        near = self._resync(segment, after + 1, limit)
        if near is not None:
            return near
        if vouched is not None and vouched < segment.end_offset:
            return vouched
        following = segment.end_offset
        return following if self._is_record(segments, following) else vouched

    def _resync(self, segment: Segment, begin: int, limit: int) -> int | None:
        """The first position in [begin, limit) where a valid record begins; found by the magic at its byte 4."""
        base = segment.base_offset
        data = bytes(segment.map[begin - base : min(limit - base + 8, segment.size_bytes)])
        at = data.find(_MAGIC_HEAD)
        while at >= 0:
            position = begin + at - 4
            is_magic = at >= 4 and position < limit and data[at + 3 : at + 4] in _MAGIC_TAILS
            if is_magic and self._is_valid_at(segment, position):
                return position
            at = data.find(_MAGIC_HEAD, at + 1)
        return None

    def _is_valid_at(self, segment: Segment, position: int) -> bool:
        at = position - segment.base_offset
        if int.from_bytes(segment.map[at + 28 : at + 36], "big") != position:
            return False
        self._kernel.clear()
        return bool(self._kernel.scan(segment.map, at, segment.size_bytes, position, True, 1) == 1)

    def _is_record(self, segments: Sequence[Segment], offset: int) -> bool:
        """Whether a segment begins at `offset` and its first record is valid."""
        segment = next((segment for segment in segments if segment.base_offset == offset), None)
        return segment is not None and self._is_valid_at(segment, offset)


def _segment_at(segments: Sequence[Segment], offset: int) -> Segment:
    return segments[(offset - segments[0].base_offset) // segments[0].size_bytes]


def _is_blank(log: CommitLog, at: int) -> bool:
    return int.from_bytes(log.view(at + 4, at + 8), "big") == MAGIC_BLANK


def first_store_time(segment: Segment, kernel: RunKernel) -> int | None:
    """When the first record of a segment was stored, ms; None where none begins there."""
    kernel.clear()
    if kernel.scan(segment.map, 0, segment.size_bytes, segment.base_offset, False, 1) == 0:
        return None
    return int(kernel.store_timestamp_ms)


def newest_segment_before(log: CommitLog, kernel: RunKernel, timestamp_ms: int) -> PhysicalOffset:
    """Where RocketMQ's own recovery begins: the newest segment whose first record is not younger; else the log's begin."""
    for segment in reversed(log.segments()):
        stored_ms = first_store_time(segment, kernel)
        if stored_ms is not None and stored_ms <= timestamp_ms:
            return PhysicalOffset(segment.base_offset)
    return log.begin


def walk(log: CommitLog, kernel: RunKernel, begin: int, end: int, quarantined: Sequence[Range]) -> Iterator[Run]:
    """The runs of records in [begin, end) of a surveyed log, in order; quarantined ranges are passed over.

    Views of a run are valid until the next one. Where the log turns out to be damaged, the rest of its segment is left
    out with a warning: an online check (`store verify`) names such places.
    """
    at = begin
    while at < end:
        segment = _segment_at(log.segments(), at)
        skipped = next((high for low, high in quarantined if low <= at < high), None)
        if skipped is not None:
            at = skipped
            continue
        limit = min([end, segment.end_offset, *(low for low, _ in quarantined if low > at)])
        base = segment.base_offset
        kernel.clear()
        count = kernel.scan(segment.map, at - base, limit - base, at, False, REPLAY_COUNT_MAX)
        if count:
            stop = base + kernel.end
            yield _run_of(kernel, segment, at, stop)
            at = stop
        elif kernel.status == RUN_BLANK or limit - at < 8:
            at = limit
        elif kernel.status == RUN_MORE:
            raise AssertionError("a scan that finds nothing says why")
        else:
            logger.error("no record where one should be offset=%s status=%s", at, kernel.status)
            at = limit


def _run_of(kernel: RunKernel, segment: Segment, begin: int, end: int) -> Run:
    base = segment.base_offset
    return Run(
        topic=kernel.topic.decode("utf-8", "replace"),
        queue_id=kernel.queue_id,
        queue_offset=QueueOffset(kernel.queue_offset),
        count=kernel.count,
        begin=PhysicalOffset(begin),
        end=PhysicalOffset(end),
        store_timestamp_ms=kernel.store_timestamp_ms,
        units=memoryview(kernel.units)[: kernel.units_end],
        hashes=kernel.hashes,
        key_offsets=kernel.key_offsets,
        keys_begin=0,
        keys_end=kernel.keys_end,
        records=segment.map[begin - base : end - base],
        sys_flag=kernel.sys_flag,
    )


def replay(
    log: CommitLog,
    kernel: RunKernel,
    dispatchers: Sequence[Dispatcher],
    quarantined: Sequence[Range],
) -> int:
    """Tells each dispatcher the records from its `reflected` on, all in the order of the log; returns how many were read."""
    reflected = [int(dispatcher.reflected()) for dispatcher in dispatchers]
    begin = max(min([*reflected, log.written]), log.begin)
    count, reported = 0, begin
    for run in walk(log, kernel, begin, log.written, quarantined):
        for dispatcher, held in zip(dispatchers, reflected, strict=True):
            if run.end > held:
                dispatcher.on_run(run)
        count += run.count
        if run.end - reported >= _PROGRESS_BYTES:
            reported = run.end
            logger.info("replaying offset=%s of=%s", run.end, log.written)
    return count
