"""Batches in flight: a window a broker, retries at another broker within the batch's deadline, and who waits for what.

A caller first reserves a place in a broker's window (waiting for one without holding any lock), then seals the lane's
batch under the lane's lock and sends it from its own thread. Replies come in whichever thread drained the channel; they
take only this object's own lock, which nobody holds while sending. Failed batches keep their place and are sent again,
the same bytes, by the I/O thread: the broker stamps the queue, so they fit any.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import count
from typing import Final

from ..model.clock import monotonic_ms
from ..model.errors import BufferFull, NoRoute, RequestTimeout, ZenitError
from ..model.queue import MessageQueue
from ..remoting.commands import Reply, Request
from .batching import BufferPool, Lane, Sealed
from .connection import Connection
from .delayed_send import Answer, answer_of, send_request
from .destinations import Destinations
from .latency_fault import LatencyFault
from .retry import RetryPolicy
from .send_future import run_callbacks
from .trace import TraceRecorder
from .waiting import Signal, Signals, Waits

log = logging.getLogger(__name__)

WINDOW_BATCHES: Final = 4
OVERDUE_MS: Final = 1_000
"""A batch to which nothing happens for so long after it should have is looked after."""
_ROUTE_LOOK_MS: Final = 100  # how often one who waits for a route looks again


class BatchSender:
    """Sends the sealed batches of one producer. Any thread may call."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        destinations: Destinations,
        *,
        group: str,
        fault: LatencyFault,
        retry: RetryPolicy,
        pool: BufferPool,
        batch_ms: int,
        on_failed: Callable[[Sealed, ZenitError], None],
        window_batches: int = WINDOW_BATCHES,
        trace: TraceRecorder | None = None,
    ) -> None:
        """`batch_ms`: the deadline of a batch over all tries. `on_failed`: told of a batch without futures that failed."""
        self._connection = connection
        self._waits = waits
        self._destinations = destinations
        self._group = group
        self._fault = fault
        self._retry = retry
        self._pool = pool
        self.batch_ms = batch_ms
        self._on_failed = on_failed
        self._window = window_batches
        self._trace = trace
        self._lock = threading.Lock()
        self._changed = Signals()  # windows and answers; under the lock
        self._in_flight: dict[str, int] = {}
        self._serials = count(1)
        self._unanswered: dict[int, Sealed] = {}
        self._last_serial = 0
        self.failed_futures = 0
        """How many messages with futures have failed for good."""

    # ---- places in the window

    async def reserve(self, lane: Lane, deadline_ms: int) -> MessageQueue:
        """A queue whose broker has room, waiting for it until `deadline_ms`. Raises BufferFull or NoRoute."""
        while True:
            failure: ZenitError | None = None
            with self._lock:
                try:
                    queue = self._try_reserve(lane)
                except NoRoute as error:
                    failure, queue = error, None
                if queue is not None:
                    return queue
                changed = self._changed.add(self._waits.new_signal())
            if failure is not None:
                self._connection.routes.refresh_soon(lane.topic)
            left_ms = deadline_ms - monotonic_ms()
            if left_ms <= 0:
                self._forget(changed)
                raise failure or BufferFull(self._window * self._pool.size_bytes)
            await self._wait_for(changed, left_ms if failure is None else min(left_ms, _ROUTE_LOOK_MS))

    def reserve_nowait(self, lane: Lane) -> MessageQueue | None:
        """The same, or None at once. Raises NoRoute."""
        with self._lock:
            return self._try_reserve(lane)

    def _try_reserve(self, lane: Lane) -> MessageQueue | None:
        if lane.shard is not None:
            if lane.in_flight:
                return None
            self._destinations.address_of(lane.shard)
        queue = self._choose(lane)
        if queue is not None:
            self._enter(lane, queue.broker_name)
        return queue

    def _choose(self, lane: Lane) -> MessageQueue | None:
        """Where the lane's next batch goes; None where there is no room for it now. Raises NoRoute."""
        if lane.shard is not None:
            return lane.shard
        queue = self._destinations.next_queue(lane.topic, has_room=self._has_room)
        return queue if self._has_room(queue.broker_name) else None

    def _has_room(self, broker_name: str) -> bool:
        return self._in_flight.get(broker_name, 0) < self._window

    def _enter(self, lane: Lane, broker_name: str) -> None:
        self._in_flight[broker_name] = self._in_flight.get(broker_name, 0) + 1
        lane.in_flight += 1

    def _leave(self, lane: Lane, broker_name: str) -> None:
        self._in_flight[broker_name] -= 1
        lane.in_flight -= 1

    def cancel(self, lane: Lane, queue: MessageQueue) -> None:
        """Gives a reserved place back unused."""
        with self._lock:
            self._leave(lane, queue.broker_name)
            self._changed.set_all()

    # ---- sending

    def ship(self, lane: Lane, queue: MessageQueue) -> None:
        """Seals the lane's batch and sends it to the reserved queue. The caller holds `lane.lock`."""
        now = monotonic_ms()
        sealed = lane.seal(self._pool.take(), now + self.batch_ms)
        sealed.queue, sealed.due_ms = queue, now + OVERDUE_MS
        with self._lock:
            self._last_serial = next(self._serials)
            self._unanswered[self._last_serial] = sealed
        self._send(sealed, self._last_serial, queue)

    def _send(self, sealed: Sealed, serial: int, queue: MessageQueue) -> None:
        if sealed.is_settled:
            return  # the producer was closed
        now = monotonic_ms()
        sealed.queue, sealed.sent_ms = queue, now
        sealed.tries += 1
        try_ms = self._retry.try_timeout_ms(self.batch_ms, sealed.deadline_ms - now)
        sealed.due_ms = now + try_ms + OVERDUE_MS

        def on_reply(reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
            if error is None:
                try:
                    answer = self._answer_of(sealed, serial, reply, payload)
                except ZenitError as wrong:
                    error = wrong
                else:
                    self._on_stored(sealed, serial, queue, answer)
                    return
            self._on_failure(sealed, serial, queue, error)

        try:
            request, payload = self._request_of(sealed, serial, queue)
            self._connection.remoting.send_nowait(
                self._destinations.address_of(queue),
                request,
                payload,
                timeout_ms=try_ms,
                on_reply=on_reply,
            )
        except ZenitError as error:
            self._on_failure(sealed, serial, queue, error)

    def _request_of(self, sealed: Sealed, serial: int, queue: MessageQueue) -> tuple[Request, memoryview]:  # noqa: ARG002
        """What the next try asks. `serial`: of the batch."""
        return send_request(queue, sealed.count, self._group, waits=sealed.lane.waits), sealed.payload()

    def _answer_of(self, sealed: Sealed, serial: int, reply: Reply | None, payload: bytes) -> Answer:  # noqa: ARG002
        """What it was answered. Raises RemoteProtocolError."""
        return answer_of(reply, payload, sealed.count)

    def _on_stored(self, sealed: Sealed, serial: int, queue: MessageQueue, answer: Answer) -> None:
        now = monotonic_ms()
        self._fault.on_answered(queue.broker_name, now - sealed.sent_ms, now)
        self._settle(sealed, serial, queue, answer, None)

    def _on_failure(self, sealed: Sealed, serial: int, queue: MessageQueue, failure: ZenitError) -> None:
        if sealed.is_settled:
            return
        now = monotonic_ms()
        self._fault.on_failed(queue.broker_name, now)
        if failure.route_stale:
            self._connection.routes.refresh_soon(queue.topic)
        elsewhere = self._has_elsewhere(sealed, serial, queue)
        delay_ms = self._retry.delay_ms(
            failure, tries=sealed.tries, left_ms=sealed.deadline_ms - now, elsewhere=elsewhere
        )
        if delay_ms is None:
            self._settle(sealed, serial, queue, None, failure)
            return
        sealed.due_ms = now + delay_ms + OVERDUE_MS
        log.info("batch tried again topic=%s broker=%s error=%s", queue.topic, queue.broker_name, failure)
        self._connection.remoting.call_later(delay_ms, lambda: self._send_again(sealed, serial, failure))

    def _has_elsewhere(self, sealed: Sealed, serial: int, queue: MessageQueue) -> bool:  # noqa: ARG002
        """Whether the batch may go to another broker."""
        return sealed.lane.shard is None and self._destinations.has_other_broker(queue.topic, queue.broker_name)

    def _next_queue(self, sealed: Sealed, serial: int, last: MessageQueue) -> MessageQueue:  # noqa: ARG002
        """Where a batch that failed goes next. Raises NoRoute."""
        return sealed.lane.shard or self._destinations.next_queue(last.topic, avoid=last.broker_name)

    def _send_again(self, sealed: Sealed, serial: int, failure: ZenitError) -> None:
        """In the I/O thread. Moves the batch's place to the broker it goes to next, whether its window has room or not."""
        last = sealed.queue
        if sealed.is_settled:
            return
        if last is None or monotonic_ms() >= sealed.deadline_ms:
            self._settle(sealed, serial, last, None, failure)
            return
        try:
            queue = self._next_queue(sealed, serial, last)
        except NoRoute as error:
            self._on_failure(sealed, serial, last, error)
            return
        with self._lock:
            self._leave(sealed.lane, last.broker_name)
            self._enter(sealed.lane, queue.broker_name)
        self._send(sealed, serial, queue)

    def _settle(
        self,
        sealed: Sealed,
        serial: int,
        queue: MessageQueue | None,
        reply: Answer | None,
        error: ZenitError | None,
    ) -> bool:
        """Ends a batch, once: False where it has ended already."""
        with self._lock:
            if sealed.is_settled:
                return False
            sealed.is_settled = True
            sealed.due_ms = monotonic_ms() + OVERDUE_MS
        if self._trace is not None:
            cost_ms = monotonic_ms() - (sealed.deadline_ms - self.batch_ms)
            self._trace.on_sent(bytes(sealed.payload()), sealed.count, reply, is_ok=error is None, cost_ms=cost_ms)
        if error is not None and sealed.outcome is None:
            self._on_failed(sealed, error)
        if sealed.outcome is not None:
            self.failed_futures += sealed.count if error is not None else 0
            callbacks = sealed.outcome.settle(queue, reply, error)
            if callbacks:  # the user's code runs in the I/O thread, where no lane is locked
                self._connection.run_soon(lambda: run_callbacks(callbacks))
        for watcher in sealed.watchers:
            watcher(error)
        self._drop(sealed, serial)
        return True

    def _drop(self, sealed: Sealed, serial: int) -> None:
        """It has ended, and all have been told."""
        with self._lock:
            if self._unanswered.pop(serial, None) is None:
                return
            if sealed.queue is not None:
                self._leave(sealed.lane, sealed.queue.broker_name)
            self._pool.give_back(sealed.buffer)
            self._changed.set_all()

    def close(self, error: ZenitError) -> None:
        """Ends what is not answered, with this error; nothing of it is sent again."""
        for serial, sealed in list(self._unanswered.items()):
            self._settle(sealed, serial, sealed.queue, None, error)

    def look_after(self) -> None:
        """In the I/O thread, now and then: what was left halfway, since a signal's handler raised in its thread, goes on."""
        now = monotonic_ms()
        for serial, sealed in list(self._unanswered.items()):
            if now < sealed.due_ms:
                continue
            queue = sealed.queue
            if sealed.is_settled or queue is None:
                self._drop(sealed, serial)
            else:
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
