"""Small files that are read and replaced as a whole: a crash at any moment leaves the old content or the new one.

A replacement writes a temporary file beside the old one, fsyncs it, renames it and fsyncs the directory; it is durable when
the call returns. `SmallFiles` is the boundary to the operating system: the real one is here, the tests have a simulated
one. A full disk must not end the process: code that replaces a file while serving does so under `needs_room`, and retries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from ...model.errors import StoreNotWriteable
from ..log.segment import NO_SPACE, make_directory, sync_directory
from .store_files import current_boot_id

_SUFFIX: Final = ".new"
NO_ROOM_RETRY_MS: Final = 200
"""Interval of retries after the disk was full."""


class SmallFiles(Protocol):
    """Files by path. All methods raise OSError."""

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """The first `bytes_max` bytes; None if there is no such file."""

    def replace(self, path: str, data: bytes) -> None:
        """Makes `data` the file's content, durably."""

    def remove(self, path: str) -> None:
        """Deletes an existing file, durably."""

    def make_directory(self, path: str) -> None:
        """Creates the directory and its missing parents, durably."""

    def boot_id(self) -> str:
        """The boot id of the running kernel, whose page cache holds the files; "" if unknown."""


class SystemFiles:
    """The files of the operating system."""

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """See `SmallFiles`."""
        try:
            with open(path, "rb") as file:
                return file.read(bytes_max)
        except FileNotFoundError:
            return None

    def replace(self, path: str, data: bytes) -> None:
        """See `SmallFiles`."""
        temporary = path + _SUFFIX
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(os.path.dirname(path))

    def remove(self, path: str) -> None:
        """See `SmallFiles`."""
        os.unlink(path)
        sync_directory(os.path.dirname(path))

    def make_directory(self, path: str) -> None:
        """See `SmallFiles`."""
        make_directory(path)

    def boot_id(self) -> str:
        """See `SmallFiles`."""
        return current_boot_id()


@contextmanager
def needs_room() -> Iterator[None]:
    """For changes of small files: raises StoreNotWriteable if the disk has no room; the old file then stays."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise StoreNotWriteable(f"disk full: {error.strerror}") from error


SYSTEM_FILES: Final = SystemFiles()
