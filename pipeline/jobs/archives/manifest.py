"""The manifests of an archive: its identity, and a commit for each batch and each compaction. Pure.

`_manifest/NAME.json`, one line of JSON each:

    {"version": 1, "name": "batch-12", "query": "<id of the Spark query>", "files": [
      {"path": "topic=orders/dt=2026-11-21/batch-12-0.parquet", "rows": 200, "size_bytes": 31337, "crc32": 305419896,
       "stored_from_ms": ..., "stored_to_ms": ..., "ranges": [["broker-a", 0, 100, 300]]}], "replaces": []}

- The archive consists of the files of all its commits, without those that a compaction `replaces`.
- A range [broker, queue id, begin, end) has each of its offsets once, in this order, so `rows` is their sum.
- `crc32` is of the whole file, unsigned. Times are store times, ms since the epoch, both inclusive.

Every decoder is bounded, and raises ArchiveDamaged with the path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from ....model.errors import ArchiveDamaged
from ...reading.offsets import QueueKey
from .spans import Span

VERSION: Final = 1
DOCUMENT_BYTES_MAX: Final = 64 << 20
FILES_MAX: Final = 100_000  # of one commit
RANGES_MAX: Final = 100_000  # of one file
NUMBER_MAX: Final = (1 << 63) - 1

_NAME: Final = re.compile(r"(batch|compact)-(0|[1-9]\d{0,17})", re.ASCII)
_PATH: Final = re.compile(
    r"topic=([\w%.-]{1,800})/dt=(\d{4}-\d\d-\d\d)/((?:batch|compact)-\d{1,18}-\d{1,9}\.parquet)", re.ASCII
)
_IDENTITY: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class FileRange:
    """The offsets [begin, end) of one queue of a file's topic."""

    broker: str
    queue_id: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One Parquet file. `path` is relative to the archive and contains the topic and the date (UTC, of storing)."""

    path: str
    rows: int
    size_bytes: int
    crc32: int
    stored_from_ms: int
    stored_to_ms: int
    ranges: tuple[FileRange, ...]

    @property
    def topic(self) -> str:
        """The topic of its messages."""
        return unquote(self.path.split("/")[0].removeprefix("topic="))

    @property
    def date(self) -> str:
        """The date in its path: 2026-11-21."""
        return self.path.split("/")[1].removeprefix("dt=")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[1]


@dataclass(frozen=True, slots=True)
class Commit:
    """Files that were added to the archive at once. `query`: the Spark query that wrote a batch; empty for a compaction."""

    name: str
    files: tuple[ArchivedFile, ...]
    query: str = ""
    replaces: tuple[str, ...] = ()

    @property
    def batch(self) -> int | None:
        """The number of the batch; None for a compaction."""
        kind, _, number = self.name.partition("-")
        return int(number) if kind == "batch" else None

    def spans(self) -> dict[QueueKey, list[Span]]:
        """The ranges of each queue, with repetitions."""
        return spans_of((file.topic, file.ranges) for file in self.files)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The content of an archive, from all of its commits."""

    commits: tuple[Commit, ...]
    files: tuple[ArchivedFile, ...]

    @staticmethod
    def of(commits: Iterable[Commit], path: str) -> Catalogue:
        """From all commits of the archive at `path`. Raises ArchiveDamaged if two of them list one file."""
        ordered = tuple(sorted(commits, key=lambda commit: commit.name))
        replaced = {path for commit in ordered for path in commit.replaces}
        files: dict[str, ArchivedFile] = {}
        for commit in ordered:
            for file in commit.files:
                if file.path in files:
                    raise ArchiveDamaged(path, f"{file.path} is listed twice")
                if file.path not in replaced:
                    files[file.path] = file
        return Catalogue(ordered, tuple(files[path] for path in sorted(files)))

    @property
    def rows(self) -> int:
        """The number of messages."""
        return sum(file.rows for file in self.files)

    @property
    def last_batch(self) -> Commit | None:
        """The batch with the highest number."""
        batches = [commit for commit in self.commits if commit.batch is not None]
        return max(batches, key=lambda commit: commit.batch or 0, default=None)

    @property
    def next_compaction(self) -> int:
        """A number that no compaction has used."""
        return max((int(each.name.split("-")[1]) + 1 for each in self.commits if each.batch is None), default=0)

    def spans(self) -> dict[QueueKey, list[Span]]:
        """The ranges of each queue, with repetitions."""
        return spans_of((file.topic, file.ranges) for file in self.files)

    def spent(self) -> list[str]:
        """The commits that are not needed any more, in an order in which they may be deleted one by one.

        Needed are those with a file that was not replaced, the last batch, and each commit that replaces a file listed by a
        needed commit: without it that file, which is gone, would count again.
        """
        live = {file.path for file in self.files}
        last = self.last_batch
        spent = {commit.name: commit for commit in self.commits if commit is not last}
        kept = [commit for commit in self.commits if commit is last or any(file.path in live for file in commit.files)]
        while kept:
            listed = {file.path for commit in kept for file in commit.files}
            for commit in kept:
                spent.pop(commit.name, None)
            kept = [commit for commit in spent.values() if not listed.isdisjoint(commit.replaces)]
        return [commit.name for commit in sorted(spent.values(), key=_age)]


def _age(commit: Commit) -> tuple[bool, int]:
    """Orders commits so that none comes before one whose files it replaces."""
    kind, _, number = commit.name.partition("-")
    return kind != "batch", int(number)


