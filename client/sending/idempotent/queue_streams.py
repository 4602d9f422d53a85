"""The sequences of one idempotent producer: a stream per queue, used by one batch at a time.

One batch at a time per queue keeps the order over retries: nothing overtakes a batch whose outcome is unknown. The topic's
other queues continue meanwhile. A taken queue belongs to its batch, and is free when the batch object is gone.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Final
from weakref import ReferenceType, WeakSet, ref

from ....model.queue import MessageQueue
from ....model.sequence import sequence_room
from ....remoting.commands import SendDelayedSequenced, SendSequenced
from ...connection.waiting import Signal, Signals
from ..attempts import Sizes
from .sequencing import SequencedAttempt, SequencedRequest, Stream

ID_LENGTH: Final = 22  # 128 random bits, six per character


class QueueStreams:
    """The `SendAttempts` of an idempotent producer, and the `Streams` of those attempts. Any thread may call."""

    def __init__(
        self, plain: SequencedRequest = SendSequenced, delayed: SequencedRequest = SendDelayedSequenced
    ) -> None:
        """`plain`, `delayed`: the requests for batches of which no message, or some, are to be delivered later."""
        self._requests = plain, delayed
        self.own_properties = sequence_room(ID_LENGTH)
        self._lock = threading.Lock()
        self._streams: dict[MessageQueue, Stream] = {}
        self._taken: dict[MessageQueue, ReferenceType[SequencedAttempt]] = {}
        self._changed = Signals()
        self._waiting: WeakSet[Signal] = WeakSet()  # an interrupted sender takes its signal with it
        self._watchers: list[Callable[[], None]] = []

    @property
    def is_awaited(self) -> bool:
        """See `SendAttempts`."""
        return len(self._waiting) > 0

    def begin(self, count: int, sizes: Sizes) -> SequencedAttempt:
        """See `SendAttempts`."""
        return SequencedAttempt(count, sizes, self)

    def new_id(self) -> str:
        """See `Streams`."""
        return secrets.token_urlsafe(16)

    def request_class(self, *, delayed: bool) -> SequencedRequest:
        """See `Streams`."""
        return self._requests[delayed]

    def watch(self, callback: Callable[[], None]) -> None:
        """See `SendAttempts`."""
        self._watchers.append(callback)

    def is_taken(self, queue: MessageQueue) -> bool:
        """See `SendAttempts`."""
        return queue in self._taken

    def take(self, queue: MessageQueue, attempt: SequencedAttempt) -> bool:
        """See `Streams`."""
        with self._lock:
            last = attempt.queue
            if not self._take(queue, attempt):
                return False
            if last is None:
                return True
            self._taken.pop(last, None)
            self._changed.set_all()
        self._tell()
        return True

    def _take(self, queue: MessageQueue, batch: SequencedAttempt) -> bool:
        if queue in self._taken:
            return False
        stream = self._streams.get(queue) or Stream(self.new_id())
        owner = ref(batch)
        streams, taken = self._streams, self._taken
        # No call from here on, so a signal handler never sees a half of this done.
        streams[queue] = stream
        taken[queue] = owner
        batch.queue, batch.stream = queue, stream
        return True

    def give_back(self, attempt: SequencedAttempt) -> None:
        """See `Streams`."""
        with self._lock:
            queue, streams, taken, is_unknown = attempt.queue, self._streams, self._taken, attempt.may_be_stored
            if queue is None:
                return
            if is_unknown and queue in streams:
                del streams[queue]
            if queue in taken:
                del taken[queue]
            attempt.queue = attempt.stream = None
            self._changed.set_all()
        self._tell()

    def look_after(self) -> None:
        """See `SendAttempts`.

        A batch is gone if a signal handler raised while it was sent: then its queue gets a new stream.
        """
        with self._lock:
            gone = [queue for queue, owner in self._taken.items() if owner() is None]
            for queue in gone:
                self._streams.pop(queue, None)  # it may have been sent in part
                del self._taken[queue]
            self._changed.set_all()
        if gone:
            self._tell()

    def _tell(self) -> None:
        for callback in self._watchers:
            callback()

    def next_change(self, signal: Signal) -> Signal:
        """See `SendAttempts`."""
        with self._lock:
            self._waiting.add(signal)
            return self._changed.add(signal)

    def forget(self, signal: Signal) -> None:
        """See `SendAttempts`."""
        with self._lock:
            self._waiting.discard(signal)
            self._changed.discard(signal)
