"""Makes a store of a backup: `zenit restore`.

    empty directory, marked: no broker starts there -> begun at a state point, as a slave that begins anew
    -> the log appended, chunk by chunk, each object held to its checksum -> closed -> epochs, cluster, identity, no mark

If it breaks off, the mark stays: the directory is deleted, and restored once more. The backup may go on meanwhile: where it has
replaced a tail by a longer one, that is read up to the same end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from ...broker.config import BrokerConfig
from ...broker.group.cluster_file import ClusterFile
from ...broker.group.epoch_file import write_epochs
from ...broker.group.store_directory import DirectoryOnDisk
from ...broker.replication.beginning import Beginning
from ...broker.replication.epochs import NO_EPOCHS, EpochList
from ...broker.replication.replica_files import ReplicaFiles
from ...model.errors import (
    BackupDamaged,
    BackupObjectMissing,
    BackupRefused,
    CorruptRecordError,
    InvalidParameter,
    StoreNotWriteable,
)
from ...store.compaction.incoming import IncomingFiles
from ...store.log.segment import make_directory
from ...store.opening.small_file import needs_room
from ...store.queues.engine_choice import BOTH, FILE
from .manifest import BackupManifest, LogObject, StatePoint, Stretch
from .restored_store import RestoredStore, opened_store
from .state_point import PointContent
from .target import BackupTarget
from .uploads import read_point
from .verify import ObjectReader, Report, ignore_progress, read_manifest_of

TRIES: Final = 5
OF_NEW_DISKS: Final = frozenset({"lost+found"})
"""What a file system makes by itself: a directory with nothing else is empty."""
"""Of one object, each of which a backup that runs has replaced while it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChoice:
    """`cluster_id`: the cluster whose backup it must be, "" = any; `as_cluster`: the one that the store is to belong to
    instead. `is_alone`: for a broker without a group. `begin`: leave out the log before the first state point at or behind
    this byte. `stretch`: which one, from 0 on where there are gaps; None = the newest."""

    cluster_id: str = ""
    as_cluster: str = ""
    is_alone: bool = False
    begin: int = 0
    stretch: int | None = None


def restore(
    target: BackupTarget,
    group: str,
    directory: str,
    config: BrokerConfig,
    choice: RestoreChoice,
    report: Report = ignore_progress,
) -> dict[str, Any]:
    """Makes `directory`, an empty one or none yet, the store of that group. `config`: how its store is to be made.

    {"directory", "group", "group_id", "cluster_id", "epoch", "begin_offset", "end_offset", "bytes"}. Raises BackupRefused,
    BackupDamaged, BackupTargetFailed, InvalidParameter, StoreFormatError, StoreNotWriteable, StorePoisoned, OSError.
    """
    manifest = read_manifest_of(target, group)
    where = f"{target.name}: group {group}"
    if choice.cluster_id and choice.cluster_id != manifest.cluster_id:
        held = f"it is of the cluster with the id {manifest.cluster_id or '(none)'}, not {choice.cluster_id}"
        raise BackupRefused(where, f"{held}; to give its messages to that one: --as-cluster {choice.cluster_id}")
    _check_empty(directory)
    stretch = _stretch_of(manifest, choice, where)
    point = _point_of(stretch, choice, where)
    if point is None:
        content = PointContent(Beginning(0, manifest.segment_bytes, NO_EPOCHS, {}, {}))
    else:
        content = read_point(target, f"{group}/", point)
    _check_room(directory, _log_of(stretch, content), manifest.segment_bytes)
    make_directory(directory)
    with (
        _room_needed(directory),
        ReplicaFiles.restoring(directory, manifest.group_id, promised=manifest.promised, is_left=choice.is_alone),
    ):
        with closing(ObjectReader(target, f"{group}/")) as reader:
            taken = _fill(
                directory, config, content, stretch, reader, where, report, partial(read_manifest_of, target, group)
            )
        write_epochs(directory, manifest.epochs.below(stretch.end).rows if stretch.end else ())
        cluster_id = choice.as_cluster or manifest.cluster_id
        if cluster_id:
            ClusterFile.replace(directory, cluster_id)
    return {
        "directory": os.path.abspath(directory),
        "group": group,
        "group_id": "" if choice.is_alone else manifest.group_id,
        "cluster_id": cluster_id,
        "epoch": manifest.promised,
        "begin_offset": content.beginning.begin,
        "end_offset": stretch.end,
        "bytes": taken,
    }


def _check_empty(directory: str) -> None:
    if os.path.lexists(directory) and not (os.path.isdir(directory) and set(os.listdir(directory)) <= OF_NEW_DISKS):
        raise InvalidParameter("directory", directory, "an empty one, or none yet; move away what is there")


def _log_of(stretch: Stretch, content: PointContent) -> list[LogObject]:
    """The objects that the store begins with and goes on with."""
    return [each for each in stretch.objects if each.begin >= content.beginning.begin]