def spans_of(ranges: Iterable[tuple[str, Iterable[FileRange]]]) -> dict[QueueKey, list[Span]]:
    """The ranges of each queue, with repetitions, from (topic, ranges) of files."""
    found: dict[QueueKey, list[Span]] = {}
    for topic, each_range in ranges:
        for each in each_range:
            found.setdefault(QueueKey(topic, each.broker, each.queue_id), []).append((each.begin, each.end))
    return found


def directory_of(topic: str, date: str) -> str:
    """The folder for the files of a topic's day: topic=orders/dt=2026-11-21."""
    return f"topic={quote(topic, safe='')}/dt={date}"


def is_file_path(path: str) -> bool:
    """Whether a path, relative to an archive, is that of a file of rows."""
    return _PATH.fullmatch(path) is not None


def encode_commit(commit: Commit) -> bytes:
    """Encodes a commit."""
    document = {
        "version": VERSION,
        "name": commit.name,
        "query": commit.query,
        "files": [file_document(file) for file in commit.files],
        "replaces": list(commit.replaces),
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def file_document(file: ArchivedFile) -> dict[str, Any]:
    """A file as a JSON object."""
    return {
        "path": file.path,
        "rows": file.rows,
        "size_bytes": file.size_bytes,
        "crc32": file.crc32,
        "stored_from_ms": file.stored_from_ms,
        "stored_to_ms": file.stored_to_ms,
        "ranges": [[each.broker, each.queue_id, each.begin, each.end] for each in file.ranges],
    }


def decode_commit(data: bytes, path: str) -> Commit:
    """Decodes a commit. Raises ArchiveDamaged."""
    fields = _Fields(_document(data, path), path)
    name = fields.text("name")
    if _NAME.fullmatch(name) is None:
        raise ArchiveDamaged(path, f"name {name[:40]!r}")
    files = tuple(_file(_Fields(each, path)) for each in fields.items("files", FILES_MAX))
    replaces = fields.items("replaces", FILES_MAX)
    for each in replaces:
        if not isinstance(each, str) or not is_file_path(each):
            raise ArchiveDamaged(path, f"replaces {str(each)[:80]!r}")
    return Commit(name, files, fields.text("query"), tuple(replaces))


def encode_identity(identity: str) -> bytes:
    """Encodes `_archive.json`."""
    return json.dumps({"version": VERSION, "archive": identity}).encode() + b"\n"


def decode_identity(data: bytes, path: str) -> str:
    """The 32 hexadecimal digits that name an archive. Raises ArchiveDamaged."""
    identity = _Fields(_document(data, path), path).text("archive")
    if _IDENTITY.fullmatch(identity) is None:
        raise ArchiveDamaged(path, f"archive {identity[:40]!r}")
    return identity


def _document(data: bytes, path: str) -> Mapping[str, Any]:
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ArchiveDamaged(path, f"{len(data)} bytes; at most {DOCUMENT_BYTES_MAX}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ArchiveDamaged(path, "no JSON") from None
    if not isinstance(document, dict):
        raise ArchiveDamaged(path, "no JSON object")
    if document.get("version") != VERSION:
        raise ArchiveDamaged(path, f"version {str(document.get('version'))[:40]}; this program knows {VERSION}")
    return document


def _file(fields: _Fields) -> ArchivedFile:
    path = fields.text("path")
    if not is_file_path(path):
        raise ArchiveDamaged(fields.path, f"path {path[:80]!r}")
    ranges = tuple(_range(each, fields.path) for each in fields.items("ranges", RANGES_MAX))
    rows = fields.number("rows", NUMBER_MAX)
    if rows != sum(each.end - each.begin for each in ranges):
        raise ArchiveDamaged(fields.path, f"{path}: {rows} rows, but ranges of others")
    return ArchivedFile(
        path,
        rows,
        fields.number("size_bytes", NUMBER_MAX),
        fields.number("crc32", (1 << 32) - 1),
        fields.number("stored_from_ms", NUMBER_MAX),
        fields.number("stored_to_ms", NUMBER_MAX),
        ranges,
    )


def _range(value: object, path: str) -> FileRange:
    if isinstance(value, list) and len(value) == 4:
        broker, queue_id, begin, end = value
        if (
            isinstance(broker, str)
            and 0 < len(broker) < 256
            and all(type(number) is int for number in (queue_id, begin, end))
            and queue_id >= 0
            and 0 <= begin < end <= NUMBER_MAX
        ):
            return FileRange(broker, queue_id, begin, end)
    raise ArchiveDamaged(path, f"range {str(value)[:80]}")


@dataclass(frozen=True, slots=True)
class _Fields:
    """An object of a document that was read from `path`."""

    document: Any
    path: str

    def _get(self, name: str) -> object:
        if not isinstance(self.document, dict) or name not in self.document:
            raise ArchiveDamaged(self.path, f"no {name}")
        return self.document[name]

    def text(self, name: str) -> str:
        value = self._get(name)
        if not isinstance(value, str) or len(value) > 4096:
            raise ArchiveDamaged(self.path, f"{name} is no text")
        return value

    def number(self, name: str, maximum: int) -> int:
        value = self._get(name)
        if type(value) is not int or not 0 <= value <= maximum:
            raise ArchiveDamaged(self.path, f"{name} {str(value)[:40]}")
        return value

    def items(self, name: str, maximum: int) -> Sequence[Any]:
        value = self._get(name)
        if not isinstance(value, list) or len(value) > maximum:
            raise ArchiveDamaged(self.path, f"{name} is no list of at most {maximum}")
        return value
