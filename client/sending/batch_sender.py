"""Sends batches and settles them: a window per broker, and retries at another broker within the batch's deadline.

The thread that ships a lane's batch does three things in one step under the lane's lock: it chooses a broker with room in
its window, seals the batch and takes the place in the window. Then it sends the batch itself. If no broker has room it
waits, without a lock. Replies arrive in whichever thread drained the channel; they take only this object's own lock, which
nobody holds while sending. A failed batch keeps its place, and the I/O thread sends the same bytes again: they fit any
queue, since the broker stamps the queue.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import BufferFull, NoRoute, RequestTimeout, ZenitError
from ...model.queue import MessageQueue
from ...remoting.commands import Reply
from ..connection.route_pause import watch_weakly
from ..connection.waiting import Signal, Signals
from .batching import BackgroundLimits, BufferPool, RetryPause, Sealed, SendLane
from .delayed_send import Answer, answer_of
from .send_context import SendContext
from .send_future import run_callbacks

log = logging.getLogger(__name__)

OVERDUE_MS: Final = 1_000
"""A batch that makes no progress for this long after it should have is resumed by `look_after`."""
_ROUTE_LOOK_MS: Final = 100  # how often a waiter for a route looks again


class BatchSender:
    """Sends the sealed batches of one producer. Any thread may call."""

    def __init__(
        self, context: SendContext, limits: BackgroundLimits, on_failed: Callable[[Sealed, ZenitError], None]
    ) -> None:
        """`on_failed`: called with a failed batch that has no futures."""
        self._connection = context.connection
        self._waits = context.waits
        self._destinations = context.destinations
        self._attempts = context.attempts
        self._group = context.group
        self._fault = context.fault
        self._retry = context.retry
        self._trace = context.trace
        self._telemetry = context.telemetry
        self._counts = context.counts
        self._wrap_over = context.wrap_over
        self._pool = BufferPool(limits.batch_bytes)
        self.batch_ms = limits.batch_ms
        self._window = limits.window_batches
        self._on_failed = on_failed
        self._lock = threading.Lock()
        self._changed = Signals()  # windows and answers; under the lock
        self._in_flight: defaultdict[str, int] = defaultdict(int)
        self._serials = count(1)
        self._unanswered: dict[int, Sealed] = {}
        self._last_serial = 0
        self.last_failure = ""
        """Why the last try failed; empty after a batch was stored."""
        self.failed_futures = 0
        """How many messages with futures failed for good."""
        self._attempts.watch(self._on_queue_free)
        self._unwatch = watch_weakly(context.connection.routes, self._on_route)

    # ---- places in the window

    async def wait_room(self, lane: SendLane, deadline_ms: int) -> None:
        """Waits until a broker may have room for the lane's batch, or for a route.

        Raises BufferFull or NoRoute at the deadline.
        """
        failure: ZenitError | None = None
        try:
            with self._lock:
                try:
                    if self._choose(lane) is not None:
                        return
                except NoRoute as error:
                    failure = error
                    self.last_failure = str(error)
                changed = self._changed.add(self._waits.new_signal())
            if failure is not None:
                self._connection.routes.refresh_soon(lane.topic)
            left_ms = deadline_ms - monotonic_ms()
            if left_ms <= 0:
                self._forget(changed)
                raise failure or BufferFull(self._window * self._pool.size_bytes)
            await self._wait_for(changed, left_ms if failure is None else min(left_ms, _ROUTE_LOOK_MS))
        finally:  # its traceback would keep this frame and all callers alive until a garbage collection
            del failure

    def _choose(self, lane: SendLane) -> MessageQueue | None:
        """The queue of the lane's next batch; None if there is no room for it now. Raises NoRoute."""
        if lane.shard is not None:
            self._destinations.address_of(lane.shard)
            return None if lane.in_flight or self._attempts.is_taken(lane.shard) else lane.shard
        for queue in self._destinations.queues_in_turn(lane.topic, lane.priority, has_room=self._has_room):
            if not self._has_room(queue.broker_name):
                return None
            if not self._attempts.is_taken(queue):
                return queue
        return None

    def _has_room(self, broker_name: str) -> bool:
        return self._in_flight.get(broker_name, 0) < self._window

    def _on_queue_free(self) -> None:
        with self._lock:
            self._changed.set_all()

    # ---- sending

    def ship(self, lane: SendLane) -> bool:
        """Seals the lane's batch and sends it; False if no broker has room for it now. The caller holds `lane.lock`.

        Raises NoRoute.
        """
        with self._lock:
            queue = self._choose(lane)
            sealed = None if queue is None else self._seal(lane, queue, self._pool.take())
        if queue is None or sealed is None:
            return False
        self._send(sealed, sealed.serial, queue)
        return True

    def withhold(self, lane: SendLane) -> None:
        """Seals the lane's batch without sending it: `close` settles it. The caller holds `lane.lock`."""
        with self._lock:
            self._seal(lane, None, bytearray(1))

    def give_up(self, lane: SendLane, error: ZenitError) -> None:
        """Seals the lane's batch and fails it with this error. The caller holds `lane.lock`."""
        with self._lock:
            sealed = self._seal(lane, None, self._pool.take())
        if sealed is not None:
            self._settle(sealed, sealed.serial, None, None, error)

    def _seal(self, lane: SendLane, queue: MessageQueue | None, free: bytearray) -> Sealed | None:
        """Seals the lane's batch, with a place in the window of that queue's broker. Called under both locks.

        None if the queue is not free.
        """
        now = monotonic_ms()
        sealed = lane.seal(free, now + self.batch_ms, self._attempts, self._wrap_over(lane.topic))
        sealed.serial = serial = next(self._serials)
        sealed.queue, sealed.due_ms = queue, now + OVERDUE_MS
        if queue is not None and not sealed.attempt.enter(queue):
            return None
        unanswered, in_flight = self._unanswered, self._in_flight
        # No call from here on, so a signal handler never sees a half of this done.
        unanswered[serial] = sealed
        self._last_serial = serial
        if queue is not None:
            in_flight[queue.broker_name] += 1
        lane.in_flight += 1
        lane.serial += 1
        lane.swapped, lane.swapped_outcome, lane.swapped_watchers = [], None, None
        return sealed

    def _send(self, sealed: Sealed, serial: int, queue: MessageQueue) -> None:
        if sealed.is_settled:
            return  # the producer was closed
        attempt = sealed.attempt
        if attempt.result is not None:  # stored, but the thread that learned of it was interrupted
            self._settle(sealed, serial, queue, attempt.result, None)
            return
        now = monotonic_ms()
        sealed.queue, sealed.sent_ms = queue, now
        sealed.tries += 1
        try_ms = self._retry.try_timeout_ms(self.batch_ms, sealed.deadline_ms - now)
        sealed.due_ms = now + try_ms + OVERDUE_MS

        def on_reply(reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
            if error is None:
                try:
                    answer = answer_of(reply, payload, attempt.part_count)
                except ZenitError as wrong:
                    error = wrong
                else:
                    self._on_stored(sealed, serial, queue, answer)
                    return
            self._on_failure(sealed, serial, queue, error)

        try:
            self._connection.remoting.send_nowait(
                self._destinations.address_of(queue),
                attempt.request(self._group, delayed=sealed.lane.delayed),
                attempt.part_of(sealed.payload()),
                timeout_ms=try_ms,
                on_reply=on_reply,
            )
        except ZenitError as error:
            self._on_failure(sealed, serial, queue, error)

    def _on_stored(self, sealed: Sealed, serial: int, queue: MessageQueue, answer: Answer) -> None:
        if sealed.is_settled:
            return
        whole = sealed.attempt.on_answer(answer)
        if whole is None:
            self._go_on(sealed, serial, queue)
            return
        now = monotonic_ms()
        self._fault.on_answered(queue.broker_name, now - sealed.sent_ms, now)
        self.last_failure = ""
        self._settle(sealed, serial, queue, whole, None)

    def _go_on(self, sealed: Sealed, serial: int, queue: MessageQueue) -> None:
        """Sends the rest to the same queue; by the I/O thread, because a thread that handles a reply may hold a lock."""
        self._connection.run_soon(lambda: self._send(sealed, serial, queue))

    def _on_failure(self, sealed: Sealed, serial: int, queue: MessageQueue, failure: ZenitError) -> None:
        if sealed.is_settled:
            return
        if sealed.attempt.result is not None or sealed.attempt.on_error(failure):
            self._go_on(sealed, serial, queue)
            return
        now = monotonic_ms()
        self.last_failure = str(failure)
        self._fault.on_failed(queue.broker_name, now)
        if failure.route_stale:
            self._connection.routes.refresh_soon(queue.topic)
        stays = sealed.lane.shard is not None or sealed.attempt.in_doubt
        elsewhere = not stays and self._destinations.has_other_broker(queue.topic, queue.broker_name)
        delay_ms = self._retry.delay_ms(
            failure,
            tries=sealed.tries,
            left_ms=sealed.deadline_ms - now,
            elsewhere=elsewhere,
            before_route=sealed.before_route,
        )
        if delay_ms is None:
            self._settle(sealed, serial, queue, None, failure)
            return
        sealed.due_ms = now + delay_ms + OVERDUE_MS
        log.info("batch tried again topic=%s broker=%s error=%s", queue.topic, queue.broker_name, failure)
        pause = sealed.pause = RetryPause(failure, self._connection.routes.cached(queue.topic))
        self._connection.remoting.call_later(delay_ms, lambda: self._end_pause(sealed, serial, pause))

    def _on_route(self, topic: str) -> None:
        """A topic has another route: its batches need not wait for their next try. Any thread."""
        for serial, sealed in list(self._unanswered.items()):
            pause = sealed.pause
            if pause is not None and sealed.queue is not None and sealed.queue.topic == topic:
                self._connection.run_soon(partial(self._end_pause, sealed, serial, pause))

    def _end_pause(self, sealed: Sealed, serial: int, pause: RetryPause) -> None:
        """I/O thread: the time is over, or there is another route; whichever comes first."""
        if sealed.pause is not pause:
            return
        sealed.pause = None
        if sealed.queue is not None and self._connection.routes.cached(sealed.queue.topic) is not pause.route:
            sealed.before_route = sealed.tries
        self._send_again(sealed, serial, pause.failure)

    def _next_queue(self, sealed: Sealed, last: MessageQueue) -> MessageQueue:
        """The queue for a failed batch: another one only if nothing is in doubt and that queue takes it. Raises NoRoute."""
        if sealed.lane.shard is not None or sealed.attempt.in_doubt:
            return last
        for queue in self._destinations.queues_in_turn(last.topic, sealed.lane.priority, avoid=last.broker_name):
            if sealed.attempt.enter(queue):
                return queue
        return last

    def _send_again(self, sealed: Sealed, serial: int, failure: ZenitError) -> None:
        """Moves the batch's place to the broker of its next try, even if that window is full. I/O thread."""
        last = sealed.queue
        if sealed.is_settled:
            return
        if last is None or monotonic_ms() >= sealed.deadline_ms:
            self._settle(sealed, serial, last, None, failure)
            return
        try:
            queue = self._next_queue(sealed, last)
        except NoRoute as error:
            self._on_failure(sealed, serial, last, error)
            return
        with self._lock:
            self._in_flight[last.broker_name] -= 1
            self._in_flight[queue.broker_name] += 1
            sealed.queue = queue
        self._send(sealed, serial, queue)

    def _settle(
        self,
        sealed: Sealed,
        serial: int,
        queue: MessageQueue | None,
        reply: Answer | None,
        error: ZenitError | None,
    ) -> bool:
        """Settles a batch once; False if it is settled already."""
        now = monotonic_ms()
        if error is not None:
            error = sealed.attempt.failure(error)
        with self._lock:
            if sealed.is_settled:
                return False
            sealed.result = queue, reply, error
            sealed.is_settled = True
            sealed.due_ms = now + OVERDUE_MS
            if error is not None and sealed.outcome is not None:
                self.failed_futures += sealed.count
        cost_ms = now - (sealed.deadline_ms - self.batch_ms)
        self._counts.on_sent(sealed.lane.topic, sealed.count, cost_ms, is_ok=error is None)
        if self._trace is not None:
            self._trace.on_sent(bytes(sealed.payload()), sealed.count, reply, is_ok=error is None, cost_ms=cost_ms)
        if self._telemetry is not None:
            cost_ms = now - (sealed.deadline_ms - self.batch_ms)
            topic = sealed.lane.topic
            self._telemetry.on_batch(topic, sealed.payload(), sealed.count, queue, error, cost_ms)
        self._tell(sealed, serial)
        return True

    def _tell(self, sealed: Sealed, serial: int) -> None:
        """Reports a settled batch to all who wait for it. After an interruption it is called again."""
        error = sealed.result[2]
        if error is not None and sealed.outcome is None:
            self._on_failed(sealed, error)
        outcome = sealed.outcome
        if outcome is not None and outcome.settle(*sealed.result):
            # User code runs in the I/O thread, where no lane is locked.
            self._connection.run_soon(lambda: run_callbacks(outcome.take_callbacks()))
        for watcher in sealed.watchers:
            watcher(error)
        self._drop(sealed, serial)

    def _drop(self, sealed: Sealed, serial: int) -> None:
        """Removes a batch that is settled and reported."""
        sealed.attempt.leave()
        lane, queue, unanswered, in_flight = sealed.lane, sealed.queue, self._unanswered, self._in_flight
        with self._lock:
            if serial not in unanswered:
                return
            del unanswered[serial]  # no call between this and its place in the window
            lane.in_flight -= 1
            if queue is not None:
                in_flight[queue.broker_name] -= 1
            self._changed.set_all()
        self._pool.give_back(sealed.buffer)

    def close(self, error: ZenitError) -> None:
        """Fails unanswered batches with this error; none of them is sent again."""
        self._unwatch()
        for serial, sealed in list(self._unanswered.items()):
            if not self._settle(sealed, serial, sealed.queue, None, error):
                self._tell(sealed, serial)  # the thread that settled it may have been interrupted

    def look_after(self) -> None:
        """Resumes what a signal handler's exception cut short in its thread. Called by the I/O thread now and then."""
        self._attempts.look_after()
        with self._lock:
            self._changed.set_all()  # the thread that should have done it may have been interrupted
        now = monotonic_ms()
        for serial, sealed in list(self._unanswered.items()):
            if now < sealed.due_ms:
                continue
            queue = sealed.queue
            if sealed.is_settled:
                self._tell(sealed, serial)
            elif queue is not None:
                self._on_failure(sealed, serial, queue, RequestTimeout("a batch whose answer was lost", OVERDUE_MS))

    # ---- waiting

    async def wait_answered(self, deadline_ms: int | None) -> bool:
        """Waits until every batch sent before this call is answered; False where `deadline_ms` came first."""
        mark = self._last_serial
        while True:
            with self._lock:
                if self._oldest() > mark:
                    return True
                changed = self._changed.add(self._waits.new_signal())
            left_ms = None if deadline_ms is None else deadline_ms - monotonic_ms()
            if left_ms is not None and left_ms <= 0:
                self._forget(changed)
                return False
            await self._wait_for(changed, left_ms)

    async def _wait_for(self, changed: Signal, timeout_ms: int | None) -> None:
        try:
            await changed.wait(timeout_ms)
        finally:
            self._forget(changed)

    def _forget(self, changed: Signal) -> None:
        with self._lock:
            self._changed.discard(changed)

    def _oldest(self) -> int:
        return next(iter(self._unanswered), self._last_serial + 1)

    def waiting_messages(self) -> int:
        """How many messages are in batches that wait for their answer."""
        return sum(sealed.count for sealed in list(self._unanswered.values()))

    @property
    def unanswered(self) -> int:
        """How many batches wait for their answer."""
        return len(self._unanswered)
