"""Sends of foreign clients: what goes to one place at one time travels in one request, and each sender gets its own answer.

A *lane* is one place: any queue of a topic, a given queue, or that of a sharding key, for messages of one kind. What comes
while nothing of a lane is under way is sent at once, with all that the event loop has ready; else with all that has come
until the request under way is answered; where that is much, with what comes within 1 ms more. Where brokers answer slowly,
several are under way, 1 ms apart. A lane with one queue has one under way, so that nothing overtakes a request that is tried
again.

Each request is numbered, as an idempotent producer's are: where its answer is lost, it is asked again of the same queue, and
stored once. Of batch topics each request is one record, and is not numbered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from ...client.connection.retry import RetryPolicy
from ...client.sending.attempts import PlainAttempts, SendAttempts
from ...client.sending.delayed_send import Answer, DelayedAnswer
from ...client.sending.destinations import Destinations
from ...client.sending.idempotent.queue_streams import QueueStreams
from ...client.sending.latency_fault import LatencyFault
from ...client.sending.outgoing import COMPRESS_OVER_BYTES, check_send_topic
from ...client.sending.ready_batch import ReadyBatches
from ...client.sending.send_context import SendContext
from ...client.sending.send_future import record_begins, record_position, record_positions
from ...client.sending.target import GivenQueue, OwnTarget, Target
from ...client.sending.transactions.half_attempts import half_attempts
from ...client.sending.waited_send import WaitedSends
from ...model.clock import monotonic_ms, monotonic_ns
from ...model.errors import (
    BrokerBusy,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    OutcomeUnknown,
    RequestTimeout,
    SystemFault,
    ZenitError,
)
from ...model.queue import MessageQueue
from ...record.kernel import batch_sizes, wrap_batch
from .backend import Backend
from .overdue import Overdue
from .ready_message import ReadyMessage, SendKind, SentBatch, Stored, StoredBatch
from .send_turns import SendTurn, SendTurns

log = logging.getLogger(__name__)

GROUP: Final = "PROXY"
"""The producer group of messages that are no half messages."""
LINGER_S: Final = 0.001
RECORDS_MAX: Final = 256
BYTES_MAX: Final = 256 * 1024
"""Of the messages of several senders in one request."""
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of those that one sender sends together: RocketMQ's clients send so much in one batch."""
UNDER_WAY_MAX: Final = 4
"""Requests of a lane of any queue, where brokers answer slowly."""
QUICK_MS: Final = 3.0
"""So soon answered, a request is waited for: the next one has the more messages, and costs the same."""
MANY: Final = 4
"""Where so many are sent and wait, a lane gathers for 1 ms more: a request costs as much as some messages."""
_NEWEST_WEIGHT: Final = 0.2
MESSAGES_MAX: Final = 100_000
RETRY_AFTER_MS: Final = 100
LATE_MS: Final = 50
"""So much after its deadline a sender is told that by itself, where others of its request have more time."""
PRODUCERS_MAX: Final = 1024

_OF_ONE: Final = (MessageIllegal, MessageTooLarge, InvalidParameter)
"""All messages of a request are refused so for one of them."""

_Key = tuple[str, SendKind, Target | None, str]


_Place = tuple[MessageQueue, Answer, Sequence[int], int]
"""Of what one sender sends together: the queue, the answer to its request, where records begin in that, and its first one."""


class _Item:
    """What one sender sends together. `deadline_ms`: monotonic."""

    __slots__ = ("answered", "deadline_ms", "is_sent", "messages", "size_bytes")

    def __init__(
        self,
        messages: Sequence[ReadyMessage] | SentBatch,
        size_bytes: int,
        deadline_ms: int,
        answered: asyncio.Future[_Place],
    ) -> None:
        self.messages = messages
        self.deadline_ms = deadline_ms
        self.answered = answered
        self.is_sent = False
        self.size_bytes = size_bytes

    @property
    def head(self) -> ReadyMessage | SentBatch:
        """It says what is the same of all."""
        return self.messages if isinstance(self.messages, SentBatch) else self.messages[0]


