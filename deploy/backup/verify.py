"""Reads a backup whole, and holds each object to the manifest: `zenit backup verify`. Nothing is written.

Two threads read, so that the network and the checksums are busy at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from ...model.errors import BackupDamaged, BackupRefused
from ...store.worker_threads import WorkerThreads
from .digest import Digest
from .manifest import MANIFEST, BackupManifest, LogObject, StatePoint, decode_manifest
from .state_point import CompactedObject
from .target import BackupTarget
from .uploads import read_point

RANGE_BYTES: Final = 8 << 20
AHEAD: Final = 4  # ranges in memory
READ_S: Final = 600

Report = Callable[[int, int], None]
"""Told (bytes read, of how many)."""


def ignore_progress(_done: int, _total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class DamagedObject:
    """`reason`: what is wrong with it."""

    name: str
    reason: str


class ObjectReader:
    """Reads objects ahead, in threads of its own; a context manager. Raises BackupTargetFailed, BackupDamaged."""

    def __init__(self, target: BackupTarget, prefix: str) -> None:
        self._target = target
        self._prefix = prefix
        self._threads = WorkerThreads(AHEAD // 2, "zenit-backup-read")
        self._digest = Digest()

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._digest.close()

    def read(self, name: str, size_bytes: int, sha256: str) -> Iterator[bytes]:
        """The bytes of an object, in order. The last piece comes only if all of it is what was written."""
        self._digest.begin()
        waiting: list[Future[bytes]] = []
        at = 0
        for begin in range(0, size_bytes, RANGE_BYTES):
            while at < size_bytes and len(waiting) < AHEAD:
                end = min(at + RANGE_BYTES, size_bytes)
                waiting.append(self._threads.submit(self._target.get, self._prefix + name, at, end))
                at = end
            data = waiting.pop(0).result(READ_S)
            self._digest.add(data)
            if begin + len(data) == size_bytes and self._digest.text() != sha256:
                raise BackupDamaged(self._target.name, f"{self._prefix}{name} is not what was written")
            yield data


def find_damage(
    target: BackupTarget, prefix: str, manifest: BackupManifest, report: Report = ignore_progress
) -> list[DamagedObject]:
    """What is missing, or not what was written: of the log, state points, and compacted files. Raises BackupTargetFailed."""
    found: list[DamagedObject] = []
    objects: list[LogObject | StatePoint | CompactedObject] = []
    for stretch in manifest.stretches:
        objects += [*stretch.points, *stretch.objects]
        for point in stretch.points:
            with suppress(BackupDamaged):  # it is found below
                queues = read_point(target, prefix, point).compacted
                objects += [each for queue in queues for each in queue.objects]
    unique = {each.name: each for each in objects}
    done, total = 0, sum(each.size_bytes for each in unique.values())
    with closing(ObjectReader(target, prefix)) as reader:
        for each in unique.values():
            begun = done
            try:
                for data in reader.read(each.name, each.size_bytes, each.sha256):
                    done += len(data)
                    report(done, total)
            except BackupDamaged as damage:
                found.append(DamagedObject(each.name, damage.what.removeprefix(prefix)))
            done = begun + each.size_bytes
            report(done, total)
    return found


def find_lasting_damage(
    target: BackupTarget, group: str, report: Report = ignore_progress
) -> tuple[BackupManifest, list[DamagedObject]]:
    """The manifest, and what of it is damaged; without what a backup that runs has replaced or forgotten meanwhile. Raises
    BackupRefused, BackupTargetFailed."""
    manifest = read_manifest_of(target, group)
    found = find_damage(target, f"{group}/", manifest, report)
    if not found:
        return manifest, found
    present = read_manifest_of(target, group)
    if present.sequence == manifest.sequence:
        return manifest, found
    named = present.object_names() | _compacted_names(target, f"{group}/", present)
    return present, [each for each in found if each.name in named]


def _compacted_names(target: BackupTarget, prefix: str, manifest: BackupManifest) -> set[str]:
    """The objects of compacted files; without those that a damaged point names."""
    names: set[str] = set()
    for stretch in manifest.stretches:
        for point in stretch.points:
            with suppress(BackupDamaged):
                names |= {each.name for queue in read_point(target, prefix, point).compacted for each in queue.objects}
    return names


def status_document(manifest: BackupManifest, now_ms: int) -> dict[str, Any]:
    """What a backup holds. `is_restorable`: a store can begin with it."""
    newest = manifest.newest
    points = () if newest is None else newest.usable_points()
    return {
        "cluster_id": manifest.cluster_id,
        "group": manifest.group,
        "group_id": manifest.group_id,
        "epoch": manifest.epochs.newest,
        "segment_bytes": manifest.segment_bytes,
        "begin_offset": 0 if newest is None else newest.begin,
        "end_offset": manifest.end,
        "bytes": sum(stretch.size_bytes for stretch in manifest.stretches),
        "objects": sum(len(stretch.objects) for stretch in manifest.stretches),
        "written_ms": manifest.written_ms,
        "age_seconds": round(max(0, now_ms - manifest.written_ms) / 1000, 1),
        "is_restorable": newest is not None and newest.is_restorable,
        "restores_from": min([point.begin for point in points], default=None if newest is None or newest.begin else 0),
        "points": [
            {"begin_offset": point.begin, "needs_end_offset": point.needs_end, "taken_ms": point.taken_ms}
            for point in (() if newest is None else newest.points)
        ],
        "gaps": [{"begin": begin, "end": end} for begin, end in manifest.gaps],
    }


def read_manifest_of(target: BackupTarget, group: str) -> BackupManifest:
    """Raises BackupRefused if there is none, or it is damaged."""
    found = target.read(f"{group}/{MANIFEST}")
    if found is None:
        raise BackupRefused(target.name, f"it has no backup of a group {group}; zenit backup run makes one")
    return decode_manifest(found[0], f"{target.name}: group {group}", group)
