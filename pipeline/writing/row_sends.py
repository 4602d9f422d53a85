"""Sends a task's rows: at least once, or once by name and number (dedup). Each object has one thread, which may block.

Several requests are in flight at a time (send_lanes), those of one queue one after another.

For at-least-once, rows go the way of a producer: those without a message group to any healthy broker, a group's rows to the
group's own queue. For dedup each task of a query is a named producer, `spark/<who>/<task>`, and its rows are numbered in
each queue, by the batch's number and their own index. A broker stores nothing twice under one name and number. So the queue
of a row must be the same at each attempt: see row_shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ...client.connection.connection import Connection
from ...client.connection.retry import RetryPolicy
from ...client.connection.waiting import Blocking, run_blocking
from ...client.sending.accumulators import topic_accumulator
from ...client.sending.attempts import PlainAttempts
from ...client.sending.destinations import Destinations
from ...client.sending.idempotent.sequenced_sends import SequencedSends
from ...client.sending.latency_fault import LatencyFault, latency_table
from ...client.sending.outgoing import COMPRESS_OVER_BYTES, check_send_topic
from ...client.sending.ready_batch import ReadyBatches
from ...client.sending.send_context import SendContext
from ...client.sending.waited_send import WaitedSends
from ...model.errors import BatchChanged, BatchOutdated
from ...model.queue import MessageQueue
from ...model.route import TopicRoute
from ...record.kernel import Accumulator
from ..options.options import WriteOptions
from .arrow_records import ArrowRows
from .batch_pins import Pin
from .row_shares import pinned_queue
from .send_lanes import LANES, TaskLanes
from .written_rows import (
    BATCH_SHIFT,
    DIGEST_BYTES,
    WrittenRows,
    begun_batch,
    finished_batch,
    producer_name,
    record_digests,
    written_rows,
)

GROUP: Final = "spark-zenit-sink"  # the producer group that brokers see
LATENCY_FAULT: Final = "rocketmq-5"
BUFFER_BYTES: Final = 1024 * 1024  # holds a request of arrow_records.REQUEST_BYTES
GROUPS_MAX: Final = 65_536  # whose queues are remembered


class RowSends(Protocol):
    """Sends the rows of one task. `lanes`: the requests in flight; `finish` them, or `abandon` them after an error."""

    lanes: TaskLanes

    def destination(self, topic: str, group: str | None, block: int) -> MessageQueue | None:
        """See row_shares. Raises TopicNotFound, NoRoute, and errors of requests."""

    def send(self, topic: str, queue: MessageQueue | None, rows: ArrowRows, picks: Sequence[int]) -> None:
        """Stores these rows, as durably as the cluster promises, by the time the lanes have finished.

        Raises the error of the last try of some rows.
        """


@dataclass(frozen=True, slots=True)
class SinkTask:
    """A task that writes once.

    `identity`: of the query. `attempt`: at its batch, the same in all its tasks. `is_again`: Spark ran the task before.
    `cluster_id`: "" = not known. `finish`: the name of the batch's finish; "" if there is none.
    """

    identity: str
    partition_id: int
    batch_id: int
    attempt: str
    is_again: bool = False
    cluster_id: str = ""
    finish: str = ""


class TaskDestinations(Destinations):
    """Where rows of one task go: a message group keeps its first queue, so that its rows may be batched with those of other
    groups of that queue.
    """

    def __init__(self, connection: Connection, fault: LatencyFault) -> None:
        super().__init__(connection.routes, fault)
        self._of_groups: dict[tuple[str, str], MessageQueue] = {}

    def sharded_queue(self, topic: str, sharding_key: str) -> MessageQueue:
        """See `Destinations`."""
        queue = self._of_groups.get((topic, sharding_key))
        if queue is None:
            if len(self._of_groups) >= GROUPS_MAX:
                self._of_groups.clear()
            queue = self._of_groups[topic, sharding_key] = super().sharded_queue(topic, sharding_key)
        return queue


class LooseSends:
    """At least once."""

    def __init__(self, connection: Connection, *, total_ms: int, by_row: bool = False) -> None:
        """`total_ms`: for each send, over all its tries. `by_row`: message groups have no queue of their own."""
        self._by_row = by_row
        self.lanes = TaskLanes()
        self._lane_of: dict[MessageQueue, int] = {}
        self._turn = 0
        self._connection = connection
        self._waits = Blocking(connection.remoting)
        self._total_ms = total_ms
        fault = LatencyFault(latency_table(LATENCY_FAULT))
        self._destinations = TaskDestinations(connection, fault)
        context = SendContext(
            connection=connection,
            waits=self._waits,
            group=GROUP,
            destinations=self._destinations,
            fault=fault,
            retry=RetryPolicy(),
            attempts=PlainAttempts(),
            compress_over=COMPRESS_OVER_BYTES,
        )
        batches = ReadyBatches(context.new_accumulator, keep=False, buffer_bytes=BUFFER_BYTES)
        self._sends = WaitedSends(context, batches)

    def destination(self, topic: str, group: str | None, block: int) -> MessageQueue | None:  # noqa: ARG002  # any queue
        """The group's queue, as at the task's first write to it; None (any queue) if there is no group."""
        if group is None or self._by_row:
            return None
        routes = self._connection.routes
        if routes.cached(topic) is None:
            run_blocking(routes.served_route(check_send_topic(topic), self._waits, timeout_ms=self._total_ms))
        return self._destinations.sharded_queue(topic, group)

    def send(self, topic: str, queue: MessageQueue | None, rows: ArrowRows, picks: Sequence[int]) -> None:
        """See `RowSends`."""
        group = None if queue is None else rows.group(picks[0])  # identifies the queue again

        def request() -> int:
            run_blocking(self._sends.send(topic, rows.fill(picks), group, self._total_ms, delayed=rows.waits(picks)))
            return 0

        if queue is not None:
            self.lanes.add(self._lane_of.setdefault(queue, len(self._lane_of)), request)
        elif has_one_queue(self._connection.routes.cached(topic)):
            self.lanes.add(0, request)
        else:  # any broker, in any order
            self._turn += 1
            self.lanes.add(self._turn, request)


class PinnedSends:
    """Once: rows stored under this task's name and number are not stored again.

    A number alone proves nothing: a repeated batch may have other rows. So if there is a sign that rows of it may be stored
    (an earlier attempt began the batch, the task was tried before, a broker knows a number), those are read back and
    compared before anything is written behind them. Nothing more is written of a batch that was completely written.
    """

    def __init__(self, connection: Connection, options: WriteOptions, task: SinkTask) -> None:
        """Raises InvalidParameter."""
        self.lanes = TaskLanes()
        self._lane_of: dict[MessageQueue, int] = {}
        self._connection = connection
        self._options = options
        self.task = task
        self._by_row = options.route_by == "row"
        self._salt = task.partition_id + task.batch_id
        name = producer_name(task.identity, task.partition_id)
        self._sends = [
            SequencedSends(connection, name, group=GROUP, total_ms=options.request_timeout_ms) for _ in range(LANES)
        ]
        self._batches = ReadyBatches(self._new_accumulator, keep=False, buffer_bytes=BUFFER_BYTES)
        self._next: dict[MessageQueue, int] = {}
        self._queues: dict[tuple[str, str], MessageQueue] = {}
        self._pins: dict[str, Pin] = {}
        self._rows_there: dict[str, WrittenRows] = {}  # by topic; the process remembers fewer
        self._looked: set[MessageQueue] = set()
        self._is_finished = False
        self._came_again = task.is_again

    @property
    def came_again(self) -> bool:
        """Whether rows of the batch may have been stored before."""
        return self._came_again or any(pin.attempt != self.task.attempt for pin in self._pins.values())

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the task's rows."""
        return tuple(self._pins)

    def destination(self, topic: str, group: str | None, block: int) -> MessageQueue | None:
        """A queue that was pinned when the query first wrote to the topic."""
        if group is None or self._by_row:
            return pinned_queue(self._pin(topic).queues, None, self._salt, block)
        queue = self._queues.get((topic, group))
        if queue is None:
            if len(self._queues) >= GROUPS_MAX:
                self._queues.clear()
            queue = self._queues[topic, group] = pinned_queue(self._pin(topic).queues, group, 0, 0)
        return queue

    def send(self, topic: str, queue: MessageQueue | None, rows: ArrowRows, picks: Sequence[int]) -> None:  # noqa: ARG002  # the queue's
        """See `RowSends`. Also raises BatchChanged, BatchOutdated."""
        assert queue is not None
        first = self._next.get(queue, 0)
        self._next[queue] = first + len(picks)
        lane = self._lane_of.setdefault(queue, len(self._lane_of) % LANES)
        self.lanes.add(lane, lambda: self._send(lane, queue, rows, picks, first))

    def _send(self, lane: int, queue: MessageQueue, rows: ArrowRows, picks: Sequence[int], first: int) -> int:
        """Runs in the queue's lane.

        These rows are the task's rows from index `first` on in the queue. Returns how many were stored before.
        """
        task = self.task
        known = min(len(picks), self._written(queue, first)) if self._is_doubtful(queue) else 0
        if known:
            self._check_same(queue, rows, picks[:known], first)
        if known == len(picks):
            return known
        if self._is_finished:
            reason = f"it was written whole, and task {task.partition_id} has more rows for {queue} now"
            raise BatchChanged(task.identity, task.batch_id, reason)
        batch = self._batches.make(queue.topic, rows.fill(picks[known:]))
        sequence = (task.batch_id << BATCH_SHIFT) + first + known
        result = self._sends[lane].send(queue, batch.payload(), batch.count, sequence)
        later = result.known_sequence >> BATCH_SHIFT
        if later > task.batch_id:
            raise BatchOutdated(task.identity, task.batch_id, later)
        found = result.duplicate_messages
        if found:
            self._came_again = True
            self._looked.discard(queue)
            if self._written(queue, first + known) < found:
                raise BatchChanged(task.identity, task.batch_id, f"{queue} lacks rows that its broker remembers")
            self._check_same(queue, rows, picks[known : known + found], first + known)
        return known + found

    def _is_doubtful(self, queue: MessageQueue) -> bool:
        return self._came_again or self._pins[queue.topic].attempt != self.task.attempt

    def _written(self, queue: MessageQueue, first: int) -> int:
        """How many of the task's rows are in the queue from index `first` on; looked up once."""
        written = self._written_in(queue.topic)
        if queue not in self._looked:
            self._looked.add(queue)
            written.look()
        return max(0, len(written.digests(queue, self.task.partition_id)) // DIGEST_BYTES - first)

    def _check_same(self, queue: MessageQueue, rows: ArrowRows, picks: Sequence[int], first: int) -> None:
        task = self.task
        there = self._written_in(queue.topic).digests(queue, task.partition_id)[first * DIGEST_BYTES :]
        digests = record_digests(bytes(self._batches.make(queue.topic, rows.fill(picks)).payload()))
        if not there.startswith(digests):
            reason = f"of task {task.partition_id} in {queue}, among rows {first} to {first + len(picks) - 1}"
            raise BatchChanged(task.identity, task.batch_id, reason)

    def _written_in(self, topic: str) -> WrittenRows:
        task, pin = self.task, self._pins[topic]
        there = self._rows_there.get(topic)
        if there is None:
            there = written_rows(self._options, topic, task.cluster_id, task.identity, task.batch_id, pin)
        return self._rows_there.setdefault(topic, there)

    def _pin(self, topic: str) -> Pin:
        pin = self._pins.get(topic)
        if pin is None:
            task = self.task
            if not self._pins and task.finish:
                self._ask_whether_finished()
            pin = self._pins[topic] = begun_batch(
                self._connection,
                self._options,
                task.cluster_id,
                identity=task.identity,
                topic=check_send_topic(topic),
                batch_id=task.batch_id,
                attempt=task.attempt,
            )
        return pin

    def _ask_whether_finished(self) -> None:
        task = self.task
        finish = finished_batch(
            self._connection,
            task.finish,
            identity=task.identity,
            batch_id=task.batch_id,
            attempt=task.attempt,
            timeout_ms=self._options.request_timeout_ms,
        )
        self._is_finished = finish.batch == task.batch_id
        self._came_again |= self._is_finished

    def _new_accumulator(self, topic: str, capacity: int) -> Accumulator:
        return topic_accumulator(self._connection, topic, capacity, self._sends[0].room)


def has_one_queue(route: TopicRoute | None) -> bool:
    """Whether a topic's rows have an order even without message groups: it has one queue, as far as is known."""
    return route is None or sum(data.write_queues for data in route.queues) < 2
