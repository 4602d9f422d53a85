"""The producer: every way to send a message.

- `send`, `send_batch` and `send_bodies` wait for the reply on a socket of the calling thread, which saves a hand-over
  between
threads.
- `send_async` and `post` add to a batch and return. The batch is sent at 256 KiB or after 1 ms, whichever comes first.
`send_async` returns a future for each message, `post` reports only failures. The caller that fills a batch sends it itself;
the I/O thread sends those whose time is up. When the windows of all brokers are full, the caller waits.
- A message with `delay`, `deliver_at` or `delay_level` waits at the broker; until it is delivered, `recall` can cancel it.
- A sharding key selects one queue; such a message waits for that queue and is never sent to another.

A retry may store a message twice if a reply was lost, so consumers must tolerate duplicates, as with every queue of this
kind. With `idempotent=True` this does not happen (sequencing.py): each queue gets one batch at a time, and brokers
recognize a batch that they have stored.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from weakref import finalize

from ..model.errors import InvalidParameter, ZenitError
from ..model.handles.recall_handle import RecallHandle
from ..model.message import BODY_BYTES_MAX, BatchReceipt, Message, SendReceipt
from ..model.names import check_group
from ..model.queue import MessageQueue, QueueOffset
from ..record.kernel import StoredMessage
from ..remoting.commands import RecallMessage
from .connection.argument_checks import check_count, milliseconds
from .connection.connection import Connection, client_repr, connect
from .connection.membership import Member
from .connection.retry import RetryPolicy
from .connection.waiting import Blocking, Waits, blocking, run_blocking
from .sending.attempts import PlainAttempts, SendAttempts
from .sending.background_sends import BackgroundSends
from .sending.batching import BATCH_BYTES, LINGER_MS, WINDOW_BATCHES, BackgroundLimits
from .sending.delayed_send import DelayedAnswer, is_delayed
from .sending.destinations import Destinations
from .sending.failed_sends import FailedSends, OnError
from .sending.idempotent.queue_streams import QueueStreams
from .sending.latency_fault import LatencyFault, LatencyTable, latency_table
from .sending.outgoing import COMPRESS_OVER_BYTES, fill_bodies, message_parts, outgoing_batch, posted_parts
from .sending.pending_replies import RequestStatistics
from .sending.producer_end import ProducerEnd
from .sending.ready_batch import ReadyBatches
from .sending.request_reply import ReplyFuture, RequestReply
from .sending.send_context import SendContext
from .sending.send_future import BatchReceipts, SendFuture
from .sending.target import target_of
from .sending.waited_send import WaitedSends
from .tracing.client_telemetry import current
from .tracing.told_sends import ToldSends
from .tracing.trace import TraceRecorder, trace_topic
from .tracing.trace_backlog import TraceStatistics

if TYPE_CHECKING:
    from .sending.backlog import Backlog

log = logging.getLogger(__name__)

RETRIES_MAX: Final = 1_000_000
SEND_TIMEOUT_S: Final = 30.0  # longer than a broker's restart or an election
REQUEST_TIMEOUT_MS: Final = 3_000


class ProducerCore(ABC):
    """A producer without its way of waiting.

    `Producer` below waits in the calling thread, the one in `zenitmq.aio` on an event loop. Methods that wait are
    coroutines whose names begin with an underscore; both classes give them their public names.
    """

    _keeps_batches: bool  # one thread may have several sends in progress
    _is_of_transactions = False

    def __init__(
        self,
        group: str = "DEFAULT_PRODUCER",
        *,
        namesrv: str | None = None,
        key: str | None = None,
        timeout: float = SEND_TIMEOUT_S,
        batch_timeout: float = 30.0,
        retries: int | None = None,
        compression: str | None = "lz4",
        compress_over_bytes: int = COMPRESS_OVER_BYTES,
        linger_ms: int = LINGER_MS,
        batch_bytes: int = BATCH_BYTES,
        window_batches: int = WINDOW_BATCHES,
        latency_fault: str | LatencyTable | None = "rocketmq-5",
        idempotent: bool = False,
        on_error: OnError | None = None,
        trace: bool | str = False,
    ) -> None:
        """`timeout`: seconds for all tries of a send that is waited for, and for waiting while the windows are full. A
        request has 3, or this if it is less.

        `batch_timeout`: seconds for all tries of a batch sent in the background. `retries`: the largest number of further
        tries, 0 to 1,000,000; None = as many as the time allows. `compression`: "lz4" or None; it applies to bodies over
        `compress_over_bytes` (0 to 4 MiB) that it makes smaller.

        In the background: `linger_ms` (0 to 10,000; 0 counts as 1): a batch that is not full is sent this long after its
        first message. `batch_bytes` (4 KiB to 4 MiB): the size at which a batch is full. `window_batches` (1 to 64): how
        many unanswered batches one broker may have; when the windows of all brokers are full, `post` and `send_async` wait.
        `on_error(list[FailedSend])`: called with posted messages that failed; it runs in the I/O thread and must not block.

        `latency_fault`: which brokers to avoid for a while after a late answer or a failure: "rocketmq-5", "rocketmq-4", a
        LatencyTable, or None = none. `idempotent`: no retry stores a message a second time, and each queue keeps its order
        over retries; a send whose outcome stays unknown raises OutcomeUnknown. `trace`: a record of each message goes to
        the trace topic, or to the topic named here; records may be dropped. `namesrv`: "HOST:PORT,..."; None =
        $ZENIT_NAMESRV, else the cluster that `zenit up` started last, else 127.0.0.1:9876. `key`: the user's key file, for a
        secured cluster; None = $ZENIT_KEY, else the administrator's of the cluster that `zenit up` started last.

        Raises InvalidName, InvalidParameter or KeyFileRefused. Connects at the first send.
        """
        self.group = check_group(group)
        self._timeout_ms = milliseconds("timeout", timeout)
        self._compress_over = _compress_over(compression, compress_over_bytes)
        batch_ms = milliseconds("batch_timeout", batch_timeout)
        limits = BackgroundLimits(
            linger_ms=linger_ms, batch_bytes=batch_bytes, window_batches=window_batches, batch_ms=batch_ms
        )
        retry, fault, traced_in = _retry_policy(retries), LatencyFault(latency_table(latency_fault)), trace_topic(trace)
        self._connection = connect(namesrv, key=key)
        self._begin(retry, fault, self._new_attempts(idempotent=idempotent), traced_in, limits, on_error)

    def _begin(
        self,
        retry: RetryPolicy,
        fault: LatencyFault,
        attempts: SendAttempts,
        traced_in: str | None,
        limits: BackgroundLimits,
        on_error: OnError | None,
    ) -> None:
        """Creates the producer's parts; they end with it."""
        connection = self._connection
        self._waits = waits = self._new_waits(connection)
        self._end = ProducerEnd(connection, waits, self.group)
        self._check_usable = self._end.check_usable
        self._trace = None if traced_in is None else TraceRecorder(connection, self.group, traced_in)
        telemetry = current()
        self._in_context = None if telemetry is None else telemetry.in_context
        context = SendContext(
            connection=connection,
            waits=waits,
            group=self.group,
            destinations=Destinations(connection.routes, fault),
            fault=fault,
            retry=retry,
            attempts=attempts,
            compress_over=self._compress_over,
            trace=self._trace,
            telemetry=telemetry,
            is_of_transactions=self._is_of_transactions,
        )
        self.counts = context.counts
        failed = FailedSends(None if on_error is None else self._teller(on_error))
        batches = ReadyBatches(context.new_accumulator, keep=self._keeps_batches)
        self._waited = WaitedSends(context, batches) if telemetry is None else ToldSends(context, batches, telemetry)
        self._background = BackgroundSends(context, limits, self._check_usable, failed)
        self._open = self._background.open
        self._member = member = Member(connection.new_client_id(), producer_group=self.group)
        self._requests = RequestReply(
            connection,
            waits,
            member,
            waited=self._waited,
            background=self._background,
            compress_over=self._compress_over,
            in_context=self._in_context,
        )
        connection.members.join(member, on_reply=self._requests.on_reply)
        self._end.begin(self._background, self._requests, self._trace, member.client_id, self._own_backlog())
        finalize(self, self._end.on_dropped).atexit = False

    def __repr__(self) -> str:
        state = "closed" if self._end.is_closed else ""
        return client_repr(self, state, group=self.group, namesrv=self._connection.name_servers)

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """The way of waiting."""

    def _new_attempts(self, *, idempotent: bool) -> SendAttempts:
        """How batches get into their queues."""
        return QueueStreams() if idempotent else PlainAttempts()

    def _own_backlog(self) -> Backlog | None:
        """Where messages wait for room, if there is such a place."""
        return None

    def _teller(self, on_error: OnError) -> OnError:
        """The function that the I/O thread calls to report failures."""
        return on_error

    # ---- sends that are waited for

    @property
    def last_failure(self) -> str:
        """Why the last try of a batch failed; empty if none has failed, and again after one is stored.

        A batch is tried for `batch_timeout` before its failure is reported.
        """
        return self._background.last_failure

    async def _send(
        self, message: Message, *, sharding_key: str | None = None, timeout: float | None = None
    ) -> SendReceipt:
        """Stores one message and returns its place. `timeout`: seconds for all tries; None = the producer's.

        `sharding_key`: messages with the same key go to one queue. Raises TopicNotFound, MessageTooLarge and MessageIllegal
        at once; when the time is up, the error of the last try: NoRoute, RequestTimeout, ConnectionLost, BrokerBusy ...
        """
        self._check_usable()
        parts = message_parts(message, self._compress_over, sharding_key)
        batch, queue, reply = await self._waited.send(
            message.topic,
            lambda accumulator: accumulator.append(*parts),
            target_of(message, sharding_key),
            self._total_ms(timeout),
            delayed=is_delayed(message),
        )
        return batch.first_receipt(queue, reply)

    async def _send_batch(
        self, messages: Sequence[Message], *, sharding_key: str | None = None, timeout: float | None = None
    ) -> Sequence[SendReceipt]:
        """Stores messages of one topic next to each other in one queue, all or none; returns one receipt per message, in
        their order.

        At most 8 MiB together. Some may be delayed: these reach the queue at their times. Raises as `send` does.
        """
        if isinstance(messages, Message):
            raise InvalidParameter("messages", "Message", "a sequence of messages; send(message) sends one")
        if not messages:
            return ()
        self._check_usable()
        outgoing = outgoing_batch(messages, self._compress_over, sharding_key)
        batch, queue, reply = await self._waited.send(
            messages[0].topic,
            outgoing.fill,
            outgoing.target,
            self._total_ms(timeout),
            delayed=outgoing.is_delayed,
        )
        return BatchReceipts(batch.facts(), queue, reply)

    async def _send_bodies(
        self,
        topic: str,
        bodies: Sequence[bytes],
        tags: str | Sequence[str] | None = None,
        keys: Sequence[str | Sequence[str]] | None = None,
        *,
        sharding_key: str | None = None,
        timeout: float | None = None,
    ) -> BatchReceipt:
        """Stores bodies next to each other in one queue, all or none, without creating an object per message.

        `tags`: one for all, or one per body; `keys`: one or several per body. At most 8 MiB together. Raises as `send`
        does.
        """
        self._check_usable()
        fill = fill_bodies(bodies, self._compress_over, tags, keys)
        batch, queue, reply = await self._waited.send(topic, fill, sharding_key, self._total_ms(timeout))
        first = reply.places[0].queue_offset if isinstance(reply, DelayedAnswer) else reply.queue_offset
        return BatchReceipt(queue, QueueOffset(first), batch.count)

    async def _send_oneway(self, message: Message, *, sharding_key: str | None = None) -> None:
        """Sends one message and does not learn the outcome: no retry, no error once it has left."""
        self._check_usable()
        parts = message_parts(message, self._compress_over, sharding_key)
        await self._waited.send_oneway(
            message.topic,
            lambda accumulator: accumulator.append(*parts),
            target_of(message, sharding_key),
            self._timeout_ms,
            delayed=is_delayed(message),
        )

    async def _recall(self, receipt: SendReceipt | str, *, timeout: float | None = None) -> None:
        """Cancels a delayed message before its delivery; once this returns, it will never be delivered.

        `receipt`: what `send` returned, or its `recall_handle`, which any producer of the cluster accepts. Raises
        MessageNotFound if the message was already delivered or cancelled (perhaps by a try whose answer was lost),
        InvalidParameter for the receipt of a message that was not delayed, and the error of the last try.
        """
        self._check_usable()
        if isinstance(receipt, SendReceipt) and receipt.recall_handle is None:
            raise InvalidParameter("receipt", receipt.message_id, "that of a message that is delivered later")
        text = receipt.recall_handle if isinstance(receipt, SendReceipt) else receipt
        if not isinstance(text, str):
            raise InvalidParameter("receipt", type(receipt).__name__, "what send returned, or its recall_handle")
        handle = RecallHandle.parse(text)
        is_ok = False
        try:
            await self._waited.ask(
                MessageQueue(handle.topic, handle.broker_name, 0),
                RecallMessage(handle.topic, text, self.group),
                self._total_ms(timeout),
            )
            is_ok = True
        finally:
            if self._trace is not None:
                self._trace.on_recalled(handle.topic, handle.message_id, is_ok=is_ok)

    # ---- in the background

    async def _flush(self, timeout: float | None = None) -> None:
        """Waits until every `send_async` and `post` so far is answered.

        Raises RequestTimeout if `timeout` seconds are not enough (None: as long as the batches are tried). Raises
        SendFailed if posted messages have failed since the last flush; its `failed` holds the first 1,000, unless there is
        an `on_error`.
        """
        self._check_usable()
        await self._background.flush(None if timeout is None else milliseconds("timeout", timeout))

    async def _close(self, timeout: float | None = None) -> None:
        """Flushes as `flush` does, then closes the connection. Idempotent; does nothing in a forked child.

        Raises as `flush` does, after everything is closed. What is not acknowledged by then fails with ClientClosed, so
        every future ends and `on_error` hears of every message.
        """
        if self._end.is_done or self._connection.is_forked:
            return
        try:
            if not self._end.is_closed:
                await self._flush(timeout)
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        await self._end.close()

    # ---- requests and replies

    async def _request(
        self, message: Message, *, sharding_key: str | None = None, timeout: float | None = None
    ) -> StoredMessage:
        """Sends a message that expects a reply, and returns the reply.

        `timeout`: seconds for both; None: 3, or the producer's if it is less. Raises RequestTimeout if no reply comes in
        time, TooManyRequests if more than 10,000 are waiting, and as `send` does.
        """
        self._check_usable()
        return await self._requests.ask(message, sharding_key, self._request_ms(timeout))

    async def _reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> SendReceipt:
        """Replies to a message that came from `request`; returns once the broker has stored the reply and forwarded it.

        Raises NotARequest for any other message, RequesterGone if the requester is no longer connected (the reply is in the
        log all the same), and as `send` does. The requester drops a second reply to one request.
        """
        self._check_usable()
        message = Message(request.topic, body, tags, keys, properties or {})
        return await self._requests.reply(request, message, self._total_ms(timeout))

    def request_statistics(self) -> RequestStatistics:
        """How many requests wait, were answered and were given up, and how many replies came too late."""
        return self._requests.statistics()

    def trace_statistics(self) -> TraceStatistics | None:
        """How many trace records wait, are stored and were dropped; None if tracing is off."""
        return None if self._trace is None else self._trace.statistics()

    # ---- internals

    def _total_ms(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else milliseconds("timeout", timeout)

    def _request_ms(self, timeout: float | None) -> int:
        return min(self._timeout_ms, REQUEST_TIMEOUT_MS) if timeout is None else milliseconds("timeout", timeout)


class Producer(ProducerCore):
    """Sends messages. One object serves all threads of a process; a forked child needs its own."""

    _keeps_batches = False

    send = blocking(ProducerCore._send)
    send_batch = blocking(ProducerCore._send_batch)
    send_bodies = blocking(ProducerCore._send_bodies)
    send_oneway = blocking(ProducerCore._send_oneway)
    recall = blocking(ProducerCore._recall)
    flush = blocking(ProducerCore._flush)
    close = blocking(ProducerCore._close)
    request = blocking(ProducerCore._request)
    reply = blocking(ProducerCore._reply)

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ZenitError as failure:
            if error is None:
                raise
            log.warning("closing a producer failed error=%s", failure)

    def send_async(self, message: Message, *, sharding_key: str | None = None) -> SendFuture:
        """Adds the message to a batch of its topic and returns its future at once.

        Waits (at most `timeout`) while the windows of all brokers are full. Raises BufferFull, NoRoute, and what is wrong
        with the message itself.
        """
        parts = message_parts(message, self._compress_over, sharding_key)
        if self._in_context is not None:
            parts = self._in_context(message.topic, parts)
        is_plain = message.priority is None and message.lite_topic is None
        target = sharding_key if is_plain else target_of(message, sharding_key)
        future = self._background.send_nowait(message.topic, parts, target)
        if future is None:
            return run_blocking(self._background.send(message.topic, parts, target, self._timeout_ms))
        return future

    def post(
        self,
        topic: str,
        body: bytes,
        tags: str | None = None,
        keys: str | Sequence[str] | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
    ) -> None:
        """Adds a body to a batch of its topic and returns at once: the fastest way, without any report of success.

        Failures go to `on_error` and to `flush`, which raises them. Waits and raises as `send_async` does.
        """
        accumulator = self._open.get(topic) if properties is None and sharding_key is None else None
        try:
            if accumulator is not None and len(body) <= self._compress_over and accumulator.append(body, tags, keys):
                return
        except TypeError:  # nothing was appended; the code below takes any buffer and names what it cannot take
            pass
        parts = posted_parts(body, tags, keys, self._compress_over, properties=properties, sharding_key=sharding_key)
        if self._in_context is not None:
            parts = self._in_context(topic, parts)
        run_blocking(self._background.post(topic, parts, sharding_key, self._timeout_ms))

    def request_async(
        self, message: Message, *, sharding_key: str | None = None, timeout: float | None = None
    ) -> ReplyFuture:
        """Like `request`, without waiting: a concurrent.futures.Future that ends with the reply, or with what `request`
        raises.

        Its callbacks run in the I/O thread and must not block.
        """
        self._check_usable()
        return run_blocking(self._requests.ask_soon(message, sharding_key, self._request_ms(timeout)))


def _compress_over(compression: str | None, over_bytes: int) -> int:
    """The size of the largest body that is not compressed. Raises InvalidParameter."""
    if compression not in (None, "lz4"):
        raise InvalidParameter("compression", compression, "lz4 or None")
    check_count("compress_over_bytes", over_bytes, 0, BODY_BYTES_MAX)
    return over_bytes if compression else BODY_BYTES_MAX


def _retry_policy(retries: int | None) -> RetryPolicy:
    """Raises InvalidParameter."""
    return RetryPolicy(tries_max=0 if retries is None else check_count("retries", retries, 0, RETRIES_MAX) + 1)
