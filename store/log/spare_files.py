"""Expired queue files and index files, filled with zeros and used again, like expired segments.

The first use of a page of the page cache costs more than the units or entries that are written into it; the pages of a file
that has just expired are cached. A file passes these steps:

    keep: renamed to here -> by the worker: its old directory synced, zeros written, the file synced -> take: renamed
                                     \\-> too many: deleted

This order survives a power failure: a file has durably left its old place before it is zeroed, and is durably zeroed before
it gets a new name. A file found here at a start may be one whose new name was lost, with units in it: it is deleted.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from .segment import NO_SPACE, segment_name, sync_directory, write_fully

SPARE_QUEUE_FOLDER: Final = "sparequeue"
SPARE_INDEX_FOLDER: Final = "spareindex"
_STEP_BYTES: Final = 256 * 1024
_ZEROS: Final = memoryview(bytes(_STEP_BYTES))


def _do_at_once(work: Callable[[], None]) -> None:
    """Used without a worker: does the work in the calling thread."""
    work()


class SpareFiles:
    """The zeroed files of one size. One thread keeps and one takes; `run_soon` may let a worker do the slow work."""

    def __init__(self, directory: str, *, size_bytes: int, blank_bytes: int, bytes_max: int) -> None:
        """`blank_bytes`: the part at the front of a file that must be zeros; `bytes_max`: of all kept files, at least one
        file; 0: none.

        Deletes the files that an earlier process kept. Raises OSError.
        """
        self._directory = directory
        self._blank_bytes = blank_bytes
        self._files_max = max(1, bytes_max // size_bytes) if bytes_max else 0
        self._ready: deque[str] = deque()
        self._number = 0
        self.run_soon: Callable[[Callable[[], None]], object] = _do_at_once
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            os.unlink(os.path.join(directory, name))

    def __len__(self) -> int:
        """How many files `take` can give out."""
        return len(self._ready)

    def keep(self, path: str) -> None:
        """Takes over a file that nobody reads or writes any more. Raises OSError."""
        os.makedirs(self._directory, exist_ok=True)
        spare = os.path.join(self._directory, segment_name(self._number))
        self._number += 1
        os.rename(path, spare)
        self.run_soon(partial(self._make_blank, spare, os.path.dirname(path)))

    def _make_blank(self, spare: str, from_directory: str) -> None:
        if len(self._ready) >= self._files_max:
            os.unlink(spare)
            return
        try:
            sync_directory(from_directory)
        except FileNotFoundError:
            os.unlink(spare)  # set aside or deleted with its topic: we cannot make sure that the old name is gone
            return
        fd = os.open(spare, os.O_RDWR | os.O_CLOEXEC)
        try:
            for at in range(0, self._blank_bytes, _STEP_BYTES):
                write_fully(fd, _ZEROS[: self._blank_bytes - at], at)
            os.fdatasync(fd)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            os.unlink(spare)  # this file system does not overwrite in place
            return
        finally:
            os.close(fd)
        self._ready.append(spare)

    def take(self, path: str) -> bool:
        """Renames the file zeroed last to `path`; False if there is none. Durable after a sync of the directory of `path`."""
        if not self._ready:
            return False
        os.rename(self._ready.pop(), path)
        return True
