"""Requests that are answered by a message: the requesting side and the replying side of one producer.

A request is a normal message with three more properties: CORRELATION_ID, REPLY_TO_CLIENT (this producer) and TTL (how long
it waits, ms). The reply goes to the broker that stored the request, which pushes it to the connection on which this
producer's heartbeats arrive. So the producer announces itself to each broker of a topic before the first request.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from ...model.clock import monotonic_ms
from ...model.errors import (
    ClientClosed,
    CorruptRecordError,
    InvalidParameter,
    NoRoute,
    NotARequest,
    RemoteProtocolError,
    RequesterGone,
    RequestTimeout,
    ZenitError,
)
from ...model.ids import offset_message_id
from ...model.message import Message, SendReceipt
from ...model.names import reply_topic
from ...model.properties import (
    CORRELATION_ID,
    MESSAGE_TYPE,
    REPLY,
    REPLY_TO_CLIENT,
    TIME_TO_LIVE,
    encode_properties,
)
from ...model.queue import MessageQueue, PhysicalOffset, QueueOffset
from ...model.route import BrokerData
from ...record.kernel import StoredMessage, decode_batch
from ...remoting.commands import PushReply, ReplyStored, SendReplyMessage
from ...remoting.io_thread import check_may_wait
from ..connection.connection import Connection
from ..connection.membership import Member
from ..connection.retry import RetryPolicy
from ..connection.route_pause import pause
from ..connection.waiting import Waits
from .accumulators import single_record
from .background_sends import BackgroundSends
from .delayed_send import is_delayed
from .outgoing import Parts, check_send_topic, message_parts
from .pending_replies import PendingReplies, RequestStatistics
from .target import target_of
from .waited_send import WaitedSends

if TYPE_CHECKING:
    from .send_future import SendFuture

log = logging.getLogger(__name__)

PENDING_MAX: Final = 10_000
ANNOUNCE_MS: Final = 3_000


class ReplyFuture(Future[StoredMessage]):
    """A future that must not be waited for in the I/O thread, which brings the reply."""

    def result(self, timeout: float | None = None) -> StoredMessage:
        """As in concurrent.futures. Raises WaitsForItself in the I/O thread while it is not done."""
        if not self.done():
            check_may_wait("result() of a request that is not answered")
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `result`."""
        if not self.done():
            check_may_wait("exception() of a request that is not answered")
        return super().exception(timeout)


_Tell = Callable[[StoredMessage | ZenitError], None]
"""Tells the waiter, in whichever thread knows; must not block."""