class _Lane:
    __slots__ = ("has_one_queue", "is_timed", "key", "under_way", "waiting")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.waiting: deque[_Item] = deque()
        self.under_way = 0
        self.has_one_queue = isinstance(key[2], OwnTarget)
        self.is_timed = False


class SendBudget:
    """What a process holds of messages that wait for their answers, whoever sent them."""

    __slots__ = ("bytes_in_flight", "bytes_max", "messages")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_in_flight = self.messages = 0

    def take(self, size_bytes: int, count: int) -> None:
        """For some messages. Raises BrokerBusy where there is no room."""
        if self.bytes_in_flight + size_bytes > self.bytes_max or self.messages >= MESSAGES_MAX:
            raise BrokerBusy(RETRY_AFTER_MS, f"this proxy has {self.bytes_in_flight} bytes of messages under way")
        self.bytes_in_flight += size_bytes
        self.messages += count

    def give_back(self, size_bytes: int, count: int) -> None:
        """They were answered."""
        self.bytes_in_flight -= size_bytes
        self.messages -= count


class _Batch:
    """The records of one request. See WholeBatch."""

    def __init__(
        self, items: Sequence[_Item], own_properties: bytes, store_host_bytes: int, *, is_wrapped: bool
    ) -> None:
        """Raises MessageTooLarge, MessageIllegal."""
        parts: list[bytes | bytearray] = []
        sizes: list[int] = []
        for item in items:
            if isinstance(item.messages, SentBatch):
                records = item.messages.records(own_properties, store_host_bytes)
                parts.append(records)
                sizes += batch_sizes(records, len(records))
            else:
                for one in item.messages:
                    record = one.record(own_properties, store_host_bytes)
                    parts.append(record)
                    sizes.append(len(record))
        self.count = len(sizes)
        self._bytes = b"".join(parts) if len(parts) != 1 else parts[0]
        self._sizes = [0] * self.count if is_wrapped else sizes
        if is_wrapped:
            self._bytes = wrap_batch(memoryview(self._bytes), len(self._bytes), COMPRESS_OVER_BYTES)

    def payload(self) -> memoryview:
        """The records."""
        return memoryview(self._bytes)

    def sizes(self) -> list[int]:
        """0 for each message of a batch that is one record."""
        return self._sizes


