"""Small files that are read and replaced whole: a crash at any moment leaves the old content or the new one.

Replacing is: a temporary file beside it, fsync, rename, fsync of the directory; it has happened for good once it returns.
`SmallFiles` is where that meets the operating system: the real one here, a simulated one in the tests. A full disk ends no
process: whoever replaces a file while it serves does so under `needs_room`, and again later.
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
"""How often what a full disk has refused is tried again."""


class SmallFiles(Protocol):
    """Files by path. All raise OSError."""

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """The first `bytes_max` bytes; None where there is no such file."""

    def replace(self, path: str, data: bytes) -> None:
        """The file holds `data` from now on, whatever happens."""

    def remove(self, path: str) -> None:
        """There is no such file any more; it was there."""

    def make_directory(self, path: str) -> None:
        """It is there from now on, with all on the way to it."""

    def boot_id(self) -> str:
        """Of the running kernel, on whose page cache files live; "" where it does not tell."""


class SystemFiles:
    """The operating system's."""

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
    """Around changes of small files: StoreNotWriteable where the disk has no room for one; the old file stays then."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise StoreNotWriteable(f"disk full: {error.strerror}") from error


SYSTEM_FILES: Final = SystemFiles()
