"""Recovery at a start: finds the end of the log and its damage, and replays the records that dispatchers lack.

After a clean stop the end is the recorded one. After any other, the log is read from the checkpoint on (never
from its beginning, so a restart takes the same time for any size):

- an append whose checksum entry matches is valid, whatever it holds; without an entry, or if it does not match, each
  record is judged by its structure, its position and its body's checksum;
- if only the process was killed, a record that a queue's unit names is not torn. If it was never flushed and only its
  body's checksum is wrong, its producer sent it so: it is kept, and gets an entry that covers it from now on;
- after a power failure the log ends with its entries, if none is known to be missing and RocketMQ, which writes none, was not
  the last writer: entries are on the disk before their appends are acknowledged. Behind them may be anything that
  a recycled segment holds;
- a blank ends its segment if its entry says so, if only the process was killed, or if something valid follows;
- bytes that are no record, with nothing behind them that is known to belong to the log, are a *torn tail*: the log ends
  before them. So is the last record if neither an entry nor, after a kill, a queue's unit confirms it and the bytes
  behind it are not those of a completed append;
- the same bytes before something that is known to belong to the log are *damage*: the range is quarantined, never cut.

Known to belong to the log is: an append whose entry matches, if the checkpoint says that the disk had the log; and,
if only the process was killed, a record that a consume queue's unit names at exactly this place (queue_witness). Bytes
that merely look like a record are not: a producer may put whole records into a body, and a recycled segment holds such
bodies at positions that the producer can foresee. So recovery never searches damage for the next bytes that look valid.
Damage ends at the next known position. It ends earlier only if everything up to there was certainly written, at the end of
a record whose header is undamaged. If entries are missing and the queues are gone too, one damaged header costs the rest of
its segment: `zenit store verify` reads what is there.

A page that the disk cannot read is requested before it is touched (log_pages): it is damage like any other.

Then the records from the lowest `reflected` on are dispatched again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...model.errors import CorruptRecordError, InvalidName
from ...model.names import check_topic
from ...model.queue import PhysicalOffset, QueueOffset
from ...record.codes import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_OVERHEAD_BYTES,
    RUN_BLANK,
    RUN_END,
    RUN_MORE,
    UNIT_BYTES,
)
from ...record.crc32 import crc32
from ...record.kernel import RunKernel, StoredMessage, decode_record
from ..checksum.checksum_entry import ChecksumEntry
from ..checksum.checksum_table import ChecksumTable
from ..log.commit_log import CommitLog, may_follow_append
from ..log.log_pages import HEADER_BYTES, LogPages, is_record_readable
from ..log.segment import Segment
from ..opening.store_files import AbortMark
from ..queues.dispatch import Dispatcher, Run
from ..queues.queue_witness import QueueWitness
from .log_check import magics
from .quarantine import Range, overlapping

logger = logging.getLogger(__name__)

SCAN_BYTES: Final = 8 << 20  # of the log examined in one go
REPLAY_COUNT_MAX: Final = 8192  # records dispatched at once
_PROGRESS_BYTES: Final = 1 << 30
_SEARCH_BYTES: Final = 64 << 10  # searched for a magic at once


class LastStop(Enum):
    """How the last process ended, which limits what the log's files may hold."""

    CLEAN = "clean"  # all that was ever written is there
    KILLED = "killed"  # the kernel has everything written up to some byte, in order
    POWER_LOST = "power lost"  # any unflushed page may be on the disk or not

    @classmethod
    def of(cls, abort: AbortMark | None) -> LastStop:
        """The content of the last process's mark; None: there is none."""
        if abort is None:
            return cls.CLEAN
        return cls.KILLED if abort.same_boot else cls.POWER_LOST


@dataclass(frozen=True, slots=True)
class Survey:
    """`end`: behind the last valid record or blank. `damaged`: ranges before it without a valid record, ascending.
    `unmatched`: records that are kept though no entry covers them and their bodies do not match, ascending."""

    end: PhysicalOffset
    damaged: tuple[Range, ...] = ()
    unmatched: tuple[Range, ...] = ()