def _check_room(directory: str, wanted: Sequence[LogObject], segment_bytes: int) -> None:
    """The log fits on the disk; queues and index come on top. Raises InvalidParameter."""
    place = os.path.abspath(directory)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    free, needed = found.f_bavail * found.f_frsize, len(wanted) * segment_bytes
    if needed > free:
        raise InvalidParameter("directory", directory, f"one on a disk with {needed} bytes free; this one has {free}")


@contextmanager
def _room_needed(directory: str) -> Iterator[None]:
    """Raises StoreNotWriteable, with what to do, if the disk becomes full."""
    try:
        with needs_room():
            yield
    except StoreNotWriteable as error:
        what = f"disk full: delete {directory}, which is restored in part, and restore it to a disk with more room"
        raise StoreNotWriteable(what) from error


def _stretch_of(manifest: BackupManifest, choice: RestoreChoice, where: str) -> Stretch:
    if not manifest.stretches:
        raise BackupRefused(where, "nothing is backed up yet")
    wanted = len(manifest.stretches) - 1 if choice.stretch is None else choice.stretch
    if not 0 <= wanted < len(manifest.stretches):
        raise InvalidParameter("--stretch", wanted, f"0 to {len(manifest.stretches) - 1}")
    return manifest.stretches[wanted]


def _point_of(stretch: Stretch, choice: RestoreChoice, where: str) -> StatePoint | None:
    """The one that begins first; of several that begin there, the newest. None: a store needs none, since its log begins at
    0."""
    usable = [point for point in stretch.usable_points() if point.begin >= choice.begin]
    if not usable and stretch.begin == choice.begin == 0 and stretch.objects:
        return None
    if not usable and stretch.points and not choice.begin:
        raise BackupRefused(
            where,
            f"no store can begin with it before the log is there up to {stretch.points[0].needs_end}, it is up to"
            f" {stretch.end}; run zenit backup run, or restore what lies before a gap (--stretch)",
        )
    if not usable:
        raise BackupRefused(where, "it has no state point there to begin with; zenit backup status lists those it has")
    return [point for point in usable if point.begin == usable[0].begin][-1]


def _fill(
    directory: str,
    config: BrokerConfig,
    content: PointContent,
    stretch: Stretch,
    reader: ObjectReader,
    where: str,
    report: Report,
    reread: Callable[[], BackupManifest],
) -> int:
    """Begins the store and appends the log; returns how many bytes of the log were taken. `reread`: the manifest of now."""
    store_config = config.store
    if store_config.consume_queue == BOTH:
        store_config = replace(store_config, consume_queue=FILE)
    wanted = _log_of(stretch, content)
    total = sum(each.size_bytes for each in wanted)
    _bring_compacted(directory, content, reader)
    beginning = content.beginning
    DirectoryOnDisk(directory, store_config).begin_anew(
        beginning.begin,
        segment_bytes=beginning.segment_bytes,
        snapshots=beginning.snapshots,
        queue_minimums=beginning.queue_minimums,
    )
    write_epochs(directory, EpochList(beginning.epochs.rows).rows)
    done = 0
    with opened_store(directory, replace(config, store=store_config)) as store:
        for each in wanted:
            _append(store, each, reader, where, partial(_report_from, report, done, total), reread)
            done += each.size_bytes
    return done


def _append(
    store: RestoredStore,
    each: LogObject,
    reader: ObjectReader,
    where: str,
    report: Callable[[int], None],
    reread: Callable[[], BackupManifest],
) -> None:
    """Appends the part of the log that one object holds, or what has replaced it since."""
    found = each
    for left in reversed(range(TRIES)):
        taken = store.end - each.begin  # of an object that went while it was read
        pieces = _cut(reader.read(found.name, found.size_bytes, found.sha256), taken, each.size_bytes)
        try:
            store.append(_counted(pieces, taken, report), each.end)
            return
        except BackupObjectMissing:
            newer = reread().replaced(found) if left else None
            if newer is None:
                raise
            found = newer
        except CorruptRecordError as error:
            raise BackupDamaged(where, f"{found.name}: {error}") from error


def _cut(pieces: Iterator[bytes], begin: int, end: int) -> Iterator[bytes]:
    """Bytes [begin, end) of what the pieces are together. All are read: the last one comes only if the sum is right."""
    at = 0
    for data in pieces:
        part = data[max(0, begin - at) : max(0, end - at)]
        at += len(data)
        if part:
            yield part


def _counted(pieces: Iterator[bytes], done: int, report: Callable[[int], None]) -> Iterator[bytes]:
    for data in pieces:
        done += len(data)
        report(done)
        yield data


def _report_from(report: Report, done: int, total: int, size_bytes: int) -> None:
    report(done + size_bytes, total)


def _bring_compacted(directory: str, content: PointContent, reader: ObjectReader) -> None:
    incoming = IncomingFiles(directory)
    incoming.begin()
    for queue in content.compacted:
        for file, found in zip(queue.manifest.files, queue.objects, strict=True):
            with incoming.writing(queue.topic, queue.queue_id, file) as write:
                for data in reader.read(found.name, found.size_bytes, found.sha256):
                    write(data)
            incoming.check(queue.topic, queue.queue_id, file)
        incoming.list_files(queue.topic, queue.queue_id, queue.manifest)
    incoming.end()
