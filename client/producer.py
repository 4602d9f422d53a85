"""The producer: every way to send a message.

- `send`, `send_batch`, `send_bodies` wait for the reply on a socket of the calling thread: one hand-over less.
- `send_async` and `post` fill a batch of 256 KiB or 1 ms, whichever comes first, and return; `send_async` gives a future
  a message, `post` tells only of failures. The caller who finds a batch full sends it itself; the I/O thread sends the
  ones that linger. When the windows of all brokers are taken, the caller waits.
- A message with `delay`, `deliver_at` or `delay_level` waits at the broker, and `recall` takes it back while it does.
- A sharding key names one queue; such a message waits for that queue and is never sent to another.

Retries may store a message twice where a reply was lost: consumers must bear with that, as in every queue of this kind.
With `idempotent=True` they do not (sequencing.py): one batch at a time goes to each queue, and brokers know it again.
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
from .sending.outgoing import COMPRESS_OVER_BYTES, fill_bodies, fill_messages, message_parts, posted_parts
from .sending.pending_replies import RequestStatistics
from .sending.producer_end import ProducerEnd
from .sending.ready_batch import ReadyBatches
from .sending.request_reply import ReplyFuture, RequestReply
from .sending.send_context import SendContext
from .sending.send_future import BatchReceipts, SendFuture
from .sending.waited_send import WaitedSends
from .tracing.trace import TraceRecorder, trace_topic
from .tracing.trace_backlog import TraceStatistics

if TYPE_CHECKING:
    from .sending.backlog import Backlog

log = logging.getLogger(__name__)

RETRIES_MAX: Final = 1_000_000
SEND_TIMEOUT_S: Final = 30.0  # outlives the restart of a broker, and an election
REQUEST_TIMEOUT_MS: Final = 3_000


class ProducerCore(ABC):
    """All of a producer but how it waits: `Producer` here does so in the calling thread, the one of `zenitmq.aio` on an
    event loop. What waits is a coroutine with an underscore, given its name by both.
    """

    _keeps_batches: bool  # several sends of one thread may be under way

    def __init__(
        self,
        group: str = "DEFAULT_PRODUCER",
        *,
        namesrv: str | None = None,
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
        """`timeout`: seconds over all tries of a send that is waited for, and for room in a full window; a request has 3, or
        as many as this where that is less. `batch_timeout`: seconds over all tries of a batch sent in the background.
        `retries`: at most so many further tries, 0 to 1,000,000; None = as the time allows. `compression`: "lz4" or None, of
        bodies over `compress_over_bytes` (0 to 4 MiB), where it makes them smaller.

        In the background: `linger_ms` (0 to 10,000; 0 counts as 1): a batch is sent so long after its first message, if it is
        not full before. `batch_bytes` (4 KiB to 4 MiB): a batch of that size is full. `window_batches` (1 to 64): batches that
        one broker has not answered yet; when the windows of all brokers are full, `post` and `send_async` wait.
        `on_error(list[FailedSend])`: told of posted messages that failed; it runs in the I/O thread and must not block.

        `latency_fault`: which brokers to avoid for a while after a late answer or a failure: "rocketmq-5", "rocketmq-4", a
        LatencyTable, or None = none. `idempotent`: no retry stores a message a second time, and each queue keeps the order over
        retries; a send whose outcome stays unknown raises OutcomeUnknown. `trace`: a record of each message goes to the trace
        topic, or to the topic named here; records may be dropped.
        `namesrv`: "HOST:PORT,..."; None = $ZENIT_NAMESRV, else the cluster that `zenit up` started last, else 127.0.0.1:9876.

        Raises InvalidName or InvalidParameter. Connects at the first send.
        """
        self.group = check_group(group)
        self._timeout_ms = milliseconds("timeout", timeout)
        self._compress_over = _compress_over(compression, compress_over_bytes)
        batch_ms = milliseconds("batch_timeout", batch_timeout)
        limits = BackgroundLimits(
            linger_ms=linger_ms, batch_bytes=batch_bytes, window_batches=window_batches, batch_ms=batch_ms
        )
        retry, fault, traced_in = _retry_policy(retries), LatencyFault(latency_table(latency_fault)), trace_topic(trace)
        self._connection = connect(namesrv)
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
        """Makes its parts; they end with it."""
        connection = self._connection
        self._waits = waits = self._new_waits(connection)
        self._end = ProducerEnd(connection, waits, self.group)
        self._check_usable = self._end.check_usable
        self._trace = None if traced_in is None else TraceRecorder(connection, self.group, traced_in)
        context = SendContext(
            connection=connection,
            waits=waits,
            group=self.group,
            destinations=Destinations(connection.routes, fault),
            fault=fault,
            retry=retry,
            attempts=attempts,
            trace=self._trace,
        )
        failed = FailedSends(None if on_error is None else self._teller(on_error))
        self._waited = WaitedSends(context, ReadyBatches(context.new_accumulator, keep=self._keeps_batches))
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
        )
        connection.members.join(member, on_reply=self._requests.on_reply)
        self._end.begin(self._background, self._requests, self._trace, member.client_id, self._own_backlog())
        finalize(self, self._end.on_dropped).atexit = False

    def __repr__(self) -> str:
        state = "closed" if self._end.is_closed else ""
        return client_repr(self, state, group=self.group, namesrv=self._connection.name_servers)

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """How it waits."""

    def _new_attempts(self, *, idempotent: bool) -> SendAttempts:
        """How its batches get into queues."""
        return QueueStreams() if idempotent else PlainAttempts()

    def _own_backlog(self) -> Backlog | None:
        """Where messages wait before there is room for them, if anywhere."""
        return None

    def _teller(self, on_error: OnError) -> OnError:
        """What is called in the I/O thread to tell of failures."""
        return on_error

    # ---- waited for

    @property
    def last_failure(self) -> str:
        """Why the last try of a batch failed; empty where none has, and once one is stored again.

        A batch is tried for `batch_timeout` before its failure is told.
        """
        return self._background.last_failure

    async def _send(
        self, message: Message, *, sharding_key: str | None = None, timeout: float | None = None
    ) -> SendReceipt:
        """Stores one message and returns where. `timeout`: seconds over all tries; None = the producer's.

        `sharding_key`: messages of one key go to one queue. Raises TopicNotFound, MessageTooLarge and MessageIllegal at once;
        when the time is over what the last try ended with: NoRoute, RequestTimeout, ConnectionLost, BrokerBusy ...
        """
        self._check_usable()
        parts = message_parts(message, self._compress_over, sharding_key)
        batch, queue, reply = await self._waited.send(
            message.topic,
            lambda accumulator: accumulator.append(*parts),
            sharding_key,
            self._total_ms(timeout),
            delayed=is_delayed(message),
        )
        return batch.facts().receipt(queue, reply, 0)

    async def _send_batch(
        self, messages: Sequence[Message], *, sharding_key: str | None = None, timeout: float | None = None
    ) -> Sequence[SendReceipt]:
        """Stores messages of one topic side by side in one queue, all or none; one receipt a message, in their order.

        At most 8 MiB together. Some of them may be delayed: those come to that queue at their times. Raises as `send` does.
        """
        if isinstance(messages, Message):
            raise InvalidParameter("messages", "Message", "a sequence of messages; send(message) sends one")
        if not messages:
            return ()
        self._check_usable()
        fill = fill_messages(messages, self._compress_over, sharding_key)
        delayed = any(map(is_delayed, messages))
        batch, queue, reply = await self._waited.send(
            messages[0].topic, fill, sharding_key, self._total_ms(timeout), delayed=delayed
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
        """Stores bodies side by side in one queue, all or none, without an object a message.

        `tags`: one for all, or one a body; `keys`: one (or several) a body. At most 8 MiB together. Raises as `send` does.
        """
        self._check_usable()
        fill = fill_bodies(bodies, self._compress_over, tags, keys)
        batch, queue, reply = await self._waited.send(topic, fill, sharding_key, self._total_ms(timeout))
        first = reply.places[0].queue_offset if isinstance(reply, DelayedAnswer) else reply.queue_offset
        return BatchReceipt(queue, QueueOffset(first), batch.count)

    async def _send_oneway(self, message: Message, *, sharding_key: str | None = None) -> None:
        """Sends one message and does not ask what became of it: no retry, no error once it has left."""
        self._check_usable()
        parts = message_parts(message, self._compress_over, sharding_key)
        await self._waited.send_oneway(
            message.topic,
            lambda accumulator: accumulator.append(*parts),
            sharding_key,
            self._timeout_ms,
            delayed=is_delayed(message),
        )

    async def _recall(self, receipt: SendReceipt | str, *, timeout: float | None = None) -> None:
        """Takes a delayed message back before it is delivered; once this returns it never will be.

        `receipt`: what `send` returned, or its `recall_handle`, which any producer of the cluster takes. Raises
        MessageNotFound where it was delivered or taken back already (perhaps by a try whose answer was lost),
        InvalidParameter for a receipt of a message that was not delayed, and what the last try ended with.
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

        Raises RequestTimeout where `timeout` seconds are not enough (None: as long as the batches are tried), and
        SendFailed where posted messages failed since the last flush: its `failed` has the first 1,000 of them, unless
        `on_error` was told.
        """
        self._check_usable()
        await self._background.flush(None if timeout is None else milliseconds("timeout", timeout))

    async def _close(self, timeout: float | None = None) -> None:
        """Flushes (as `flush` does), then lets go of the connection. Idempotent; does nothing in a forked child.

        Raises as `flush` does, after everything is closed: what is not acknowledged by then fails with ClientClosed, so that
        every future ends and `on_error` is told of every message.
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
        """Sends a message to which somebody is to reply, and returns the reply. `timeout`: seconds for both; None: 3, or the
        producer's where that is less.

        Raises RequestTimeout where no reply comes in time, TooManyRequests over 10,000 that wait, and as `send` does.
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
        """Answers a message that came from `request`; returns once the broker has stored the reply and handed it on.

        Raises NotARequest for any other message, RequesterGone where the one who asked is not connected any more (the
        reply is in the log all the same), and as `send` does. A second reply to one request is dropped by its sender.
        """
        self._check_usable()
        message = Message(request.topic, body, tags, keys, properties or {})
        return await self._requests.reply(request, message, self._total_ms(timeout))

    def request_statistics(self) -> RequestStatistics:
        """How many requests wait, were answered, were given up; how many replies came too late."""
        return self._requests.statistics()

    def trace_statistics(self) -> TraceStatistics | None:
        """How many trace records wait, are stored, were dropped; None where nothing is traced."""
        return None if self._trace is None else self._trace.statistics()

    # ---- inside

    def _total_ms(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else milliseconds("timeout", timeout)

    def _request_ms(self, timeout: float | None) -> int:
        return min(self._timeout_ms, REQUEST_TIMEOUT_MS) if timeout is None else milliseconds("timeout", timeout)


class Producer(ProducerCore):
    """Sends messages. One object serves all threads of a process; a forked child makes its own."""

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
        """Sends the message with others of its topic and returns at once with its future.

        Waits (at most `timeout`) where the windows of all brokers are taken. Raises BufferFull, NoRoute, and what is
        wrong with the message itself.
        """
        parts = message_parts(message, self._compress_over, sharding_key)
        future = self._background.send_nowait(message.topic, parts, sharding_key)
        if future is None:
            return run_blocking(self._background.send(message.topic, parts, sharding_key, self._timeout_ms))
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
        """Sends a body with others of its topic and returns at once: the fastest way, without a word on success.

        Failures go to `on_error` and to `flush`, which raises. Waits and raises as `send_async` does.
        """
        accumulator = self._open.get(topic) if properties is None and sharding_key is None else None
        try:
            if accumulator is not None and len(body) <= self._compress_over and accumulator.append(body, tags, keys):
                return
        except TypeError:  # nothing was appended: what follows takes any buffer, and says what it cannot take
            pass
        parts = posted_parts(body, tags, keys, self._compress_over, properties=properties, sharding_key=sharding_key)
        run_blocking(self._background.post(topic, parts, sharding_key, self._timeout_ms))

    def request_async(
        self, message: Message, *, sharding_key: str | None = None, timeout: float | None = None
    ) -> ReplyFuture:
        """The same without waiting: a concurrent.futures.Future that ends with the reply, or with what `request` raises.

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