class LogSurvey:
    """Reads the log from one position to its end. Used once, before the log is started."""

    def __init__(
        self,
        log: CommitLog,
        kernel: RunKernel,
        *,
        check_body_crc: bool,
        last_stop: LastStop,
        is_ours: bool = False,
        witness: QueueWitness | None = None,
    ) -> None:
        """`is_ours`: what was flushed has entries, because we were the last writer. `witness`: the queues' units,
        if they exist."""
        self._log = log
        self._witness = witness
        self._last_stop = last_stop
        self._is_ours = is_ours
        self._kernel = kernel
        self._check_body_crc = check_body_crc
        self._flushed = 0
        self._pages = LogPages()
        self._entries = ChecksumTable(log.checksums, log.segment_bytes, log.written)
        self._unmatched: list[Range] = []
        self._unvouched: int | None = None  # where the record before the current position begins, if no entry covers it

    def run(self, begin: int, flushed: int = 0) -> Survey:
        """`begin` must be where a record, a blank or nothing begins. Bytes below `flushed` were on the disk, so they are
        damaged, not torn, if they are not valid; a record begins or the log ended there."""
        segments = self._log.segments()
        self._flushed = flushed
        damaged: list[Range] = []
        at = end = begin
        while at < self._log.written:
            segment = _segment_at(segments, at)
            at, status, mismatched = self._valid_until(segment, at)
            if at == segment.end_offset or (status == RUN_BLANK and self._blank_counts(segments, segment, at)):
                end = at = segment.end_offset
                continue
            found = self._damage(segments, at, status, mismatched)
            if found is None:
                end = self._without_torn(segment, at) if mismatched is None else mismatched.offset
                break
            damaged.append(found)
            self._unvouched = None
            end = at = found[1]
        return Survey(PhysicalOffset(end), tuple(damaged), tuple(found for found in self._unmatched if found[1] <= end))

    def _blank_counts(self, segments: Sequence[Segment], segment: Segment, at: int) -> bool:
        """True if the segment ends with this blank. If nothing is behind it, a slave may have acknowledged it."""
        if int.from_bytes(segment.map[at - segment.base_offset : at - segment.base_offset + 4], "big") != (
            segment.end_offset - at
        ):
            return False
        entry = self._entries.get(at)
        return (
            self._last_stop is not LastStop.POWER_LOST
            or (entry is not None and self._matches(entry))
            or self._is_record(segments, segment.end_offset)
            or self._known_behind(at) is not None
        )

    def _valid_until(self, segment: Segment, at: int) -> tuple[int, int, ChecksumEntry | None]:
        """(end of the valid records, why there: a RUN_ status of the kernel, the entry that did not match there)."""
        while at < segment.end_offset:
            entry = self._entry_at(at)
            if entry is not None and self._matches(entry):
                if _is_blank(self._log, at):
                    return at, RUN_BLANK, None
                at = entry.end
                self._unvouched = None
                continue
            if entry is None and self._was_never_flushed(at):
                return at, RUN_END, None
            limit = entry.end if entry is not None else self._next_entry(at, segment.end_offset)
            stop, status = self._scan(segment, at, limit)
            if entry is not None and stop == limit:
                return at, RUN_MORE, entry  # each record looks valid, but together they are not what was written
            if stop < limit:
                unmatched_end = self._unmatched_end(segment, stop, limit) if entry is None else None
                if unmatched_end is None:
                    return stop, status, entry
                self._unmatched.append((stop, unmatched_end))
                self._unvouched, stop = None, unmatched_end
            at = stop
        return at, RUN_END, None

    def _was_never_flushed(self, at: int) -> bool:
        """True if a power failure may have left anything from `at` on: what was flushed has entries, and they end here."""
        may_lack_pages = self._is_ours and self._last_stop is LastStop.POWER_LOST
        return may_lack_pages and at >= self._flushed and self._entries.end_at(at)

    def _unmatched_end(self, segment: Segment, at: int, limit: int) -> int | None:
        """The end of the record at `at`, if its producer sent it with a wrong CRC: a queue names it, so the killed process
        had written all of it, and the kernel has kept it. Flushed bytes may have rotted instead."""
        if self._last_stop is not LastStop.KILLED or at < self._flushed:
            return None
        end = self._end_of_record(at)
        if end is None or end > limit or not self._is_witnessed(segment, at):
            return None
        begin = at - segment.base_offset
        self._kernel.clear()
        is_whole = self._kernel.scan(segment.map, begin, end - segment.base_offset, at, False, 1) == 1
        return end if is_whole else None

    # ---- damage

    def _damage(
        self, segments: Sequence[Segment], at: int, status: int, mismatched: ChecksumEntry | None
    ) -> Range | None:
        """The damaged range around `at`; None if the log ends: a part of the last append is torn as a whole, since
        nothing says which of its pages reached the disk."""
        if mismatched is None and self._last_stop is not LastStop.POWER_LOST:
            witnessed = self._next_witnessed(segments, at)
            if witnessed is not None:
                return at, witnessed
        known = self._known_behind(at)
        was_written = self._last_stop is not LastStop.POWER_LOST or (known is not None and known <= self._flushed)
        if was_written:
            # an entry is noted once its append is written: what stands behind it is the next append's beginning
            if known is None and mismatched is not None and self._is_valid(segments, mismatched.end):
                known = mismatched.end
            near = mismatched.end if mismatched is not None and status == RUN_MORE else self._end_of_record(at)
            if near is not None and (near == known or (self._is_trusted(known) and self._is_valid(segments, near))):
                return at, near
            following = _segment_at(segments, at).end_offset
            if (
                self._is_trusted(known)
                and (known is None or following < known)
                and self._is_record(segments, following)
            ):
                return at, following
        if known is None:
            return None
        if was_written:
            return at, known
        # Lost pages: a record or an append that reaches into them is not what was written, though it may look valid.
        begin = self._without_torn(_segment_at(segments, at), at) if mismatched is None else mismatched.offset
        return max(begin, min(self._flushed, at)), known

    def _next_witnessed(self, segments: Sequence[Segment], at: int) -> int | None:
        """Where the log continues behind damage in the record at `at`: at the next valid record that a queue names
        there. If the header at `at` is undamaged, only records that a queue names may be between. None if nothing says so."""
        near = self._end_of_record(at)
        if near is None:
            return self._search_witnessed(segments, at)
        while near is not None and near < self._log.written:
            segment = _segment_at(segments, near)
            if near == segment.base_offset or not self._is_witnessed(segment, near):
                return None
            if self._is_valid(segments, near):
                return near
            near = self._end_of_record(near)
        return None

    def _search_witnessed(self, segments: Sequence[Segment], at: int) -> int | None:
        """The first such record behind a damaged header: in its segment, if the log was on the disk, before the next
        append with an entry. A producer can foresee its place, but cannot make a queue name it.
        """
        segment = _segment_at(segments, at)
        limit = self._next_entry(at, min(segment.end_offset, self._flushed))
        for begin in range(at + 1, limit, _SEARCH_BYTES):
            end = min(begin + _SEARCH_BYTES + HEADER_BYTES, limit)
            if not self._is_readable(begin, end):
                continue
            data = bytes(segment.map[begin - segment.base_offset : end - segment.base_offset])
            for found in magics(data, 0):
                is_here = int.from_bytes(data[found + 28 : found + 36], "big") == begin + found
                if is_here and self._is_witnessed(segment, begin + found) and self._is_valid(segments, begin + found):
                    return begin + found
        return None

    def _is_witnessed(self, segment: Segment, at: int) -> bool:
        """True if a queue names a record that begins here, by the queue and size in its header."""
        end = self._end_of_record(at)
        if self._witness is None or end is None or not self._is_readable(at, end):
            return False
        begin = at - segment.base_offset
        try:
            record = decode_record(bytes(segment.map[begin : begin + end - at]))
            return self._witness.names(
                record.topic, record.queue_id, record.queue_offset, physical_offset=at, size=end - at
            )
        except CorruptRecordError:
            return False

    def _is_trusted(self, known: int | None) -> bool:
        """True if the bytes behind damage belong to the log: a known position follows, or no process was stopped in a write."""
        return known is not None or self._last_stop is LastStop.CLEAN

    def _known_behind(self, after: int) -> int | None:
        """The first position behind `after` that is known to belong to the log; None if there is none."""
        vouched = next((int(entry.offset) for entry in self._entries.behind(after) if self._matches(entry)), None)
        if after < self._flushed <= self._log.written:
            return self._flushed if vouched is None else min(self._flushed, vouched)
        return vouched

    def _end_of_record(self, at: int) -> int | None:
        """The end of the record at `at`, if its header is undamaged; bytes inside it are no record, whatever they look like."""
        segment = _segment_at(self._log.segments(), at)
        begin = at - segment.base_offset
        if not self._is_readable(at, min(at + HEADER_BYTES, segment.end_offset)):
            return None
        size = int.from_bytes(segment.map[begin : begin + 4], "big")
        magic = int.from_bytes(segment.map[begin + 4 : begin + 8], "big")
        offset = int.from_bytes(segment.map[begin + 28 : begin + 36], "big")
        is_whole = magic in (MAGIC_V1, MAGIC_V2) and offset == at
        return at + size if is_whole and RECORD_OVERHEAD_BYTES <= size <= segment.size_bytes - begin else None

    def _without_torn(self, segment: Segment, end: int) -> int:
        """The end without a last record that looks whole only because nothing covers its properties."""
        begin = self._unvouched
        if self._last_stop is LastStop.CLEAN or begin is None or not segment.base_offset <= begin < end:
            return end
        if self._last_stop is LastStop.KILLED and self._is_witnessed(segment, begin):
            return end  # a unit came behind the whole of its append
        at = end - segment.base_offset
        last = decode_record(bytes(segment.map[begin - segment.base_offset : at]))
        is_known = self._is_readable(end, min(end + HEADER_BYTES, segment.end_offset))
        is_torn = self._may_lack_bytes(last) or (is_known and not may_follow_append(segment.map, at, end))
        return begin if is_torn else end

    def _may_lack_bytes(self, last: StoredMessage) -> bool:
        """True if the properties of the last record look as if part of them had not reached a file of zeros."""
        properties = last.properties_as_stored
        if self._last_stop is LastStop.KILLED:  # it wrote from the front
            return properties[-1:] == b"\0"
        return 0 in properties

    # ---- single positions

    def _entry_at(self, at: int) -> ChecksumEntry | None:
        entry = self._entries.get(at)
        return None if entry is None or self._is_void(entry) else entry

    def _next_entry(self, after: int, limit: int) -> int:
        following = next((entry for entry in self._entries.behind(after, limit) if not self._is_void(entry)), None)
        return limit if following is None else int(following.offset)

    def _is_void(self, entry: ChecksumEntry) -> bool:
        """True if the entry may have rotted, not its bytes. A power failure's torn tail looks like that too."""
        if not entry.is_loose or self._matches(entry):
            return False
        return self._last_stop is not LastStop.POWER_LOST or self._known_behind(entry.offset) is not None

    def _matches(self, entry: ChecksumEntry) -> bool:
        is_readable = self._is_readable(entry.offset, entry.end)
        return is_readable and crc32(self._log.view(entry.offset, entry.end)) == entry.crc

    def _is_readable(self, begin: int, end: int) -> bool:
        """True if the bytes [begin, end), which are in one segment, may be touched."""
        segment = _segment_at(self._log.segments(), begin)
        base = segment.base_offset
        return self._pages.readable_end(segment, begin - base, end - base) == end - base

    def _scan(self, segment: Segment, at: int, limit: int) -> tuple[int, int]:
        """Records one by one from `at` to `limit`, or to where the next entry covers what follows.

        Examines SCAN_BYTES at a time, so that no more pages are requested than the log needs: again if a part ended
        before a record, and the whole record if the first one is longer.
        """
        kernel, base = self._kernel, segment.base_offset
        status, window = RUN_MORE, SCAN_BYTES
        while at < limit:
            wanted = min(limit, at + window)
            stop = base + self._pages.readable_end(segment, at - base, wanted - base)
            if stop == at:
                return at, RUN_END
            kernel.clear()
            kernel.scan(segment.map, at - base, stop - base, at, self._check_body_crc, REPLAY_COUNT_MAX)
            begin, at, status = at, base + kernel.end, kernel.status
            if kernel.count:
                last_unit = kernel.units_end - UNIT_BYTES
                self._unvouched = int.from_bytes(kernel.units[last_unit : last_unit + 8], "big")
            if at > begin and (status == RUN_MORE or stop < limit):
                window = SCAN_BYTES
                continue
            record_end = self._end_of_record(at) if at < limit and stop == wanted else None
            if record_end is None or not stop < record_end <= limit:
                break
            window = record_end - at
        return at, status

    def _is_valid(self, segments: Sequence[Segment], at: int) -> bool:
        """True if an append with a matching entry, or a valid record, begins at `at`."""
        if at >= self._log.written:
            return False
        entry = self._entry_at(at)
        if entry is not None:
            return self._matches(entry)
        segment = _segment_at(segments, at)
        begin = at - segment.base_offset
        if not is_record_readable(segment, begin):
            return False
        self._kernel.clear()
        return bool(self._kernel.scan(segment.map, begin, segment.size_bytes, at, True, 1) == 1)

    def _is_record(self, segments: Sequence[Segment], offset: int) -> bool:
        """True if a segment begins at `offset` and its first record is valid."""
        return offset < self._log.written and self._is_valid(segments, offset)


