"""The log of a store that a broker may be writing to: limited reads, and a check of each file's name afterwards.

A running broker removes expired segments: it shortens them, or writes over them. Reading such a file through a map would end
the process, and its bytes look like damage. So the log is read by descriptors, and bytes count only if the segment still had
its name after the read: a segment loses its name before it is changed. Deleted segments are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ...model.errors import OffsetOutOfRange, StoreFormatError
from ...record.codes import RUN_BLANK
from ...record.kernel import RunKernel, StoredMessage, decode_batch
from ..checksum.checksum_entry import RottenEntry
from ..checksum.checksum_reader import ChecksumReader
from ..config import StoreConfig
from ..integrity.log_check import LogChecker
from ..integrity.quarantine import FACTS_FILE, Range, joined, overlaps
from ..integrity.queue_check import QueueChecker
from ..integrity.recovery import LastStop, LogSurvey
from ..integrity.scrub_reader import ScrubReader
from ..log.commit_log import CHECKSUM_FOLDER, COMMIT_LOG_FOLDER, CommitLog
from ..opening.checkpoint import Checkpoint, read_checkpoint
from ..opening.snapshot import read_snapshot
from ..opening.store_files import read_abort
from ..opening.store_opening import find_segment_bytes, has_commit_log, is_ours, scanning_kernel, survey_begin
from ..queues.engine_choice import open_source
from ..queues.queue_engine import WrongUnit
from ..upkeep import CHECKPOINT_FILE

READ_BYTES: Final = 8 << 20
_DECODED_AT_ONCE: Final = 1024
_TRIES: Final = 5

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class OfflineLog:
    """`end`: where the log ended when it was opened. `quarantined`: the damage that the broker knows."""

    directory: str
    log: CommitLog
    kernel: RunKernel
    checkpoint: Checkpoint
    clean: bool
    end: int
    quarantined: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings in the log from `begin` on, which is higher than before if retention has deleted files meanwhile.
    `units`: of
    queues, those that do not name their records. `entries`: of checksum files, those that match nothing. `unvouched_bytes`: the
    bytes read that no entry covers."""

    begin: int
    damaged: tuple[Range, ...] = ()
    units: tuple[WrongUnit, ...] = ()
    entries: frozenset[RottenEntry] = frozenset()
    unvouched_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """A damaged range of the log. `records`: those in it that are whole by their structure; their bytes cannot be trusted."""

    begin: int
    end: int
    reason: str
    records: tuple[StoredMessage, ...] = ()


@contextmanager
def open_log(directory: str, config: StoreConfig) -> Iterator[OfflineLog]:
    """Raises StoreFormatError if there is no store, or one that we cannot read; OSError."""
    if not has_commit_log(directory):
        raise StoreFormatError(directory, f"it is not a store: it has no {COMMIT_LOG_FOLDER} in it")
    log = log_beside(directory, config)
    try:
        kernel = scanning_kernel(config, log.segment_bytes)
        checkpoint = read_checkpoint(os.path.join(directory, CHECKPOINT_FILE))
        abort = read_abort(directory)
        clean = abort is None
        last_stop = LastStop.CLEAN if clean else LastStop.POWER_LOST
        survey = LogSurvey(
            log,
            kernel,
            check_body_crc=True,
            last_stop=last_stop,
            is_ours=is_ours(directory, abort, checkpoint),
        )
        end = survey.run(survey_begin(log, checkpoint, kernel, clean=clean), checkpoint.flushed_offset or 0).end
        facts = read_snapshot(os.path.join(directory, FACTS_FILE))
        ranges = [] if facts is None else facts.document.get("quarantined", [])
        quarantined = tuple((int(low), int(high)) for low, high in ranges)
        yield OfflineLog(directory, log, kernel, checkpoint, clean, end, quarantined)
    finally:
        log.close()


