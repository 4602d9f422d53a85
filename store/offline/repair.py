"""Puts damaged ranges of a closed store right: `zenit store repair`.

    check     every byte of the log: damaged ranges, those of the quarantine among them, each with the whole appends around it
    prove     the range matches its checksums by now, or a copy's bytes do: its own, and those of the copy
    write     the proven bytes in place, durably
    queues    units that a start had to leave out, and those that name no record, durably
    lift      the range leaves the quarantine, durably

Only damaged ranges are written, and only with bytes that checksums prove: what was whole in them is written again as it was. A
kill at any point leaves ranges that are as damaged as before, or whole, and known as damaged: a repetition goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from ...model.errors import OffsetOutOfRange
from ...model.queue import PhysicalOffset
from ..checksum.checksum_reader import ChecksumReader
from ..config import StoreConfig
from ..integrity.log_check import LogChecker
from ..integrity.mending import Mender, extent_of
from ..integrity.quarantine import FACTS_FILE, Quarantine, Range, joined, note_quarantine
from ..integrity.recovery import walk
from ..integrity.scrub_reader import ScrubReader
from ..log.commit_log import CHECKSUM_FOLDER, CommitLog
from ..log.segment import write_fully
from ..opening.snapshot import read_snapshot
from ..queues.engine_choice import FILE, engine_of, open_engine
from .offline_log import Findings, OfflineLog, check_offline, open_log

NO_COPY: Final = "no replica's store was given"
OTHER_BYTES: Final = "the replica's bytes are not what the checksums here say"
DAMAGED_THERE: Final = "damaged in the replica's store too"
UNVOUCHED: Final = "no checksum covers it, here or there"
NOT_THERE: Final = "the replica's log does not hold it"

SameBytes = Callable[[int, int], str]
"""(begin, end) -> why a copy cannot have the bytes of this range; "" = it may have them."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Another store with bytes of the same log. `differs`: see SameBytes. `is_replica`: by the rules of replication it has
    the same bytes wherever `differs` says nothing; of any other copy only those count that the checksums here prove."""

    directory: str
    differs: SameBytes
    is_replica: bool


@dataclass(slots=True)
class Repaired:
    """`whole`: ranges that match their checksums again; `copied`: those taken from the copy; `left`: (begin, end, why)."""

    whole: list[Range] = field(default_factory=list)
    copied: list[Range] = field(default_factory=list)
    left: list[tuple[int, int, str]] = field(default_factory=list)
    units: int = 0


def repair_log(
    directory: str, copy: Copy | None, *, report: Callable[[int, int], None], dry_run: bool = False
) -> Repaired:
    """Repairs what can be; the caller holds the locks of both directories. `dry_run`: changes nothing. `units`: how many
    damaged units of queues there were. Raises StoreFormatError, OSError."""
    with open_log(directory, StoreConfig()) as store:
        found = check_offline(store, report)
        known = tuple(damage for damage in store.quarantined if damage[1] > found.begin)
        ranges = joined((*found.damaged, *known))
        if copy is None:
            done = _Repair(store, None, None).run(ranges, dry_run=dry_run)
        else:
            with open_log(copy.directory, StoreConfig()) as other:
                done = _Repair(store, copy, other).run(ranges, dry_run=dry_run)
        done.units = len(found.units)
        if not dry_run:
            _fill_queues(store, found, done)
            _lift(store, done)
    return done


class _Repair:
    def __init__(self, store: OfflineLog, copy: Copy | None, other: OfflineLog | None) -> None:
        self._store, self._copy, self._other = store, copy, other
        self._read = _reader(store.log)
        self._checker = _checker(store)
        self._mender = Mender(self._checker, self._read)

    def run(self, ranges: tuple[Range, ...], *, dry_run: bool) -> Repaired:
        done = Repaired()
        for begin, end in self._pieces(ranges):
            if self._checker.vouches_for(self._read, begin, end):
                done.whole.append((begin, end))
                continue
            data, reason = self._proven(begin, end)
            if data is None:
                done.left.append((begin, end, reason))
                continue
            if not dry_run:
                _write(self._store.log, begin, data)
            done.copied.append((begin, end))
        return done

    def _pieces(self, ranges: tuple[Range, ...]) -> list[Range]:
        """Each range with the appends that contain it, no two of which overlap; none goes beyond its segment."""
        size, pieces = self._store.log.segment_bytes, []
        for low, high in ranges:
            at = max(low, int(self._store.log.begin))
            while at < high:
                stop = min(high, at - at % size + size)
                pieces.append(extent_of((at, stop), self._checker.appends(at, stop)))
                at = stop
        return list(joined(pieces))

    def _proven(self, begin: int, end: int) -> tuple[bytes | None, str]:
        """(the bytes to write, "") or (None, why there are none)."""
        if self._copy is None or self._other is None:
            return None, NO_COPY
        if reason := self._copy.differs(begin, end):
            return None, reason
        read, checker = _reader(self._other.log), _checker(self._other)
        if not self._other.log.begin <= begin < end <= self._other.end:
            return None, NOT_THERE
        try:
            data = read(begin, end)
        except (OSError, OffsetOutOfRange):
            return None, DAMAGED_THERE
        whole = self._mender.made_whole(begin, data)
        if whole is not None:
            return whole, ""
        if not checker.vouches_for(read, begin, end):
            return None, DAMAGED_THERE if checker.appends(begin, end) else UNVOUCHED
        if not self._copy.is_replica or not self._mender.fits(begin, data):
            return None, OTHER_BYTES
        return data, ""


def _checker(store: OfflineLog) -> LogChecker:
    checksums = ChecksumReader(os.path.join(store.directory, CHECKSUM_FOLDER), store.log.segment_bytes)
    return LogChecker(store.kernel, checksums, store.log.segment_bytes)


def _reader(log: CommitLog) -> Callable[[int, int], bytes]:
    """By descriptors: a sector that the disk cannot read is an error, not the end of the process."""

    def read(begin: int, end: int) -> bytes:
        with ScrubReader(log, begin) as reader:
            return reader.read(begin, end)

    return read


def _write(log: CommitLog, begin: int, data: bytes) -> None:
    """In place, within one segment, durably. Raises OSError."""
    (segment,) = (one for one in log.segments() if one.base_offset <= begin < one.end_offset)
    fd = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        write_fully(fd, data, begin - segment.base_offset)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _fill_queues(store: OfflineLog, found: Findings, done: Repaired) -> None:
    """Units of what is whole again, and of records whose units were damaged. Raises OSError."""
    whole = [*done.whole, *done.copied]
    if not whole and not found.units:
        return
    config = StoreConfig(consume_queue=engine_of(store.directory) or FILE)
    with closing(open_engine(store.directory, config)) as queues:
        queues.begin(log_end=PhysicalOffset(store.end), reflected=store.end, unclean=False)
        for begin, end in whole:
            for run in walk(store.log, store.kernel, begin, end, ()):
                queues.fill_in(run)
        for wrong in found.units:
            queues.set_right(wrong)
        if queues.is_blocked:
            raise OSError(f"the disk is full: units of queues could not be written; run it again ({store.directory})")
        queues.persist()


def _lift(store: OfflineLog, done: Repaired) -> None:
    """Raises OSError."""
    known = read_snapshot(os.path.join(store.directory, FACTS_FILE))
    if known is None:
        return
    quarantine = Quarantine(_noted(known.document, "quarantined"), _noted(known.document, "rotten"))
    before = quarantine.ranges
    for begin, end in (*done.whole, *done.copied):
        quarantine.lift(begin, end)
    if quarantine.ranges != before:
        note_quarantine(store.directory, quarantine.ranges, quarantine.rotten, store.end)


def _noted(document: dict[str, object], key: str) -> Iterator[Range]:
    ranges = document.get(key)
    return ((int(low), int(high)) for low, high in ranges) if isinstance(ranges, list) else iter(())
