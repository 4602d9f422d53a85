"""Records traces of messages: notes made at sends and deliveries, sent as trace messages in the background.

Best effort: a trace never slows, fails or delays the send or delivery that it describes. Notes wait in a bounded backlog;
the I/O thread turns them into trace messages, a few at a time, whose keys are the ids of the messages in them. Notes are
dropped and counted if there is no room, or if no broker takes them.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections.abc import Iterator
from itertools import count
from typing import Final

from ...model.clock import monotonic_ms, now_ms
from ...model.errors import BufferFull, ClientClosed, InvalidParameter, ZenitError
from ...model.handles.transaction import Resolution, TransactionId
from ...model.names import TRACE_TOPIC
from ...record.kernel import MessageBatch, StoredMessage
from ...remoting.commands import Reply, SendMessages, SendReply
from ..connection.connection import Connection
from ..connection.waiting import Signals, Waits
from ..consuming.push.handler_pool import ConsumeResult, Handle, failure_of
from ..sending.accumulators import single_record
from ..sending.delayed_send import Answer
from ..sending.outgoing import check_send_topic
from .trace_backlog import Noted, TraceBacklog, TraceMessage, TraceStatistics, pack
from .trace_format import REGION, ConsumeCode, Recalled, TraceRecord
from .trace_records import Handed, Messages, Sent, consumed, delivered, published, transaction_ended

log = logging.getLogger(__name__)

TICK_MS: Final = 200
MESSAGES_A_TURN: Final = 2  # made by the I/O thread before it does other work
NEXT_TURN_MS: Final = 1
IN_FLIGHT_MAX: Final = 16
TIMEOUT_MS: Final = 3_000
CLOSE_MS: Final = 1_000


class TraceRecorder:
    """One producer's or consumer's notes. Any thread may call."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        """`topic`: the topic of trace messages. It must exist, unless it is the system's own, which brokers create."""
        self.topic = topic
        self._connection = connection
        self._group = group
        self._lock = threading.Lock()  # the backlog and the counters
        self._answered = Signals()  # under the lock
        self._draining = threading.Lock()  # held by the thread that makes trace messages
        self._backlog = TraceBacklog()
        self._current: Iterator[TraceRecord] | None = None
        self._in_flight = self._noted = self._stored = self._dropped = 0
        self._is_failing = False
        self._turn = count()
        self._request_prefix = secrets.token_hex(12).upper()
        self._request_numbers = count()
        self._timer = connection.remoting.every(TICK_MS, self._drain)

    # ---- events

    def on_sent(self, records: bytes, count: int, reply: Answer | None, *, is_ok: bool, cost_ms: int) -> None:
        """Notes the end of a batch's send. `records`: a copy of its payload; `reply` None: there is none."""
        sent = Sent(records, self._group, reply, is_ok, cost_ms)
        self._note(Noted(published(sent), count, len(records)))

    def on_recalled(self, topic: str, message_id: str, *, is_ok: bool) -> None:
        """Notes the recall of a delayed message, or a failed attempt."""
        record = Recalled(now_ms(), REGION, self._group, topic, message_id, is_ok)
        self._note(Noted(iter((record,)), 1, 0))

    def on_transaction_ended(
        self, which: TransactionId, resolution: Resolution, *, tags: str, keys: str, from_check: bool
    ) -> None:
        """A transaction was decided, or its producer could not tell."""
        record = transaction_ended(
            which, resolution, self._group, at_ms=now_ms(), tags=tags, keys=keys, from_check=from_check
        )
        self._note(Noted(iter((record,)), 1, 0))

    def on_delivered(self, messages: Messages, size_bytes: int) -> Handed:
        """Notes messages that a consumer is about to get; pass the result to `on_consumed`.

        `size_bytes`: the memory they keep.
        """
        request_id = f"{self._request_prefix}{next(self._request_numbers) & 0xFFFFFFFF:08X}"
        handed = Handed(messages, self._group, request_id, now_ms(), size_bytes)
        self._note(Noted(delivered(handed), len(messages), size_bytes))
        return handed

    def on_consumed(self, handed: Handed, code: ConsumeCode, *, cost_ms: int, count: int | None = None) -> None:
        """Notes that the consumer is done with all of them, or with the first `count`."""
        done = len(handed.messages) if count is None else count
        records = consumed(handed, code, at_ms=now_ms(), cost_ms=cost_ms, count=done)
        self._note(Noted(records, done, handed.size_bytes))

    def _note(self, noted: Noted) -> None:
        with self._lock:
            self._noted += noted.count
            if not self._backlog.add(noted):
                self._dropped += noted.count

    def statistics(self) -> TraceStatistics:
        """The counters."""
        with self._lock:
            return TraceStatistics(self._noted - self._stored - self._dropped, self._stored, self._dropped)

    # ---- sending

    def _drain(self) -> None:
        """Called by the I/O thread."""
        if self._draining.acquire(blocking=False):
            try:
                has_more = self._send_some(MESSAGES_A_TURN)
            finally:
                self._draining.release()
            if has_more:
                self._come_back()

    def _come_back(self) -> None:
        try:
            self._connection.remoting.call_later(NEXT_TURN_MS, self._drain)
        except (BufferFull, ClientClosed):
            return  # the next tick does it, or the recorder is closed

    def _send_some(self, messages_max: int) -> bool:
        """Makes and sends trace messages; returns whether there may be more to send at once. Under `_draining`."""
        for _ in range(messages_max):
            if self._in_flight >= IN_FLIGHT_MAX or not self._has_more():
                return False
            destination = self._destination()
            if destination is None:
                return False
            message = pack(self._records())
            if message is None:
                return False
            self._send(message, *destination)
        return True

    def _records(self) -> Iterator[TraceRecord]:
        """The noted records, one entry after the other; after an interruption the next call continues there."""
        while True:
            if self._current is None:
                with self._lock:
                    noted = self._backlog.take()
                if noted is None:
                    return
                self._current = noted.records
            record = next(self._current, None)  # not `yield from`, which would close it together with this generator
            if record is None:
                self._current = None
            else:
                yield record

    def _destination(self) -> tuple[str, int] | None:
        """(address, queue id) in turn; None if no known broker takes traces: then the route is requested.

        The first traces of a cluster create their topic: they go to any known broker.
        """
        routes, turn = self._connection.routes, next(self._turn)
        route = routes.cached(self.topic)
        queues = route.write_queues() if route is not None else []
        if route is not None and queues:
            queue = queues[turn % len(queues)]
            address = route.address_of(queue.broker_name)
            return None if address is None else (address, queue.queue_id)
        routes.refresh_soon(self.topic)
        masters = sorted(routes.masters().values())
        return (masters[turn % len(masters)], 0) if masters and self.topic == TRACE_TOPIC else None

    def _send(self, message: TraceMessage, address: str, queue_id: int) -> None:
        with self._lock:
            self._dropped += message.damaged
        if not message.count:
            return

        def on_reply(reply: Reply | None, _payload: bytes, error: ZenitError | None) -> None:
            self._on_reply(message.count, isinstance(reply, SendReply), error)

        with self._lock:
            self._in_flight += 1
        try:
            record = single_record(self._connection, self.topic, (message.body, None, message.keys, b"", 0, 0), address)
            self._connection.remoting.send_nowait(
                address,
                SendMessages(self.topic, queue_id, 1, self._group),
                record,
                timeout_ms=TIMEOUT_MS,
                on_reply=on_reply,
            )
        except ZenitError as error:
            on_reply(None, b"", error)

    def _on_reply(self, records: int, is_stored: bool, error: ZenitError | None) -> None:
        with self._lock:
            self._in_flight -= 1
            if is_stored:
                self._stored += records
            else:
                self._dropped += records
            is_news, self._is_failing = self._is_failing is is_stored, not is_stored
            self._answered.set_all()
        if is_news:
            if is_stored:
                log.info("traces are stored again topic=%s", self.topic)
            else:
                log.warning("traces are dropped topic=%s error=%s", self.topic, error)
        if error is not None and error.route_stale:
            self._connection.routes.refresh_soon(self.topic)

    async def close(self, waits: Waits, timeout_ms: int = CLOSE_MS) -> None:
        """Sends the waiting notes within this time; drops the rest."""
        self._timer.cancel()
        deadline_ms = monotonic_ms() + timeout_ms
        if self._has_more():
            with contextlib.suppress(ZenitError):  # a short-lived recorder has not requested the route yet
                await self._connection.routes.route(self.topic, waits, timeout_ms=timeout_ms)
        while self._has_more() and self._in_flight < IN_FLIGHT_MAX and monotonic_ms() < deadline_ms:
            with self._draining:
                if not self._send_some(IN_FLIGHT_MAX - self._in_flight):
                    break
            await self._wait_answered(IN_FLIGHT_MAX - 1, waits, deadline_ms)
        await self._wait_answered(0, waits, deadline_ms)
        left = self.statistics().waiting
        if left:
            log.info("traces were not sent any more topic=%s count=%d", self.topic, left)

    def _has_more(self) -> bool:
        return self._current is not None or not self._backlog.is_empty

    async def _wait_answered(self, in_flight: int, waits: Waits, deadline_ms: int) -> None:
        """Waits until at most `in_flight` trace messages wait for answers, or the time is up."""
        while True:
            left_ms = deadline_ms - monotonic_ms()
            with self._lock:
                if self._in_flight <= in_flight or left_ms <= 0:
                    return
                answered = self._answered.add(waits.new_signal())
            try:
                await answered.wait(left_ms)
            finally:
                with self._lock:
                    self._answered.discard(answered)


