"""The two steps of a compaction, for one queue: each ends with a new manifest on the disk, or changes nothing.

    take     the queue's records in the log, from `covered` on --newest of each key within the step--> a new file at the end
    merge    all files --newest of each key, tombstones only while they are young--> new files; whole ones stay as they are

`take` is what retention waits for; it reads the log once, and its memory is bounded by the file that it writes. `merge` is
what bounds the disk. Both may be stopped or fail anywhere: files that no manifest names do not count. The compaction's thread.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from ...model.errors import CorruptRecordError
from ...model.plain_dataclass import dataclass
from ...model.properties import KEYS
from ...record.codes import RECORD_OVERHEAD_BYTES
from ...record.kernel import decode_record
from ...record.layout import UNIT
from ..queues.queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces
from .compacted_files import CompactedReader, CompactedWriter, write_manifest
from .compacted_manifest import ListedFile, Manifest
from .compacted_rows import TOMBSTONE, CompactedRow, kept_rows, key_digest

if TYPE_CHECKING:
    from .compacted_rows import Rows

FILE_BYTES: Final = 64 * 1024 * 1024
_UNITS_AT_ONCE: Final = 256
_ROW_MEMORY_BYTES: Final = 1024  # of a record that waits to be written, beside its bytes
_SMALL_FILES_MAX: Final = 16  # with more of them a merge is due, whatever it frees


class StepStopped(Exception):  # no error: the store is being closed
    """The step was stopped; what it had not listed does not count."""


class DamageMetError(Exception):
    """The log is damaged where the step must read. Args: the damaged ranges; none where a replica may still mend it."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__(ranges)
        self.ranges = tuple(ranges)


