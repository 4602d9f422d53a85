"""A pull consumer's state of each of its queues: what to pull next, what is ready, what was delivered. Pure.

    committed <= settled <= position <= (ready) <= next_pull        queue offsets of one queue

`position` is what the caller gets next; only messages before it were delivered and may be committed. `settled` is
`position` when the caller last polled again, or committed: messages before it were surely handled, so
the automatic commit uses it. Ready bytes are limited: each queue has a share, and a pull is sent only if its share
has room for the answer. A pull that was sent before a seek or a revocation has an old generation; its answer is
ignored. If very many queues have something ready, so that shares are too small for any answer, no more is pulled.

A signal's handler may raise after any call, and where a queue's name is hashed. So what must change together changes
where nothing is called, and a name in `_wanting` may be of no queue, a name in `_ready` of one that has nothing ready.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ...model.errors import CorruptRecordError, DamageAwaited
from ...model.get_status import GetStatus
from ...model.queue import MessageQueue, QueueOffset
from ...model.subscription import Subscription
from ...model.topics.light_queues import is_light_queue
from ...record.kernel import MessageBatch, decode_batch
from ...remoting.commands import PullReply

PREFETCH_BYTES: Final = 16 * 1024 * 1024
PULL_BYTES: Final = 1024 * 1024
PULL_BYTES_MIN: Final = 64 * 1024
EMPTY_PAUSE_MS: Final = 100  # between empty answers of a broker that does not suspend pulls
ERROR_PAUSE_MS: Final = 100
ERROR_PAUSE_MS_MAX: Final = 2_000

_NONE: Final[Mapping[MessageQueue, int]] = {}
_MOVED: Final = frozenset(
    {
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.MESSAGE_WAS_REMOVING,
        GetStatus.NO_MATCHED_LOGIC_QUEUE,
        GetStatus.NO_MESSAGE_IN_QUEUE,
    }
)


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull to send now. `is_doubted`: the last answer from here was damaged; the broker is to check its log."""

    queue: MessageQueue
    offset: int
    generation: int
    max_bytes: int
    tag_codes: tuple[int, ...]
    sql: str = ""
    is_doubted: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """The broker does not hold the requested offset; the queue continues elsewhere."""

    queue: MessageQueue
    status: GetStatus
    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class MessagesLost:
    """Messages [begin, end) of a queue are lost; a filter might have matched none of them. `damaged`: their bytes in
    the broker's commit log, [begin, end)."""

    queue: MessageQueue
    begin: int
    end: int
    damaged: tuple[int, int]


Event: TypeAlias = Moved | MessagesLost | DamageAwaited


@dataclass(slots=True)
class _Chunk:
    """One answer: as bytes until its first use, then as its remaining batches."""

    payload: bytes
    next_offset: int
    size_bytes: int
    count: int  # by the broker's count; once decoded, the real one
    batches: deque[MessageBatch] | None = None


class _Queue:
    __slots__ = (
        "chunks",
        "committed",
        "errors",
        "generation",
        "in_flight",
        "is_doubted",
        "is_held",
        "is_paused",
        "name",
        "next_pull",
        "not_before_ms",
        "position",
        "pulled_ms",
        "ready_bytes",
        "ready_count",
        "settled",
        "sought",
        "subscription",
    )

    def __init__(self, name: MessageQueue, offset: int, committed: int, subscription: Subscription) -> None:
        self.name = name
        self.subscription = subscription
        self.next_pull = self.position = self.settled = offset
        self.committed = committed
        self.sought = 0  # the number of a seek that is not committed yet; 0 = none
        self.generation = 0
        self.in_flight = False
        self.is_paused = False
        self.is_held = False
        self.is_doubted = False
        self.not_before_ms = 0
        self.pulled_ms = 0
        self.errors = 0
        self.chunks: deque[_Chunk] = deque()
        self.ready_bytes = 0
        self.ready_count = 0


