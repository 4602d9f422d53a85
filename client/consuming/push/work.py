"""The I/O of a push consumer's queues: sends pulls, gives messages to the handler's workers, returns failed ones.

Several threads call it: the I/O thread with answers and timers, the workers to take and finish deliveries, the rebalancing
thread to assign and revoke queues. One lock guards the pure core; nothing is sent and no handler runs while it is held.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import (
    BufferFull,
    ClientClosed,
    CorruptRecordError,
    DamageAwaited,
    MessageNotFound,
    WrongAnswer,
    ZenitError,
)
from ....model.queue import MessageQueue
from ....model.subscription import Subscription
from ....remoting.commands import PullReply, Reply, SendBack
from ...connection.connection import Connection
from ...connection.waiting import Signal, Signals, Waits
from ..losses import LossNotices, OnLost
from ..prefetch import Event, MessagesLost, Moved, Pull
from ..pull_calls import LOST_MS, PullCalls
from .handler_pool import Handle, HandlerPool, Worker, failure_of, failure_of_error, messages_of
from .queues import PREFETCH_BYTES, Delivery, Failure, PushQueues, PushRules, Return

log = logging.getLogger(__name__)

PULL_MESSAGES: Final = 256  # in one answer: a queue's limits are checked between answers
DEAD_LETTER_LEVEL: Final = -1


@dataclass(frozen=True, slots=True)
class PushStatistics:
    """Counters since the start; `queues` and `running` are current values.

    `failed`: messages that were not handled successfully, including late ones. `sent_back`: messages that the broker has
    taken back. `lost`: messages skipped because their bytes are damaged at the broker and on every replica.
    """

    queues: int
    running: int
    handled: int
    failed: int
    late: int
    sent_back: int
    lost: int


class PushWork:
    """The work in progress of one push consumer. Thread-safe."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        group: str,
        rules: PushRules,
        handle: Handle,
        *,
        concurrency: int,
        prefetch_bytes: int = PREFETCH_BYTES,
        timeout_ms: int,
        on_queues_lost: Callable[[], None],
        on_lost: OnLost | None = None,
    ) -> None:
        """`handle`: runs the user's handler.

        `on_queues_lost`: called after queues were dropped, to rebalance. `on_lost`: called with lost messages. Neither
        callback may block.
        """
        self._connection = connection
        self._waits = waits
        self._group = group
        self._rules = rules
        self._run_handler = handle
        self._timeout_ms = timeout_ms
        self._on_queues_lost = on_queues_lost
        self.losses = LossNotices(group, on_lost)
        self._lock = threading.Lock()
        self._idle: list[Signal] = []  # workers that wait for a delivery; under the lock, like the next
        self._woken: Signal | None = None  # a worker that was woken and has not started yet
        self._calmed = Signals()  # a handler has ended, or a message was returned
        self._queues = PushQueues(rules, prefetch_bytes=prefetch_bytes)
        self._pulls = PullCalls(connection, group, PULL_MESSAGES, self._on_pulled)
        self._pool = HandlerPool(waits, f"zenit-push-{group}", concurrency, self._work)
        self._failing: set[MessageQueue] = set()  # queues whose last pull failed
        self._wake_ms: int | None = None  # when the I/O thread will look for messages to handle again
        self._is_stopping = False
        self._handled = self._failed = self._late = self._sent_back = 0
        self.mistake: WrongAnswer | None = None
        """Why nothing is handed out any more: the program is wrong."""

    def start(self) -> None:
        """Starts the handler's workers."""
        with self._lock:
            self._pool.start()

    def end(self) -> None:
        """Hands nothing out any more, and pulls nothing."""
        with self._lock:
            self._is_stopping = True
            while self._idle:
                self._idle.pop().set()
        self._pulls.end()

    async def stop(self, deadline_ms: int) -> bool:
        """Stops handing out and waits for the handlers; False if some still run at the deadline."""
        self.end()
        return await self._wait_calm(None, deadline_ms)

    def is_busy(self) -> bool:
        """Whether a handler is running, or a message is on its way back."""
        with self._lock:
            return self._queues.is_busy()

    def statistics(self) -> PushStatistics:
        """A frozen copy of the counters."""
        with self._lock:
            return PushStatistics(
                len(self._queues.queues()),
                self._queues.running,
                self._handled,
                self._failed,
                self._late,
                self._sent_back,
                self.losses.count,
            )

    # ---- which queues

    def queues(self) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """(queues that are ours, queues that we are giving up)."""
        with self._lock:
            names = self._queues.queues()
            leaving = {name for name in names if self._queues.is_leaving(name)}
        return set(names) - leaving, leaving

    def assign(
        self,
        name: MessageQueue,
        offset: int,
        *,
        committed: int,
        subscription: Subscription,
        leased_until_ms: int = 0,
    ) -> None:
        """Begins a queue and pulls from it."""
        with self._lock:
            now = monotonic_ms()
            self._queues.assign(
                name,
                offset,
                committed=committed,
                subscription=subscription,
                now_ms=now,
                leased_until_ms=leased_until_ms,
            )
            pulls = self._queues.due(now)
        self._send_pulls(pulls)

    def resubscribe(self, wanted: dict[MessageQueue, Subscription]) -> None:
        """Sets the subscriptions of queues; those that are not ours are ignored."""
        with self._lock:
            now = monotonic_ms()
            for name, subscription in wanted.items():
                self._queues.resubscribe(name, subscription)
            pulls = self._queues.due(now)
        self._send_pulls(pulls)

    def stay(self, names: Iterable[MessageQueue]) -> None:
        """Queues that were being given up stay after all."""
        now = monotonic_ms()
        with self._lock:
            for name in names:
                self._queues.stay(name)
            self._wake_one(now)

    async def leave(
        self, names: set[MessageQueue], deadline_ms: int
    ) -> tuple[set[MessageQueue], dict[MessageQueue, int]]:
        """Hands nothing more out from these queues and waits for their handlers, but not beyond the deadline.

        Returns the queues without running handlers, and what is to be committed.
        """
        with self._lock:
            for name in names:
                self._queues.leave(name)
        await self._wait_calm(sorted(names), deadline_ms)
        with self._lock:
            calm = {name for name in names if not self._queues.is_busy([name])}
            return calm, self._queues.uncommitted(sorted(names))

    def revoke(self, names: Collection[MessageQueue]) -> None:
        """Drops queues, whatever their handlers do."""
        with self._lock:
            for name in names:
                self._queues.revoke(name)
                self._failing.discard(name)
        self._pulls.drop(names)

    def move(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator has reset the group's offsets: continues there, in the eras that the queues name."""
        with self._lock:
            now = monotonic_ms()
            moved = [name for name, offset in offsets.items() if self._queues.move(name, offset, now)]
            pulls = self._queues.due(now)
            self._calmed.set_all()
        if moved:
            log.warning("an operator moved the group group=%s queues=%s", self._group, sorted(map(str, moved)))
        self._send_pulls(pulls)

    def on_moved(self, names: list[MessageQueue]) -> None:
        """A broker refused commits of these queues in the eras given: an operator has reset the group's offsets before."""
        with self._lock:
            old = [name for name in names if self._queues.is_in_era(name)]
        if old:
            log.warning("an operator moved the group, its queues are begun anew group=%s", self._group)
            self.lose(old)

    def uncommitted(self) -> dict[MessageQueue, int]:
        """What to commit now."""
        with self._lock:
            return self._queues.uncommitted()

    def on_committed(self, offsets: list[tuple[MessageQueue, int]]) -> None:
        """These offsets are saved."""
        with self._lock:
            self._queues.on_committed(offsets)

    def on_leased(self, asked: list[MessageQueue], leases: dict[MessageQueue, int]) -> None:
        """The broker answered for these queues: another member has those that are not in `leases`."""
        lost = [name for name in asked if name not in leases]
        now = monotonic_ms()
        with self._lock:
            for name, until_ms in leases.items():
                self._queues.on_leased(name, until_ms)
            self._wake_one(now)
        if lost:
            self.lose(lost)

    def lose(self, names: list[MessageQueue]) -> None:
        """Queues that we have lost, or that hang: drops them at once and rebalances."""
        log.warning("queues dropped group=%s queues=%s", self._group, names)
        self.revoke(names)
        self._on_queues_lost()

    async def _wait_calm(self, names: list[MessageQueue] | None, deadline_ms: int) -> bool:
        """Waits until no handler works on these queues, None = on any, or until the deadline."""
        while True:
            with self._lock:
                left_ms = deadline_ms - monotonic_ms()
                is_busy = self._queues.is_busy(names)
                if not is_busy or left_ms <= 0:
                    return not is_busy
                calmed = self._calmed.add(self._waits.new_signal())
            try:
                await calmed.wait(left_ms)
            finally:
                with self._lock:
                    self._calmed.discard(calmed)

    # ---- pulling

    def _send_pulls(self, pulls: list[Pull]) -> None:
        for pull in pulls:
            self._pulls.send(pull)

    def _on_pulled(self, pull: Pull, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        """In the thread that got the reply."""
        now = monotonic_ms()
        event: Event | None = None
        is_first = False
        with self._lock:
            if isinstance(reply, PullReply):
                event = self._queues.on_reply(pull, reply, payload, now)
                if isinstance(event, DamageAwaited):
                    is_first, error = pull.queue not in self._failing, event
                    self._failing.add(pull.queue)
                else:
                    self._failing.discard(pull.queue)
            elif self._queues.on_error(pull, now):
                is_first = pull.queue not in self._failing
                self._failing.add(pull.queue)
            pulls = [] if self._is_stopping else self._queues.due(now)
            next_due_ms = None if self._is_stopping else self._queues.next_due_ms()
            self._wake_one(now)
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
        self._send_pulls(pulls)
        if next_due_ms is not None:
            self._later(next_due_ms - now, self._pull_more)

    def _pull_more(self) -> None:
        """In the I/O thread: a queue's pause may be over."""
        with self._lock:
            pulls = [] if self._is_stopping else self._queues.due(monotonic_ms())
        self._send_pulls(pulls)

    def _later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        try:
            self._connection.remoting.call_later(max(1, delay_ms), callback)
        except (BufferFull, ClientClosed):
            log.debug("the I/O thread takes no timers; the next beat looks")

    # ---- the handler's workers

    async def _work(self, worker: Worker) -> None:
        """The life of one worker."""
        delivery: Delivery | None = None
        failure: Failure | None = None
        ready: Signal | None = None
        while True:
            with self._lock:
                if ready is not None and ready is self._woken:
                    self._woken = None
                ready = None
                now = monotonic_ms()
                returns = self._finish(delivery, failure, now) if delivery is not None else ()
                worker.delivery = delivery = None if worker.is_given_up else self._take(now)
                self._plan_wake(now)
                if delivery is None and not returns:
                    if self._is_stopping or worker.is_given_up:
                        self._pool.on_end(worker)
                        return
                    ready = self._waits.new_signal()
                    self._idle.append(ready)
                else:
                    pulls = [] if self._is_stopping else self._queues.due(now)
                    self._wake_one(now)
            if ready is not None:
                await self._wait_ready(ready)
                continue
            self._send_pulls(pulls)
            self._send_back(returns)
            if delivery is not None:
                failure = await self._handle(delivery)

    def _take(self, now_ms: int) -> Delivery | None:
        """Under the lock: the next delivery, if there is one."""
        while not self._is_stopping:
            try:
                return self._queues.next_delivery(now_ms)
            except CorruptRecordError as error:
                log.exception("messages cannot be decoded; they are pulled again group=%s", self._group, exc_info=error)
        return None

    async def _wait_ready(self, ready: Signal) -> None:
        try:
            await ready.wait(None)
        except BaseException:  # its task was cancelled: another one is woken instead
            with self._lock:
                if ready in self._idle:
                    self._idle.remove(ready)
                elif ready is self._woken:
                    self._woken = None
                    self._wake_one(monotonic_ms())
            raise

    def _wake_one(self, now_ms: int) -> None:
        """Under the lock: wakes one worker at a time, which wakes the next if there is more.

        So quick handlers need few workers, and not every message wakes one.
        """
        if self._woken is None and self._idle and self._queues.has_ready(now_ms):
            self._woken = self._idle.pop()
            self._woken.set()

    async def _handle(self, delivery: Delivery) -> Failure | None:
        """Runs the handler. Whatever it raises, even SystemExit, is a failure of the messages and not of the worker."""
        try:
            failure = failure_of(await self._run_handler(messages_of(delivery)))
        except BaseException as error:  # the user's code may raise anything
            if self._waits.is_end(error):
                raise
            if isinstance(error, WrongAnswer):
                return self._on_mistake(error)
            log.warning("handler failed queue=%s", delivery.process.name, exc_info=error)
            return failure_of_error(error)
        if failure is not None:
            log.info("not handled queue=%s reason=%s", delivery.process.name, failure.reason)
        return failure

    def _on_mistake(self, error: WrongAnswer) -> Failure:
        """Logs once that the consumer pauses, and why."""
        with self._lock:
            is_first, self.mistake = self.mistake is None, self.mistake or error
        if is_first:
            log.error("paused group=%s error=%s", self._group, error)
        return failure_of_error(error)

    def _finish(self, delivery: Delivery, failure: Failure | None, now_ms: int) -> tuple[Return, ...]:
        """Under the lock."""
        if self._queues.is_running(delivery):
            self._handled += len(delivery.messages)
            self._failed += len(delivery.messages) if failure is not None else 0
        returns = self._queues.on_handled(delivery, failure, now_ms)
        self._calmed.set_all()
        return returns

    # ---- returned messages

    def _send_back(self, returns: Iterable[Return]) -> None:
        for item in returns:
            self._send_one_back(item)

    def _send_one_back(self, item: Return, record: bytes | None = None) -> None:
        """`record`: the message itself, if the broker no longer holds it."""
        queue, message = item.process.name, item.message[0]

        def on_reply(_reply: Reply | None, _payload: bytes, error: ZenitError | None) -> None:
            if isinstance(error, MessageNotFound) and record is None:
                self._send_one_back(item, message.record)
                return
            is_lost = isinstance(
                error, CorruptRecordError
            )  # damaged at the broker, which could not repair it, and in this copy
            if is_lost:
                begin, offset = message.physical_offset, message.queue_offset
                self.losses.tell(MessagesLost(queue, offset, offset + 1, (begin, begin + message.size_bytes)))
            elif error is not None:
                log.warning("not taken back, handled again here queue=%s error=%s", queue, error)
                if error.route_stale:
                    self._connection.routes.refresh_soon(queue.topic)
            with self._lock:
                now = monotonic_ms()
                self._queues.on_returned(item, now, is_settled=error is None or is_lost)
                self._sent_back += error is None
                self._plan_wake(now)
                self._calmed.set_all()
                pulls = [] if self._is_stopping else self._queues.due(now)
                self._wake_one(now)
            self._send_pulls(pulls)

        request = SendBack(
            self._group,
            queue.topic,
            message.physical_offset,
            DEAD_LETTER_LEVEL if item.failure.is_final else 0,
            self._rules.max_attempts - 1,  # how often it may come again; -1 if unlimited: as set for the group
            item.failure.reason,
            item.attempt + 1,
            message.queue_offset,
        )
        try:
            address = self._connection.routes.address_of(queue.topic, queue.broker_name)
            self._connection.remoting.send_nowait(
                address, request, record, timeout_ms=self._timeout_ms, on_reply=on_reply
            )
        except ZenitError as error:
            on_reply(None, b"", error)

    def _plan_wake(self, now_ms: int) -> None:
        """Under the lock: schedules the I/O thread for the next message that is handled again here."""
        due_ms = self._queues.next_again_ms()
        if due_ms is None or due_ms <= now_ms or self._is_stopping:
            return  # a free worker takes what is due
        if self._wake_ms is None or due_ms < self._wake_ms:
            self._wake_ms = due_ms
            self._later(due_ms - now_ms, self._on_again_due)

    def _on_again_due(self) -> None:
        """In the I/O thread."""
        with self._lock:
            now = monotonic_ms()
            self._wake_ms = None
            self._wake_one(now)
            self._plan_wake(now)

    def on_beat(self) -> None:
        """About every second in the I/O thread: what is due by time alone."""
        with self._lock:
            now = monotonic_ms()
            tick = self._queues.on_tick(now)
            self._queues.abandon_pulls(now - LOST_MS)
            for delivery in tick.late:
                self._pool.give_up(delivery)
                self._late += len(delivery.messages)
                self._failed += len(delivery.messages)
            self._calmed.set_all()
            pulls = [] if self._is_stopping else self._queues.due(now)
            self._plan_wake(now)
            self._wake_one(now)
        for delivery in tick.late:
            log.warning("no result in time queue=%s messages=%d", delivery.process.name, len(delivery.messages))
        self._send_pulls(pulls)
        self._send_back(tick.returns)
        if tick.lost:
            self.lose(list(tick.lost))
