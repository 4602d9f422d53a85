"""The sequences of one idempotent producer: a stream for each queue, used by one batch at a time.

One batch a queue is what keeps the order over retries: nothing overtakes a batch whose outcome is not known. A topic's
other queues go on meanwhile.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Final

from ..model.queue import MessageQueue
from .sequencing import Stream
from .waiting import Signal, Signals

ID_LENGTH: Final = 22  # 128 random bits, six a character


def new_producer_id() -> str:
    """An id that no other producer has."""
    return secrets.token_urlsafe(16)


class QueueStreams:
    """Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[MessageQueue, Stream] = {}
        self._taken: dict[MessageQueue, Stream] = {}
        self._changed = Signals()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Calls back whenever a queue is given back; in any thread, must not block."""
        self._watchers.append(callback)

    def take(self, queue: MessageQueue) -> Stream | None:
        """The queue's stream, for the caller alone until it gives it back; None while somebody else has it."""
        with self._lock:
            if queue in self._taken:
                return None
            stream = self._free.pop(queue, None) or Stream(new_producer_id())
            self._taken[queue] = stream
            return stream

    def taken(self, queue: MessageQueue) -> Stream:
        """The stream of a queue that the caller has taken."""
        return self._taken[queue]

    def give_back(self, queue: MessageQueue, stream: Stream | None) -> None:
        """The caller is done. `stream`: as it goes on; None: its last batch is in doubt, so that the next one begins anew."""
        with self._lock:
            del self._taken[queue]
            if stream is not None:
                self._free[queue] = stream
            self._changed.set_all()
        for callback in self._watchers:
            callback()

    def next_change(self, signal: Signal) -> Signal:
        """Sets the signal when a queue is given back the next time; returns it."""
        with self._lock:
            return self._changed.add(signal)

    def forget(self, signal: Signal) -> None:
        """It is not waited for any more."""
        with self._lock:
            self._changed.discard(signal)
