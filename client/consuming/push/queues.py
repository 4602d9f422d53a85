"""Decides what a push consumer does next: what to pull, hand to a handler, send back and commit. Pure.

A *delivery* is what one call of the handler gets: up to `batch_size` messages of one queue. A failed delivery is treated in
one of two ways:

- concurrent: each of its messages is *returned* to the broker, which delivers it again later through the group's retry
  topic. If
the broker does not take it, it is handled again here after a pause. Until one of the two has succeeded, the message stays
unfinished, so that nothing behind it is committed.
- ordered: the queue waits, then the same delivery is handled again, at most `max_attempts` times; then its messages are
  returned
as dead letters. A queue has one delivery at a time and is paused during it. When the broker has answered for all returned
messages, those it did not take are handled again, one by one, in order.

A queue may be dropped while handlers work on it: an operator has reset the group's offsets, or the lease has ended. Their
results are then ignored, but they are waited for: the queue counts as busy, and an ordered queue begins nothing here before
they have ended.

When broadcasting, a message cannot be returned to anyone: a failed one counts as finished.

After a delivery that failed by a mistake of the program, nothing more is handed out. Its messages stay unfinished.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, cast

from ....model.errors import CorruptRecordError
from ....model.queue import MessageQueue
from ....model.subscription import Subscription
from ....record.kernel import MessageBatch, StoredMessage
from ....remoting.commands import PullReply
from ..prefetch import Event, Prefetch, Pull
from .process_queue import DEFAULT_LIMITS, FlowLimits, ProcessQueue

PREFETCH_BYTES: Final = 100 * 1024 * 1024
PULL_BYTES: Final = 256 * 1024
RETRY_HERE_MS: Final = 5_000  # until a message that could not be returned is handled again
DAMAGED_PAUSE_MS: Final = 5_000  # until a queue with messages that cannot be decoded is pulled again
STALLED_MS: Final = 120_000  # a queue without a pull for this long is dropped and created again


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a delivery failed.

    `is_final`: its messages become dead letters without another try. `is_mistake`: the program is wrong, so nothing is
    tried again.
    """

    reason: str
    is_final: bool = False
    is_mistake: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Messages of one queue for one call of the handler. `attempt`: how often this consumer has tried them before."""

    process: ProcessQueue
    messages: MessageBatch
    attempt: int
    begun_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Return:
    """A message to send back to the broker; `on_returned` takes the outcome."""

    process: ProcessQueue
    message: MessageBatch  # one
    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Tick:
    """What is due by time alone."""

    late: tuple[Delivery, ...] = ()  # their handlers took too long; the results will be ignored
    returns: tuple[Return, ...] = ()
    lost: tuple[MessageQueue, ...] = ()  # queues to drop and rebalance: the lease has ended, or nothing is pulled


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRules:
    """How messages are handed out. Times in milliseconds; `max_attempts` and `consume_timeout_ms`: 0 = unlimited."""

    limits: FlowLimits = DEFAULT_LIMITS
    batch_size: int = 1
    is_ordered: bool = False
    is_broadcasting: bool = False
    max_attempts: int = 0
    suspend_ms: int = 1_000
    consume_timeout_ms: int = 0


class PushQueues:
    """The queues of one push consumer. Not thread-safe: its owner holds a lock. Times are monotonic and passed in."""

    def __init__(self, rules: PushRules, *, prefetch_bytes: int = PREFETCH_BYTES, pull_bytes: int = PULL_BYTES) -> None:
        """`prefetch_bytes`: how much may lie ready, all queues together."""
        self._rules = rules
        self._prefetch = Prefetch(prefetch_bytes, pull_bytes)
        self._processes: dict[MessageQueue, ProcessQueue] = {}
        self._running: dict[int, Delivery] = {}  # by id(), in the order of their begin
        self._gone: dict[MessageQueue, int] = {}  # the number of running deliveries of each dropped queue
        self._again: list[tuple[int, int, ProcessQueue, MessageBatch, int]] = []  # due, serial, ..., attempt: a heap
        self._serial = 0
        self._is_paused = False  # after a mistake of the program
        self._damaged: dict[MessageQueue, int] = {}  # queues not pulled until this time

    # ---- which queues

    def queues(self) -> list[MessageQueue]:
        """All queues that are not dropped, including those being given up; sorted."""
        return sorted(self._processes)

    def assign(
        self,
        name: MessageQueue,
        offset: int,
        *,
        committed: int,
        subscription: Subscription,
        now_ms: int,
        leased_until_ms: int = 0,
    ) -> None:
        """Begins a queue at `offset`; an ordered one first waits for handlers that it had here before it was dropped.

        `committed`: the broker's offset, -1 = nothing. `leased_until_ms`: ordered only.
        """
        self._processes[name] = ProcessQueue(
            name, subscription, committed=committed, now_ms=now_ms, leased_until_ms=leased_until_ms
        )
        self._prefetch.assign(name, offset, committed=committed, subscription=subscription)
        if self._is_awaited(name):
            self._prefetch.pause([name])

    def _is_awaited(self, name: MessageQueue) -> bool:
        """Whether an ordered queue waits for a handler that began before the queue was dropped."""
        return self._rules.is_ordered and name in self._gone

    def resubscribe(self, name: MessageQueue, subscription: Subscription) -> None:
        """Sets a queue's new subscription; it applies to messages that are not fetched or not begun yet."""
        process = self._processes.get(name)
        if process is not None:
            process.subscription = subscription
            self._prefetch.resubscribe(name, subscription)
            self._check_flow(process)

    def leave(self, name: MessageQueue) -> None:
        """Hands nothing more out from a queue; results of its running handlers still count."""
        self._processes[name].is_leaving = True
        self._prefetch.pause([name])

    def stay(self, name: MessageQueue) -> None:
        """Ends `leave`: the queue stays after all."""
        process = self._processes[name]
        process.is_leaving = False
        self._resume(process)

    def is_busy(self, names: Iterable[MessageQueue] | None = None) -> bool:
        """Whether a handler works on one of them, dropped or not, or a message of it is on its way back.

        None = of any queue.
        """
        wanted = self._processes.keys() | self._gone.keys() if names is None else names
        return any(name in self._gone or (name in self._processes and self._processes[name].is_busy) for name in wanted)

    def is_leaving(self, name: MessageQueue) -> bool:
        """Whether `leave` was called last, rather than `stay`."""
        return self._processes[name].is_leaving

    def revoke(self, name: MessageQueue) -> None:
        """Drops a queue; what is fetched is not handed out, and the results of its handlers are ignored."""
        process = self._processes.pop(name, None)
        if process is not None:
            process.is_gone = True
            if process.running:
                self._gone[process.name] = self._gone.get(process.name, 0) + process.running
            self._prefetch.revoke(name)
            self._damaged.pop(name, None)

    def move(self, name: MessageQueue, offset: int, now_ms: int) -> bool:
        """An operator has reset the group's offsets: the queue continues at `offset`, in the era that `name` has.

        Results of running deliveries are ignored. False for a queue that is not ours or has that era already.
        """
        process = self._processes.get(name)
        if process is None or process.is_leaving or process.name.era >= name.era:
            return False
        self.revoke(name)
        self.assign(
            replace(process.name, era=name.era),
            offset,
            committed=offset,
            subscription=process.subscription,
            now_ms=now_ms,
            leased_until_ms=process.leased_until_ms,
        )
        return True

    def is_in_era(self, name: MessageQueue) -> bool:
        """Whether the queue is ours, in the era that it names."""
        process = self._processes.get(name)
        return process is not None and process.name.era == name.era

    def on_leased(self, name: MessageQueue, until_ms: int) -> None:
        """The broker has renewed the queue's lock."""
        process = self._processes.get(name)
        if process is not None:
            process.leased_until_ms = until_ms
            self._resume(process)

    # ---- pulling

    def abandon_pulls(self, until_ms: int) -> None:
        """See `Prefetch.abandon_pulls`."""
        self._prefetch.abandon_pulls(until_ms)

    def due(self, now_ms: int) -> list[Pull]:
        """The pulls to send now; they count as in flight from here on."""
        pulls = self._prefetch.due(now_ms)
        for pull in pulls:
            self._processes[pull.queue].pulled_ms = now_ms
        return pulls

    def next_due_ms(self) -> int | None:
        """When to call `due` again by time alone; None = only after another event."""
        return self._prefetch.next_due_ms()

    def on_reply(self, pull: Pull, reply: PullReply, payload: bytes, now_ms: int) -> Event | None:
        """See Prefetch.on_reply."""
        event = self._prefetch.on_reply(pull, reply, payload, now_ms)
        process = self._processes.get(pull.queue)
        if process is not None:
            self._check_flow(process)
        return event

    def on_error(self, pull: Pull, now_ms: int) -> bool:
        """A pull failed; it is sent again after a growing pause. False if its answer would be ignored."""
        return self._prefetch.on_error(pull, now_ms)

    def _check_flow(self, process: ProcessQueue) -> None:
        name = process.name
        is_full = name in self._damaged or process.is_full(self._rules.limits, self._prefetch.fetched(name))
        if is_full and not process.is_held:
            self._prefetch.hold(name)
        elif process.is_held and not is_full:
            self._prefetch.release(name)
        process.is_held = is_full

    # ---- handing out

    def has_ready(self, now_ms: int) -> bool:
        """Whether another delivery may begin now."""
        if self._is_paused:
            return False
        return self._prefetch.next_ready() is not None or (bool(self._again) and self._again[0][0] <= now_ms)

    @property
    def running(self) -> int:
        """The number of deliveries in handlers."""
        return len(self._running)

    def is_running(self, delivery: Delivery) -> bool:
        """Whether the result of its handler counts: it was not too late."""
        return id(delivery) in self._running

    def next_delivery(self, now_ms: int) -> Delivery | None:
        """The next delivery for a handler; it counts as begun. None if nothing is ready.

        Raises CorruptRecordError if a broker's answer cannot be decoded; that queue is pulled again after a pause.
        """
        if self._is_paused:
            return None
        again = self._next_again(now_ms)
        if again is not None:
            return again
        while (name := self._prefetch.next_ready()) is not None:
            process = self._processes[name]
            if self._rules.is_ordered and now_ms >= process.leased_until_ms:
                self._prefetch.pause([name])  # on_leased resumes it, or on_tick drops it
                continue
            try:
                batch = self._prefetch.take_of(name, self._rules.batch_size)
            except CorruptRecordError:
                self._pull_anew(process, now_ms)
                raise
            if batch is None:
                self._check_flow(process)
                continue
            process.hand_out(batch)
            if self._rules.is_ordered:
                self._prefetch.pause([name])
            return self._begin(process, batch, 0, now_ms)
        return None

    def next_again_ms(self) -> int | None:
        """When the next message is due that is handled again here; None if there is none."""
        return self._again[0][0] if self._again and not self._is_paused else None

    def _next_again(self, now_ms: int) -> Delivery | None:
        while self._again and self._again[0][0] <= now_ms:
            _, _, process, batch, attempt = heapq.heappop(self._again)
            if process.is_gone:
                continue
            if process.is_leaving or (self._rules.is_ordered and now_ms >= process.leased_until_ms):
                self._put_off(process, batch, attempt, now_ms + self._rules.suspend_ms)
                continue
            return self._begin(process, batch, attempt, now_ms)
        return None

    def _begin(self, process: ProcessQueue, batch: MessageBatch, attempt: int, now_ms: int) -> Delivery:
        delivery = Delivery(process, batch, attempt, now_ms)
        self._running[id(delivery)] = delivery
        process.running += 1
        return delivery

    def _pull_anew(self, process: ProcessQueue, now_ms: int) -> None:
        """Drops what was fetched of a queue; it is pulled again after a pause."""
        position = self._prefetch.position(process.name)
        assert position is not None
        self._prefetch.seek(process.name, position)
        self._damaged[process.name] = now_ms + DAMAGED_PAUSE_MS
        self._check_flow(process)

    def _put_off(self, process: ProcessQueue, batch: MessageBatch, attempt: int, due_ms: int) -> None:
        self._serial += 1
        heapq.heappush(self._again, (due_ms, self._serial, process, batch, attempt))

    # ---- results

    def on_handled(self, delivery: Delivery, failure: Failure | None, now_ms: int) -> tuple[Return, ...]:
        """A handler has ended. Returns what to send back; ignored if it was too late or the queue was dropped."""
        is_mistake = failure is not None and failure.is_mistake
        self._is_paused = self._is_paused or is_mistake
        if self._running.pop(id(delivery), None) is None:
            return ()
        process = delivery.process
        process.running -= 1
        if process.is_gone:
            self._on_gone_handled(process.name)
            return ()
        if is_mistake:
            return ()
        if failure is None or self._rules.is_broadcasting:
            return self._finish(process, delivery.messages, now_ms)
        if not self._rules.is_ordered:
            return self._return(delivery, failure)
        return self._on_ordered_failure(delivery, failure, now_ms)

    def _on_gone_handled(self, name: MessageQueue) -> None:
        self._gone[name] -= 1
        if not self._gone[name]:
            del self._gone[name]
            process = self._processes.get(name)
            if process is not None and self._rules.is_ordered:
                self._resume(process)

    def _on_ordered_failure(self, delivery: Delivery, failure: Failure, now_ms: int) -> tuple[Return, ...]:
        bound = self._rules.max_attempts
        tries = delivery.attempt + 1
        if failure.is_final or (bound and tries + delivery.messages[0].reconsume_times >= bound):
            return self._return(delivery, Failure(failure.reason, is_final=True))
        self._put_off(delivery.process, delivery.messages, tries, now_ms + self._rules.suspend_ms)
        return ()

    def _return(self, delivery: Delivery, failure: Failure) -> tuple[Return, ...]:
        messages = delivery.messages
        delivery.process.returning += len(messages)
        ones = (messages.slice(index, index + 1) for index in range(len(messages)))
        return tuple(Return(delivery.process, one, delivery.attempt, failure) for one in ones)

    def on_returned(self, item: Return, now_ms: int, *, is_settled: bool) -> None:
        """The broker will deliver the message again, or knows that it is lost; otherwise it is handled again here."""
        process = item.process
        process.returning -= 1
        if process.is_gone:
            return
        if is_settled:
            self._finish(process, item.message, now_ms)
        elif self._rules.is_ordered:
            process.refused[item.message[0].queue_offset] = item.message, item.attempt + 1
            self._go_on_with_refused(process, now_ms)
        else:
            self._put_off(process, item.message, item.attempt + 1, now_ms + RETRY_HERE_MS)

    def _go_on_with_refused(self, process: ProcessQueue, now_ms: int) -> None:
        """Ordered: schedules the first refused message for another try, unless something of its queue is in progress."""
        if process.refused and not process.is_busy:
            message, attempt = process.refused.pop(min(process.refused))
            self._put_off(process, message, attempt, now_ms + self._rules.suspend_ms)

    def _finish(self, process: ProcessQueue, messages: MessageBatch, now_ms: int) -> tuple[Return, ...]:
        for message in cast(Iterable[StoredMessage], messages):
            process.finish(message.queue_offset)
        self._check_flow(process)
        if self._rules.is_ordered:
            self._go_on_with_refused(process, now_ms)
            self._resume(process)
        return ()

    def _resume(self, process: ProcessQueue) -> None:
        """Resumes an ordered queue once everything handed out of it is finished."""
        if process.is_leaving or self._is_awaited(process.name):
            return
        if not (self._rules.is_ordered and process.unfinished):
            self._prefetch.resume([process.name])

    # ---- time

    def on_tick(self, now_ms: int) -> Tick:
        """About every second: handlers that take too long, leases that have ended, queues that are not pulled."""
        for name in [name for name, until_ms in self._damaged.items() if until_ms <= now_ms]:
            del self._damaged[name]
            self._check_flow(self._processes[name])
        late, returns = (
            self._late(now_ms) if self._rules.consume_timeout_ms and not self._rules.is_ordered else ([], [])
        )
        lost = [process.name for process in self._processes.values() if self._is_lost(process, now_ms)]
        return Tick(tuple(late), tuple(returns), tuple(lost))

    def _late(self, now_ms: int) -> tuple[list[Delivery], list[Return]]:
        limit_ms = self._rules.consume_timeout_ms
        late = [delivery for delivery in self._running.values() if delivery.begun_ms + limit_ms <= now_ms]
        failure = Failure(f"no result within {limit_ms} ms")
        return late, [item for delivery in late for item in self.on_handled(delivery, failure, now_ms)]

    def _is_lost(self, process: ProcessQueue, now_ms: int) -> bool:
        if process.is_leaving:
            return False
        if self._rules.is_ordered and now_ms >= process.leased_until_ms:
            return True
        if now_ms - process.pulled_ms < STALLED_MS or self._is_awaited(process.name):
            return False
        return not process.unfinished and not self._prefetch.fetched(process.name)[0]

    # ---- commits

    def uncommitted(self, names: Iterable[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """What to commit, of these queues or of all."""
        offsets = {}
        for name in self._processes if names is None else names:
            process = self._processes.get(name)
            position = self._prefetch.position(name)
            if process is None or position is None:
                continue
            offset = process.commit_offset(position)
            if offset != process.committed:
                offsets[process.name] = offset
        return offsets

    def on_committed(self, offsets: Iterable[tuple[MessageQueue, int]]) -> None:
        """The broker has committed these."""
        for name, offset in offsets:
            process = self._processes.get(name)
            if process is not None and process.name.era == name.era:
                process.committed = offset
