"""An archive's directory, and its commits: a commit is in it completely or not at all.

    _archive.json                 the archive's identity, created with it
    _lock                         locked by the writing job (flock: released when the process dies)
    _readers                      shared by reading jobs, locked by a job that removes files
    _checkpoint/                  Spark's, of the query that archives
    _staging/batch-12/            written files; none ends in .parquet
    _manifest/batch-12.json       a commit (manifest.py)
    topic=orders/dt=2026-11-21/batch-12-0.parquet

A commit is *made* when its manifest exists: written under another name, synced, renamed, after the files in it were synced
in `_staging`. Then it is *settled*: its files are renamed into their places, the files that they replace are deleted, and
the staging directory is deleted last. At the next start, a staging directory with a manifest is settled, and one without is
deleted. So
- a reader that uses the manifests sees each commit whole or not at all;
- a reader that lists `topic=*/dt=*/*.parquet` sees committed rows only; while a commit is being settled, it sees some of
  its files, and for a compaction also files that are about to be replaced.

One local file system: commits need its rename.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from ....model.clock import monotonic_ms, sleep_ms
from ....model.errors import (
    ArchiveDamaged,
    ArchiveNotWritable,
    ConfigError,
    NoArchive,
    TargetInUse,
)
from .durable_files import locked_file, read_bounded, sync_directory, write_synced, write_whole
from .manifest import (
    DOCUMENT_BYTES_MAX,
    ArchivedFile,
    Catalogue,
    Commit,
    decode_commit,
    decode_identity,
    directory_of,
    encode_commit,
    encode_identity,
    is_file_path,
)

SETTLE_WAIT_MS: Final = 30_000
LOOK_AGAIN_MS: Final = 50
OURS: Final = frozenset(
    {"_archive.json", "_archive.json.new", "_lock", "_readers", "_checkpoint", "_manifest", "_staging"}
)


def local_path(key: str, text: str) -> str:
    """The absolute path of an option, which may be a file: URL. Raises ConfigError for another file system."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = ("file", text.removeprefix("file:"))
    if scheme != "file" or not rest:
        raise ConfigError(key, text, "a directory of this machine: an archive needs a local file system's rename")
    return os.path.abspath(os.path.expanduser(rest))


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task has written and synced, at `path`; `file.path` is still empty."""

    path: str
    topic: str
    date: str
    file: ArchivedFile


class ArchiveTree:
    """One archive's directory. Only the driver, which holds the lock, writes; anyone may read."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.checkpoint = os.path.join(root, "_checkpoint")
        self._identity = os.path.join(root, "_archive.json")
        self._manifests = os.path.join(root, "_manifest")
        self._staging = os.path.join(root, "_staging")

    def create(self) -> None:
        """Creates missing directories, and checks that they are writable.

        Raises ArchiveNotWritable, also if a directory has other files already.
        """
        try:
            if not self.exists() and (foreign := sorted(set(_names(self.root)) - OURS)):
                raise ArchiveNotWritable(self.root, f"it is no archive, and holds {foreign[0]}")
            for directory in (self.root, self._manifests, self._staging):
                os.makedirs(directory, exist_ok=True)
                probe = os.path.join(directory, f".probe-{uuid.uuid4().hex}")
                write_synced(probe, b"")
                os.unlink(probe)
        except OSError as error:
            raise ArchiveNotWritable(self.root, error.strerror or str(error)) from error

    def exists(self) -> bool:
        """Whether there is an archive here."""
        return os.path.exists(self._identity)

    def identify(self) -> str:
        """The archive's own name; created if it has none. The lock is held."""
        if not self.exists():
            write_whole(self._identity, encode_identity(uuid.uuid4().hex))
        return self.identity()

    def identity(self) -> str:
        """The archive's own name. Raises NoArchive or ArchiveDamaged."""
        try:
            return decode_identity(read_bounded(self._identity, DOCUMENT_BYTES_MAX), self._identity)
        except FileNotFoundError:
            raise NoArchive(self.root) from None

    def locked(self) -> AbstractContextManager[None]:
        """Locks the archive for writing. Raises TargetInUse if another process does, ArchiveNotWritable."""
        return locked_file(os.path.join(self.root, "_lock"), f"the archive {self.root}")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Prevents the removal of files meanwhile; files may be added. An archive that is not writable is not locked.

        Raises TargetInUse if a job has been removing files for half a minute.
        """
        deadline_ms = monotonic_ms() + SETTLE_WAIT_MS
        with contextlib.ExitStack() as held:
            while os.access(self.root, os.W_OK):
                try:
                    held.enter_context(self._readers(is_shared=True))
                    break
                except TargetInUse:
                    if monotonic_ms() > deadline_ms:
                        raise
                    sleep_ms(LOOK_AGAIN_MS)
            yield

    def unread(self) -> AbstractContextManager[None]:
        """Allows removing files meanwhile, because no job reads. Raises TargetInUse if one does."""
        return self._readers(is_shared=False)

    def _readers(self, *, is_shared: bool) -> AbstractContextManager[None]:
        return locked_file(os.path.join(self.root, "_readers"), f"the files of {self.root}", is_shared=is_shared)

    def staging(self, name: str) -> str:
        """Creates an empty directory for the files of a commit."""
        directory = os.path.join(self._staging, name)
        if os.path.isdir(directory):
            shutil.rmtree(directory)
        os.mkdir(directory)
        return directory

    def read_commit(self, name: str) -> Commit | None:
        """A commit by its name; None if it was never made. Raises ArchiveDamaged."""
        path = os.path.join(self._manifests, f"{name}.json")
        try:
            data = read_bounded(path, DOCUMENT_BYTES_MAX)
        except FileNotFoundError:
            return None
        commit = decode_commit(data, path)
        if commit.name != name:
            raise ArchiveDamaged(path, f"it is of {commit.name}")
        return commit

    def catalogue(self) -> Catalogue:
        """All commits. Raises NoArchive or ArchiveDamaged."""
        self.identity()
        while True:
            names = self._commit_names()
            commits = [commit for name in names if (commit := self.read_commit(name)) is not None]
            if names == self._commit_names():
                return Catalogue.of(commits, self.root)
            # else a compaction came between: the commits may name files that are gone

    def commit(
        self, name: str, staged: Sequence[StagedFile], *, query: str = "", replaces: Sequence[str] = ()
    ) -> Commit:
        """Makes the staged files part of the archive, all at once, and settles the commit. The lock is held."""
        ordered = sorted(staged, key=lambda each: (each.topic, each.date, each.file.ranges))
        files = []
        kept = set()
        for number, each in enumerate(ordered):
            path = f"{directory_of(each.topic, each.date)}/{name}-{number}.parquet"
            files.append(replace(each.file, path=path))
            staged_as = os.path.join(self._staging, name, _staged_name(path))
            os.rename(each.path, staged_as)
            kept.add(staged_as)
        with os.scandir(os.path.join(self._staging, name)) as entries:
            for leftover in [entry.path for entry in entries if entry.path not in kept]:
                os.unlink(leftover)  # of failed attempts of tasks
        sync_directory(os.path.join(self._staging, name))
        commit = Commit(name, tuple(files), query, tuple(replaces))
        write_whole(os.path.join(self._manifests, f"{name}.json"), encode_commit(commit))
        self._settle(commit)
        return commit

    def recover(self) -> None:
        """Settles commits that were made, and deletes the remains of others. The lock is held."""
        for name in _names(self._manifests):
            if not name.endswith(".json"):
                os.unlink(os.path.join(self._manifests, name))
        for name in _names(self._staging):
            commit = self.read_commit(name)
            if commit is None:
                shutil.rmtree(os.path.join(self._staging, name))
            else:
                self._settle(commit)

    def forget(self, names: Sequence[str]) -> None:
        """Deletes commits that are not needed any more (`Catalogue.spent`). The lock is held."""
        for name in names:
            os.unlink(os.path.join(self._manifests, f"{name}.json"))

    def settled(self) -> Catalogue:
        """All commits, once they are settled: for readers, who need no lock.

        Raises TargetInUse if a writer has not settled its commit for half a minute.
        """
        deadline_ms = monotonic_ms() + SETTLE_WAIT_MS
        while True:
            catalogue = self.catalogue()
            committed = {commit.name for commit in catalogue.commits}
            if committed.isdisjoint(_names(self._staging)):
                return catalogue
            try:
                with self.locked():
                    self.recover()
            except (TargetInUse, ArchiveNotWritable):
                if monotonic_ms() > deadline_ms:
                    raise
                sleep_ms(LOOK_AGAIN_MS)

    def listed(self) -> list[str]:
        """The paths of all files of rows in the directories, as a listing shows them."""
        found = []
        for topic in _directories(self.root, "topic="):
            for date in _directories(os.path.join(self.root, topic), "dt="):
                names = os.listdir(os.path.join(self.root, topic, date))
                found += [f"{topic}/{date}/{name}" for name in names if name.endswith(".parquet")]
        return sorted(found)

    def place(self, path: str) -> str:
        """The absolute path of a file of the archive."""
        return os.path.join(self.root, path)

    def _commit_names(self) -> list[str]:
        return [name.removesuffix(".json") for name in _names(self._manifests) if name.endswith(".json")]

    def _settle(self, commit: Commit) -> None:
        """Moves files into their places and deletes the files that they replace; may be repeated at any point."""
        directory = os.path.join(self._staging, commit.name)
        waiting = set(os.listdir(directory))
        changed = set()
        for file in commit.files:
            staged_as = _staged_name(file.path)
            place = self.place(file.path)
            changed |= {os.path.dirname(place), os.path.dirname(os.path.dirname(place)), self.root}
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if staged_as in waiting:
                os.rename(os.path.join(directory, staged_as), place)
        for path in commit.replaces:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.place(path))
        for each in sorted(changed):
            sync_directory(each)
        shutil.rmtree(directory)


def _staged_name(path: str) -> str:
    """The name of a file while it waits in `_staging`: not one of a file of rows."""
    assert is_file_path(path)
    return path.rsplit("/", 1)[1] + ".staged"


def _directories(parent: str, prefix: str) -> list[str]:
    with os.scandir(parent) as entries:
        return sorted(entry.name for entry in entries if entry.name.startswith(prefix) and entry.is_dir())


def _names(directory: str) -> list[str]:
    """The names in a directory, sorted; none if it does not exist."""
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
