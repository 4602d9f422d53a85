"""A broker's events, kept in its store's directory: two files by turns, each of up to FILE_BYTES.

    events/0.jsonl, events/1.jsonl     a line an event (model/events/event.py), appended; once one is full the other begins anew

They are files of the replica's own, not records of the log: what must be told most is told where the log takes no record. A
slave writes none, a group without a master or with too few in sync takes none, a full or failed disk takes none. So each
replica keeps what it saw, in every role, and nothing about an event is replicated or waited for. A line is not synced:
a crash of the machine may take the last ones, a crash of the process takes none.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Final

from ..model.events.event import Event, whole_lines
from ..model.events.event_ring import EventRing

_log = logging.getLogger(__name__)

FOLDER: Final = "events"
FILE_BYTES: Final = 256 << 10
_NAMES: Final = ("0.jsonl", "1.jsonl")


class EventFile:
    """The keeper of a broker's process. Any thread; `_lock` guards the rest. Files are opened at the first use."""

    def __init__(self, store_dir: str, *, node: str, group: str, file_bytes: int = FILE_BYTES) -> None:
        self._folder = os.path.join(store_dir, FOLDER)
        self._node = node
        self._group = group
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        self._ring: EventRing | None = None
        self._at = 0  # the file that is written now
        self._is_failing = False
        self._is_first = True

    def keep(self, event: Event) -> None:
        """Takes an event, and writes its line. A disk that takes none is logged once; memory still has the event."""
        with self._lock:
            line = self._opened().keep(event)
            try:
                self._append(b"\n" * self._is_first + line + b"\n")  # the line before may be torn
                self._is_failing = self._is_first = False
            except OSError as error:
                if not self._is_failing:
                    _log.warning("events cannot be written error=%s", error)
                self._is_failing = True

    def document(self, since_ms: int) -> dict[str, Any]:
        """{"events": [...]} from that time on, oldest first."""
        with self._lock:
            ring = self._opened()
        return ring.document(since_ms)

    # ---- with the lock

    def _opened(self) -> EventRing:
        if self._ring is None:
            found = sorted((self._modified(at), at) for at in range(len(_NAMES)))  # the newer one last
            self._at = found[-1][1]
            lines = [line for _, at in found for line in whole_lines(self._read(at))]
            self._ring = EventRing(role="broker", node=self._node, group=self._group, lines=lines)
        return self._ring

    def _append(self, line: bytes) -> None:
        os.makedirs(self._folder, exist_ok=True)
        if self._size(self._at) + len(line) > self._file_bytes:
            self._at = 1 - self._at
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self._path(self._at), flags, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _read(self, at: int) -> bytes:
        try:
            with open(self._path(at), "rb") as file:
                return file.read(self._file_bytes)
        except OSError:
            return b""

    def _size(self, at: int) -> int:
        try:
            return os.stat(self._path(at)).st_size
        except FileNotFoundError:
            return 0

    def _modified(self, at: int) -> int:
        try:
            return os.stat(self._path(at)).st_mtime_ns
        except OSError:
            return 0

    def _path(self, at: int) -> str:
        return os.path.join(self._folder, _NAMES[at])