def _segment_at(segments: Sequence[Segment], offset: int) -> Segment:
    return segments[(offset - segments[0].base_offset) // segments[0].size_bytes]


def _is_blank(log: CommitLog, at: int) -> bool:
    return int.from_bytes(log.view(at + 4, at + 8), "big") == MAGIC_BLANK


def first_store_time(segment: Segment, kernel: RunKernel) -> int | None:
    """The store time of the first record of a segment, ms; None if none begins there."""
    kernel.clear()
    if (
        not is_record_readable(segment, 0)
        or kernel.scan(segment.map, 0, segment.size_bytes, segment.base_offset, False, 1) == 0
    ):
        return None
    return int(kernel.store_timestamp_ms)


def newest_segment_before(log: CommitLog, kernel: RunKernel, timestamp_ms: int) -> PhysicalOffset:
    """Where RocketMQ's own recovery begins: the newest segment whose first record is not younger; otherwise the log's begin."""
    for segment in reversed(log.segments()):
        stored_ms = first_store_time(segment, kernel)
        if stored_ms is not None and stored_ms <= timestamp_ms:
            return PhysicalOffset(segment.base_offset)
    return log.begin


def walk(log: CommitLog, kernel: RunKernel, begin: int, end: int, quarantined: Sequence[Range]) -> Iterator[Run]:
    """The runs of records in [begin, end) of a surveyed log, in order; quarantined ranges are skipped.

    Views of a run are valid until the next one. If the log is damaged, the rest of its segment is left
    out with a warning; `store verify` names such places.
    """
    at = begin
    while at < end:
        segment = _segment_at(log.segments(), at)
        limit = min(end, segment.end_offset)
        damaged = next(iter(overlapping(quarantined, at, limit)), None)
        if damaged is not None and damaged[0] <= at:
            at = damaged[1]
            continue
        limit = limit if damaged is None else damaged[0]
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


def _names_a_queue(run: Run) -> bool:
    """True if topic and queue id may become a path. Only an entry covers them, and not every record has one."""
    try:
        check_topic(run.topic)
    except InvalidName:
        return False
    return run.queue_id >= 0


def replay(
    log: CommitLog,
    kernel: RunKernel,
    dispatchers: Sequence[Dispatcher],
    quarantined: Sequence[Range],
) -> int:
    """Dispatches the records from each dispatcher's `reflected` on, in the order of the log; returns how many were read."""
    reflected = [int(dispatcher.reflected()) for dispatcher in dispatchers]
    begin = max(min([*reflected, log.written]), log.begin)
    count, reported = 0, begin
    for run in walk(log, kernel, begin, log.written, quarantined):
        if not _names_a_queue(run):
            logger.error("a record names no queue, it is left out offset=%s", run.begin)
            continue
        for dispatcher, held in zip(dispatchers, reflected, strict=True):
            if run.end > held:
                dispatcher.on_run(run)
        count += run.count
        if run.end - reported >= _PROGRESS_BYTES:
            reported = run.end
            logger.info("replaying offset=%s of=%s", run.end, log.written)
    return count