class _LogBeside(CommitLog):
    """Gives copies of its bytes: its segments may be shortened while they are read, and to touch a page that is gone ends the
    process. Raises OffsetOutOfRange where a segment has lost its name."""

    def view(self, begin: int, end: int) -> memoryview:
        """See CommitLog. Also raises OSError."""
        with ScrubReader(self, begin) as reader:
            try:
                data = reader.read(begin, end)
            except OSError as error:
                if reader.is_there():
                    raise
                raise OffsetOutOfRange("commit log", begin, self.begin, self.written) from error
            if not reader.is_there():
                raise OffsetOutOfRange("commit log", begin, self.begin, self.written)
        return memoryview(data)

    def read(self, begin: int, end: int) -> memoryview:
        """See CommitLog."""
        return self.view(begin, end)


def tried_again(work: Callable[[], _Result]) -> _Result:
    """A listed file may be gone before it is opened: then all begins anew. Raises FileNotFoundError after some tries."""
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            return work()
    return work()


def log_beside(directory: str, config: StoreConfig) -> CommitLog:
    """The log as its files are now; where it ends is not known. Whoever calls closes it. Raises StoreFormatError, OSError."""
    segment_bytes = find_segment_bytes(directory) or config.segment_bytes
    return tried_again(lambda: _LogBeside(directory, segment_bytes=segment_bytes))


def _nothing(_done: int, _total: int) -> None:
    """Nobody watches."""


def check_offline(store: OfflineLog, report: Callable[[int, int], None] = _nothing) -> Findings:
    """Checks every byte below `store.end`: the damage that `LogChecker` finds, besides the quarantined ranges; and the queues'
    units of undamaged records. `report`: told (bytes done, of how many). Raises OSError."""
    with open_source(store.directory) as source:
        return _check(store, QueueChecker(store.log, store.kernel, source), report)


def _check(store: OfflineLog, queues: QueueChecker, report: Callable[[int, int], None]) -> Findings:
    checksums = ChecksumReader(os.path.join(store.directory, CHECKSUM_FOLDER), store.log.segment_bytes)
    checker = LogChecker(store.kernel, checksums, store.log.segment_bytes)
    found = Findings(store.log.begin)
    at = int(store.log.begin)
    while at < store.end:
        try:
            with ScrubReader(store.log, at) as reader:
                checked = checker.check(reader.read, at, bytes_max=READ_BYTES, limit=store.end)
                damaged = joined((*store.quarantined, *checked.damaged))
                units = queues.check(reader.read, at, min(checked.end, store.end), damaged)
                is_there = reader.is_there()
        except OffsetOutOfRange:
            is_there = False
        if not is_there:
            at = min(at - at % store.log.segment_bytes + store.log.segment_bytes, store.end)
            found = Findings(at, tuple(damage for damage in found.damaged if damage[1] > at))
            continue
        new = [damage for damage in checked.damaged if not overlaps(store.quarantined, *damage)]
        found = replace(
            found,
            damaged=(*found.damaged, *new),
            units=(*found.units, *units),
            entries=found.entries.union(checked.rotten_entries),
            unvouched_bytes=found.unvouched_bytes + checked.read_bytes - checked.vouched_bytes,
        )
        at = checked.end
        report(at - store.log.begin, store.end - store.log.begin)
    # a broker beside us writes a unit a moment after its record
    return replace(found, units=tuple(unit for unit in found.units if queues.is_still_there(unit)))


def read_checked(
    store: OfflineLog, begin: int = 0, end: int | None = None
) -> Iterator[list[StoredMessage] | DamagedRange]:
    """The checked records of the log, some at a time, and between them, where it lies, each damaged range; in the order of the
    log. From the append on that holds `begin`, up to `end` (None = the end of the log). Raises OSError.
    """
    held: DamagedRange | None = None  # the next one may go on where it ends
    for piece in _checked_pieces(store, begin, store.end if end is None else min(end, store.end)):
        if (
            held is not None
            and isinstance(piece, DamagedRange)
            and (held.end, held.reason) == (piece.begin, piece.reason)
        ):
            held = replace(held, end=piece.end, records=(*held.records, *piece.records))
            continue
        if held is not None:
            yield held
            held = None
        if isinstance(piece, DamagedRange):
            held = piece
        else:
            yield piece
    if held is not None:
        yield held