class Sends:
    """Over one connection; on the event loop."""

    def __init__(self, backend: Backend, budget: SendBudget) -> None:
        """`budget`: what comes above it is refused."""
        self._budget = budget
        self._backend = backend
        self._connection = connection = backend.connection
        self._waits = backend.waits
        self._fault = LatencyFault(None)
        self._destinations = Destinations(connection.routes, self._fault)
        self._numbered: SendAttempts = QueueStreams()
        self._halves: SendAttempts = half_attempts()
        self._plain: SendAttempts = PlainAttempts()
        self._producers: dict[tuple[SendAttempts, str], WaitedSends] = {}
        self._lanes: dict[_Key, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._answered_ms = 0.0  # after which time, lately
        self._overdue = Overdue()
        self.turns = SendTurns()
        """Of senders who give one to `send`."""
        self.requests = 0
        """That were sent so far."""

    def is_routed(self, topic: str) -> bool:
        """Whether a message of it can be sent at once."""
        return self._connection.routes.cached(topic) is not None

    async def send(
        self, message: ReadyMessage, target: Target | None = None, *, deadline_ms: int, turn: SendTurn | None = None
    ) -> Stored:
        """Stores a message, in any writable queue or in that of a target. `deadline_ms`: monotonic, over all tries. `turn`: it
        goes behind those before it there, and leaves.

        Raises BrokerBusy where too much is under way, TopicNotFound and what else a producer's send raises; OutcomeUnknown
        where it may be stored.
        """
        message.check()
        size_bytes = message.size_bytes
        item = _Item((message,), size_bytes, deadline_ms, asyncio.get_running_loop().create_future())
        self._budget.take(size_bytes, 1)
        try:
            if turn is not None or not self._is_routed(message.topic, target):
                await self._prepare(message.topic, target, deadline_ms, turn)
            self._enter(item, target)
            if turn is not None:
                turn.leave()
            return _stored(message, 0, await self._answer_of(item))
        finally:
            self._budget.give_back(size_bytes, 1)

    async def send_batch(
        self, batch: SentBatch, target: Target | None = None, *, deadline_ms: int, turn: SendTurn | None = None
    ) -> StoredBatch:
        """Stores the messages of a batch, side by side, as a whole or not. Raises as `send`."""
        batch.check()
        item = _Item(batch, batch.size_bytes, deadline_ms, asyncio.get_running_loop().create_future())
        ((queue, answer, begins, first),) = await self._send_items([item], target, deadline_ms, turn)
        offset = answer.places[first].queue_offset if isinstance(answer, DelayedAnswer) else answer.queue_offset + first
        return StoredBatch(queue, offset, record_positions(answer, begins, first, len(batch)))

    async def send_all(
        self,
        messages: Sequence[ReadyMessage],
        target: Target | None = None,
        *,
        deadline_ms: int,
        turn: SendTurn | None = None,
    ) -> list[Stored]:
        """Stores messages of one topic side by side, as far as one request holds them, which is stored as a whole or not. Where
        one request fails, others may be stored.

        Raises as `send`.
        """
        for message in messages:
            message.check()
        loop = asyncio.get_running_loop()
        groups = groups_of(messages)
        items = [_Item(group, size, deadline_ms, loop.create_future()) for group, size in groups]
        places = await self._send_items(items, target, deadline_ms, turn)
        return [
            _stored(one, index, place)
            for (group, _), place in zip(groups, places, strict=True)
            for index, one in enumerate(group)
        ]

    async def _send_items(
        self, items: Sequence[_Item], target: Target | None, deadline_ms: int, turn: SendTurn | None
    ) -> list[_Place]:
        """Of one sender and one topic."""
        taken: list[_Item] = []
        try:
            for item in items:
                self._budget.take(item.size_bytes, len(item.messages))
                taken.append(item)
            await self._prepare(items[0].head.topic, target, deadline_ms, turn)
            for item in items:
                self._enter(item, target)
            if turn is not None:
                turn.leave()
            return await self._answers_of(items)
        finally:
            for item in taken:
                self._budget.give_back(item.size_bytes, len(item.messages))

    async def _answers_of(self, items: Sequence[_Item]) -> list[_Place]:
        """Raises the first error when all are answered."""
        places: list[_Place] = []
        failed: ZenitError | None = None
        left = iter(items)
        try:
            for item in left:
                try:
                    places.append(await self._answer_of(item))
                except ZenitError as error:
                    failed = failed or error
        finally:
            for item in left:  # of a sender that is cancelled
                if not item.answered.cancel() and not item.answered.cancelled():
                    item.answered.exception()  # asked for, so that nobody logs it
        if failed is not None:
            raise failed
        return places

    def _is_routed(self, topic: str, target: Target | None) -> bool:
        """Whether its route is known, with the broker that a target names."""
        route = self._connection.routes.cached(topic)
        if route is None or not isinstance(target, GivenQueue):
            return route is not None
        name = target.broker_name
        return any(broker.broker_name == name for broker in route.brokers)

    async def _prepare(self, topic: str, target: Target | None, deadline_ms: int, turn: SendTurn | None) -> None:
        """Until the topic has a route and it is the sender's turn. Raises why it has none; NoRoute where no broker has the name
        that a target says."""
        if self._connection.routes.cached(topic) is None:
            await self._backend.route(check_send_topic(topic), deadline_ms=deadline_ms)
        if isinstance(target, GivenQueue) and not self._is_routed(topic, target):
            await self._backend.check_broker(target.broker_name, deadline_ms=deadline_ms)
        if turn is not None:
            await turn.reached(deadline_ms=deadline_ms)

    def _enter(self, item: _Item, target: Target | None) -> None:
        message = item.head
        key = message.topic, message.kind, target, message.producer_group if message.kind is SendKind.HALF else ""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        lane.waiting.append(item)
        if len(lane.waiting) >= RECORDS_MAX:
            self._pump(lane)
        elif not lane.is_timed and lane.under_way < self._window(lane):
            lane.is_timed = True
            loop = item.answered.get_loop()
            if lane.under_way:
                loop.call_later(LINGER_S, self._on_timer, lane)
            else:
                loop.call_soon(self._on_timer, lane)

    def _window(self, lane: _Lane) -> int:
        """How many requests of it may be under way."""
        return 1 if lane.has_one_queue or self._answered_ms < QUICK_MS else UNDER_WAY_MAX

    def _on_timer(self, lane: _Lane) -> None:
        lane.is_timed = False
        self._pump(lane)

    def _pump(self, lane: _Lane) -> None:
        """Sends what waits, as far as requests may be under way."""
        while lane.waiting and lane.under_way < self._window(lane):
            items: list[_Item] = []
            size_bytes = records = 0
            while lane.waiting:
                item = lane.waiting[0]
                size_bytes += item.size_bytes
                records += len(item.messages)
                if items and (size_bytes > BYTES_MAX or records > RECORDS_MAX):
                    break
                lane.waiting.popleft()
                if item.answered.done():  # its sender waits no more
                    size_bytes -= item.size_bytes
                    records -= len(item.messages)
                    continue
                item.is_sent = True
                items.append(item)
            if not items:
                break
            lane.under_way += 1
            task = asyncio.get_running_loop().create_task(self._run(lane, items), name="zenit-proxy-send")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if not lane.waiting and not lane.under_way and self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]

    async def _run(self, lane: _Lane, items: list[_Item]) -> None:
        begun_ns = monotonic_ns()
        try:
            await self._send(lane, items)
        finally:
            took_ms = (monotonic_ns() - begun_ns) / 1_000_000
            self._answered_ms += _NEWEST_WEIGHT * (took_ms - self._answered_ms)
            for item in items:
                if not item.answered.done():
                    item.answered.set_exception(SystemFault("a send was not answered"))
            lane.under_way -= 1
            if lane.under_way or not lane.waiting or not MANY <= len(items) + len(lane.waiting) <= RECORDS_MAX:
                self._pump(lane)
            elif not lane.is_timed:
                lane.is_timed = True
                asyncio.get_running_loop().call_later(LINGER_S, self._on_timer, lane)

    async def _send(self, lane: _Lane, items: list[_Item]) -> None:
        """Those of a request that is refused for one of them are sent in halves: who breaks no rule is not refused."""
        topic, kind, target, group = lane.key
        deadline_ms = max(item.deadline_ms for item in items)
        total_ms = max(1, deadline_ms - monotonic_ms())
        route = self._connection.routes.cached(topic)
        is_wrapped = route is not None and route.is_batched
        attempts = self._halves if kind is SendKind.HALF else self._plain if is_wrapped else self._numbered
        is_v6 = route is not None and any((broker.master_address or "").startswith("[") for broker in route.brokers)
        try:
            batch = _batch(items, attempts.own_properties, 20 if is_v6 else 8, is_wrapped=is_wrapped)
            self.requests += 1
            queue, answer = await self._producer(attempts, group or GROUP).send_batch(
                topic, batch, target, total_ms, deadline_ms, delayed=kind is SendKind.DELAYED
            )
        except ZenitError as error:
            if len(items) == 1 or not isinstance(error, _OF_ONE):
                _fail(items, error)
                return
        else:
            _answer(items, batch, queue, answer)
            return
        half = len(items) // 2
        for part in (items[:half], items[half:]):
            await self._send(lane, part)

    async def _answer_of(self, item: _Item) -> _Place:
        """Raises what a send does; RequestTimeout where its time is over and it was not sent, OutcomeUnknown where it was."""
        try:
            place: _Place = await self._overdue.wait(item.answered, item.deadline_ms + LATE_MS)
        except TimeoutError:
            topic = item.head.topic
            if item.is_sent:
                raise OutcomeUnknown(topic, "others that were sent with it have more time") from None
            raise RequestTimeout(f"a send to {topic}, which did not begin", LATE_MS) from None
        return place

    def _producer(self, attempts: SendAttempts, group: str) -> WaitedSends:
        key = attempts, group
        producer = self._producers.get(key)
        if producer is None:
            if len(self._producers) >= PRODUCERS_MAX:
                self._producers.clear()
            context = SendContext(
                connection=self._connection,
                waits=self._waits,
                group=group,
                destinations=self._destinations,
                fault=self._fault,
                retry=RetryPolicy(),
                attempts=attempts,
                compress_over=COMPRESS_OVER_BYTES,
            )
            batches = ReadyBatches(context.new_accumulator, keep=True)
            producer = self._producers[key] = WaitedSends(context, batches)
        return producer


