"""What a pull consumer has fetched ahead and handed out: `Prefetch` with a lock and its requests to the brokers.

The I/O thread takes in answers and keeps a long poll at every queue that has room; the caller takes what is ready. Which
queues there are is decided in rebalance.py, what is committed in commits.py.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import DamageAwaited, LocalProtocolError, RemoteProtocolError, ZenitError
from ....model.queue import MessageQueue, QueueOffset
from ....model.subscription import Subscription
from ....record.kernel import MessageBatch, StoredMessage
from ....remoting.commands import PullReply, Reply
from ...client_counts import ClientCounts
from ...connection.connection import Connection
from ...connection.waiting import Signals, Waits
from ...tracing.trace import PullTrace
from ..losses import LossNotices, OnLost
from ..prefetch import Event, MessagesLost, Moved, Prefetch, Pull
from ..pull_calls import LOST_MS, PullCalls

log = logging.getLogger(__name__)

PULL_MESSAGES_MAX: Final = 65_536  # the broker's own limit is lower; the limit in bytes decides

Taken = tuple[MessageQueue, MessageBatch]


@dataclass(frozen=True, slots=True)
class Progress:
    """What may be committed at one moment. `sought`: see `Prefetch.sought`, at that moment."""

    offsets: Mapping[MessageQueue, int]
    sought: Mapping[MessageQueue, int]

    def of(self, queues: Collection[MessageQueue]) -> Progress:
        """The progress of these queues alone."""
        return Progress({queue: offset for queue, offset in self.offsets.items() if queue in queues}, self.sought)


NO_PROGRESS: Final = Progress({}, {})


class PullWork:
    """The queues of one consumer. Thread-safe; the lock is never held while sending."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        group: str,
        *,
        prefetch_bytes: int,
        pull_bytes: int,
        trace: PullTrace | None,
        on_lost: OnLost | None = None,
    ) -> None:
        """`prefetch_bytes`: how much may lie ready, all queues together.

        `trace`: notified of what is handed out. `on_lost`: called with lost messages.
        """
        self._remoting = connection.remoting
        self._waits = waits
        self._group = group
        self._trace = trace
        self.counts = ClientCounts()
        self.losses = LossNotices(group, on_lost)
        self._pulls = PullCalls(connection, group, PULL_MESSAGES_MAX, self._on_pulled)
        self._lock = threading.Lock()  # guards everything below
        self._prefetch = Prefetch(prefetch_bytes, pull_bytes)
        self._failure: ZenitError | None = None
        self._failing: dict[MessageQueue, ZenitError] = {}  # queues whose last pull failed, and why
        self._changed = Signals()
        self.changes = 0
        """Counts the changes that a caller may wait for."""
        self.iterated: Taken | None = None
        """The batch that is being iterated; ending the iteration replaces it."""
        self.current: StoredMessage | None = None
        """Its current message; set by the iterating thread."""
        self._done: StoredMessage | None = None  # the current message, if a commit has covered it
        self.taking: tuple[MessageQueue, QueueOffset] | None = None
        """The queue that the poll in progress takes from, and the position there before it."""
        self.is_closed = False

    # ---- which queues

    def queues(self) -> list[MessageQueue]:
        """The assigned queues, sorted."""
        with self._lock:
            return self._prefetch.queues()

    def resubscribe(self, wanted: Mapping[MessageQueue, Subscription]) -> tuple[set[MessageQueue], list[MessageQueue]]:
        """Applies the new subscriptions to the queues that stay. Returns the queues to give up, and those to begin, sorted."""
        with self._lock:
            current = set(self._prefetch.queues())
            for queue in current & wanted.keys():
                self._prefetch.resubscribe(queue, wanted[queue])
        return current - wanted.keys(), sorted(wanted.keys() - current)

    def assign(self, queue: MessageQueue, offset: int, *, committed: int, subscription: Subscription) -> None:
        """Begins a queue at `offset`. `committed`: the group's offset at the broker, -1 = nothing."""
        with self._lock:
            self._prefetch.assign(queue, offset, committed=committed, subscription=subscription)

    def revoke(self, queues: set[MessageQueue]) -> None:
        """Drops queues with everything fetched of them, and the rest of an iterated batch."""
        with self._lock:
            if self.iterated is not None and self.iterated[0] in queues:
                self._end_iteration()
            for queue in queues:
                self._prefetch.revoke(queue)
                self._failing.pop(queue, None)
        self._pulls.drop(queues)

    # ---- handing out

    def come_back(self) -> None:
        """The caller asks for more, so it has finished what it was handed last."""
        with self._lock:
            self._end_iteration()
            self._prefetch.settle()
            if self._trace is not None:
                self._trace.on_done()

    def take(self, max_messages: int, *, is_iterated: bool) -> Taken | None:
        """What is ready, all of one queue, or None; sends the pulls that are due. `is_iterated`: handed on one by one.

        Raises the permanent failure of a pull, and CorruptRecordError.
        """
        while True:
            with self._lock:
                failure, self._failure = self._failure, None
                if failure is not None:
                    raise failure
                taken = self._take_ready(max_messages)
                if is_iterated:
                    self.iterated, self.current = taken, None
                if taken is not None:
                    self.counts.on_consumed(taken[0].topic, self._group, len(taken[1]))
                    if self._trace is not None:
                        self._trace.on_handed(taken[1])
                pulls = self._prefetch.due(monotonic_ms())
            for pull in pulls:
                self._pulls.send(pull)
            if taken is not None or not pulls:
                return taken

    def put_back(self) -> None:
        """The poll in progress will not return what it took or was about to take: that queue continues where it was."""
        with self._lock:
            self._prefetch.abandon_pulls(monotonic_ms())  # the caller may not have sent all of them
            if self.taking is None:
                return
            name, begin = self.taking
            if self.iterated is not None and self.iterated[0] == name:
                self.iterated = self.current = None
            self._prefetch.go_back(name, begin)
            self.taking = None

    def look_after(self) -> None:
        """Periodically in the I/O thread: a signal handler may have raised while an answer was taken in, which is then lost."""
        with self._lock:
            self._prefetch.abandon_pulls(monotonic_ms() - LOST_MS)
        self._pull_more()

    def _take_ready(self, max_messages: int) -> Taken | None:
        """Under the lock: like `Prefetch.take`; records each queue's position before."""
        while (name := self._prefetch.next_ready()) is not None:
            begin = self._prefetch.position(name)
            assert begin is not None
            self.taking = name, begin
            batch = self._prefetch.take_of(name, max_messages)
            if batch is not None:
                return name, batch
        return None

    async def wait_change(self, seen: int, until_ms: int) -> None:
        """Waits until `changes` differs from `seen`, a pull is due, or the time has come."""
        with self._lock:
            if self.changes != seen or self.is_closed:
                return
            due_ms = self._prefetch.next_due_ms()
            changed = self._changed.add(self._waits.new_signal())
        try:
            await changed.wait(max(1, min(until_ms, due_ms or until_ms) - monotonic_ms()))
        finally:
            with self._lock:
                self._changed.discard(changed)

    def tell_change(self) -> None:
        """Wakes all who wait."""
        with self._lock:
            self._tell_change()

    def _tell_change(self) -> None:
        """Under the lock."""
        self.changes += 1
        self._changed.set_all()

    def end_iteration(self, taken: Taken) -> None:
        """Ends an iteration: messages that were not handed on are ready again, unless they were taken back before."""
        with self._lock:
            if self.iterated is taken:
                self._end_iteration()

    def _end_iteration(self, *, is_ok: bool = True) -> None:
        """Under the lock: what the iteration did not hand on is ready again, first in its queue."""
        if self.iterated is None:
            return
        queue, batch = self.iterated  # kept until it is put back: after an interruption, the next call does it
        begin: int = 0
        settled: int | None = None
        if self.current is not None:
            begin = bisect_right(batch, self.current.queue_offset, key=lambda message: message.queue_offset)
            settled = int(self.current.queue_offset) + (self.current is self._done)
        self._prefetch.put_back(queue, batch.slice(begin, len(batch)), settled=settled)
        self.iterated = None
        if self._trace is not None:
            self._trace.on_done(count=begin, is_ok=is_ok)

    # ---- positions

    def position(self, queue: MessageQueue) -> QueueOffset | None:
        """The offset that is handed out next; None for a queue that is not assigned."""
        with self._lock:
            position = self._prefetch.position(queue)
            if position is not None and self.iterated is not None and self.iterated[0] == queue:
                position = QueueOffset(self._iterated_offset(handed=True))
        return position

    def seek(self, queue: MessageQueue, offset: int) -> bool:
        """Continues at an offset, which may be committed even if it is lower. False for a queue that is not assigned."""
        with self._lock:
            self._end_iteration()
            is_ours = self._prefetch.seek(queue, offset)
            self._tell_change()
        self._pull_more()
        return is_ours

    def move(self, offsets: Mapping[MessageQueue, int]) -> list[MessageQueue]:
        """An operator has reset the group's offsets: continues there, in the eras that the queues name.

        Returns our queues of them.
        """
        with self._lock:
            self._end_iteration()
            moved = [queue for queue, offset in offsets.items() if self._prefetch.move(queue, offset)]
            self._tell_change()
        self._pull_more()
        return moved

    def in_era(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Those that are assigned in the era that they name."""
        with self._lock:
            held = {queue: queue.era for queue in self._prefetch.queues()}
        return {queue for queue in queues if held.get(queue) == queue.era}

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hands nothing out from these queues until `resume`; what was fetched of them stays."""
        with self._lock:
            self._prefetch.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Ends `pause`."""
        with self._lock:
            self._prefetch.resume(queues)
            self._tell_change()
        self._pull_more()

    def uncommitted(self, *, handed: bool) -> Progress:
        """What may be committed. `handed`: everything handed out, including the current message; else what is finished.

        Nothing once it is closed: `close` has returned it.
        """
        with self._lock:
            if self.is_closed:
                return NO_PROGRESS
            offsets = self._prefetch.uncommitted(handed=handed)
            if self.iterated is not None:
                offsets[self.iterated[0]] = self._iterated_offset(handed=handed)
            return Progress(offsets, self._prefetch.sought())

    def settle_handed(self) -> Progress:
        """Everything handed out counts as finished, including the current message. Returns what is to be committed."""
        with self._lock:
            iterated = None if self.iterated is None else self.iterated[0]
            self._prefetch.settle_all(but=iterated)
            self._done = self.current
        return self.uncommitted(handed=True)

    def on_committed(self, part: list[tuple[MessageQueue, int]], sought: Mapping[MessageQueue, int]) -> None:
        """The broker has committed these. `sought`: as it was when they were sent."""
        with self._lock:
            self._prefetch.on_committed(part, sought)

    def _iterated_offset(self, *, handed: bool) -> int:
        """Under the lock, during an iteration: the current message's offset, or the next one if `handed` or if it is
        committed.
        """
        if self.iterated is None:
            raise LocalProtocolError("nothing is iterated")
        if self.current is None:
            return int(self.iterated[1][0].queue_offset)
        return int(self.current.queue_offset) + (handed or self.current is self._done)

    # ---- fetching ahead

    def waits_for(self) -> ZenitError | None:
        """Why the pulls of a queue fail at present, or wait for a repair; None if none do."""
        with self._lock:
            return next(iter(self._failing.values()), None)

    def _on_pulled(self, pull: Pull, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        """In the thread that received the reply."""
        now = monotonic_ms()
        event: Event | None = None
        is_first = is_over = False
        with self._lock:
            if isinstance(reply, PullReply):
                event = self._prefetch.on_reply(pull, reply, payload, now)
                before = self._failing.pop(pull.queue, None)
                if isinstance(event, DamageAwaited):
                    self._failing[pull.queue] = error = event
                    is_first = before is None
                else:
                    is_over = before is not None
            elif self._prefetch.on_error(pull, now):
                is_first = pull.queue not in self._failing
                self._failing[pull.queue] = error or RemoteProtocolError("a pull was not answered with one")
                if error is not None and not error.retriable:
                    self._failure = error
            pulls = self._prefetch.due(now)
            next_due_ms = self._prefetch.next_due_ms()
            self._tell_change()
        if isinstance(event, MessagesLost):
            self.losses.tell(event)
        elif isinstance(event, Moved):
            log.warning(
                "offset moved queue=%s status=%s from=%d to=%d",
                event.queue,
                event.status.name,
                event.from_offset,
                event.to_offset,
            )
        if is_first:
            log.warning("pulls fail group=%s queue=%s error=%s", self._group, pull.queue, error)
        elif is_over:
            log.info("pulls succeed again group=%s queue=%s", self._group, pull.queue)
        for due in pulls:
            self._pulls.send(due)
        if next_due_ms is not None and not self.is_closed:
            self._remoting.call_later(max(1, next_due_ms - now), self._pull_more)

    def _pull_more(self) -> None:
        """Sends the pulls that are due: a queue's pause is over, or its position was changed."""
        with self._lock:
            pulls = [] if self.is_closed else self._prefetch.due(monotonic_ms())
        for pull in pulls:
            self._pulls.send(pull)

    # ---- the end

    def close(self, *, handed: bool) -> Progress | None:
        """Stops handing out. Returns what is to be committed, as `uncommitted` does; None the second time."""
        with self._lock:
            already, self.is_closed = self.is_closed, True
            self._end_iteration(is_ok=handed)
            if self._trace is not None:
                self._trace.on_done(is_ok=handed)
            self._tell_change()
            if already:
                return None
            return Progress(self._prefetch.uncommitted(handed=handed), self._prefetch.sought())

    def drop_all(self) -> None:
        """Frees what is ready, and asks for no more."""
        with self._lock:
            for queue in self._prefetch.queues():
                self._prefetch.revoke(queue)
        self._pulls.end()
