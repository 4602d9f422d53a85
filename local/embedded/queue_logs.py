"""The directory of an embedded engine: one log a queue, one log of the state, and a file that says what it is.

    embedded.json   {"format": 1, "segment_bytes": ..., "cluster_id": ...}
    lock            held by the one program that has it open
    state/          topics, groups, offsets and leases, as events (broker/state/state_log); config/: its snapshots
    queues/TOPIC/QUEUE/ ...

A log is opened when it is first used, so a start takes the same time however many there are. Guarded by the engine's lock,
but `sync`: the flush thread.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...model.errors import StoreFormatError, StorePoisoned
from ...model.names import TIMER_TOPIC
from ...record.kernel import RunKernel
from ...store.log.segment import SYSTEM_DISK, Disk, make_directory
from ...store.opening.small_file import SystemFiles
from ...store.opening.store_files import StoreLock
from ...store.opening.store_opening import has_commit_log
from .queue_log import CUT_FOLDER, NUMBER_SHIFT, SEGMENT_BYTES, QueueLog

log = logging.getLogger(__name__)

DESCRIPTION: Final = "embedded.json"
FORMAT: Final = 1
STATE_NUMBER: Final = 0
OPEN_MAX: Final = 256
"""Logs whose descriptors stay open between two flushes."""
_DELETED: Final = "deleted-"
_DESCRIPTION_BYTES_MAX: Final = 65_536

Key = tuple[str, int]
"""(topic, queue id)."""


def is_embedded(directory: str) -> bool:
    """Whether an embedded engine made the directory."""
    return os.path.exists(os.path.join(directory, DESCRIPTION))


class QueueLogs:
    """All logs of one directory. `state`: the log of the state. `cluster_id`: made with the directory."""

    def __init__(
        self,
        directory: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        """Locks the directory, which is made where there is none; `segment_bytes`: of files in a new one. Raises
        StoreLocked, StoreFormatError, OSError."""
        if has_commit_log(directory):
            raise StoreFormatError(directory, f"a broker's store is in it; open it by local://{directory}")
        self.directory = directory
        self.poisoned: str | None = None
        self._lock = StoreLock(directory)
        self._disk = disk
        try:
            described = self._described(segment_bytes)
            self.cluster_id = str(described["cluster_id"])
            self.segment_bytes = int(described["segment_bytes"])
            self._kernel = RunKernel(record_max=self.segment_bytes, body_max=self.segment_bytes, index_keys=False)
            self._folder = os.path.join(directory, "queues")
            make_directory(self._folder)
            self._known = dict(self._find())
            self._numbers = {number: key for key, number in self._known.items()}
            self._next_number = max(self._numbers, default=STATE_NUMBER) + 1
            self._logs: dict[Key, QueueLog] = {}
            self.state = self._open(os.path.join(directory, "state"), STATE_NUMBER, ("", 0), mixed=True)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Syncs and releases everything. Raises OSError."""
        try:
            if self.poisoned is None:
                self.sync()
        finally:
            for opened in (*self._logs.values(), self.state):
                opened.close()
            self._lock.release()

    def poison(self, why: str) -> StorePoisoned:
        """The disk failed: nothing written since counts."""
        if self.poisoned is None:
            self.poisoned = why
            log.critical(
                "the disk failed, nothing is acknowledged any more directory=%s reason=%s", self.directory, why
            )
        return StorePoisoned(self.poisoned)

    def check_whole(self) -> None:
        """Raises StorePoisoned once the disk has failed."""
        if self.poisoned is not None:
            raise StorePoisoned(self.poisoned)

    # ---- queues

    def find(self, topic: str, queue_id: int) -> QueueLog | None:
        """The log of a queue; None where nothing was ever written. Raises StoreFormatError, OSError."""
        key = (topic, queue_id)
        found = self._logs.get(key)
        if found is not None or key not in self._known:
            return found
        return self._add(key, self._known[key])

    def get_or_create(self, topic: str, queue_id: int) -> QueueLog:
        """The log of a queue, made where there is none. Raises StoreFormatError, OSError."""
        found = self.find(topic, queue_id)
        if found is None:
            number = self._next_number
            found = self._add((topic, queue_id), number)
            self._known[topic, queue_id] = number
            self._numbers[number] = (topic, queue_id)
            self._next_number += 1
        return found

    def of_position(self, physical: int) -> QueueLog | None:
        """The log that has this physical offset."""
        key = self._numbers.get(physical >> NUMBER_SHIFT)
        return None if key is None else self.find(*key)

    def listed(self) -> list[Key]:
        """The queues that have a log."""
        return list(self._known)

    def delete_topic(self, topic: str) -> None:
        """Deletes the logs of a topic's queues. Raises OSError."""
        for key in [key for key in self._known if key[0] == topic]:
            opened = self._logs.pop(key, None)
            if opened is not None:
                opened.close()
            self._numbers.pop(self._known.pop(key))
        folder = os.path.join(self._folder, topic)
        if os.path.isdir(folder):
            aside = os.path.join(self.directory, _DELETED + secrets.token_hex(4))
            os.rename(folder, aside)
            shutil.rmtree(aside)

    def expire(self, before_ms: int, needed: Callable[[str, int], int | None]) -> None:
        """Old files of the queues that were used since the start go, as far as `needed` lets them. Raises OSError."""
        for (topic, queue_id), opened in self._logs.items():
            if topic != TIMER_TOPIC:  # it has its own notes
                opened.expire(before_ms, needed(topic, queue_id))

    # ---- durability

    def sync(self) -> None:
        """Flush thread. Makes all that was written durable, the state last: no offset is ahead of its messages. Raises
        StorePoisoned."""
        dirty = [one for one in list(self._logs.values()) if one.is_dirty]
        if self.state.is_dirty:
            dirty.append(self.state)
        for one in dirty:
            try:
                one.sync()
            except OSError as error:
                raise self.poison(f"{one.directory}: {error.strerror}") from error

    def close_descriptors(self) -> None:
        """Those of logs that are not written to, where there are many."""
        if len(self._logs) > OPEN_MAX:
            for one in self._logs.values():
                if not one.is_dirty:
                    for file in one.files:
                        file.segment.close_fd()

    # ---- opening

    def _described(self, segment_bytes: int) -> dict[str, Any]:
        """What the directory says about itself; a new one is told. Raises StoreFormatError, OSError."""
        files, path = SystemFiles(), os.path.join(self.directory, DESCRIPTION)
        data = files.read(path, _DESCRIPTION_BYTES_MAX)
        if data is None:
            fresh = {"format": FORMAT, "segment_bytes": segment_bytes, "cluster_id": secrets.token_hex(16)}
            files.replace(path, json.dumps(fresh).encode())
            return fresh
        try:
            described = json.loads(data)
            if described["format"] != FORMAT:
                raise StoreFormatError(path, f"format {described['format']}; this version knows format {FORMAT}")
            return {"segment_bytes": int(described["segment_bytes"]), "cluster_id": str(described["cluster_id"])}
        except (ValueError, KeyError, TypeError) as error:
            raise StoreFormatError(path, f"not the description of an embedded engine: {error!r}") from error

    def _find(self) -> Iterator[tuple[Key, int]]:
        """The queues on the disk, and their numbers. Clears away what a deletion left."""
        for name in os.listdir(self.directory):
            if name.startswith(_DELETED):
                shutil.rmtree(os.path.join(self.directory, name))
        for topic in sorted(os.listdir(self._folder)):
            for queue_id in os.listdir(os.path.join(self._folder, topic)):
                names = [name for name in os.listdir(os.path.join(self._folder, topic, queue_id)) if name.isdigit()]
                if names and queue_id.isdigit():
                    yield (topic, int(queue_id)), int(min(names)) >> NUMBER_SHIFT

    def _add(self, key: Key, number: int) -> QueueLog:
        path = os.path.join(self._folder, key[0], str(key[1]))
        opened = self._logs[key] = self._open(path, number, key)
        return opened

    def _open(self, directory: str, number: int, key: Key, *, mixed: bool = False) -> QueueLog:
        opened = QueueLog(
            directory,
            number,
            *key,
            self._kernel,
            self.poison,
            os.path.join(self.directory, CUT_FOLDER),
            segment_bytes=self.segment_bytes,
            mixed=mixed,
            disk=self._disk,
        )
        opened.open()
        return opened
