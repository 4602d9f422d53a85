"""The manifest of one group's backup: it alone says which objects count. Pure.

    {8 hex digits: CRC-32 of the rest}\\n{one JSON object}

    stretch    a part of the log without a gap: objects that follow each other, and the points at which a store may begin
      object   bytes [begin, end) of the log, as they are on the disk. `closed`: it ends where its segment ends, and holds
               `size_bytes`, up to the blank that fills the segment; any other is the tail, which a longer one replaces
      point    the state with which a store begins whose log begins at `begin`; usable once the log reaches `needs_end`

There are several stretches only where a gap lies between: what retention deleted before it was uploaded.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ...broker.replication.epochs import NO_EPOCHS, EpochList
from ...model.errors import BackupRefused

VERSION: Final = 1
MANIFEST: Final = "manifest"
"""Its name below the group's."""
MANIFEST_BYTES_MAX: Final = 64 << 20
_OFFSET_LIMIT: Final = 1 << 62
_NAME: Final = re.compile(r"(?:log|state|compacted)/[0-9a-f-]{1,120}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class LogObject:
    """See above. `epoch`: the newest one of its bytes' log when it was uploaded."""

    name: str
    begin: int
    end: int
    size_bytes: int
    sha256: str
    epoch: int
    uploaded_ms: int

    def is_closed(self, segment_bytes: int) -> bool:
        """Whether no longer one will replace it."""
        return self.end % segment_bytes == 0


@dataclass(frozen=True, slots=True)
class StatePoint:
    """See above; its object is a JSON document (state_point)."""

    name: str
    begin: int
    needs_end: int
    size_bytes: int
    sha256: str
    taken_ms: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """See above; `begin`: where its first object begins, or will."""

    begin: int
    objects: tuple[LogObject, ...] = ()
    points: tuple[StatePoint, ...] = ()

    @property
    def end(self) -> int:
        """How far the log is uploaded."""
        return self.objects[-1].end if self.objects else self.begin

    @property
    def size_bytes(self) -> int:
        """How much of the log it holds."""
        return sum(each.size_bytes for each in self.objects)

    def usable_points(self) -> tuple[StatePoint, ...]:
        """The points at which a store may begin now, oldest first."""
        return tuple(point for point in self.points if point.needs_end <= self.end)

    @property
    def is_restorable(self) -> bool:
        """Whether a store can be made of it. One whose log begins at 0 needs no state: it is all in the log."""
        return bool(self.objects) and (self.begin == 0 or bool(self.usable_points()))


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """`group`: the broker name. `group_id`: "" of a broker alone. `promised`: the highest epoch that a replica promised.
    `sequence`: grows with each replacement."""

    cluster_id: str
    group: str
    group_id: str
    segment_bytes: int
    promised: int = 0
    epochs: EpochList = NO_EPOCHS
    stretches: tuple[Stretch, ...] = ()
    sequence: int = 0
    written_ms: int = 0

    @property
    def newest(self) -> Stretch | None:
        """The stretch that grows."""
        return self.stretches[-1] if self.stretches else None

    @property
    def end(self) -> int:
        """How far the log is uploaded; 0 if nothing is."""
        return self.stretches[-1].end if self.stretches else 0

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """What was never uploaded, between stretches."""
        pairs = zip(self.stretches, self.stretches[1:], strict=False)
        return tuple((before.end, after.begin) for before, after in pairs)

    def object_names(self) -> set[str]:
        """The objects that it names itself; those of compacted files are named by its points."""
        objects = {each.name for stretch in self.stretches for each in stretch.objects}
        return objects | {point.name for stretch in self.stretches for point in stretch.points}

    def with_newest(self, stretch: Stretch) -> BackupManifest:
        """With another newest stretch."""
        return replace(self, stretches=(*self.stretches[:-1], stretch))

    def replaced(self, old: LogObject) -> LogObject | None:
        """What holds the same part of the log, and perhaps more, under another name; None if nothing does."""
        objects = (each for stretch in self.stretches for each in stretch.objects)
        return next(
            (each for each in objects if each.begin == old.begin and each.end >= old.end and each.name != old.name),
            None,
        )

    def with_object(self, old: LogObject, new: LogObject) -> BackupManifest:
        """With another object for the same part of the log."""
        stretches = (
            replace(stretch, objects=tuple(new if each == old else each for each in stretch.objects))
            for stretch in self.stretches
        )
        return replace(self, stretches=tuple(stretches))

    def encode(self) -> bytes:
        """The content of the file."""
        document = asdict(self) | {
            "version": VERSION,
            "epochs": [[row.number, row.begin] for row in self.epochs.rows],
        }
        text = json.dumps(document)
        return f"{zlib.crc32(text.encode()):08x}\n{text}".encode()


def decode_manifest(data: bytes, where: str, group: str) -> BackupManifest:
    """Raises BackupRefused if it is damaged, of a later version, or of another group. `where`: for the text."""
    checksum, _, text = data.decode("utf-8", "replace").partition("\n")
    if len(data) > MANIFEST_BYTES_MAX or checksum != f"{zlib.crc32(text.encode()):08x}":
        raise BackupRefused(
            where,
            "the manifest is damaged; bring back an older version of it from the target's own copies or snapshots",
        )
    try:
        document: Any = json.loads(text)
        version = document["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BackupRefused(where, f"it is no manifest of a backup: {_words(error)}") from error
    if version != VERSION:
        raise BackupRefused(
            where, f"the manifest is of version {str(version)[:20]}, and this release knows {VERSION}; upgrade"
        )
    try:
        manifest = _manifest_of(document)
        _check(manifest)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BackupRefused(where, f"the manifest contradicts itself: {_words(error)}; another release's?") from error
    if manifest.group != group:
        raise BackupRefused(
            where, f"it is the backup of group {manifest.group}, in a place of another name: move it back"
        )
    return manifest


def _manifest_of(document: dict[str, Any]) -> BackupManifest:
    return BackupManifest(
        cluster_id=_text(document["cluster_id"]),
        group=_text(document["group"]),
        group_id=_text(document["group_id"]),
        segment_bytes=_count(document["segment_bytes"]),
        promised=_count(document["promised"]),
        epochs=EpochList.of((_count(number), _count(begin)) for number, begin in document["epochs"]),
        stretches=tuple(
            Stretch(
                _count(stretch["begin"]),
                tuple(_object_of(each) for each in stretch["objects"]),
                tuple(_point_of(each) for each in stretch["points"]),
            )
            for stretch in document["stretches"]
        ),
        sequence=_count(document["sequence"]),
        written_ms=_count(document["written_ms"]),
    )


def _object_of(entry: dict[str, Any]) -> LogObject:
    return LogObject(
        _named(entry["name"]),
        _count(entry["begin"]),
        _count(entry["end"]),
        _count(entry["size_bytes"]),
        _hashed(entry["sha256"]),
        _count(entry["epoch"]),
        _count(entry["uploaded_ms"]),
    )


def _point_of(entry: dict[str, Any]) -> StatePoint:
    return StatePoint(
        _named(entry["name"]),
        _count(entry["begin"]),
        _count(entry["needs_end"]),
        _count(entry["size_bytes"]),
        _hashed(entry["sha256"]),
        _count(entry["taken_ms"]),
    )


def _check(manifest: BackupManifest) -> None:
    """Raises ValueError."""
    segment_bytes = manifest.segment_bytes
    if segment_bytes < 1:
        raise ValueError("segment_bytes 0")
    before = 0
    for stretch in manifest.stretches:
        at = stretch.begin
        if at < before or at % segment_bytes:
            raise ValueError(f"a stretch begins at {at}")
        for each in stretch.objects:
            fits = at == each.begin and at % segment_bytes == 0 and 0 < each.end - each.begin <= segment_bytes
            if not fits or not 0 < each.size_bytes <= each.end - each.begin:
                raise ValueError(f"{each.name} begins at {each.begin} and ends at {each.end}")
            if not each.is_closed(segment_bytes) and each.size_bytes != each.end - each.begin:
                raise ValueError(f"{each.name} has {each.size_bytes} bytes")
            at = each.end
        for point in stretch.points:
            if not stretch.begin <= point.begin <= point.needs_end or point.begin % segment_bytes:
                raise ValueError(f"{point.name} begins at {point.begin}")
        before = at


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < _OFFSET_LIMIT:
        raise ValueError(f"{str(value)[:40]} is no count")
    return value


def _text(value: object) -> str:
    if type(value) is not str or len(value) > 255:
        raise ValueError(f"{str(value)[:40]} is no name")
    return value


def _named(value: object) -> str:
    if type(value) is not str or _NAME.fullmatch(value) is None:
        raise ValueError(f"{str(value)[:40]} is no object's name")
    return value


def _hashed(value: object) -> str:
    if type(value) is not str or _SHA256.fullmatch(value) is None:
        raise ValueError(f"{str(value)[:40]} is no checksum")
    return value


def _words(error: BaseException) -> str:
    return f"{type(error).__name__} {error}"[:200]
