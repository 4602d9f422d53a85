"""What a restore reads from a target that anybody may have written to: manifests and state points."""

from __future__ import annotations

import json
import zlib
from random import Random

from zenitmq.broker.replication.beginning import Beginning
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.deploy.backup.manifest import BackupManifest, LogObject, StatePoint, Stretch, decode_manifest
from zenitmq.deploy.backup.state_point import CompactedObject, CompactedQueue, PointContent, parse_point
from zenitmq.model.errors import BackupDamaged, BackupRefused
from zenitmq.store.compaction.compacted_manifest import ListedFile, Manifest

from .mutation import document_bytes, mutated, mutated_document
from .target import Target

_SHA = "5a" * 32
_OBJECTS = (
    LogObject("log/00000000000000004096-1-aa", 4096, 8192, 4000, _SHA, 1, 10),
    LogObject("log/00000000000000008192-2-bb", 8192, 9000, 808, _SHA, 2, 20),
)
_POINTS = (StatePoint("state/00000000000000004096-1-cc", 4096, 5000, 100, _SHA, 5),)
_MANIFEST = BackupManifest(
    "9f1c", "a", "", 4096, 3, EpochList.of([(1, 0), (2, 8192)]), (Stretch(4096, _OBJECTS, _POINTS),), 7, 99
)
_FILES = Manifest((ListedFile(0, 400, 3, 7, 3, 9, 0),), 12, (4096, 80), 4, 1, 0)
_QUEUE = CompactedQueue("t", 0, _FILES, (CompactedObject("compacted/0-a", _FILES.files[0].size_bytes, _SHA),))
_POINT = PointContent(Beginning(4096, 4096, EpochList.of([(1, 0)]), {}, {("t", 0): 5}, True), (_QUEUE,))


def _manifest(draw: Random) -> bytes:
    document = json.loads(_MANIFEST.encode().partition(b"\n")[2])
    text = document_bytes(mutated_document(document, draw), draw)
    data = bytearray(f"{zlib.crc32(text):08x}\n".encode() + text)
    return bytes(mutated(data, draw) if draw.randrange(4) == 0 else data)


def check_manifest(data: bytes, _: Random) -> None:
    """The same when it is written again."""
    found = decode_manifest(data, "here", _MANIFEST.group)
    assert decode_manifest(found.encode(), "here", _MANIFEST.group) == found
    assert all(name.count("/") == 1 and ".." not in name for name in found.object_names())


def _point(draw: Random) -> bytes:
    return document_bytes(mutated_document(json.loads(_POINT.encode()), draw), draw)


def check_point(data: bytes, _: Random) -> None:
    """The same when it is written again."""
    found = parse_point(data, "here", "state/a")
    assert parse_point(found.encode(), "here", "state/a") == found


BACKUP_TARGETS = (
    Target("backup-manifest", _manifest, check_manifest, (BackupRefused,)),
    Target("backup-point", _point, check_point, (BackupDamaged,)),
)
