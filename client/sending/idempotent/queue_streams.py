"""The sequences of one idempotent producer: a stream for each queue, used by one batch at a time.

One batch a queue is what keeps the order over retries: nothing overtakes a batch whose outcome is not known. A topic's
other queues go on meanwhile. A queue that is taken belongs to its batch, and is free where that is gone.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Final
from weakref import ReferenceType, ref

from ....model.queue import MessageQueue
from ...connection.waiting import Signal, Signals
from .sequencing import SequencedBatch, Stream

ID_LENGTH: Final = 22  # 128 random bits, six a character


def new_producer_id() -> str:
    """An id that no other producer has."""
    return secrets.token_urlsafe(16)


class QueueStreams:
    """Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[MessageQueue, Stream] = {}
        self._taken: dict[MessageQueue, ReferenceType[SequencedBatch]] = {}
        self._changed = Signals()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Calls back whenever a queue is given back; in any thread, must not block."""
        self._watchers.append(callback)

    def is_taken(self, queue: MessageQueue) -> bool:
        """Whether a batch has it."""
        return queue in self._taken

    def take(self, queue: MessageQueue, batch: SequencedBatch) -> bool:
        """Has the batch enter the queue, for itself alone until it is given back; False while another one is there."""
        with self._lock:
            return self._take(queue, batch)

    def move(self, batch: SequencedBatch, queue: MessageQueue) -> bool:
        """Has the batch, which is not in doubt, enter another queue instead of its own; False while another one is there."""
        with self._lock:
            last = batch.queue
            if not self._take(queue, batch):
                return False
            if last is not None:
                self._taken.pop(last, None)
            self._changed.set_all()
        self._tell()
        return True

    def _take(self, queue: MessageQueue, batch: SequencedBatch) -> bool:
        if queue in self._taken:
            return False
        stream = self._streams.get(queue) or Stream(new_producer_id())
        owner = ref(batch)
        streams, taken = self._streams, self._taken
        # Nothing is called from here on: a signal's handler finds all of this done, or nothing.
        streams[queue] = stream
        taken[queue] = owner
        batch.queue, batch.stream = queue, stream
        return True

    def give_back(self, batch: SequencedBatch) -> None:
        """The batch is done, and leaves its queue. Where it is in doubt, the next one begins the queue anew."""
        with self._lock:
            queue, streams, taken, in_doubt = batch.queue, self._streams, self._taken, batch.in_doubt
            if queue is None:
                return
            if in_doubt and queue in streams:
                del streams[queue]
            if queue in taken:
                del taken[queue]
            batch.queue = batch.stream = None
            self._changed.set_all()
        self._tell()

    def look_after(self) -> None:
        """Now and then: a batch that is gone, since a signal's handler raised where it was sent, leaves its queue in doubt."""
        with self._lock:
            gone = [queue for queue, owner in self._taken.items() if owner() is None]
            for queue in gone:
                del self._streams[queue], self._taken[queue]
            self._changed.set_all()
        if gone:
            self._tell()

    def _tell(self) -> None:
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
