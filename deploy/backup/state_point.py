"""A state point: all that a store needs to begin, but the log: as a slave gets it from its master (rule R12).

    {"beginning": what a slave is told (docs/formats/replica-files.md),
     "compacted": [[topic, queue id, manifest of its compacted files, [[object, size, SHA-256] of each file]]]}

It may know more than the log that has been uploaded so far: `needs_end` says from where on a store may begin so. The snapshots
tell it, and the last record that the compacted files have.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ...broker.replication.beginning import BYTES_MAX, Beginning, beginning_document, parse_beginning
from ...broker.replication.epochs import EpochList
from ...broker.state.state_log import state_files
from ...model.errors import BackupDamaged, InvalidName, RemoteProtocolError, StoreFormatError
from ...model.names import check_topic
from ...model.queue import PhysicalOffset
from ...store.compaction.compacted_files import read_manifest
from ...store.compaction.compacted_manifest import MANIFEST_BYTES_MAX, ListedFile, Manifest
from ...store.compaction.compacted_queues import compacted_queues, queue_folder
from ...store.compaction.incoming import check_file
from ...store.offline.offline import open_queues
from ...store.offline.offline_log import tried_again
from ...store.opening.snapshot import parse_snapshot
from ...store.opening.store_beginning import check_beginning
from ...store.queues.batches.all_queues import minimum_of
from .plan import SourceFacts, point_begin

POINT_BYTES_MAX: Final = BYTES_MAX + MANIFEST_BYTES_MAX
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CompactedObject:
    """One compacted file, as an object."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CompactedQueue:
    """The compacted files of one queue, in the order of its manifest."""

    topic: str
    queue_id: int
    manifest: Manifest
    objects: tuple[CompactedObject, ...]


@dataclass(frozen=True, slots=True)
class PointContent:
    """See above."""

    beginning: Beginning
    compacted: tuple[CompactedQueue, ...] = ()

    def encode(self) -> bytes:
        """The object's bytes."""
        queues = [
            [
                queue.topic,
                queue.queue_id,
                queue.manifest.encode().decode(),
                [[each.name, each.size_bytes, each.sha256] for each in queue.objects],
            ]
            for queue in self.compacted
        ]
        return json.dumps({"beginning": beginning_document(self.beginning), "compacted": queues}).encode()


def parse_point(data: bytes, where: str, name: str) -> PointContent:
    """Raises BackupDamaged. `where`, `name`: the target's and the object's."""
    try:
        document: Any = json.loads(data)
        beginning = parse_beginning(json.dumps(document["beginning"]).encode())
        queues = tuple(_queue_of(entry) for entry in document["compacted"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise BackupDamaged(where, f"{name} is no state point: {type(error).__name__} {error}"[:200]) from error
    except (RemoteProtocolError, StoreFormatError, InvalidName) as error:
        raise BackupDamaged(where, f"{name}: {error}"[:400]) from error
    return PointContent(beginning, queues)


def _queue_of(entry: Any) -> CompactedQueue:
    topic, queue_id, text, objects = entry
    if type(queue_id) is not int or not 0 <= queue_id < 1 << 31:
        raise ValueError(f"queue {str(queue_id)[:40]}")
    manifest = Manifest.decode(str(text).encode(), "manifest")
    found = tuple(CompactedObject(str(name), int(size_bytes), str(sha256)) for name, size_bytes, sha256 in objects)
    if [each.size_bytes for each in found] != [file.size_bytes for file in manifest.files]:
        raise ValueError(f"the files of {topic} queue {queue_id} differ from their list")
    if any(not each.name.startswith("compacted/") or ".." in each.name for each in found):
        raise ValueError(f"a file of {topic} queue {queue_id} has a strange name")
    return CompactedQueue(check_topic(str(topic)), queue_id, manifest, found)


@dataclass(frozen=True, slots=True)
class FoundState:
    """The state of a store, to be uploaded as a point. `files`: the compacted queues."""

    beginning: Beginning
    needs_end: int
    files: tuple[tuple[str, int, Manifest], ...]


def find_state(directory: str, facts: SourceFacts, *, is_first: bool) -> FoundState | None:
    """The state of now. `is_first`: a store must be able to begin where the log does; else as far on as may be.

    None if the snapshots do not fit yet: some are older than the begin of the log, or there are none. Raises
    StoreFormatError, OSError.
    """
    snapshots = state_files(directory)
    reflected = {name: _reflected(data) for name, data in snapshots.items()}
    if reflected and min(reflected.values()) < facts.begin:
        snapshots, reflected = {}, {}  # RocketMQ wrote them, or retention was faster
    if not reflected and (facts.begin or not is_first):
        return None
    oldest = min(reflected.values(), default=0)
    begin = facts.begin if is_first else point_begin(facts.segment_bytes, facts.begin, oldest)
    with open_queues(directory) as opened:
        found = {key: opened.queues.get(*key) for key in opened.queues.listed()}
        minimums = {key: minimum_of(queue, PhysicalOffset(begin)) for key, queue in found.items() if queue is not None}
    listed = tried_again(lambda: _listed(directory))
    rows = EpochList(tuple(row for row in facts.epochs.rows if row.begin <= begin))
    beginning = Beginning(begin, facts.segment_bytes, rows, snapshots, minimums, has_compacted=bool(listed))
    check_beginning(begin, facts.segment_bytes, snapshots=snapshots, queue_minimums=minimums)
    ends = (sum(manifest.anchor) for _, _, manifest in listed)
    return FoundState(beginning, max([begin, *reflected.values(), *ends]), listed)


def _reflected(data: bytes) -> int:
    """What a snapshot reflects; -1 if that is not known."""
    snapshot = parse_snapshot(data.decode("utf-8", "replace"))
    return -1 if snapshot is None or snapshot.reflected is None else int(snapshot.reflected)


def _listed(directory: str) -> tuple[tuple[str, int, Manifest], ...]:
    keys = compacted_queues(directory)
    return tuple((*key, read_manifest(queue_folder(directory, key))) for key in keys)


def read_compacted(directory: str, topic: str, queue_id: int, file: ListedFile) -> Iterator[bytes]:
    """The bytes of one compacted file, which is whole. Raises StoreFormatError, CorruptRecordError, FileNotFoundError (a merge
    has replaced it), OSError."""
    folder = queue_folder(directory, (topic, queue_id))
    check_file(folder, queue_id, file)
    with open(os.path.join(folder, file.name), "rb") as source:
        while data := source.read(_READ_BYTES):
            yield data


def digest(data: bytes) -> str:
    """SHA-256, as manifests have it."""
    return hashlib.sha256(data).hexdigest()
