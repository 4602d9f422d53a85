"""Sends that their caller waits for: one request each, retried until the time is over."""

from __future__ import annotations

import logging
from typing import Final, TypeVar

from ...model.clock import monotonic_ms
from ...model.errors import ConnectionLost, NoRoute, RequestTimeout, ZenitError
from ...model.queue import MessageQueue
from ...model.route import TopicRoute
from ...remoting.commands import Reply, RequestFor
from ..connection.route_pause import pause
from .attempts import SendAttempt
from .delayed_send import Answer, answer_of, send_request
from .outgoing import Fill, check_send_topic
from .ready_batch import ReadyBatch, ReadyBatches, WholeBatch
from .send_context import SendContext
from .target import OwnTarget, Target

_Reply = TypeVar("_Reply", bound=Reply)

log = logging.getLogger(__name__)

TURN_MS: Final = 2
"""So long a send leaves queues to those that waited before it: who sends again and again would take each at once. Those may
want other queues than it does, so it waits no longer."""


class WaitedSends:
    """One producer's. Any thread may call; each uses its own buffers."""

    def __init__(self, context: SendContext, batches: ReadyBatches) -> None:
        self._trace = context.trace
        self._counts = context.counts
        self._remoting = context.connection.remoting
        self._routes = context.connection.routes
        self._waits = context.waits
        self._destinations = context.destinations
        self._attempts = context.attempts
        self._batches = batches
        self._wrap_over = context.wrap_over
        self._group = context.group
        self._fault = context.fault
        self._retry = context.retry

    async def send(
        self, topic: str, fill: Fill, target: Target | None, total_ms: int, *, delayed: bool = False
    ) -> tuple[ReadyBatch, MessageQueue, Answer]:
        """Encodes what `fill` appends and sends it until a broker has it. `delayed`: some of it is to be delivered later.

        Raises the error of the last try; OutcomeUnknown if an idempotent producer cannot tell.
        """
        deadline_ms = monotonic_ms() + total_ms
        if self._routes.cached(topic) is None:
            await self._routes.served_route(check_send_topic(topic), self._waits, timeout_ms=total_ms)
        batch = self._batches.make(topic, fill, self._wrap_over(topic))
        queue, answer = await self.send_batch(topic, batch, target, total_ms, deadline_ms, delayed=delayed)
        return batch, queue, answer

    async def send_batch(
        self,
        topic: str,
        batch: WholeBatch,
        target: Target | None,
        total_ms: int,
        deadline_ms: int,
        *,
        delayed: bool = False,
    ) -> tuple[MessageQueue, Answer]:
        """Sends records that are encoded, of a topic whose route is known, in the same way. Raises as `send` does."""
        attempt = self._attempts.begin(batch.count, batch.sizes)
        tries = before_route = 0
        avoid: str | None = None
        try:
            while True:
                route = self._routes.cached(topic)
                try:
                    if attempt.queue is None and (
                        self._attempts.is_awaited or not self._enter(attempt, topic, target, avoid)
                    ):
                        await self._wait_for_queue(attempt, topic, target, avoid, total_ms, deadline_ms)
                    queue = attempt.queue
                    assert queue is not None
                    avoid = queue.broker_name
                    started_ms = monotonic_ms()
                    reply, payload = await self._waits.call(
                        self._destinations.address_of(queue),
                        attempt.request(self._group, delayed=delayed),
                        attempt.part_of(batch.payload()),
                        timeout_ms=self._retry.try_timeout_ms(total_ms, deadline_ms - started_ms),
                    )
                    answer = attempt.on_answer(answer_of(reply, payload, attempt.part_count))
                except ZenitError as error:
                    if attempt.on_error(error):
                        continue
                    tries += 1
                    stays = attempt.in_doubt or isinstance(target, OwnTarget)
                    try:
                        if await self._wait_for_next_try(
                            error, topic, (tries, before_route), deadline_ms, avoid, is_sharded=stays, route=route
                        ):
                            before_route = tries
                    except ZenitError as last:
                        took_ms = total_ms - (deadline_ms - monotonic_ms())
                        self._counts.on_sent(topic, batch.count, took_ms, is_ok=False)
                        self._note(batch, None, total_ms - (deadline_ms - monotonic_ms()), is_ok=False)
                        if attempt.in_doubt:
                            raise attempt.failure(last) from last
                        raise
                    if not attempt.in_doubt:
                        attempt.leave()
                    continue
                if answer is None:
                    continue
                now = monotonic_ms()
                self._fault.on_answered(queue.broker_name, now - started_ms, now)
                self._counts.on_sent(topic, batch.count, total_ms - (deadline_ms - now), is_ok=True)
                if self._trace is not None:
                    self._note(batch, answer, total_ms - (deadline_ms - now), is_ok=True)
                return queue, answer
        finally:
            attempt.leave()

    async def send_oneway(self, topic: str, fill: Fill, target: Target | None, total_ms: int, *, delayed: bool) -> None:
        """Passes the batch to the connection, without waiting for its outcome. Raises if it could not leave."""
        await self._send_oneway(topic, fill, target, total_ms, delayed=delayed)

    async def _send_oneway(
        self, topic: str, fill: Fill, target: Target | None, total_ms: int, *, delayed: bool
    ) -> tuple[ReadyBatch, MessageQueue]:
        await self._routes.served_route(check_send_topic(topic), self._waits, timeout_ms=total_ms)
        batch = self._batches.make(topic, fill, self._wrap_over(topic))
        queue = self._destinations.next_queue(topic, target)
        request = send_request(queue, batch.count, self._group, delayed=delayed)
        address = self._destinations.address_of(queue)
        if not self._remoting.oneway(address, request, batch.payload()):
            raise ConnectionLost(address)
        self._note(batch, None, 0, is_ok=True)
        return batch, queue

    def _note(self, batch: WholeBatch, reply: Answer | None, cost_ms: int, *, is_ok: bool) -> None:
        """Adds the send to the trace, if there is one."""
        if self._trace is not None:
            self._trace.on_sent(bytes(batch.payload()), batch.count, reply, is_ok=is_ok, cost_ms=cost_ms)

    async def ask(self, queue: MessageQueue, request: RequestFor[_Reply], total_ms: int) -> _Reply:
        """Asks the master of a queue's broker until it answers. Raises the error of the last try."""
        deadline_ms = monotonic_ms() + total_ms
        await self._routes.served_route(queue.topic, self._waits, timeout_ms=total_ms)
        tries = before_route = 0
        while True:
            timeout_ms = self._retry.try_timeout_ms(total_ms, deadline_ms - monotonic_ms())
            route = self._routes.cached(queue.topic)
            try:
                address = self._destinations.address_of(queue)
                return (await self._waits.call(address, request, timeout_ms=timeout_ms))[0]
            except ZenitError as error:
                tries += 1
                if await self._wait_for_next_try(
                    error,
                    queue.topic,
                    (tries, before_route),
                    deadline_ms,
                    queue.broker_name,
                    is_sharded=True,
                    route=route,
                ):
                    before_route = tries

    # ---- queues

    def _enter(self, attempt: SendAttempt, topic: str, target: Target | None, avoid: str | None) -> bool:
        """Lets the batch enter a queue; False if all are taken. Raises NoRoute."""
        destinations = self._destinations
        if attempt.enter(destinations.next_queue(topic, target, avoid=avoid)):  # almost always
            return True
        return any(map(attempt.enter, destinations.queues_in_turn(topic, target, avoid=avoid)))

    async def _wait_for_queue(
        self,
        attempt: SendAttempt,
        topic: str,
        target: Target | None,
        avoid: str | None,
        total_ms: int,
        deadline_ms: int,
    ) -> None:
        """Lets the batch enter a queue as soon as one is free, behind those that wait already. Raises NoRoute,
        RequestTimeout."""
        is_last = self._attempts.is_awaited
        while True:
            changed = self._attempts.next_change(self._waits.new_signal())
            try:
                if not is_last and self._enter(attempt, topic, target, avoid):
                    return
                left_ms = deadline_ms - monotonic_ms()
                is_changed = left_ms > 0 and await changed.wait(min(left_ms, TURN_MS) if is_last else left_ms)
                if left_ms <= 0 or not (is_changed or is_last):
                    raise RequestTimeout(f"a queue of {topic} that no other send of this producer has", total_ms)
                is_last = False
            finally:
                self._attempts.forget(changed)

    # ---- tries

    async def _wait_for_next_try(
        self,
        error: ZenitError,
        topic: str,
        tries: tuple[int, int],
        deadline_ms: int,
        broker: str | None,
        *,
        is_sharded: bool,
        route: TopicRoute | None,
    ) -> bool:
        """Waits until the next try is due; returns whether the topic has another route by then than `route`, that of the last
        try. Raises `error` if there is no next try. `tries`: all, and those before that route. `broker`: which failed."""
        now = monotonic_ms()
        reached = broker is not None and not isinstance(error, NoRoute)
        if broker is not None and reached:
            self._fault.on_failed(broker, now)
        elsewhere = (
            reached and not is_sharded and broker is not None and self._destinations.has_other_broker(topic, broker)
        )
        delay_ms = self._retry.delay_ms(
            error, tries=tries[0], left_ms=deadline_ms - now, elsewhere=elsewhere, before_route=tries[1]
        )
        if delay_ms is None:
            try:
                raise error
            finally:  # its traceback would keep this frame and all callers alive until a garbage collection
                del error
        if error.route_stale:
            self._routes.refresh_soon(topic)
        log.info("send tried again topic=%s broker=%s error=%s", topic, broker, error)
        return bool(delay_ms) and await pause(self._routes, topic, route, self._waits, delay_ms)
