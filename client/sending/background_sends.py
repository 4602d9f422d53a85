"""Sends without waiting: lanes that fill up, are shipped when full or when their linger ends, and can be flushed.

`open` maps a topic to the accumulator to which `post` may append without a lock: only of lanes that will be shipped (empty
if the kernel runs interpreted, where an append can be interrupted). The caller that finds a batch full ships it; the I/O
thread ships batches whose linger ended. A `post` that took an accumulator from `open` just as its idle lane was closed
would be stranded; a sweep each 100 ms reopens the lane.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import BufferFull, ClientClosed, NoRoute, RequestTimeout, SendFailed, ZenitError
from ...model.message import FailedSend
from ...model.queue import MessageQueue
from ...record.kernel import COMPILED, Accumulator
from ...remoting.io_thread import check_may_wait
from .batch_sender import BatchSender
from .batching import BackgroundLimits, Sealed, SendLane, Watcher
from .failed_sends import FailedSends, failed_sends
from .outgoing import Parts, check_send_topic
from .send_context import SendContext
from .send_future import SendFuture
from .target import Priority, Target

log = logging.getLogger(__name__)

SWEEP_MS: Final = 100

LaneName = str | MessageQueue | tuple[str, Priority]
"""A topic, the queue of a sharding key or of lite topics, or a topic and a priority."""

Lanes = dict[LaneName, SendLane]


class BackgroundSends:
    """One producer's lanes. Any thread may call."""

    def __init__(
        self,
        context: SendContext,
        limits: BackgroundLimits,
        check_usable: Callable[[], None],
        failed: FailedSends,
    ) -> None:
        self.open: dict[str, Accumulator] = {}
        self._may_bypass = context.telemetry is None  # else each message gets its caller's context first
        self._connection = context.connection
        self._remoting = context.connection.remoting
        self._waits = context.waits
        self._routes = context.connection.routes
        self._destinations = context.destinations
        self._new_accumulator = context.new_accumulator
        self._check_usable = check_usable
        self._failed = failed
        self._sender = BatchSender(context, limits, self._on_failed)
        self._batch_bytes = limits.batch_bytes
        self._linger_ms = max(1, limits.linger_ms)  # with 0 each batch would have one message
        self._lock = threading.Lock()
        self._post_lanes: Lanes = {}
        self._future_lanes: Lanes = {}
        self._delayed_lanes: Lanes = {}
        self._sweeper = self._remoting.every(SWEEP_MS, self._sweep)
        self._is_over = False
        self._connection.forget_in_child.add(self.refuse)

    def refuse(self) -> None:
        """Refuses further sends: `check_usable` raises the reason."""
        self._is_over = True
        self.open.clear()

    def close(self) -> None:
        """Stops taking messages. Unacknowledged ones fail with ClientClosed: futures are done, `on_error` is called."""
        self._connection.forget_in_child.discard(self.refuse)
        self.refuse()
        self._sweeper.cancel()
        for lane in self._all_lanes():
            with lane.lock:
                while not lane.is_empty:
                    self._sender.withhold(lane)
                lane.is_open = False
        self._sender.close(ClientClosed("producer"))

    # ---- callers

    def send_nowait(self, topic: str, parts: Parts, target: Target | None) -> SendFuture | None:
        """Appends one message and returns its future; None if that would have to wait, as `send` does.

        Raises NoRoute, and errors about the message.
        """
        if self._is_over:
            self._check_usable()
        lanes = self._future_lanes if type(parts) is tuple else self._delayed_lanes
        lane = lanes.get(topic) if target is None else self._known_lane(lanes, topic, target)
        if lane is None:
            return None
        while True:
            with lane.lock:
                if not lane.is_open or (lane.swapped and lane.needs_open):
                    self._open_lane(lane)
                if lane.accumulator.append(*parts):
                    return SendFuture(lane.outcome, lane.accumulator.count - 1)
                serial = lane.serial
            if not self._ship_now(lane, serial):
                return None

    async def send(self, topic: str, parts: Parts, target: Target | None, wait_ms: int) -> SendFuture:
        """The same, but waits for a route and for room, at most `wait_ms` for each.

        Also raises TopicNotFound and BufferFull.
        """
        deadline_ms = monotonic_ms() + wait_ms
        lanes = self._future_lanes if type(parts) is tuple else self._delayed_lanes
        lane = await self._lane(lanes, topic, target, wait_ms)
        while True:
            serial = lane.serial
            future = self.send_nowait(topic, parts, target)
            if future is not None:
                return future
            await self._ship_as(lane, serial, deadline_ms)

    def post_nowait(self, topic: str, parts: Parts, target: Target | None) -> bool:
        """Appends a message that begins a batch, does not fit into the current one, or may be compressed.

        False if that would have to wait, as `post` does. Raises errors about the message.
        """
        self._check_usable()
        lane = self._known_lane(self._post_lanes, topic, target)
        return lane is not None and self._append_posted(lane, parts)

    async def post(
        self, topic: str, parts: Parts, target: Target | None, wait_ms: int, watcher: Watcher | None = None
    ) -> None:
        """The same, but waits as `send` does. `watcher`: called with the outcome of the message's batch."""
        self._check_usable()
        deadline_ms = monotonic_ms() + wait_ms
        lane = await self._lane(self._post_lanes, topic, target, wait_ms)
        while True:
            serial = lane.serial
            if self._append_posted(lane, parts, watcher):
                return
            await self._ship_as(lane, serial, deadline_ms)

    def _append_posted(self, lane: SendLane, parts: Parts, watcher: Watcher | None = None) -> bool:
        while True:
            with lane.lock:
                if not lane.is_open or (lane.swapped and lane.needs_open):
                    self._open_lane(lane)
                    # Interpreted, an append is many steps: then every post takes the lock.
                    if COMPILED and lane.shard is None and self._may_bypass:
                        self.open[lane.topic] = lane.accumulator
                if lane.accumulator.append(*parts):
                    if watcher is not None:
                        lane.watchers += (watcher,)
                    return True
                serial = lane.serial
            if not self._ship_now(lane, serial):
                return False

    def _ship_now(self, lane: SendLane, serial: int) -> bool:
        """Ships the batch with this serial, unless another thread has done so; False if there is no room."""
        with lane.lock:
            if lane.serial != serial:
                return True
            try:
                return self._sender.ship(lane)
            except NoRoute:
                return False

    async def _ship_as(self, lane: SendLane, serial: int, deadline_ms: int) -> None:
        """Ships the batch with this serial as soon as there is room, unless another thread has done so."""
        while not self._ship_now(lane, serial):
            await self._sender.wait_room(lane, deadline_ms)

    async def flush(self, wait_ms: int | None) -> None:
        """Ships everything and waits until it is answered. Raises RequestTimeout, SendFailed, NoRoute, WaitsForItself."""
        check_may_wait("flush()")
        deadline_ms = None if wait_ms is None else monotonic_ms() + wait_ms
        for lane in self._all_lanes():
            with lane.lock:
                serial, batches = lane.serial, bool(lane.swapped) + bool(lane.accumulator.count)
            for number in range(batches):
                await self._ship_as(lane, serial + number, deadline_ms or monotonic_ms() + self._sender.batch_ms)
        if not await self._sender.wait_answered(deadline_ms):
            raise RequestTimeout(f"flush: {self._sender.unanswered} batches are not answered", wait_ms or 0)
        error = self._failed.take_error()
        if error is not None:
            raise error

    def waiting_messages(self) -> int:
        """How many messages wait to be sent, or for answers. Takes no lock: for a moment a message may count twice."""
        return sum(lane.waiting_messages for lane in self._all_lanes()) + self._sender.waiting_messages()

    @property
    def last_failure(self) -> str:
        """See `Producer.last_failure`."""
        return self._sender.last_failure

    @property
    def failed_futures(self) -> int:
        """How many messages with futures have failed."""
        return self._sender.failed_futures

    def take_failed(self) -> SendFailed | None:
        """The posted messages that failed since the last flush, which reported earlier ones."""
        return self._failed.take_error()

    # ---- lanes

    def _all_lanes(self) -> list[SendLane]:
        return [*self._post_lanes.values(), *self._future_lanes.values(), *self._delayed_lanes.values()]

    def _known_lane(self, lanes: Lanes, topic: str, target: Target | None) -> SendLane | None:
        if target is None:
            return lanes.get(topic)
        if self._routes.cached(topic) is None:
            return None
        return lanes.get(self._lane_name(topic, target))

    def _lane_name(self, topic: str, target: Target | None) -> LaneName:
        if target is None:
            return topic
        return (topic, target) if isinstance(target, Priority) else self._destinations.own_queue(topic, target)

    async def _lane(self, lanes: Lanes, topic: str, target: Target | None, wait_ms: int) -> SendLane:
        known = self._known_lane(lanes, topic, target)
        if known is not None:
            return known
        await self._prepare(topic, wait_ms)
        name = self._lane_name(topic, target)
        with self._lock:
            lane = lanes.get(name)
            if lane is None:
                accumulator = self._new_accumulator(topic, self._batch_bytes)
                futures, delayed = lanes is not self._post_lanes, lanes is self._delayed_lanes
                lane = lanes[name] = SendLane(
                    topic,
                    accumulator,
                    with_outcome=futures,
                    shard=name if isinstance(name, MessageQueue) else None,
                    priority=target if isinstance(target, Priority) else None,
                    delayed=delayed,
                )
        return lane

    async def _prepare(self, topic: str, wait_ms: int) -> None:
        """Checks at the first message of a topic: its name, and that it exists."""
        await self._routes.served_route(check_send_topic(topic), self._waits, timeout_ms=max(1, wait_ms))

    def _open_lane(self, lane: SendLane) -> None:
        """Opens a lane; under its lock. Raises ClientClosed, because a closing producer may have emptied its lanes already."""
        self._check_usable()
        lane.open()
        self._linger_on(lane, self._linger_ms)

    # ---- the I/O thread

    def _on_linger(self, lane: SendLane) -> None:
        """Ships a batch whose linger ended; closes an empty lane."""
        if not lane.lock.acquire(blocking=False):
            self._linger_on(lane, 1)  # another thread is shipping it
            return
        try:
            left_ms = lane.linger_left_ms(self._linger_ms)
            if left_ms > 0.05:
                self._linger_on(lane, left_ms)
            elif lane.is_empty:
                lane.is_open = False
                if self.open.get(lane.topic) is lane.accumulator:
                    del self.open[lane.topic]
            else:
                self._ship_lingering(lane)
        finally:
            lane.lock.release()

    def _ship_lingering(self, lane: SendLane) -> None:
        """Ships a batch whose linger ended. Without a route it fails when it is as old as a batch that nobody answers."""
        try:
            self._sender.ship(lane)  # if all windows are full, the batch grows meanwhile
        except NoRoute as error:
            if lane.linger_left_ms(self._sender.batch_ms) > 0:
                self._routes.refresh_soon(lane.topic)
                self._linger_on(lane, SWEEP_MS)
                return
            self._sender.give_up(lane, error.with_traceback(None))
        self._linger_on(lane, self._linger_ms)

    def _linger_on(self, lane: SendLane, left_ms: float) -> None:
        try:
            self._remoting.call_later(max(0, left_ms), lambda: self._on_linger(lane))
        except (BufferFull, ClientClosed):  # the sweep will do it, or the producer is closed
            lane.is_open = False

    def _sweep(self) -> None:
        self._sender.look_after()
        for lane in self._all_lanes():
            if not (lane.is_empty or lane.is_open) and lane.lock.acquire(blocking=False):
                try:
                    if not (lane.is_empty or lane.is_open):
                        if lane.swapped:
                            lane.open()
                        lane.is_open = True
                        self._linger_on(lane, 1)
                finally:
                    lane.lock.release()

    def _on_failed(self, sealed: Sealed, error: ZenitError) -> None:
        """A posted batch failed for good. Called in the thread that learned of it."""
        failed = failed_sends(sealed, error)
        log.warning("posted messages failed topic=%s count=%d error=%s", sealed.lane.topic, len(failed), error)
        self._failed.add(failed, error, sealed)
        if self._failed.has_callback:
            self._connection.run_soon(lambda: self._report(sealed, failed))

    def _report(self, sealed: Sealed, failed: list[FailedSend]) -> None:
        if not sealed.is_reported:
            sealed.is_reported = True
            self._failed.tell(failed)

    def tell_failed(self, failed: list[FailedSend], error: ZenitError) -> None:
        """Reports posted messages that failed for good."""
        self._failed.add(failed, error)
        if self._failed.has_callback:
            self._connection.run_soon(lambda: self._failed.tell(failed))
