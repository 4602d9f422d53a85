"""The producer for asyncio: `ProducerCore` on an event loop.

`send`, `send_batch`, `send_bodies`, `request`, `flush` are coroutines. `send_async` and `post` always return at once:
messages without room wait in a bounded backlog (backlog.py), and `drain` waits until it is empty, like that of asyncio's
streams. The futures of a batch are settled together, in one step of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from ...model.clock import monotonic_ms
from ...model.errors import LocalProtocolError, RequestTimeout, ZenitError
from ...model.message import FailedSend, Message, SendReceipt
from ...record.kernel import StoredMessage
from ..connection.argument_checks import milliseconds
from ..connection.connection import Connection
from ..connection.waiting import Waits
from ..producer import ProducerCore
from ..sending.backlog import MESSAGE_BYTES, Backlog, Line, Waiting
from ..sending.failed_sends import OnError
from ..sending.outgoing import Parts, message_parts, plain_body, posted_parts
from ..sending.send_future import BatchOutcome, SendFuture
from ..sending.target import target_of
from .event_loop import LoopCalls, OnLoop

log = logging.getLogger(__name__)

Sent = asyncio.Future[SendReceipt]

_POSTS: Final = -1
_UNSHARDED: Final = -2
_SHARDED_LINES: Final = 16


class SentFutures:
    """The asyncio futures of messages in batches. Used on the loop only."""

    def __init__(self) -> None:
        self._waiting: dict[BatchOutcome, list[tuple[int, Sent]]] = {}

    def attach(self, future: Sent, sent: SendFuture, calls: LoopCalls) -> None:
        """Settles `future` when `sent` is settled."""
        outcome = sent.outcome
        waiting = self._waiting.get(outcome)
        if waiting is not None:
            waiting.append((sent.index, future))
            return
        self._waiting[outcome] = [(sent.index, future)]
        if not outcome.add_callback(lambda _: calls.post(lambda: self._settle(outcome)), sent):
            self._settle(outcome)

    def settle_known(self) -> None:
        """Settles the known outcomes without waiting for their callbacks on the loop."""
        for outcome in [outcome for outcome in self._waiting if outcome.is_settled]:
            self._settle(outcome)

    def _settle(self, outcome: BatchOutcome) -> None:
        for index, future in self._waiting.pop(outcome, ()):
            if future.done():
                continue  # cancelled
            try:
                future.set_result(outcome.receipt(index))
            except ZenitError as error:
                future.set_exception(error)


class Producer(ProducerCore):
    """Sends messages, on one event loop. A cancelled send may or may not be stored."""

    _keeps_batches = True

    send = ProducerCore._send
    send_batch = ProducerCore._send_batch
    send_bodies = ProducerCore._send_bodies
    send_oneway = ProducerCore._send_oneway
    recall = ProducerCore._recall
    close = ProducerCore._close
    request = ProducerCore._request
    reply = ProducerCore._reply

    def _new_waits(self, connection: Connection) -> Waits:
        self._on_loop = OnLoop(connection.remoting, "producer")
        self._backlog = Backlog()
        self._sent = SentFutures()
        return self._on_loop

    def _own_backlog(self) -> Backlog:
        return self._backlog

    def _teller(self, on_error: OnError) -> OnError:
        """Calls `on_error` on the loop, where the user's code runs."""
        on_loop = self._on_loop

        def tell(failed: list[FailedSend]) -> None:
            on_loop.post(lambda: on_error(failed))

        return tell

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ZenitError as failure:
            if error is None:
                raise
            log.warning("closing a producer failed error=%s", failure)

    def send_async(self, message: Message, *, sharding_key: str | None = None) -> Sent:
        """Sends the message in a batch with others of its topic, and returns its future at once.

        The future fails if the message cannot be stored; cancelling it does not stop the send. Raises errors about the
        message itself, and BufferFull if 16 MiB already wait for room: call `await drain()` now and then.
        """
        calls = self._on_loop.calls()
        parts = message_parts(message, self._compress_over, sharding_key)
        if self._in_context is not None:
            parts = self._in_context(message.topic, parts)
        future: Sent = calls.loop.create_future()
        topic = message.topic
        is_plain = message.priority is None and message.lite_topic is None
        target = sharding_key if is_plain else target_of(message, sharding_key)
        line: Line = (topic, _UNSHARDED if target is None else hash(target) % _SHARDED_LINES)
        if not self._backlog.has(line):
            sent = self._background.send_nowait(topic, parts, target)
            if sent is not None:
                self._sent.attach(future, sent, calls)
                return future
        self._check_usable()

        async def move(wait_ms: int) -> None:
            if not future.done():  # cancelled before it was sent
                sent = await self._background.send(topic, parts, target, wait_ms)
                self._sent.attach(future, sent, calls)

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        self._wait_in_line(line, len(parts[0]), move, fail)
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
        """Sends a body in a batch with others of its topic, and returns at once: the fastest way, without a receipt.

        Failures go to `on_error` (called on the loop) and to `flush`, which raises. Raises as `send_async` does.
        """
        is_plain = properties is None and sharding_key is None and not self._backlog
        accumulator = self._open.get(topic) if is_plain else None
        try:
            if accumulator is not None and len(body) <= self._compress_over and accumulator.append(body, tags, keys):
                return
        except TypeError:  # nothing was appended: the code below takes any buffer, and its errors are clear
            pass
        plain = plain_body(body)
        parts = posted_parts(plain, tags, keys, self._compress_over, properties=properties, sharding_key=sharding_key)
        if self._in_context is not None:
            parts = self._in_context(topic, parts)
        listed = (keys,) if isinstance(keys, str) else tuple(keys or ())
        own = dict(properties or {})
        self._post_slowly(
            topic, parts, sharding_key, lambda error: FailedSend(topic, plain, tags, listed, error, own, sharding_key)
        )

    def _post_slowly(
        self, topic: str, parts: Parts, sharding_key: str | None, failed: Callable[[ZenitError], FailedSend]
    ) -> None:
        self._on_loop.calls()
        line: Line = (topic, _POSTS if sharding_key is None else _SHARDED_LINES + hash(sharding_key) % _SHARDED_LINES)
        if not self._backlog.has(line) and self._background.post_nowait(topic, parts, sharding_key):
            return
        self._check_usable()

        async def move(wait_ms: int) -> None:
            await self._background.post(topic, parts, sharding_key, wait_ms)

        def fail(error: Exception) -> None:
            known = error if isinstance(error, ZenitError) else LocalProtocolError(f"{type(error).__name__}: {error}")
            self._background.tell_failed([failed(known)], known)

        self._wait_in_line(line, len(parts[0]), move, fail)

    def _wait_in_line(
        self,
        line: Line,
        body_bytes: int,
        move: Callable[[int], Coroutine[Any, Any, None]],
        fail: Callable[[Exception], None],
    ) -> None:
        self._backlog.add(line, Waiting(MESSAGE_BYTES + body_bytes, monotonic_ms(), self._timeout_ms, move, fail))

    def request_async(
        self, message: Message, *, sharding_key: str | None = None, timeout: float | None = None
    ) -> asyncio.Task[StoredMessage]:
        """`request` as a task of its own, so that several requests may wait for their replies at once."""
        self._check_usable()
        calls = self._on_loop.calls()
        return calls.loop.create_task(self._request(message, sharding_key=sharding_key, timeout=timeout))

    async def drain(self) -> None:
        """Waits until every message so far has left the backlog, and lets the loop run the callbacks that are due."""
        calls = self._on_loop.calls()
        await self._backlog.wait_empty(None)
        if calls.is_due:
            await asyncio.sleep(0)

    async def _flush(self, timeout: float | None = None) -> None:
        """Waits until every `send_async` and `post` so far is answered, and the futures are done.

        Raises RequestTimeout after `timeout` seconds (None: as long as the batches are tried), and SendFailed if posted
        messages failed since the last flush: its `failed` has the first 1,000 of them, unless `on_error` was called with
        them. Cancelling it only stops the waiting.
        """
        self._check_usable()
        timeout_ms = None if timeout is None else milliseconds("timeout", timeout)
        started_ms = monotonic_ms()
        if not await self._backlog.wait_empty(timeout_ms):
            raise RequestTimeout("flush: messages still wait for room", timeout_ms or 0)
        left = None if timeout_ms is None else max(1, timeout_ms - (monotonic_ms() - started_ms)) / 1000
        try:
            await super()._flush(left)
        finally:
            self._sent.settle_known()

    flush = _flush

    async def _let_go(self) -> None:
        self._backlog.close()
        try:
            await super()._let_go()
        finally:
            self._sent.settle_known()