def _batch(items: Sequence[_Item], own_properties: bytes, store_host_bytes: int, *, is_wrapped: bool) -> _Batch:
    """Raises MessageTooLarge, MessageIllegal, which says so where no rule names it."""
    try:
        return _Batch(items, own_properties, store_host_bytes, is_wrapped=is_wrapped)
    except ZenitError:
        raise
    except Exception:
        if len(items) == 1:
            log.exception("a message cannot be made a record topic=%s", items[0].head.topic)
        raise MessageIllegal("it cannot be made a record; the proxy's log says more") from None


def _fail(items: Sequence[_Item], error: ZenitError) -> None:
    for item in items:
        if not item.answered.done():
            item.answered.set_exception(
                type(error)(*error.args)
            )  # each its own: a raised error grows with each who raises it


def groups_of(messages: Sequence[ReadyMessage]) -> list[tuple[Sequence[ReadyMessage], int]]:
    """(those that go in one request, their bytes) of each."""
    groups, begin, size_bytes = [], 0, 0
    for index, message in enumerate(messages):
        more_bytes = message.size_bytes
        if index > begin and (index - begin == RECORDS_MAX or size_bytes + more_bytes > GROUP_BYTES_MAX):
            groups.append((messages[begin:index], size_bytes))
            begin, size_bytes = index, 0
        size_bytes += more_bytes
    groups.append((messages[begin:], size_bytes))
    return groups


def _answer(items: Sequence[_Item], batch: _Batch, queue: MessageQueue, answer: Answer) -> None:
    begins = record_begins(batch.sizes())
    first = 0
    for item in items:
        if not item.answered.done():  # else its client is gone
            item.answered.set_result((queue, answer, begins, first))
        first += len(item.messages)


def _stored(message: ReadyMessage, index: int, place: _Place) -> Stored:
    """The message of that index of what its sender sent."""
    queue, answer, begins, first = place
    index += first
    message_id = message.message_id
    if isinstance(answer, DelayedAnswer):
        delayed = answer.places[index]
        return Stored(
            message_id,
            queue,
            delayed.queue_offset,
            delayed.physical_offset,
            answer.store_host,
            deliver_at_ms=delayed.deliver_at_ms,
            is_half=message.kind is SendKind.HALF,
        )
    offset, at = answer.queue_offset + index, record_position(answer, begins, index)
    return Stored(message_id, queue, offset, at, answer.store_host, answer.store_timestamp_ms)
