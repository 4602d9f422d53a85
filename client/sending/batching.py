"""Messages on their way into batches: one lane per topic (or per queue, if order matters), one accumulator per lane.

An accumulator is filled without a lock: each append is one compiled call, and so is the swap that ends a batch. The free
buffer is taken before the swap, never between reading the old buffer and installing the new one. A lane is *open* while its
batch has a born time and will be shipped: by the caller that finds it full, or by the I/O thread when the linger ends. The
linger begins with the batch, so never later than with its first message.

A signal handler may raise after any call, and at the jump back of a loop; CPython runs none in between. So an atomic
sequence is written without a call in it, or is one compiled call.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...model.clock import monotonic_ns
from ...model.errors import ZenitError
from ...model.queue import MessageQueue
from ...model.route import TopicRoute
from ...record.kernel import Accumulator, batch_sizes, wrap_batch
from ..connection.argument_checks import check_count
from ..connection.unique_ids import BornTime
from .attempts import SendAttempt, SendAttempts
from .delayed_send import Answer
from .send_future import BatchOutcome, SealedFacts
from .target import Priority

Watcher = Callable[[ZenitError | None], None]
"""Called once the batch is answered: with None, or with the error if it failed for good. In any thread; must not block."""

Swapped = tuple[bytearray, int, int, int, int, int]
"""(buffer, used, count, born ms, ms since the month began, first counter), as `Accumulator.swap` returns it."""

Result = tuple[MessageQueue | None, Answer | None, ZenitError | None]
"""(queue, reply, None) of a stored batch, (queue, None, error) of a failed one."""

BATCH_BYTES: Final = 256 * 1024
LINGER_MS: Final = 1
WINDOW_BATCHES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundLimits:
    """The background settings of Producer, which documents them; `batch_ms`: a batch's time over all tries.

    Raises InvalidParameter.
    """

    linger_ms: int
    batch_bytes: int
    window_batches: int
    batch_ms: int

    def __post_init__(self) -> None:
        check_count("linger_ms", self.linger_ms, 0, 10_000)
        check_count("batch_bytes", self.batch_bytes, 4096, 4 * 1024 * 1024)
        check_count("window_batches", self.window_batches, 1, 64)


@dataclass(frozen=True, slots=True, eq=False)
class RetryPause:
    """Between two tries of a batch. `failure`: of the last one; `route`: by which it went."""

    failure: ZenitError
    route: TopicRoute | None


class Sealed:
    """A batch that takes no more messages, with its buffer, until it is answered. Owned by the batch sender."""

    __slots__ = (
        "attempt",
        "before_route",
        "buffer",
        "count",
        "deadline_ms",
        "due_ms",
        "is_counted",
        "is_reported",
        "is_settled",
        "lane",
        "outcome",
        "pause",
        "queue",
        "record",
        "result",
        "sent_ms",
        "serial",
        "tries",
        "used",
        "watchers",
    )

    def __init__(
        self,
        lane: SendLane,
        buffer: bytearray,
        *,
        used: int,
        count: int,
        attempt: SendAttempt,
        outcome: BatchOutcome | None,
        watchers: tuple[Watcher, ...],
        deadline_ms: int,
        record: bytes | None = None,
    ) -> None:
        """`record`: all messages as one, for a topic that takes batches so."""
        self.record = record
        self.watchers = watchers
        self.lane = lane
        self.buffer = buffer
        self.used = used
        self.count = count
        self.attempt = attempt
        self.outcome = outcome
        self.deadline_ms = deadline_ms
        self.queue: MessageQueue | None = None
        self.tries = 0
        self.before_route = 0  # tries by an earlier route
        self.pause: RetryPause | None = None  # until its next try
        self.serial = 0
        self.sent_ms = 0
        self.due_ms = deadline_ms  # `look_after` acts if the batch's next step is not done by then
        self.is_settled = False
        self.result: Result = (None, None, None)  # set when it is settled
        self.is_counted = False  # as failed, for the next flush
        self.is_reported = False  # to `on_error`

    def payload(self) -> memoryview:
        """The records."""
        return memoryview(self.buffer)[: self.used] if self.record is None else memoryview(self.record)


class BufferPool:
    """Buffers of one size, reused after their batch is answered. Any thread may call."""

    __slots__ = ("_free", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._free: deque[bytearray] = deque(maxlen=64)

    def take(self) -> bytearray:
        """A free buffer, or a new one; the batch sender's window limits their number."""
        try:
            return self._free.pop()
        except IndexError:
            return bytearray(self.size_bytes)

    def give_back(self, buffer: bytearray) -> None:
        """Takes back the buffer of an answered batch. One of another size (for a message larger than a batch) is dropped."""
        if len(buffer) == self.size_bytes:
            self._free.append(buffer)