class Prefetch:
    """The queues of one consumer. Not thread-safe: its owner holds a lock. Times are arguments, nothing is sent here."""

    def __init__(self, bound_bytes: int = PREFETCH_BYTES, pull_bytes: int = PULL_BYTES) -> None:
        self._bound_bytes = bound_bytes
        self._pull_bytes = pull_bytes
        self._queues: dict[MessageQueue, _Queue] = {}
        self._wanting: dict[MessageQueue, None] = {}  # queues that may be due for a pull
        self._ready: OrderedDict[MessageQueue, None] = OrderedDict()  # queues with ready messages, in turn
        self._handed: _Queue | None = None  # the last queue that was delivered from
        self._generation = 0
        self._seeks = 0

    # ---- which queues

    def queues(self) -> list[MessageQueue]:
        """The assigned queues, sorted."""
        return sorted(self._queues)

    def assign(self, name: MessageQueue, offset: int, *, committed: int, subscription: Subscription) -> None:
        """Takes over a queue from `offset` on. `committed`: the group's offset at the broker, -1 = none."""
        queue = _Queue(name, offset, committed, subscription)
        self._generation += 1
        queue.generation = self._generation
        self._wanting[name] = None
        self._queues[name] = queue

    def revoke(self, name: MessageQueue) -> None:
        """Drops a queue with everything prefetched of it."""
        self._ready.pop(name, None)
        queue = self._queues.pop(name, None)
        self._wanting.pop(name, None)
        if queue is self._handed:
            self._handed = None

    # ---- pulling

    def due(self, now_ms: int) -> list[Pull]:
        """The pulls to send now; each counts as in flight from here on."""
        if not self._wanting or self._is_full:
            return []
        share = self._bound_bytes // max(1, len(self._queues))
        pull_bytes = max(PULL_BYTES_MIN, min(self._pull_bytes, share // 2))
        pulls = []
        for name in list(self._wanting):
            queue = self._queues.get(name)
            if queue is None or queue.is_paused or queue.is_held or queue.in_flight:
                del self._wanting[name]
            elif queue.ready_bytes and queue.ready_bytes + pull_bytes > share:
                del self._wanting[name]  # `take` brings it back
            elif queue.not_before_ms <= now_ms:
                del self._wanting[name]
                queue.in_flight = True
                queue.pulled_ms = now_ms
                subscription = queue.subscription
                pulls.append(
                    Pull(
                        queue.name,
                        queue.next_pull,
                        queue.generation,
                        pull_bytes,
                        subscription.codes(),
                        subscription.sql,
                        queue.is_doubted,
                    )
                )
        return pulls

    @property
    def _is_full(self) -> bool:
        """So many queues have something ready that not even the least answers of more would fit."""
        return len(self._ready) * PULL_BYTES_MIN >= self._bound_bytes

    def next_due_ms(self) -> int | None:
        """When time alone makes another call of `due` useful; None = not before something happens."""
        if self._is_full:
            return None
        known = map(self._queues.get, self._wanting)
        return min((queue.not_before_ms for queue in known if queue is not None), default=None)

    def on_reply(self, pull: Pull, reply: PullReply, payload: bytes, now_ms: int) -> Event | None:
        """Adds an answer. Returns an event if the queue had to continue elsewhere, or behind lost messages, or waits before
        messages that may be repaired."""
        queue = self._answered(pull)
        if queue is None:
            return None
        queue.errors = 0
        status = GetStatus(reply.status)
        event: Event | None = None
        if status is GetStatus.FOUND and payload:
            queue.chunks.append(_Chunk(payload, reply.next_offset, len(payload), reply.count))
            queue.ready_bytes += len(payload)
            queue.ready_count += reply.count
            if not queue.is_paused:
                self._ready[queue.name] = None
        elif status is GetStatus.MESSAGES_LOST:
            event = MessagesLost(queue.name, reply.lost_from, reply.next_offset, (reply.lost_begin, reply.lost_end))
        elif status in _MOVED and reply.next_offset != pull.offset:
            event = Moved(queue.name, status, pull.offset, reply.next_offset)
        elif reply.next_offset == pull.offset and now_ms - queue.pulled_ms < EMPTY_PAUSE_MS:
            queue.not_before_ms = now_ms + EMPTY_PAUSE_MS
        if status is GetStatus.OFFSET_OVERFLOW_ONE and reply.next_offset < reply.max_offset:
            event = DamageAwaited(queue.name.topic, queue.name.broker_name, queue.name.queue_id, reply.next_offset)
        queue.next_pull = reply.next_offset
        if not queue.chunks:  # nothing for this consumer between `position` and there
            self._skip_to(queue, reply.next_offset)
        elif not payload:
            queue.chunks[-1].next_offset = reply.next_offset
        return event

    def on_error(self, pull: Pull, now_ms: int) -> bool:
        """A pull failed; it is sent again after a growing pause. False if its answer no longer counts."""
        queue = self._answered(pull)
        if queue is None:
            return False
        queue.not_before_ms = now_ms + min(ERROR_PAUSE_MS << min(queue.errors, 10), ERROR_PAUSE_MS_MAX)
        queue.errors += 1
        return True

    def _answered(self, pull: Pull) -> _Queue | None:
        queue = self._queues.get(pull.queue)
        if queue is None or queue.generation != pull.generation:
            return None
        queue.in_flight = False
        self._wanting[queue.name] = None
        return queue

    def _skip_to(self, queue: _Queue, offset: int) -> None:
        if queue.settled == queue.position:
            queue.settled = offset
        queue.position = offset

    # ---- handing out

    def take(self, max_messages: int) -> tuple[MessageQueue, MessageBatch] | None:
        """The next messages, all of one queue; they count as delivered. None if nothing is ready.

        An answer that cannot be decoded, or with a body whose checksum is wrong, is requested once more, in doubt. Raises
        CorruptRecordError if the second one cannot be decoded either; the queue then stays where it is. A body that is
        still wrong is delivered: its reader gets the error.
        """
        while (name := self.next_ready()) is not None:
            batch = self.take_of(name, max_messages)
            if batch is not None:
                return name, batch
        return None

    def next_ready(self) -> MessageQueue | None:
        """The queue whose turn it is; None if nothing is ready."""
        return next(iter(self._ready), None)

    def take_of(self, name: MessageQueue, max_messages: int) -> MessageBatch | None:
        """The next messages of a ready queue, like `take`; None if an answer held nothing for this consumer."""
        queue = self._queues[name]
        batch = self._take_from(queue, max_messages)
        if not queue.chunks:
            self._ready.pop(name, None)
        if batch is not None:
            queue.ready_count -= len(batch)
            self._handed = queue
        return batch

    def _take_from(self, queue: _Queue, max_messages: int) -> MessageBatch | None:
        if not queue.chunks:
            return None
        chunk = queue.chunks[0]
        if chunk.batches is None:
            try:
                topic = queue.name.topic
                light_queue = topic if is_light_queue(topic) else None
                batch = decode_batch(chunk.payload, queue.name.broker_name, light_queue=light_queue)
                is_whole = batch.first_damaged() < 0
            except CorruptRecordError:
                if queue.is_doubted:
                    raise
                is_whole = False
            if not (is_whole or queue.is_doubted):
                queue.is_doubted = True
                self._fetch_anew(queue)
                return None
            queue.is_doubted = False
            batch = _from_offset(batch, queue.position)
            chunk.batches = deque(wanted_runs(batch, queue.subscription))
            chunk.payload = b""
            queue.ready_count += sum(map(len, chunk.batches)) - chunk.count
        if not chunk.batches:
            self._drop_chunk(queue, chunk)
            self._skip_to(queue, chunk.next_offset)
            return None
        batch = chunk.batches.popleft()
        if len(batch) > max_messages:
            chunk.batches.appendleft(batch.slice(max_messages, len(batch)))
            batch = batch.slice(0, max_messages)
        if chunk.batches:
            queue.position = batch.next_offset()
        else:
            self._drop_chunk(queue, chunk)
            queue.position = chunk.next_offset
        return batch

    def _drop_chunk(self, queue: _Queue, chunk: _Chunk) -> None:
        queue.chunks.popleft()
        queue.ready_bytes -= chunk.size_bytes
        self._wanting[queue.name] = None
        if queue.chunks:
            self._ready.move_to_end(queue.name)

    def put_back(self, name: MessageQueue, batch: MessageBatch, *, settled: int | None) -> None:
        """Messages that were taken but not passed on; they come first again, and `position` moves back to them. The second
        time nothing happens.

        `settled`: the offset of the last message that was passed on; those before it were handled.
        """
        queue = self._queues.get(name)
        if queue is None:
            return
        if settled is not None:
            queue.settled = settled
        if not len(batch) or queue.position <= batch[0].queue_offset:
            return
        if not queue.is_paused:
            self._ready[name] = None
            self._ready.move_to_end(name, last=False)
        begin, chunk = batch[0].queue_offset, _Chunk(b"", queue.position, batch.size_bytes, len(batch), deque((batch,)))
        chunks = deque((chunk, *queue.chunks))
        # Nothing is called from here on.
        queue.chunks = chunks
        queue.ready_bytes += chunk.size_bytes
        queue.ready_count += chunk.count
        queue.position = begin

    def abandon_pulls(self, until_ms: int) -> None:
        """Pulls sent up to then will get no answer: they are sent again, and a late answer is
        ignored."""
        for queue in self._queues.values():
            if queue.in_flight and queue.pulled_ms <= until_ms:
                self._generation += 1
                queue.generation = self._generation
                queue.in_flight = False
                self._wanting[queue.name] = None

    def go_back(self, name: MessageQueue, offset: int) -> None:
        """Messages from `offset` on were taken, at least in part, and reached nobody: they are pulled again."""
        queue = self._queues.get(name)
        if queue is not None:
            queue.position = offset
            queue.settled = min(queue.settled, offset)
            self._fetch_anew(queue)

    def settle(self) -> None:
        """The caller polled again: it has handled what it got last."""
        if self._handed is not None:
            self._handed.settled = self._handed.position
            self._handed = None

    def settle_all(self, *, but: MessageQueue | None) -> None:
        """The caller has handled everything it got. `but`: a queue that it gets message by message."""
        for queue in self._queues.values():
            if queue.name != but:
                queue.settled = queue.position

    # ---- positions

    def position(self, name: MessageQueue) -> QueueOffset | None:
        """The next offset to deliver; None for a queue that is not assigned."""
        queue = self._queues.get(name)
        return None if queue is None else QueueOffset(queue.position)

    def seek(self, name: MessageQueue, offset: int) -> bool:
        """Continues at `offset`; what was prefetched is dropped. False for a queue that is not assigned."""
        queue = self._queues.get(name)
        if queue is None:
            return False
        self._seeks += 1
        queue.sought = self._seeks
        self._go_on_at(queue, offset)
        return True

    def move(self, name: MessageQueue, offset: int) -> bool:
        """An operator moved the group to `offset`, which begins the era in `name`. False for a queue that is not
        assigned, or is already of that era.
        """
        queue = self._queues.get(name)
        if queue is None or queue.name.era >= name.era:
            return False
        for names in (self._queues, self._wanting, self._ready):
            names.pop(name, None)  # those that arrive are of the new era
        queue.name = replace(queue.name, era=name.era)
        self._queues[queue.name] = queue
        queue.committed, queue.sought = offset, 0
        self._go_on_at(queue, offset)
        return True

    def _go_on_at(self, queue: _Queue, offset: int) -> None:
        queue.position = queue.settled = offset
        self._fetch_anew(queue)
        if self._handed is queue:
            self._handed = None

    def resubscribe(self, name: MessageQueue, subscription: Subscription) -> None:
        """The subscription of an assigned queue changed, from its position on; what was prefetched is dropped."""
        queue = self._queues[name]
        if queue.subscription != subscription:
            queue.subscription = subscription
            self._fetch_anew(queue)

    def _fetch_anew(self, queue: _Queue) -> None:
        """Pulls again from its position on; an answer in flight is ignored."""
        self._wanting[queue.name] = None
        chunks: deque[_Chunk] = deque()
        # Nothing is called from here on.
        self._generation += 1
        queue.generation = self._generation
        queue.next_pull = queue.position
        queue.chunks = chunks
        queue.ready_bytes = queue.ready_count = 0
        queue.in_flight = False
        queue.not_before_ms = 0
        self._ready.pop(queue.name, None)

    def pause(self, names: Iterable[MessageQueue]) -> None:
        """Delivers nothing of these queues; what is prefetched stays."""
        for name in names:
            queue = self._queues.get(name)
            if queue is not None:
                queue.is_paused = True
                self._ready.pop(name, None)

    def resume(self, names: Iterable[MessageQueue]) -> None:
        """Ends `pause`."""
        for name in names:
            queue = self._queues.get(name)
            if queue is not None and queue.is_paused:
                self._wanting[name] = None
                if queue.chunks:
                    self._ready[name] = None
                queue.is_paused = False

    def hold(self, name: MessageQueue) -> None:
        """Sends no further pulls to a queue until `release`; ready messages are still delivered."""
        self._queues[name].is_held = True

    def release(self, name: MessageQueue) -> None:
        """Ends `hold`."""
        self._queues[name].is_held = False
        self._wanting[name] = None

    def fetched(self, name: MessageQueue) -> tuple[int, int, int]:
        """(messages ready, their bytes, the offset that is pulled next) of a queue."""
        queue = self._queues[name]
        return queue.ready_count, queue.ready_bytes, queue.next_pull

    def uncommitted(self, *, handed: bool) -> dict[MessageQueue, int]:
        """The offsets to commit: with `handed` all delivered messages, otherwise only settled ones."""
        return {
            queue.name: offset
            for queue in self._queues.values()
            if (offset := queue.position if handed else queue.settled) != queue.committed
        }

    def sought(self) -> dict[MessageQueue, int]:
        """{queue whose seek is not committed yet: the number of the seek}."""
        return {queue.name: queue.sought for queue in self._queues.values() if queue.sought}

    def on_committed(
        self, offsets: Iterable[tuple[MessageQueue, int]], sought: Mapping[MessageQueue, int] = _NONE
    ) -> None:
        """The broker has committed these. `sought`: as it was when they were sent."""
        for name, offset in offsets:
            queue = self._queues.get(name)
            if queue is None or queue.name.era != name.era:
                continue
            queue.committed = offset
            if queue.sought == sought.get(name, 0):
                queue.sought = 0


def wanted_runs(batch: MessageBatch, subscription: Subscription) -> list[MessageBatch]:
    """The parts of a batch whose tags really match: the broker compares hashes only, and hashes collide."""
    if not subscription.tags:
        return [batch] if len(batch) else []
    runs = []
    begin = None
    for index, message in enumerate(batch):
        if subscription.accepts(message.tags):
            begin = index if begin is None else begin
        elif begin is not None:
            runs.append(batch.slice(begin, index))
            begin = None
    if begin is not None:
        runs.append(batch.slice(begin, len(batch)))
    return runs


def _from_offset(batch: MessageBatch, position: int) -> MessageBatch:
    """The messages from `position` on: of a batch queue a pull gives whole batches."""
    if not len(batch) or batch[0].queue_offset >= position:
        return batch
    return batch.slice(
        bisect_left(range(len(batch)), position, key=lambda index: batch[index].queue_offset), len(batch)
    )
