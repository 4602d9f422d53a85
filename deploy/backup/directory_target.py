"""A directory as the target of backups: a disk of another machine, mounted here.

An object is written under a temporary name, synced and renamed. The manifest is replaced likewise, under a lock (`lock`)
that the kernel releases if the process dies; its version is the hash of its content.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ...model.errors import BackupConflict, BackupDamaged, BackupObjectMissing, BackupTargetFailed
from ...store.log.segment import NO_SPACE, sync_directory, write_fully
from .target import Listed

_PARTIAL: Final = ".partial"
_LOCK: Final = "lock"
_REMEDIES: Final = {
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
    errno.EROFS: "mount it so that it may be written",
    errno.ENOTDIR: "name a directory",
    errno.ENOENT: "make it, or mount what belongs there",
    errno.ESTALE: "mount it again",
}


class DirectoryTarget:
    """See `BackupTarget`. The directory must exist: a mount point that is not mounted is not filled."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """See `BackupTarget`."""
        return self._path

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        """See `BackupTarget`."""
        path = self._at(name)
        with self._mapped():
            self._check_there()
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._write(path, parts)

    def _write(self, path: str, parts: Iterable[bytes]) -> None:
        beside = path + _PARTIAL
        try:
            with self._mapped():
                fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                at = 0
                for part in parts:
                    with self._mapped():
                        write_fully(fd, part, at)
                    at += len(part)
                with self._mapped():
                    os.fsync(fd)
            finally:
                os.close(fd)
            with self._mapped():
                os.rename(beside, path)
                sync_directory(os.path.dirname(path))
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise

    def get(self, name: str, begin: int, end: int) -> bytes:
        """See `BackupTarget`."""
        try:
            with open(self._at(name), "rb") as file:
                data = os.pread(file.fileno(), end - begin, begin)
                while len(data) < end - begin and (
                    more := os.pread(file.fileno(), end - begin - len(data), begin + len(data))
                ):
                    data += more
        except FileNotFoundError:
            raise BackupObjectMissing(self.name, name) from None
        except OSError as error:
            raise self._failed(error) from error
        if len(data) != end - begin:
            raise BackupDamaged(self.name, f"{name} ends at byte {begin + len(data)}")
        return data

    def list(self, prefix: str) -> list[Listed]:
        """See `BackupTarget`. What was left half written counts as an object, so that it is deleted some day."""
        with self._mapped():
            self._check_there()
            return list(self._listed(prefix))

    def _listed(self, prefix: str) -> Iterator[Listed]:
        for folder, _, files in os.walk(self._at(prefix)):
            for file in files:
                path = os.path.join(folder, file)
                with suppress(FileNotFoundError):
                    facts = os.stat(path)
                    yield Listed(os.path.relpath(path, self._path), facts.st_size, int(facts.st_mtime * 1000))

    def delete(self, name: str) -> None:
        """See `BackupTarget`."""
        with self._mapped(), suppress(FileNotFoundError):
            os.unlink(self._at(name))

    def read(self, name: str) -> tuple[bytes, str] | None:
        """See `BackupTarget`."""
        with self._mapped():
            self._check_there()
            try:
                with open(self._at(name), "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                return None
        return data, _version(data)

    def replace(self, name: str, data: bytes, version: str | None) -> str:
        """See `BackupTarget`."""
        path = self._at(name)
        with self._mapped():
            self._check_there()
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(os.path.join(os.path.dirname(path), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with self._mapped():
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise BackupConflict(self.name) from None
            found = self.read(name)
            if (None if found is None else found[1]) != version:
                raise BackupConflict(self.name)
            self._write(path, (data,))
        finally:
            os.close(fd)
        return _version(data)

    def _at(self, name: str) -> str:
        return os.path.join(self._path, name)

    def _check_there(self) -> None:
        if not os.path.isdir(self._path):
            raise OSError(errno.ENOTDIR if os.path.exists(self._path) else errno.ENOENT, "no such directory")

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> BackupTargetFailed:
        remedy = _REMEDIES.get(error.errno or 0, "look at that disk")
        if error.errno in NO_SPACE:
            remedy = "free space there, or keep fewer days (--keep-days)"
        return BackupTargetFailed(self.name, f"{error.strerror or error}; {remedy}")


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
