"""The producer: every way to send a message.

- `send`, `send_batch`, `send_bodies` wait for the reply on a socket of the calling thread: one hand-over less.
- `send_async` and `post` fill a batch of 256 KiB or 1 ms, whichever comes first, and return; `send_async` gives a future
  a message, `post` tells only of failures. The caller who finds a batch full sends it itself; the I/O thread sends the
  ones that linger. When the windows of all brokers are taken, the caller waits.
- A sharding key names one queue; such a message waits for that queue and is never sent to another.

Retries may store a message twice where a reply was lost: consumers must bear with that, as in every queue of this kind.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self, cast

from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import (
    BufferFull,
    ClientClosed,
    InvalidParameter,
    MessageIllegal,
    NoRoute,
    RemoteProtocolError,
    RequestTimeout,
    ZenitError,
)
from ..model.message import BODY_BYTES_MAX, BatchReceipt, Message, SendReceipt
from ..model.names import check_group
from ..model.queue import MessageQueue, QueueOffset
from ..remoting.commands import Reply, SendMessages, SendReply
from ..store.record_kernel import Accumulator
from .batch_sender import WINDOW_BATCHES, BatchSender
from .batching import BATCH_BYTES, LINGER_MS, BufferPool, Lane, Sealed
from .connection import connect, local_ip_towards, release
from .destinations import Destinations
from .failed_sends import FailedSends, OnError, failed_sends
from .latency_fault import LatencyFault, LatencyTable, latency_table
from .membership import Member
from .outgoing import (
    COMPRESS_OVER_BYTES,
    check_send_topic,
    compress_body,
    encode_user_properties,
    refuse_unsupported,
)
from .ready_batch import Fill, ReadyBatch, ReadyBatches
from .retry import RetryPolicy
from .send_future import SendFuture
from .unique_ids import new_id_prefix

log = logging.getLogger(__name__)

SWEEP_MS: Final = 100
NEVER: Final = 1 << 62


class Producer:
    """Sends messages. One object serves all threads of a process; a forked child makes its own."""

    def __init__(
        self,
        group: str = "DEFAULT_PRODUCER",
        *,
        namesrv: str | None = None,
        timeout: float = 3.0,
        batch_timeout: float = 30.0,
        retries: int | None = None,
        compression: str | None = "lz4",
        compress_over_bytes: int = COMPRESS_OVER_BYTES,
        linger_ms: int = LINGER_MS,
        batch_bytes: int = BATCH_BYTES,
        window_batches: int = WINDOW_BATCHES,
        latency_fault: str | LatencyTable | None = "rocketmq-5",
        on_error: OnError | None = None,
    ) -> None:
        """`timeout`: seconds over all tries of a send that is waited for, and for room in a full window.

        `batch_timeout`: seconds over all tries of a batch sent in the background. `retries`: at most so many further
        tries; None = as the time allows. `on_error(list[FailedSend])`: told of posted messages that failed, in the
        I/O thread. Raises InvalidName or InvalidParameter. Connects at the first send.
        """
        if compression not in (None, "lz4"):
            raise InvalidParameter("compression", compression, "lz4 or None")
        _check_range("linger_ms", linger_ms, 0, 10_000)
        _check_range("batch_bytes", batch_bytes, 4096, 4 * 1024 * 1024)
        _check_range("window_batches", window_batches, 1, 64)
        self.group = check_group(group)
        self._timeout_ms = _milliseconds("timeout", timeout)
        self._compress_over = compress_over_bytes if compression else BODY_BYTES_MAX
        self._linger_ms = linger_ms
        self._batch_bytes = batch_bytes
        self._retry = RetryPolicy(tries_max=0 if retries is None else retries + 1)
        self._fault = LatencyFault(latency_table(latency_fault))
        self._failed = FailedSends(on_error)
        self._lock = threading.Lock()
        self._open: dict[str, Accumulator] = {}  # of lanes that somebody will ship: what `post` appends to
        self._post_lanes: dict[str, Lane] = {}
        self._future_lanes: dict[str | MessageQueue, Lane] = {}
        self._is_closed = False
        self._connection = connect(namesrv)
        self._remoting = self._connection.remoting
        self._routes = self._connection.routes
        self._destinations = Destinations(self._routes, self._fault)
        self._ready = ReadyBatches(self._new_accumulator)
        self._sender = BatchSender(
            self._connection,
            self._destinations,
            group=group,
            fault=self._fault,
            retry=self._retry,
            pool=BufferPool(batch_bytes),
            batch_ms=_milliseconds("batch_timeout", batch_timeout),
            on_failed=self._on_failed,
            window_batches=window_batches,
        )
        self._client_id = self._connection.new_client_id()
        self._connection.members.join(Member(self._client_id, producer_group=group))
        self._sweeper = self._remoting.every(SWEEP_MS, self._sweep)

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

    # ---- waited for

    def send(self, message: Message, *, sharding_key: str | None = None, timeout: float | None = None) -> SendReceipt:
        """Stores one message and returns where. `timeout`: seconds over all tries.

        Raises what a try ended with: TopicNotFound, NoRoute, RequestTimeout, ConnectionLost, MessageTooLarge ...
        """
        batch, queue, reply = self._send_now(message.topic, self._one(message, sharding_key), sharding_key, timeout)
        return batch.receipts(queue, reply)[0]

    def send_batch(
        self, messages: Sequence[Message], *, sharding_key: str | None = None, timeout: float | None = None
    ) -> list[SendReceipt]:
        """Stores messages of one topic side by side in one queue, all or none; one receipt a message, in order."""
        if not messages:
            return []
        topic = messages[0].topic
        fills = []
        for message in messages:
            if message.topic != topic:
                raise MessageIllegal(f"a batch is of one topic: found {topic!r} and {message.topic!r}")
            fills.append(self._parts(message, sharding_key))

        def fill(accumulator: Accumulator) -> bool:
            append = accumulator.append
            return all(append(*parts) for parts in fills)

        batch, queue, reply = self._send_now(topic, fill, sharding_key, timeout)
        return batch.receipts(queue, reply)

    def send_bodies(
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

        `tags`: one for all, or one a body; `keys`: one (or several) a body. At most 8 MiB together.
        """
        listed = bodies if isinstance(bodies, list) else list(bodies)
        if not listed:
            raise InvalidParameter("bodies", "[]", "at least one body")
        for name, column in (("tags", tags), ("keys", keys)):
            if column is not None and not isinstance(column, str) and len(column) != len(listed):
                raise InvalidParameter(name, f"{len(column)} values", f"as many as bodies: {len(listed)}")
        batch, queue, reply = self._send_now(topic, self._many(listed, tags, keys), sharding_key, timeout)
        return BatchReceipt(queue, QueueOffset(reply.queue_offset), batch.count)

    def _send_now(
        self, topic: str, fill: Fill, sharding_key: str | None, timeout: float | None
    ) -> tuple[ReadyBatch, MessageQueue, SendReply]:
        """Encodes and sends until a broker has it or the time is over."""
        total_ms = self._timeout_ms if timeout is None else _milliseconds("timeout", timeout)
        deadline_ms = monotonic_ms() + total_ms
        self._check_usable()
        if self._routes.cached(topic) is None:
            self._routes.route(check_send_topic(topic), timeout_ms=total_ms)
        batch = self._ready.make(topic, fill)
        tries = 0
        avoid: str | None = None
        while True:
            started_ms = monotonic_ms()
            try:
                queue = self._queue_for(topic, sharding_key, avoid)
                avoid = queue.broker_name
                reply, _ = self._remoting.call(
                    self._destinations.address_of(queue),
                    SendMessages(topic, queue.queue_id, batch.count, self.group),
                    batch.payload(),
                    timeout_ms=self._retry.try_timeout_ms(total_ms, deadline_ms - started_ms),
                )
            except ZenitError as error:
                tries += 1
                self._wait_to_try_again(error, topic, tries, deadline_ms, avoid, is_sharded=sharding_key is not None)
                continue
            if not isinstance(reply, SendReply):
                raise RemoteProtocolError(f"a send was answered with {type(reply).__name__}")
            now = monotonic_ms()
            self._fault.on_answered(queue.broker_name, now - started_ms, now)
            return batch, queue, reply

    def _queue_for(self, topic: str, sharding_key: str | None, avoid: str | None) -> MessageQueue:
        if sharding_key is not None:
            return self._destinations.sharded_queue(topic, sharding_key)
        return self._destinations.next_queue(topic, avoid=avoid)

    def _wait_to_try_again(
        self, error: ZenitError, topic: str, tries: int, deadline_ms: int, broker: str | None, *, is_sharded: bool
    ) -> None:
        """Blocks until the next try is due. Raises `error` where there is none."""
        now = monotonic_ms()
        if broker is not None and not isinstance(error, NoRoute):
            self._fault.on_failed(broker, now)
        elsewhere = (
            not is_sharded and broker is not None and self._destinations.has_other_broker(topic, broker)
        ) and not isinstance(error, NoRoute)
        delay_ms = self._retry.delay_ms(error, tries=tries, left_ms=deadline_ms - now, elsewhere=elsewhere)
        if delay_ms is None:
            raise error
        if error.route_stale:
            self._routes.refresh_soon(topic)
        log.info("send tried again topic=%s broker=%s error=%s", topic, broker, error)
        if delay_ms:
            sleep_ms(delay_ms)

    # ---- in the background

    def send_async(self, message: Message, *, sharding_key: str | None = None) -> SendFuture:
        """Sends the message with others of its topic and returns at once with its future.

        Waits (at most `timeout`) where the windows of all brokers are taken. Raises BufferFull, NoRoute, and what is
        wrong with the message itself.
        """
        parts = self._parts(message, sharding_key)
        lane = self._future_lanes.get(message.topic) if sharding_key is None else None
        if lane is None:
            lane = self._future_lane(message.topic, sharding_key)
        while True:
            with lane.lock:
                if not lane.is_open:
                    self._open_lane(lane)
                if lane.accumulator.append(*parts):
                    return SendFuture(lane.outcome, lane.accumulator.count - 1)
                serial = lane.serial
            self._ship_full(lane, serial)

    def post(self, topic: str, body: bytes, tags: str | None = None, keys: str | Sequence[str] | None = None) -> None:
        """Sends a body with others of its topic and returns at once: the fastest way, without a word on success.

        Failures go to `on_error` and to `flush`, which raises. Waits and raises as `send_async` does.
        """
        accumulator = self._open.get(topic)
        if accumulator is None or len(body) > self._compress_over or not accumulator.append(body, tags, keys):
            self._post_slowly(topic, body, tags, keys)

    def _post_slowly(self, topic: str, body: bytes, tags: str | None, keys: str | Sequence[str] | None) -> None:
        """The message that begins a batch, does not fit into one, or may be compressed."""
        lane = self._post_lanes.get(topic) or self._post_lane(topic)
        packed, flags = compress_body(body, self._compress_over)
        while True:
            with lane.lock:
                if not lane.is_open:
                    self._open_lane(lane)
                    self._open[topic] = lane.accumulator
                if lane.accumulator.append(packed, tags, keys, b"", 0, flags):
                    return
                serial = lane.serial
            self._ship_full(lane, serial)

    def _ship_full(self, lane: Lane, serial: int) -> None:
        """Sends the batch with this serial from the calling thread, unless somebody else has by then."""
        self._check_usable()
        queue = self._sender.reserve(lane, monotonic_ms() + self._timeout_ms)
        with lane.lock:
            if lane.serial == serial:
                self._sender.ship(lane, queue)
                return
        self._sender.cancel(lane, queue)

    def send_oneway(self, message: Message, *, sharding_key: str | None = None) -> None:
        """Sends one message and does not ask what became of it: no retry, no error once it has left."""
        self._check_usable()
        topic = message.topic
        self._routes.route(check_send_topic(topic), timeout_ms=self._timeout_ms)
        batch = self._ready.make(topic, self._one(message, sharding_key))
        queue = self._queue_for(topic, sharding_key, None)
        self._remoting.send_nowait(
            self._destinations.address_of(queue),
            SendMessages(topic, queue.queue_id, batch.count, self.group),
            batch.payload(),
            timeout_ms=self._timeout_ms,
            on_reply=_ignore,
        )

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every `send_async` and `post` so far is answered.

        Raises RequestTimeout where `timeout` seconds are not enough, and SendFailed where posted messages failed since
        the last flush (`failed` has them, the first 1,000, unless `on_error` was told of them).
        """
        wait_ms = None if timeout is None else _milliseconds("timeout", timeout)
        deadline_ms = None if wait_ms is None else monotonic_ms() + wait_ms
        self._check_usable()
        for lane in [*self._post_lanes.values(), *self._future_lanes.values()]:
            with lane.lock:
                serial, is_empty = lane.serial, not lane.accumulator.count
            if is_empty:
                continue
            queue = self._sender.reserve(lane, NEVER if deadline_ms is None else deadline_ms)
            with lane.lock:
                if lane.serial == serial:
                    self._sender.ship(lane, queue)
                    continue
            self._sender.cancel(lane, queue)
        if not self._sender.wait_answered(deadline_ms):
            raise RequestTimeout(f"flush: {self._sender.unanswered} batches are not answered", wait_ms or 0)
        error = self._failed.take_error()
        if error is not None:
            raise error

    def close(self, timeout: float | None = None) -> None:
        """Flushes (at most `timeout` seconds, as a batch may take without it), then lets go of the connection. Idempotent.

        Raises as `flush` does, after everything is closed.
        """
        with self._lock:
            if self._is_closed:
                return
        try:
            self.flush(timeout)
        finally:
            with self._lock:
                already, self._is_closed = self._is_closed, True
            if not already:
                self._open.clear()
                self._sweeper.cancel()
                self._connection.members.leave(self._client_id)
                release(self._connection)

    # ---- not yet

    def request(self, message: Message, *, timeout: float | None = None) -> Message:
        """Request-reply is not part of this version: raises InvalidParameter."""
        raise InvalidParameter("request", message.topic, "send: request-reply is not part of this version")

    def recall(self, receipt: SendReceipt) -> None:
        """Taking delayed messages back is not part of this version: raises InvalidParameter."""
        raise InvalidParameter("recall", receipt.message_id, "nothing: delayed messages are not part of this version")

    # ---- lanes

    def _post_lane(self, topic: str) -> Lane:
        self._prepare(topic)
        with self._lock:
            lane = self._post_lanes.get(topic)
            if lane is None:
                accumulator = self._new_accumulator(topic, self._batch_bytes)
                lane = self._post_lanes[topic] = Lane(topic, accumulator, with_outcome=False)
        return lane

    def _future_lane(self, topic: str, sharding_key: str | None) -> Lane:
        self._prepare(topic)
        shard = None if sharding_key is None else self._destinations.sharded_queue(topic, sharding_key)
        name = topic if shard is None else shard
        with self._lock:
            lane = self._future_lanes.get(name)
            if lane is None:
                accumulator = self._new_accumulator(topic, self._batch_bytes)
                lane = self._future_lanes[name] = Lane(topic, accumulator, with_outcome=True, shard=shard)
        return lane

    def _prepare(self, topic: str) -> None:
        """The checks of a topic's first message: its name, and that it exists somewhere."""
        self._check_usable()
        self._routes.route(check_send_topic(topic), timeout_ms=self._timeout_ms)

    def _open_lane(self, lane: Lane) -> None:
        """Under the lane's lock."""
        self._check_usable()
        lane.open()
        self._remoting.call_later(self._linger_ms, lambda: self._on_linger(lane))

    def _on_linger(self, lane: Lane) -> None:
        """In the I/O thread: ships what has waited long enough; closes a lane that got nothing."""
        if not lane.lock.acquire(blocking=False):
            self._linger_on(lane, 1)  # somebody is shipping just now
            return
        try:
            left_ms = lane.linger_left_ms(self._linger_ms)
            if left_ms > 0.2:
                self._linger_on(lane, left_ms)
            elif not lane.accumulator.count:
                lane.is_open = False
                if self._open.get(lane.topic) is lane.accumulator:
                    del self._open[lane.topic]
            else:
                self._ship_lingering(lane)
        finally:
            lane.lock.release()

    def _ship_lingering(self, lane: Lane) -> None:
        try:
            queue = self._sender.reserve_nowait(lane)
        except NoRoute:
            self._routes.refresh_soon(lane.topic)
            self._linger_on(lane, SWEEP_MS)
            return
        if queue is None:  # all windows are taken: the batch grows meanwhile
            self._linger_on(lane, max(1, self._linger_ms))
            return
        self._sender.ship(lane, queue)
        self._linger_on(lane, self._linger_ms)

    def _linger_on(self, lane: Lane, left_ms: float) -> None:
        try:
            self._remoting.call_later(max(1, round(left_ms)), lambda: self._on_linger(lane))
        except BufferFull:  # the sweep comes by
            lane.is_open = False

    def _sweep(self) -> None:
        """In the I/O thread: finds a message that a poster put into a lane in the moment it was closed."""
        for lane in [*self._post_lanes.values(), *self._future_lanes.values()]:
            if lane.accumulator.count and not lane.is_open and lane.lock.acquire(blocking=False):
                try:
                    if lane.accumulator.count and not lane.is_open:
                        lane.is_open = True
                        self._linger_on(lane, 1)
                finally:
                    lane.lock.release()

    def _on_failed(self, sealed: Sealed, error: ZenitError) -> None:
        """A posted batch failed for good."""
        failed = failed_sends(sealed, error)
        self._failed.add(failed, error)
        log.warning("posted messages failed topic=%s count=%d error=%s", sealed.lane.topic, len(failed), error)
        if self._failed.has_callback:
            self._remoting.call_later(0, lambda: self._failed.tell(failed))

    # ---- encoding

    def _parts(
        self, message: Message, sharding_key: str | None
    ) -> tuple[bytes, str | None, Sequence[str] | None, bytes, int, int]:
        """The arguments of `Accumulator.append`."""
        if message.delay is not None or message.deliver_at is not None or message.delay_level:
            refuse_unsupported(message)
        body, flags = message.body, 0
        if len(body) > self._compress_over:
            body, flags = compress_body(body, self._compress_over)
        properties = b""
        if message.properties or sharding_key is not None:
            properties = encode_user_properties(message.properties, sharding_key)
        return body, message.tags or None, message.keys or None, properties, message.flag, flags

    def _one(self, message: Message, sharding_key: str | None) -> Fill:
        parts = self._parts(message, sharding_key)
        return lambda accumulator: accumulator.append(*parts)

    def _many(
        self, bodies: list[bytes], tags: str | Sequence[str] | None, keys: Sequence[str | Sequence[str]] | None
    ) -> Fill:
        if max(map(len, bodies)) <= self._compress_over:
            tag_column = tags if tags is None or isinstance(tags, str) else list(tags)
            key_column = None if keys is None else cast("list[str]", list(keys))  # a text or several, each
            return lambda accumulator: accumulator.append_many(bodies, 0, tag_column, key_column) == len(bodies)

        def fill(accumulator: Accumulator) -> bool:
            for index, body in enumerate(bodies):
                packed, flags = compress_body(body, self._compress_over)
                tag = tags if tags is None or isinstance(tags, str) else tags[index]
                if not accumulator.append(packed, tag, None if keys is None else keys[index], b"", 0, flags):
                    return False
            return True

        return fill

    def _new_accumulator(self, topic: str, capacity: int) -> Accumulator:
        """One whose records say where this process reaches the topic's broker from."""
        route = self._routes.cached(topic)
        address = next(
            (broker.master_address for broker in (route.brokers if route else ()) if broker.master_address), None
        )
        ip = self._connection.local_ip if address is None else local_ip_towards(address)
        return Accumulator(
            topic.encode(),
            capacity,
            id_prefix=new_id_prefix(ip),
            born_host=ip + bytes(4),
            store_host_bytes=20 if address is not None and address.startswith("[") else 8,
            body_max=BODY_BYTES_MAX,
        )

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClientClosed("producer")
        self._connection.check_process("producer")


def _ignore(_reply: Reply | None, _payload: bytes, _error: ZenitError | None) -> None:
    """What `send_oneway` does with an answer."""


def _check_range(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise InvalidParameter(name, value, f"{minimum} to {maximum}")


def _milliseconds(name: str, seconds: float) -> int:
    """A time in seconds as milliseconds, at least one."""
    if not 0 < seconds <= 86_400:
        raise InvalidParameter(name, seconds, "seconds, more than 0 and at most 86400")
    return max(1, round(seconds * 1000))