class SendLane:
    """One topic's growing batch. `lock` is held while it is opened, sealed and sent, and by appends that want a future."""

    __slots__ = (
        "_born",
        "_with_outcome",
        "accumulator",
        "begun_ns",
        "delayed",
        "in_flight",
        "is_open",
        "lock",
        "outcome",
        "priority",
        "serial",
        "shard",
        "swapped",
        "swapped_outcome",
        "swapped_watchers",
        "topic",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        accumulator: Accumulator,
        *,
        with_outcome: bool,
        shard: MessageQueue | None = None,
        priority: Priority | None = None,
        delayed: bool = False,
    ) -> None:
        """`with_outcome`: its messages have futures. `shard`: the only queue for its batches, one at a time.

        `priority`: of all of them. `delayed`: its messages are to be delivered later.
        """
        self.topic = topic
        self.accumulator = accumulator
        self.shard = shard
        self.priority = priority
        self.delayed = delayed
        self.lock = threading.Lock()
        self.is_open = False
        self.begun_ns = 0
        self.serial = 0
        self.in_flight = 0
        self._born = BornTime()
        self._with_outcome = with_outcome
        self.outcome = BatchOutcome()
        self.watchers: tuple[Watcher, ...] = ()
        self.swapped: list[Swapped] = []  # at most one batch that has ended and is not sealed yet
        self.swapped_outcome: BatchOutcome | None = None  # of that batch, as is the next
        self.swapped_watchers: tuple[Watcher, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no message waits here."""
        return not (self.accumulator.count or self.swapped)

    @property
    def needs_open(self) -> bool:
        """Whether `open` must come before the next message."""
        return not self.is_open or (bool(self.swapped) and self.swapped_watchers is None)

    @property
    def waiting_messages(self) -> int:
        """How many messages wait here."""
        return int(self.accumulator.count) + sum(swapped[2] for swapped in self.swapped)

    def open(self) -> None:
        """Begins a batch now. Under `lock`."""
        self._part_from_swapped()
        self.accumulator.begin(*self._born.read())
        self.begun_ns = monotonic_ns()
        self.is_open = True

    def linger_left_ms(self, linger_ms: int) -> float:
        """How long the batch may still wait."""
        return linger_ms - (monotonic_ns() - self.begun_ns) / 1_000_000

    def seal(self, free: bytearray, deadline_ms: int, attempts: SendAttempts, wrap_over: int | None = None) -> Sealed:
        """Ends the batch and begins the next in `free`. `wrap_over`: as `SendContext.wrap_over`. Under `lock`.

        The batch stays in `swapped` until its sender empties that: an interruption in between loses nothing, because the
        next call seals the same batch. A batch that was left there is sealed before the one that grows now.
        """
        if not self.swapped:
            swapped: list[Swapped] = []
            self.swapped = swapped
            # In one step: no signal handler can run between the two.
            swapped.extend(map(self.accumulator.swap, (free,)))
        if self.needs_open:
            self.open()
        buffer, used, count, _born_ms, month_ms, first_counter = self.swapped[0]
        outcome = self.swapped_outcome if self._with_outcome else None
        if outcome is not None:
            sizes = batch_sizes(buffer, used) if wrap_over is None else [0] * count  # in one record they have one place
            outcome.facts = SealedFacts(self.accumulator.id_prefix, month_ms, first_counter, sizes)
        return Sealed(
            self,
            buffer,
            used=used,
            count=count,
            attempt=attempts.begin(count, partial(batch_sizes, buffer, used)),
            outcome=outcome,
            watchers=self.swapped_watchers or (),
            deadline_ms=deadline_ms,
            record=None if wrap_over is None else wrap_batch(buffer, used, wrap_over),
        )

    def _part_from_swapped(self) -> None:
        """Lets later messages belong to another batch than the one that has ended."""
        fresh = BatchOutcome() if self._with_outcome else self.outcome
        if self.swapped and self.swapped_watchers is None:
            self.swapped_outcome, self.swapped_watchers = self.outcome, self.watchers
            self.outcome, self.watchers = fresh, ()
            self.is_open = False
