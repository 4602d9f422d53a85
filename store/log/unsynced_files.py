"""Queue files that were written and are not durable yet, and folders with new names.

The loop notes them. A worker makes those durable that are noted when its round begins, some files at a time. It starts
writing all of them before it waits for the first, which is several times faster if each has little to write. A folder is
synced only if a name was created in it: one sync per file would take longer than the files.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack, suppress

from .segment import start_writing, sync_directory


class UnsyncedFiles:
    """`note`, `note_names` and `forget` are for the loop, `sync_some` for a worker."""

    def __init__(self) -> None:
        self._files: dict[str, None] = {}
        self._folders: dict[str, None] = {}
        self._due: deque[str] = deque()  # files left in this round
        self._due_folders: list[str] = []
        self._is_round = False
        self._are_whole = True

    def __len__(self) -> int:
        return len(self._files)

    def note(self, paths: Iterable[str]) -> None:
        """Notes files that were written to."""
        for path in paths:
            self._files[path] = None

    def note_names(self, folders: Iterable[str]) -> None:
        """Notes folders in which names were created."""
        for folder in folders:
            self._folders[folder] = None

    def forget(self, folder: str) -> None:
        """Forgets everything below a deleted or moved folder."""
        below = folder + "/"
        for path in [path for path in list(self._files) if path.startswith(below)]:
            self._files.pop(path, None)

    def sync_some(self, files_max: int) -> bool | None:
        """Makes some files durable. None while files of this round are left; at its end whether all of them existed.

        A missing file was just deleted or set aside with its topic. Raises OSError.
        """
        if not self._is_round:
            self._is_round = self._are_whole = True
            self._due.extend(list(self._files))  # a snapshot: what the loop notes meanwhile is for the next round
            self._due_folders = list(self._folders)
        self._sync_files([self._due.popleft() for _ in range(min(files_max, len(self._due)))])
        if self._due:
            return None
        for folder in self._due_folders:
            self._folders.pop(folder, None)
            with suppress(FileNotFoundError):
                sync_directory(folder)
        self._is_round = False
        return self._are_whole

    def _sync_files(self, paths: list[str]) -> None:
        with ExitStack() as opened:
            fds = []
            for path in paths:
                self._files.pop(path, None)  # before the sync: what is written during it is noted for the next round
                fd = _open_file(path)
                if fd is None:
                    self._are_whole = False
                    continue
                opened.callback(os.close, fd)
                start_writing(fd)
                fds.append(fd)
            for fd in fds:
                os.fdatasync(fd)


def _open_file(path: str) -> int | None:
    """None if there is no such file (any more)."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def folders_to_sync(folder: str) -> list[str]:
    """The folders that get a new name when a file is created in `folder`: itself, and above it each with a missing child."""
    changed = [folder]
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
        changed.append(folder)
    return changed
