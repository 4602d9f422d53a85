"""SHA-256 of what passes by, computed in a thread beside: it is the slowest step of a backup and of a restore."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future
from typing import Final

from ...store.worker_threads import WorkerThreads

HASH_S: Final = 600


class Digest:
    """Of one sequence of bytes after another (`begin`). It has a thread of its own until `close`."""

    def __init__(self) -> None:
        self._thread = WorkerThreads(1, "zenit-digest")
        self._hashed = hashlib.sha256()
        self._last: Future[None] | None = None

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def begin(self) -> None:
        """Another sequence."""
        self._wait()
        self._hashed = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Waits for the piece before, so that no more than one waits in memory."""
        self._wait()
        self._last = self._thread.submit(self._hashed.update, data)

    def text(self) -> str:
        """Of all pieces since `begin`, in hexadecimal."""
        self._wait()
        return self._hashed.hexdigest()

    def _wait(self) -> None:
        if self._last is not None:
            self._last.result(HASH_S)
            self._last = None