class RequestReply:
    """One producer's requests and replies. Any thread may call."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        member: Member,
        *,
        waited: WaitedSends,
        background: BackgroundSends,
        compress_over: int,
        in_context: Callable[[str, Parts], Parts] | None,
    ) -> None:
        """`in_context(topic, parts)`: adds its caller's context to a message of a batch; None while nobody measures."""
        self._connection = connection
        self._waits = waits
        self._member = member
        self._waited = waited
        self._background = background
        self._compress_over = compress_over
        self._in_context = in_context
        self._retry = RetryPolicy()
        self._lock = threading.Lock()
        self._pending: PendingReplies[_Tell] = PendingReplies(limit=PENDING_MAX)
        self._announced: set[str] = set()

    # ---- requesting

    async def ask(self, message: Message, sharding_key: str | None, total_ms: int) -> StoredMessage:
        """Sends a request and waits for its reply. Raises RequestTimeout, TooManyRequests, and the error of the send."""
        deadline_ms = monotonic_ms() + total_ms
        await self._say_hello(check_send_topic(message.topic), total_ms)
        correlation_id, parts = self._request_parts(message, sharding_key, total_ms)
        answered = self._waits.new_signal()
        outcomes: list[StoredMessage | ZenitError] = []

        def tell(outcome: StoredMessage | ZenitError) -> None:
            outcomes.append(outcome)
            answered.set()

        self._open(correlation_id, tell)
        try:
            await self._waited.send(
                message.topic,
                lambda accumulator: accumulator.append(*parts),
                target_of(message, sharding_key),
                max(1, deadline_ms - monotonic_ms()),
            )
            await answered.wait(max(0, deadline_ms - monotonic_ms()))
        finally:
            self._give_up(correlation_id)
        if not outcomes:
            raise RequestTimeout(f"a reply to request {correlation_id} on {message.topic}", total_ms)
        if isinstance(outcomes[0], ZenitError):
            raise outcomes[0]
        return outcomes[0]

    async def ask_soon(self, message: Message, sharding_key: str | None, total_ms: int) -> ReplyFuture:
        """Sends a request in a batch with others of its topic; the future ends with the reply, or as `ask` raises."""
        await self._say_hello(check_send_topic(message.topic), total_ms)
        correlation_id, parts = self._request_parts(message, sharding_key, total_ms)
        if self._in_context is not None:
            parts = self._in_context(message.topic, parts)
        future = ReplyFuture()
        self._open(correlation_id, lambda outcome: self._connection.run_soon(lambda: _settle(future, outcome)))
        error = RequestTimeout(f"a reply to request {correlation_id} on {message.topic}", total_ms)
        try:
            timer = self._connection.remoting.call_later(total_ms, lambda: self._fail(correlation_id, error))
            sent = await self._background.send(message.topic, parts, target_of(message, sharding_key), total_ms)
        except BaseException:
            self._give_up(correlation_id)
            raise
        future.add_done_callback(lambda _: timer.cancel())
        future.add_done_callback(lambda _: self._give_up(correlation_id))  # the user may cancel it
        sent.add_done_callback(lambda send: self._on_sent(correlation_id, send))
        return future

    def on_reply(self, push: PushReply, payload: bytes) -> None:
        """Takes a reply that a broker pushed. In the thread that received it."""
        try:
            messages = decode_batch(payload, push.broker_name)
            if len(messages) != 1:
                raise RemoteProtocolError(f"{len(messages)} records where one reply is expected")
        except (CorruptRecordError, RemoteProtocolError) as error:
            log.warning("a reply that cannot be decoded correlation_id=%s error=%s", push.correlation_id, error)
            return
        with self._lock:
            tell = self._pending.on_reply(push.correlation_id)
        if tell is None:
            log.info("a reply came late correlation_id=%s", push.correlation_id)
        else:
            tell(messages[0])

    def statistics(self) -> RequestStatistics:
        """The counters."""
        with self._lock:
            return self._pending.statistics()

    def close(self) -> None:
        """Fails all waiting requests with ClientClosed."""
        with self._lock:
            waiting = self._pending.give_all_up()
        for tell in waiting:
            tell(ClientClosed("producer"))

    def _request_parts(self, message: Message, sharding_key: str | None, total_ms: int) -> tuple[str, Parts]:
        correlation_id = secrets.token_hex(16)
        if is_delayed(message):
            raise InvalidParameter("delay", message.topic, "no delay: who asks waits for the reply")
        body, tags, keys, properties, flag, sys_flag = message_parts(message, self._compress_over, sharding_key)
        asked = {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: self._member.client_id,
            TIME_TO_LIVE: str(total_ms),
        }
        return correlation_id, (body, tags, keys, properties + encode_properties(asked), flag, sys_flag)

    def _open(self, correlation_id: str, tell: _Tell) -> None:
        with self._lock:
            self._pending.add(correlation_id, tell)

    def _give_up(self, correlation_id: str) -> None:
        with self._lock:
            self._pending.give_up(correlation_id)

    def _fail(self, correlation_id: str, error: ZenitError) -> None:
        with self._lock:
            tell = self._pending.give_up(correlation_id)
        if tell is not None:
            tell(error)

    def _on_sent(self, correlation_id: str, send: SendFuture) -> None:
        error = send.exception()
        if error is not None:
            self._fail(correlation_id, error)

    async def _say_hello(self, topic: str, total_ms: int) -> None:
        """Announces this producer to each broker of the topic before the first request; later heartbeats do, also after an
        absence.
        """
        route = await self._connection.routes.served_route(topic, self._waits, timeout_ms=total_ms)
        addresses = {broker.master_address for broker in route.brokers if broker.master_address is not None}
        fresh = sorted(addresses - self._announced)
        if fresh:
            self._announced.update(fresh)
            await self._connection.members.announce(
                self._member, fresh, self._waits, timeout_ms=min(total_ms, ANNOUNCE_MS)
            )

    # ---- replying

    async def reply(self, request: StoredMessage, message: Message, total_ms: int) -> SendReceipt:
        """Sends `message` (ignoring its topic) to the broker that stored the request, until the broker has passed it on.

        Raises NotARequest, RequesterGone (stored, not passed on), NoRoute, and the error of the last try.
        """
        asked = request.properties
        for name in (CORRELATION_ID, REPLY_TO_CLIENT):
            if not asked.get(name):
                raise NotARequest(request.message_id, name)
        deadline_ms = monotonic_ms() + total_ms
        correlation: dict[str, str] = {
            name: asked[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TIME_TO_LIVE) if name in asked
        }
        body, tags, keys, properties, flag, sys_flag = message_parts(message, self._compress_over)
        properties += encode_properties({**correlation, MESSAGE_TYPE: REPLY})
        parts = (body, tags, keys, properties, flag, sys_flag)
        tries = before_route = 0
        routes = self._connection.routes
        while True:
            route = routes.cached(request.topic)
            try:
                left_ms = max(1, deadline_ms - monotonic_ms())
                return await self._send_reply(request, parts, self._retry.try_timeout_ms(total_ms, left_ms))
            except ZenitError as error:
                tries += 1
                left_ms = deadline_ms - monotonic_ms()
                delay_ms = self._retry.delay_ms(
                    error, tries=tries, left_ms=left_ms, elsewhere=False, before_route=before_route
                )
                if delay_ms is None:
                    raise
                if error.route_stale:
                    routes.refresh_soon(request.topic)
                log.info("reply tried again topic=%s error=%s", request.topic, error)
                if await pause(routes, request.topic, route, self._waits, delay_ms):
                    before_route = tries

    async def _send_reply(self, request: StoredMessage, parts: Parts, timeout_ms: int) -> SendReceipt:
        broker = await self._broker_of(request, timeout_ms)
        address = broker.master_address
        if address is None:
            raise NoRoute(request.topic, f"{broker.broker_name} has no master now")
        topic = reply_topic(broker.cluster)
        record = single_record(self._connection, topic, parts, address)
        answer, _ = await self._waits.call(
            address, SendReplyMessage(topic, self._member.producer_group or ""), record, timeout_ms=timeout_ms
        )
        if not isinstance(answer, ReplyStored):
            raise RemoteProtocolError(f"a reply was answered with {type(answer).__name__}")
        if not answer.is_delivered:
            raise RequesterGone(request.properties[REPLY_TO_CLIENT], request.properties[CORRELATION_ID])
        position = PhysicalOffset(answer.physical_offset)
        return SendReceipt(
            decode_batch(record)[0].message_id,
            offset_message_id(answer.store_host, position),
            MessageQueue(topic, broker.broker_name, 0),
            QueueOffset(answer.queue_offset),
            position,
        )

    async def _broker_of(self, request: StoredMessage, timeout_ms: int) -> BrokerData:
        """The broker that stored the request."""
        route = await self._connection.routes.served_route(request.topic, self._waits, timeout_ms=timeout_ms)
        for broker in route.brokers:
            if broker.broker_name == request.broker_name:
                return broker
        raise NoRoute(request.topic, f"{request.broker_name}, which stored the request, does not serve it")


def _settle(future: ReplyFuture, outcome: StoredMessage | ZenitError) -> None:
    """Ends the future, unless it was cancelled. In the I/O thread, because its callbacks are user code."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, ZenitError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
