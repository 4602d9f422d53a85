"""Uploads of one backup: parts of the log, and the state; each object under a name that nothing had before.

    log/{begin}-{epoch}-{random}    state/{begin}-{epoch}-{random}    compacted/{number}-{random}

Two epochs may cut the log alike, so the begin alone would not do.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from ...model.clock import now_ms
from ...model.errors import BackupDamaged, BackupRefused, CorruptRecordError, StoreFormatError
from ...store.compaction.compacted_manifest import ListedFile, Manifest
from .digest import Digest
from .log_source import BackupSource
from .manifest import BackupManifest, LogObject, StatePoint
from .plan import SourceFacts
from .state_point import (
    POINT_BYTES_MAX,
    CompactedObject,
    CompactedQueue,
    FoundState,
    PointContent,
    digest,
    find_state,
    parse_point,
    read_compacted,
)
from .target import BackupTarget

TRIES: Final = 3  # of a state while compaction merges its files

_FileKey = tuple[str, int, ListedFile]


@dataclass(slots=True)
class BackupFigures:
    """Since the start of the process. `lag_bytes`: what of the log may be uploaded and is not. `stopped_at`: where damage of
    the log holds the backup up, None = nowhere. `gaps`: what retention has deleted before it was uploaded."""

    uploaded_bytes: int = 0
    objects: int = 0
    deleted: int = 0
    missed_bytes: int = 0
    lag_bytes: int = 0
    end: int = 0
    stopped_at: int | None = None
    ended_ms: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)


def read_point(target: BackupTarget, prefix: str, point: StatePoint) -> PointContent:
    """The content of a state point. Raises BackupDamaged, BackupTargetFailed."""
    data = target.get(prefix + point.name, 0, point.size_bytes)
    if digest(data) != point.sha256:
        raise BackupDamaged(target.name, f"{prefix}{point.name} is not what was written")
    return parse_point(data, target.name, prefix + point.name)


def compacted_names(target: BackupTarget, prefix: str, manifest: BackupManifest) -> set[str]:
    """The objects of compacted files that a manifest's points name. Raises as `read_point`."""
    points = (point for stretch in manifest.stretches for point in stretch.points)
    queues = (queue for point in points for queue in read_point(target, prefix, point).compacted)
    return {each.name for queue in queues for each in queue.objects}


class Uploads:
    """Under one prefix of a target. All methods raise BackupTargetFailed, StoreFormatError, OSError."""

    def __init__(self, source: BackupSource, target: BackupTarget, prefix: str, figures: BackupFigures) -> None:
        self._source = source
        self._target = target
        self._prefix = prefix
        self._figures = figures

    def put_log(self, begin: int, end: int, facts: SourceFacts, report: Callable[[int], None]) -> LogObject:
        """[begin, end) of the log, of one segment. Raises SegmentGone, DamageFound."""
        row = facts.epochs.covering(end - 1)
        epoch = 0 if row is None else row.number
        name = f"log/{begin:020d}-{epoch}-{uuid.uuid4().hex}"
        size_bytes, sha256 = self._put(name, self._source.read(begin, end), report)
        return LogObject(name, begin, end, size_bytes, sha256, epoch, now_ms())

    def put_state(self, manifest: BackupManifest, facts: SourceFacts, *, is_first: bool) -> StatePoint | None:
        """The state of now as a point; None if the snapshots do not fit the log yet. What the newest point has of compacted
        files is not uploaded again. Raises BackupDamaged, BackupRefused."""
        known: dict[_FileKey, CompactedObject] | None = None
        for left in reversed(range(TRIES)):
            try:
                state = find_state(self._source.directory, facts, is_first=is_first)
                if state is None:
                    return None
                known = self._known_compacted(manifest) if known is None else known
                return self._put_point(state, facts, known)
            except FileNotFoundError:  # compaction has merged what was listed
                if not left:
                    raise
            except CorruptRecordError as error:
                what = f"compacted files are damaged ({error}); zenit store verify names them"
                raise StoreFormatError(self._source.directory, what) from error
        return None

    def _put_point(self, state: FoundState, facts: SourceFacts, known: dict[_FileKey, CompactedObject]) -> StatePoint:
        queues = tuple(
            CompactedQueue(topic, queue_id, files, self._put_compacted(topic, queue_id, files, known))
            for topic, queue_id, files in state.files
        )
        begin = state.beginning.begin
        data = PointContent(state.beginning, queues).encode()
        if len(data) > POINT_BYTES_MAX:
            raise BackupRefused(self._target.name, f"the state has {len(data)} bytes, the most is {POINT_BYTES_MAX}")
        name = f"state/{begin:020d}-{facts.epochs.newest}-{uuid.uuid4().hex}"
        size_bytes, sha256 = self._put(name, (data,))
        return StatePoint(name, begin, state.needs_end, size_bytes, sha256, now_ms())

    def _put_compacted(
        self, topic: str, queue_id: int, files: Manifest, known: dict[_FileKey, CompactedObject]
    ) -> tuple[CompactedObject, ...]:
        """Raises FileNotFoundError if a merge was faster, CorruptRecordError."""
        found = []
        for file in files.files:
            made = known.get((topic, queue_id, file))
            if made is None:
                name = f"compacted/{file.number:020d}-{uuid.uuid4().hex}"
                made = CompactedObject(
                    name, *self._put(name, read_compacted(self._source.directory, topic, queue_id, file))
                )
                known[topic, queue_id, file] = made
            found.append(made)
        return tuple(found)

    def _known_compacted(self, manifest: BackupManifest) -> dict[_FileKey, CompactedObject]:
        stretch = manifest.newest
        if stretch is None or not stretch.points:
            return {}
        content = read_point(self._target, self._prefix, stretch.points[-1])
        return {
            (queue.topic, queue.queue_id, file): made
            for queue in content.compacted
            for file, made in zip(queue.manifest.files, queue.objects, strict=True)
        }

    def _put(
        self, name: str, parts: Iterable[bytes], report: Callable[[int], None] = lambda _size: None
    ) -> tuple[int, str]:
        """(size, SHA-256) of the object that was made."""
        size_bytes = 0

        def counted() -> Iterator[bytes]:
            nonlocal size_bytes
            for part in parts:
                sha256.add(part)
                size_bytes += len(part)
                report(size_bytes)
                yield part

        with closing(Digest()) as sha256:
            self._target.put(self._prefix + name, counted())
            text = sha256.text()
        self._figures.uploaded_bytes += size_bytes
        self._figures.objects += 1
        return size_bytes, text

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects that no manifest names any more."""
        for name in names:
            self._target.delete(self._prefix + name)
            self._figures.deleted += 1