class PullTrace:
    """The messages that a pull consumer got last and is not done with. Under the consumer's lock."""

    __slots__ = ("_began_ms", "_handed", "_recorder")

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._handed: Handed | None = None
        self._began_ms = 0

    def on_handed(self, batch: MessageBatch) -> None:
        """Notes that the consumer gets a batch."""
        self._handed = self._recorder.on_delivered(batch, batch.size_bytes)
        self._began_ms = monotonic_ms()

    def on_done(self, *, count: int | None = None, is_ok: bool = True) -> None:
        """Notes that it is done with the batch, or with its first `count` messages. A second call does nothing."""
        handed, self._handed = self._handed, None
        if handed is not None:
            code = ConsumeCode.SUCCESS if is_ok else ConsumeCode.EXCEPTION
            self._recorder.on_consumed(handed, code, cost_ms=monotonic_ms() - self._began_ms, count=count)


class PopTrace:
    """One message that a simple consumer received, until its consumer says how it ended."""

    __slots__ = ("_began_ms", "_handed", "_recorder")

    def __init__(self, recorder: TraceRecorder, message: StoredMessage) -> None:
        """Notes that the consumer gets it."""
        self._recorder = recorder
        self._handed: Handed | None = recorder.on_delivered([message], message.size_bytes)
        self._began_ms = monotonic_ms()

    def on_done(self, code: ConsumeCode) -> None:
        """Notes how it ended. A second call does nothing."""
        handed, self._handed = self._handed, None
        if handed is not None:
            self._recorder.on_consumed(handed, code, cost_ms=monotonic_ms() - self._began_ms)


def traced_handle(recorder: TraceRecorder, handle: Handle) -> Handle:
    """A push consumer's handler that traces its messages and how it ends. If it never ends, no end is traced."""

    async def handle_traced(messages: list[StoredMessage]) -> ConsumeResult | None:
        handed = recorder.on_delivered(messages, sum(message.size_bytes for message in messages))
        began_ms = monotonic_ms()
        code = ConsumeCode.EXCEPTION
        try:
            result = await handle(messages)
            code = ConsumeCode.SUCCESS if failure_of(result) is None else ConsumeCode.FAILED
            return result
        finally:
            recorder.on_consumed(handed, code, cost_ms=monotonic_ms() - began_ms)

    return handle_traced


def trace_topic(trace: bool | str) -> str | None:
    """The meaning of the argument `trace` of producers and consumers: None = no trace, True = the system's topic.

    Raises InvalidName, InvalidParameter.
    """
    if trace is False or trace is True:
        return TRACE_TOPIC if trace else None
    if not isinstance(trace, str):
        raise InvalidParameter("trace", trace, "True, False or a topic")
    return trace if trace == TRACE_TOPIC else check_send_topic(trace)
