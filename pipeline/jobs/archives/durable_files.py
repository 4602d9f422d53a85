"""Files that are written completely or not at all, and locks that end with their process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from typing import Final

from ....model.errors import ArchiveNotWritable, TargetInUse

OWNER_BYTES_MAX: Final = 200


@contextlib.contextmanager
def locked_file(path: str, target: str, *, is_shared: bool = False) -> Iterator[None]:
    """Locks a file, which is created if missing. `target`: its meaning, for the error. `is_shared`: others may share the
    lock.

    Raises TargetInUse if another process holds it, ArchiveNotWritable if it cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ArchiveNotWritable(os.path.dirname(path), error.strerror or str(error)) from error
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, OWNER_BYTES_MAX, 0).decode("utf-8", "replace").strip()
            raise TargetInUse(target, owner or "unknown") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} of {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def read_bounded(path: str, bytes_max: int) -> bytes:
    """A file's bytes, at most one more than allowed: the decoder then refuses them."""
    with open(path, "rb") as file:
        return file.read(bytes_max + 1)


def write_synced(path: str, data: bytes) -> None:
    """Writes a file and syncs it."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: str, data: bytes) -> None:
    """Writes a file under another name, syncs it, renames it: `path` keeps its old content, or has all of `data`."""
    write_synced(path + ".new", data)
    os.rename(path + ".new", path)
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