def _checked_pieces(store: OfflineLog, begin: int, end: int) -> Iterator[list[StoredMessage] | DamagedRange]:
    checksums = ChecksumReader(os.path.join(store.directory, CHECKSUM_FOLDER), store.log.segment_bytes)
    checker = LogChecker(store.kernel, checksums, store.log.segment_bytes)
    for segment in store.log.segments():
        if segment.end_offset > begin and segment.base_offset < end:
            at = segment.base_offset if begin <= segment.base_offset else _append_at(checker, begin)
            try:
                with ScrubReader(store.log, segment.base_offset) as reader:
                    yield from _checked_in_segment(store, checker, reader, at, end)
            except OffsetOutOfRange:
                continue


def _append_at(checker: LogChecker, offset: int) -> int:
    """The begin of the append that holds `offset`, or a known begin before it."""
    ground = checker.ground_before(offset)
    return min([ground, *(int(entry.offset) for entry in checker.appends(ground, ground + 1))])


def _checked_in_segment(
    store: OfflineLog, checker: LogChecker, reader: ScrubReader, at: int, end: int
) -> Iterator[list[StoredMessage] | DamagedRange]:
    segment_end = at - at % store.log.segment_bytes + store.log.segment_bytes
    while at < min(end, segment_end):
        checked = checker.check(reader.read, at, bytes_max=min(READ_BYTES, end - at), limit=store.end)
        if not reader.is_there():
            return
        known = [(max(low, at), min(high, checked.end)) for low, high in store.quarantined if low < checked.end]
        for low, high in joined((*known, *checked.damaged)):
            yield from _batches_between(store, reader, at, low, ())
            reason = "quarantined" if overlaps(store.quarantined, low, high) else "no valid record"
            yield DamagedRange(low, high, reason, tuple(_records_by_structure(store, reader, low, high)))
            at = high
        yield from _batches_between(store, reader, at, checked.end, ())
        at = checked.end


def _records_by_structure(store: OfflineLog, reader: ScrubReader, low: int, high: int) -> list[StoredMessage]:
    """The records from `low` on; of a large range only the first ones."""
    try:
        data = reader.read(low, min(high, low + READ_BYTES))
    except OSError:
        return []
    store.kernel.clear()
    if not store.kernel.scan(data, 0, len(data), low, False, _DECODED_AT_ONCE):
        return []
    return list(decode_batch(data[: store.kernel.end]))


def read_batches(store: OfflineLog, skipped: tuple[Range, ...], least: int = 0) -> Iterator[list[StoredMessage]]:
    """The records below `store.end`, some at a time; segments that end at or below `least`, and `skipped` ranges, are left
    out. Raises OSError."""
    for segment in store.log.segments():
        if segment.end_offset > least and segment.base_offset < store.end:
            try:
                with ScrubReader(store.log, segment.base_offset) as reader:
                    end = min(store.end, segment.end_offset)
                    yield from _batches_between(store, reader, segment.base_offset, end, skipped)
            except OffsetOutOfRange:
                continue


def _batches_between(
    store: OfflineLog, reader: ScrubReader, at: int, end: int, skipped: tuple[Range, ...]
) -> Iterator[list[StoredMessage]]:
    """The records of [at, end), which is in one segment."""
    kernel, wanted = store.kernel, READ_BYTES
    while at < end:
        jump = next((high for low, high in skipped if low <= at < high), None)
        if jump is not None:
            at = jump
            continue
        limit = min([end, *(low for low, _ in skipped if low > at)])
        try:
            data = reader.read(at, min(limit, at + wanted))
        except OSError:
            if reader.is_there():
                raise
            return  # shortened
        if not reader.is_there():
            return
        begun = at
        kernel.clear()
        while kernel.scan(data, at - begun, len(data), at, False, _DECODED_AT_ONCE):
            records = data[at - begun : kernel.end]
            at = begun + kernel.end
            yield list(decode_batch(records))
            kernel.clear()
        if at > begun:
            wanted = READ_BYTES
        elif kernel.status == RUN_BLANK:
            return
        elif begun + len(data) < limit:
            wanted *= 2  # a record of more than that
        else:
            at = limit
