"""The scrub of compacted files: after each round over the log, a worker reads them a little at a time.

    a round of the log ends --> file after file: its rows, then its records --> a rotten record: an event; from our own log if
                                that still has it, else a replica is asked (compacted_repairs)

A record that nobody has is lost: readers are told (MESSAGES_LOST), and merges of its queue wait. Loop thread, except the
worker's functions.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import Any, Final

from ...model.clock import Clock
from ...model.events.table import COMPACTED_DAMAGE_FOUND, COMPACTED_DAMAGE_MENDED
from ...model.events.telling import tell
from ...store.compaction.compacted_check import CheckedRows, check_rows, mend_row
from ...store.compaction.compacted_manifest import ListedFile
from ...store.compaction.compacted_queues import QueueKey
from ...store.compaction.compacted_rows import DamagedRow
from ...store.message_store import MessageStore
from ..worker_pool import WorkerPool

log = logging.getLogger(__name__)

STEP_BYTES: Final = 1 << 20


class CompactedScrub:
    """Of one broker."""

    def __init__(self, store: MessageStore, clock: Clock, workers: WorkerPool) -> None:
        """`store` is open."""
        self._store = store
        self._clock = clock
        self._workers = workers
        self._files: deque[tuple[QueueKey, ListedFile]] = deque()
        self._row = 0  # the next one of the first file
        self._is_reading = self._is_asked = False
        self._rate = 1
        self._next_ms = 0
        self.read_bytes = self.damaged_records = self.damaged_files = 0

    def begin(self, bytes_per_second: int, *, is_asked: bool) -> None:
        """A round begins, unless one is under way. `is_asked`: it does not wait for calm."""
        self._rate, self._is_asked = max(1, bytes_per_second), is_asked
        if not self._files:
            manifests = self._store.compacted.manifests.copy()
            self._files.extend((key, file) for key, manifest in manifests.items() for file in manifest.files)
            self._row = 0

    def document(self) -> dict[str, Any]:
        """For statistics: what was read and found since the broker's start."""
        return {
            "is_running": bool(self._files),
            "read_bytes": self.read_bytes,
            "damaged_records": self.damaged_records,
            "damaged_files": self.damaged_files,
        }

    def on_tick(self, *, is_busy: bool) -> None:
        """Reads on, if that is due."""
        if not self._files or self._is_reading or (is_busy and not self._is_asked):
            return
        if self._clock.monotonic_ms() < self._next_ms:
            return
        key, file = self._files[0]
        self._is_reading = True
        folder = self._store.compacted.folder(key)
        self._workers.run_aside(
            partial(check_rows, folder, key, file, self._row, STEP_BYTES), partial(self._on_checked, key, file)
        )

    def _on_checked(self, key: QueueKey, file: ListedFile, checked: CheckedRows | None) -> None:
        """None: the step failed, as the log says; the next file follows."""
        self._is_reading = False
        read_bytes = 0 if checked is None else checked.read_bytes
        self.read_bytes += read_bytes
        self._next_ms = self._clock.monotonic_ms() + read_bytes * 1000 // self._rate
        if checked is None or checked.end is None:
            self._files.popleft()
            self._row = 0
        else:
            self._row = checked.end
        if checked is None:
            return
        if checked.reason:
            self.damaged_files += 1
            topic, queue = key
            tell(log, COMPACTED_DAMAGE_FOUND, topic=topic, queue=queue, what=file.name, why=checked.reason)
        for found in checked.damaged:
            self.damaged_records += 1
            topic, queue = key
            tell(log, COMPACTED_DAMAGE_FOUND, topic=topic, queue=queue, offset=found.row.offset, what=file.name)
            self._workers.run_aside(partial(self._mended_from_log, found), partial(self._on_looked, found))

    def _mended_from_log(self, found: DamagedRow) -> bool:
        """In a worker: whether our own log has the record, or the file is not in use any more."""
        record = self._store.read_log(found.row.physical, found.row.size)
        if record is None or not found.is_whole(record):
            return False
        mend_row(found, record)
        return True

    def _on_looked(self, found: DamagedRow, is_mended: bool | None) -> None:  # a worker's result
        if is_mended:
            topic, queue = found.key
            tell(log, COMPACTED_DAMAGE_MENDED, topic=topic, queue=queue, offset=found.row.offset, why="from the log")
        else:
            self._store.compacted.on_damage(found)
