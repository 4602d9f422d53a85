"""Lite topics of deleted parents, kept until the deletion is confirmed.

A replica applies what it appends at once, but that may still be cut from its log, a deletion too. A parent may have a million
light queues: they stay where they are, and an empty file notes the deletion.

    deletedlight/{end of the deletion event, 20 digits}.{parent}
    confirmed past the event: units of records below it are removed, some queues at a time; then the note
    the log was cut below it: the note is removed when the store is opened, before anything is appended

So a parent that is made anew before that still has what its lite topics had, for a moment. Loop thread.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Final

from ...model.topics.light_queues import lite_prefix
from ..log.segment import NAME_DIGITS, make_directory, sync_directory
from .queue_engine import StoreQueues

DELETED_LIGHT_FOLDER: Final = "deletedlight"


class DeletedLights:
    """Of one store."""

    def __init__(self, store_directory: str, queues: StoreQueues, log_end: int) -> None:
        """Forgets deletions that are not in the log. Raises OSError."""
        self._folder = os.path.join(store_directory, DELETED_LIGHT_FOLDER)
        self._queues = queues
        self._left: deque[str] | None = None  # light queues of the first deletion, while it is carried out
        self._noted: deque[tuple[int, str]] = deque()  # (end of the event, parent), ascending
        for name in sorted(os.listdir(self._folder)) if os.path.isdir(self._folder) else ():
            at, parent = int(name[:NAME_DIGITS]), name[NAME_DIGITS + 1 :]
            if at <= log_end:
                self._noted.append((at, parent))
            else:
                os.unlink(os.path.join(self._folder, name))
                sync_directory(self._folder)

    def note(self, parent: str, at: int) -> None:
        """A deletion that ends at byte `at` of the log and may still be cut from it; durably. Raises OSError."""
        begin = lite_prefix(parent)
        if (at, parent) in self._noted or not any(name.startswith(begin) for name in self._queues.lights):
            return
        make_directory(self._folder)
        with open(self._path(at, parent), "wb"):
            pass
        sync_directory(self._folder)
        self._noted.append((at, parent))

    def is_due(self, confirmed: int) -> bool:
        """Whether `delete_some` has something to do."""
        return bool(self._noted) and self._noted[0][0] <= confirmed

    def delete_some(self, count: int, confirmed: int) -> None:
        """Carries out what is confirmed: at most `count` queues. Nothing may be staged. Raises OSError."""
        while count > 0 and self.is_due(confirmed):
            at, parent = self._noted[0]
            if self._left is None:
                begin = lite_prefix(parent)
                self._left = deque(name for name in self._queues.lights if name.startswith(begin))
            while self._left and count > 0:
                self._queues.delete_light(self._left.popleft(), confirmed, below=at)
                count -= 1
            if not self._left:
                self._left = None
                self._noted.popleft()
                os.unlink(self._path(at, parent))
                sync_directory(self._folder)

    def _path(self, at: int, parent: str) -> str:
        return os.path.join(self._folder, f"{at:0{NAME_DIGITS}d}.{parent}")