class LogSource(Protocol):
    """The log, as a step reads it. Methods raise OSError, OffsetOutOfRange."""

    def damaged(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The damaged ranges in the appends that hold these places, by their checksums."""

    def is_lost(self, begin: int, end: int) -> bool:
        """Whether the record there is known to be damaged, and no replica has it. Raises DamageMetError if one may."""

    def read(self, places: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """The bytes at these places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`memory_bytes`: for what a step keeps at once. `file_bytes`: after which a file ends. `should_stop`: asked often."""

    memory_bytes: int
    file_bytes: int = FILE_BYTES
    should_stop: Callable[[], bool] = lambda: False

    def check(self) -> None:
        """Raises StepStopped."""
        if self.should_stop():
            raise StepStopped


@dataclass(slots=True)
class _Taken:
    """The newest record of each key so far."""

    newest: dict[bytes, tuple[CompactedRow, bytes]]
    size_bytes: int = 0
    lost: int = 0

    def add(self, row: CompactedRow, record: bytes) -> None:
        before = self.newest.get(row.digest)
        self.size_bytes += len(record) - (0 if before is None else len(before[1]))
        self.newest[row.digest] = row, record

    def is_full(self, limits: Limits) -> bool:
        memory = self.size_bytes + len(self.newest) * _ROW_MEMORY_BYTES
        return memory >= min(limits.file_bytes, limits.memory_bytes)


def take(
    queue: QueuePlaces, folder: str, manifest: Manifest, source: LogSource, *, begin: int, end: int, limits: Limits
) -> Iterator[Manifest]:
    """Takes the messages [begin, end) of a queue, which the log has; yields each manifest that is on the disk.

    Raises DamageMetError behind the last one, StepStopped, StoreFormatError, OSError.
    """
    at = begin
    while at < end:
        taken, problem = _Taken({}, lost=manifest.lost), None
        while at < end and problem is None and not taken.is_full(limits):
            limits.check()
            units = queue.read(at, min(_UNITS_AT_ONCE, end - at))
            if not units:
                at = min(end, max(at + 1, queue.resume_offset(at)))
                continue
            try:
                _take_units(queue, at, units, source, taken)
                at += len(units) // UNIT_BYTES
            except DamageMetError as error:
                problem = error
        manifest = _with_taken(queue, folder, manifest, taken, at)
        yield manifest
        if problem is not None:
            raise problem


def _with_taken(queue: QueuePlaces, folder: str, manifest: Manifest, taken: _Taken, covered: int) -> Manifest:
    """Writes what was taken, and the manifest that lists it, unless nothing has changed."""
    if covered <= manifest.covered:
        return manifest
    files, number = manifest.files, manifest.next_number
    if taken.newest:
        with CompactedWriter(folder, number) as writer:
            for row, record in sorted(taken.newest.values(), key=_offset_of):
                writer.add(row, record)
            files = (*files, writer.finish())
        number += 1
    anchor = queue.unit(covered - 1)[:2] if covered > queue.first_offset else (0, 0)
    manifest = replace(manifest, files=files, covered=covered, anchor=anchor, next_number=number, lost=taken.lost)
    write_manifest(folder, manifest)
    return manifest


def _offset_of(taken: tuple[CompactedRow, bytes]) -> int:
    return taken[0].offset


def _take_units(queue: QueuePlaces, begin: int, units: bytes, source: LogSource, taken: _Taken) -> None:
    """Adds the records of some units, all or none of them."""
    places: list[tuple[int, int, int, int]] = []
    lost = 0
    for number, (physical, size, code) in enumerate(UNIT.iter_unpack(units)):
        if size == FILLER_SIZE:
            lost += physical > 0  # behind the queue's beginning: the record was unreadable when the queue was built
        elif physical < 0 or size < RECORD_OVERHEAD_BYTES:
            raise DamageMetError(())  # a damaged unit: a reader that gets there has it set right
        elif source.is_lost(physical, physical + size):
            lost += 1
        else:
            places.append((begin + number, physical, size, code))
    ranges = [(physical, physical + size) for _, physical, size, _ in places]
    damaged = source.damaged(ranges)
    met = [(low, high) for low, high in damaged if any(low < end and at < high for at, end in ranges)]
    if met:
        raise DamageMetError(met)
    found = [
        (_row(queue, offset, physical, code, record), record)
        for (offset, physical, _, code), record in zip(places, source.read(ranges), strict=True)
    ]
    taken.lost += lost
    for row, record in found:
        taken.add(row, record)


def _row(queue: QueuePlaces, offset: int, physical: int, code: int, record: bytes) -> CompactedRow:
    """Raises DamageMetError if the record is not the one that its unit names."""
    try:
        message = decode_record(record)
    except CorruptRecordError as error:
        raise DamageMetError([(physical, physical + len(record))]) from error
    place = message.topic, message.queue_id, message.queue_offset, message.physical_offset
    if place != (queue.topic, queue.queue_id, offset, physical):
        raise DamageMetError(())
    return CompactedRow(
        offset=offset,
        stored_ms=message.stored_at_ms,
        physical=physical,
        flags=0 if message.body_as_stored else TOMBSTONE,
        crc=zlib.crc32(record),
        position=0,
        size=len(record),
        code=code,
        digest=key_digest(message.properties.get(KEYS, ""), offset),
    )


# ---- merging


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """When a merge is worth its reading and writing. `dead_ratio`: the share of bytes that it frees at least; 0: always.

    `tombstone_ms`: for how long tombstones stay; they are looked for once in that time.
    """

    now_ms: int
    dead_ratio: float
    tombstone_ms: int


def merge(folder: str, manifest: Manifest, queue_id: int, rule: MergeRule, limits: Limits) -> Manifest:
    """Merges a queue's files if that is due; returns the manifest that is on the disk then.

    Raises CorruptRecordError, StoreFormatError (a file that is damaged stays as it is), StepStopped, OSError.
    """
    kept = kept_rows(
        [file.rows for file in manifest.files],
        lambda at: _rows(folder, manifest.files[at], limits),
        tombstones_before_ms=rule.now_ms - rule.tombstone_ms,
        memory_bytes=limits.memory_bytes,
    )
    dead_bytes = 0
    for file, is_kept in zip(manifest.files, kept, strict=True):
        dead_bytes += int(_rows(folder, file, limits)["size"][~is_kept].sum()) if not is_kept.all() else 0
    are_old = bool(manifest.tombstones) and rule.now_ms - manifest.merged_ms >= rule.tombstone_ms
    small = sum(file.size_bytes < limits.file_bytes // 2 for file in manifest.files)
    is_worth_it = dead_bytes > 0 and (dead_bytes >= rule.dead_ratio * manifest.record_bytes or are_old)
    if not is_worth_it and small <= _SMALL_FILES_MAX:
        return manifest
    merged = _Merged(folder, manifest.next_number, limits)
    with merged:
        for file, is_kept in zip(manifest.files, kept, strict=True):
            if is_kept.all() and file.size_bytes >= limits.file_bytes // 2:
                merged.keep(file)
                continue
            with CompactedReader(folder, file) as reader:
                for at in range(0, file.rows, _UNITS_AT_ONCE):
                    limits.check()
                    rows = reader.rows(at, min(at + _UNITS_AT_ONCE, file.rows))
                    wanted = [
                        row for row, is_wanted in zip(rows, is_kept[at : at + len(rows)], strict=True) if is_wanted
                    ]
                    for row, record in reader.records(wanted, queue_id):
                        merged.add(row, record)
        merged.end_file()
    done = replace(manifest, files=tuple(merged.files), next_number=merged.number, merged_ms=rule.now_ms)
    write_manifest(folder, done)
    return done


def _rows(folder: str, file: ListedFile, limits: Limits) -> Rows:
    limits.check()
    with CompactedReader(folder, file) as reader:
        return reader.all_rows()


def without_rows_from(folder: str, manifest: Manifest, queue_id: int, offset: int, limits: Limits) -> Manifest:
    """Removes what was taken from queue offset `offset` on: the log has it, and says something else. Raises as `merge`."""
    files, number = _cut(folder, manifest, queue_id, range(offset), limits)
    cut = replace(manifest, files=files, next_number=number, covered=offset, anchor=(0, 0))
    write_manifest(folder, cut)
    return cut


def without_rows_below(folder: str, manifest: Manifest, queue_id: int, offset: int, limits: Limits) -> Manifest:
    """Removes the records below queue offset `offset`, as if there had been none. Raises as `merge`."""
    files, number = _cut(folder, manifest, queue_id, range(offset, manifest.covered), limits)
    cut = replace(manifest, files=files, next_number=number)
    write_manifest(folder, cut)
    return cut


def _cut(
    folder: str, manifest: Manifest, queue_id: int, kept: range, limits: Limits
) -> tuple[tuple[ListedFile, ...], int]:
    """The files with the records whose queue offsets are in `kept`, and the number of the next one."""
    merged = _Merged(folder, manifest.next_number, limits)
    with merged:
        for file in manifest.files:
            if file.first >= kept.start and file.last < kept.stop:
                merged.keep(file)
                continue
            if file.last < kept.start or file.first >= kept.stop:
                continue
            with CompactedReader(folder, file) as reader:
                end = reader.first_from(kept.stop)
                for at in range(reader.first_from(kept.start), end, _UNITS_AT_ONCE):
                    limits.check()
                    for row, record in reader.records(reader.rows(at, min(at + _UNITS_AT_ONCE, end)), queue_id):
                        merged.add(row, record)
        merged.end_file()
    return tuple(merged.files), merged.number


class _Merged:
    """The files of a new manifest, in order; a context manager."""

    def __init__(self, folder: str, number: int, limits: Limits) -> None:
        self.files: list[ListedFile] = []
        self.number = number
        self._folder = folder
        self._limits = limits
        self._writer: CompactedWriter | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.__exit__(None, None, None)

    def keep(self, file: ListedFile) -> None:
        """A file that stays as it is."""
        self.end_file()
        self.files.append(file)

    def add(self, row: CompactedRow, record: bytes) -> None:
        """A record, behind all before it."""
        if self._writer is not None and self._writer.record_bytes >= self._limits.file_bytes:
            self.end_file()
        if self._writer is None:
            self._writer = CompactedWriter(self._folder, self.number)
            self.number += 1
        self._writer.add(row, record)

    def end_file(self) -> None:
        """Ends the file being written, if there is one."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with writer:
                self.files.append(writer.finish())


def readable_end(queue: QueuePlaces, begin: int, end: int, limit: int) -> int:
    """The queue offset behind the last message of [begin, end) whose record ends at or below `limit` of the log."""
    return begin + bisect_left(range(begin, end), x=True, key=lambda offset: queue.end_of(offset) > limit)
