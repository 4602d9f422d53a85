"""The compacted queues of one store: which files hold what the log may no longer have.

    {store}/compacted/queues/{topic}/{queue id}/      compacted_files
                     /deletedqueue/                   of deleted topics, until the deletion is confirmed (deleted_queues)

The loop thread forgets topics; the compaction's thread adopts new manifests; any thread reads.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from operator import attrgetter
from typing import Final

from ...model.errors import SystemFault
from ..queues.deleted_queues import purge, restore, set_aside
from .compacted_files import CompactedReader, read_manifest
from .compacted_manifest import Manifest
from .compacted_rows import CompactedRow, DamagedRow

COMPACTED_FOLDER: Final = "compacted"
QUEUES_FOLDER: Final = "queues"
_TRIES_MAX: Final = 8  # a reader opens a file again, each time a merge was faster

QueueKey = tuple[str, int]

_last = attrgetter("last")


def compacted_queues(directory: str) -> list[QueueKey]:
    """The queues of a store that have compacted files, whether in use or not. Raises OSError."""
    base = os.path.join(directory, COMPACTED_FOLDER, QUEUES_FOLDER)
    topics = os.listdir(base) if os.path.isdir(base) else []
    found = ((topic, name) for topic in topics for name in os.listdir(os.path.join(base, topic)))
    return sorted((topic, int(name)) for topic, name in found if name.isascii() and name.isdigit())


def queue_folder(directory: str, key: QueueKey) -> str:
    """Where the files of a queue are in a store."""
    return os.path.join(directory, COMPACTED_FOLDER, QUEUES_FOLDER, key[0], str(key[1]))


def restore_compacted(directory: str, log_end: int) -> None:
    """Takes back the deletions of topics behind `log_end`, to which the log was cut. May be repeated. Raises OSError."""
    base = os.path.join(directory, COMPACTED_FOLDER)
    if os.path.isdir(base):
        restore(base, os.path.join(base, QUEUES_FOLDER), log_end)


class CompactedQueues:
    """`manifests`: of all compacted queues; read-only."""

    def __init__(self, directory: str) -> None:
        """`directory`: of the store. Raises StoreFormatError, OSError."""
        self._directory = directory
        self._base = os.path.join(directory, COMPACTED_FOLDER)
        self._lock = threading.Lock()
        self._forgotten: dict[str, int] = {}  # {topic: how often it was deleted}
        self.on_damage: Callable[[DamagedRow], None] = (
            _ask_nobody  # told of a record that has rotted and that the log lacks
        )
        self.manifests: dict[QueueKey, Manifest] = {
            key: read_manifest(self.folder(key)) for key in compacted_queues(directory)
        }

    def folder(self, key: QueueKey) -> str:
        """Where the queue's files are."""
        return queue_folder(self._directory, key)

    def begin(self, key: QueueKey, log_begin: int) -> int:
        """The first queue offset that is compacted, if it is below the first one that the log has; else that one."""
        manifest = self.manifests.get(key)
        return log_begin if manifest is None or not manifest.files else min(log_begin, manifest.files[0].first)

    # ---- changes

    def deletions(self, topic: str) -> int:
        """How often the topic was deleted; for `adopt`."""
        return self._forgotten.get(topic, 0)

    def adopt(self, key: QueueKey, manifest: Manifest, deletions: int) -> None:
        """A manifest that is on the disk now, unless the topic has been deleted since. Any thread."""
        with self._lock:
            if self.deletions(key[0]) == deletions:
                self.manifests[key] = manifest

    def forget_topic(self, topic: str, at: int) -> None:
        """The topic is deleted by an event that ends at byte `at` of the log; it may still be cut. Raises OSError."""
        with self._lock:
            self._forgotten[topic] = self.deletions(topic) + 1
            for key in [key for key in self.manifests if key[0] == topic]:
                del self.manifests[key]
        folder = os.path.join(self._base, QUEUES_FOLDER, topic)
        if os.path.isdir(folder):
            set_aside(self._base, folder, at)

    def purge(self, confirmed: int) -> None:
        """Deletes the files of topics whose deletion is confirmed. The compaction's thread. Raises OSError."""
        if os.path.isdir(self._base):
            purge(self._base, confirmed)

    # ---- reading

    def rows_from(
        self, key: QueueKey, offset: int, below: int, rows_max: int
    ) -> Iterator[tuple[CompactedReader, list[CompactedRow]]]:
        """The rows of [offset, below), at most `rows_max` of one file at a time, with a reader of their file that is open
        until the next ones are asked for. Raises StoreFormatError (damaged rows), SystemFault if a merge was faster at every
        try, OSError."""
        tries = 0
        while offset < below:
            manifest = self.manifests.get(key, Manifest())
            at = bisect_left(manifest.files, offset, key=_last)
            if at == len(manifest.files):
                return
            try:
                reader = CompactedReader(self.folder(key), manifest.files[at])
            except FileNotFoundError:
                tries += 1
                if tries == _TRIES_MAX:
                    raise self._too_fast(key) from None
                continue
            tries = 0
            with reader:
                index = reader.first_from(offset)
                while index < reader.file.rows and offset < below:
                    rows = reader.rows(index, min(index + rows_max, reader.file.rows))
                    index += len(rows)
                    found = [row for row in rows if row.offset < below]
                    if found:
                        yield reader, found
                    offset = rows[-1].offset + 1
            offset = max(offset, manifest.files[at].last + 1)

    def open_files(self, key: QueueKey, *, is_backward: bool = False) -> Iterator[CompactedReader]:
        """Readers of all files as they are listed now, oldest first or newest. All are open until the end, so that no merge
        interferes. Raises SystemFault if merges were faster at every try, OSError."""
        for _ in range(_TRIES_MAX):
            with ExitStack() as opened:
                try:
                    files = self.manifests.get(key, Manifest()).files
                    readers = [opened.enter_context(CompactedReader(self.folder(key), file)) for file in files]
                except FileNotFoundError:
                    continue
                yield from reversed(readers) if is_backward else readers
                return
        raise self._too_fast(key)

    def last_stored_to(self, key: QueueKey, stored_ms: int, below: int) -> int | None:
        """The last compacted offset below `below` stored at or before a time; None if there is none. Any thread.

        Raises as `open_files`.
        """
        for reader in self.open_files(key, is_backward=True):
            behind = min(reader.first_stored_from(stored_ms + 1), reader.first_from(below))
            if behind:
                return reader.row(behind - 1).offset
        return None

    def first_stored_from(self, key: QueueKey, stored_ms: int, below: int) -> int | None:
        """The first compacted offset below `below` stored at or after a time; None if there is none. Any thread.

        Raises as `open_files`.
        """
        for reader in self.open_files(key):
            at = reader.first_stored_from(stored_ms)
            if at < reader.file.rows:
                offset = reader.row(at).offset
                return offset if offset < below else None
        return None

    @staticmethod
    def _too_fast(key: QueueKey) -> SystemFault:
        return SystemFault(f"compacted files of {key[0]} queue {key[1]} are replaced as fast as they are read")


def _ask_nobody(_found: DamagedRow) -> None:
    """There is no other replica."""
