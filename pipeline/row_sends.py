"""How a task's rows get into queues: at least once, or once by name and number (dedup). One thread each, which may block.

Several requests are under way at a time (send_lanes), those of one queue one after another.

At least once they go the roads of a producer: rows without a message group to any broker that is well, a group's rows to
the group's own queue. For dedup each task of a query is a producer by name, `spark/<who>/<task>`, and its rows are numbered
in each queue, by the batch's number and their own place: what a broker has seen under that name and number it stores no
second time. So the queue of a row must be the same each time: see row_shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from ..client.accumulators import new_accumulator
from ..client.connection import Connection
from ..client.destinations import Destinations
from ..client.latency_fault import LatencyFault, latency_table
from ..client.outgoing import check_send_topic
from ..client.pipeline_calls import PipelineCalls
from ..client.queue_choice import shard_layout
from ..client.ready_batch import ReadyBatches
from ..client.retry import RetryPolicy
from ..client.sequenced_sends import SequencedSends
from ..client.waited_send import WaitedSends
from ..client.waiting import Blocking, run_blocking
from ..model.errors import BatchOutdated, NoRoute
from ..model.queue import MessageQueue
from ..model.route import TopicRoute
from ..store.record_kernel import Accumulator
from .arrow_records import Rows
from .row_shares import parse_pinned, pinned_queue, pinned_text
from .send_lanes import LANES, TaskLanes

GROUP: Final = "spark-zenit-sink"  # the producer group that brokers see
LATENCY_FAULT: Final = "rocketmq-5"
BUFFER_BYTES: Final = 1024 * 1024  # takes a request of arrow_records.REQUEST_BYTES
GROUPS_MAX: Final = 65_536  # whose queue is remembered
BATCH_SHIFT: Final = 32  # a sequence is (batch id << 32) + n-th row of the task in the queue


class RowSends(Protocol):
    """One task's way into the cluster. `lanes`: what is under way; `finish` them, or `abandon` them after an error."""

    lanes: TaskLanes

    def destination(self, topic: str, group: str | None, block: int) -> MessageQueue | None:
        """See row_shares. Raises TopicNotFound, NoRoute, and what kept the question from being answered."""

    def send(self, topic: str, queue: MessageQueue | None, rows: Rows, picks: Sequence[int]) -> None:
        """These rows are stored as durably as the cluster promises once the lanes have finished. Raises what the last try of
        some rows ended with."""


class TaskDestinations(Destinations):
    """Where rows of one task go: a message group keeps the queue that it had at first, so that its rows may be put together
    with those of other groups of that queue."""

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
        self._sends = WaitedSends(
            connection,
            self._waits,
            self._destinations,
            ReadyBatches(self._new_accumulator, keep=False, buffer_bytes=BUFFER_BYTES),
            group=GROUP,
            fault=fault,
            retry=RetryPolicy(),
        )

    def destination(self, topic: str, group: str | None, block: int) -> MessageQueue | None:  # noqa: ARG002  # any queue
        """The group's queue, as it was when the task first wrote of it; any queue where there is no group."""
        if group is None or self._by_row:
            return None
        routes = self._connection.routes
        if routes.cached(topic) is None:
            run_blocking(routes.served_route(check_send_topic(topic), self._waits, timeout_ms=self._total_ms))
        return self._destinations.sharded_queue(topic, group)

    def send(self, topic: str, queue: MessageQueue | None, rows: Rows, picks: Sequence[int]) -> None:
        """See `RowSends`."""
        group = None if queue is None else rows.group(picks[0])  # by which the queue is found again

        def request() -> int:
            run_blocking(self._sends.send(topic, rows.fill(picks), group, self._total_ms, waits=rows.waits(picks)))
            return 0

        if queue is not None:
            self.lanes.add(self._lane_of.setdefault(queue, len(self._lane_of)), request)
        elif has_one_queue(self._connection.routes.cached(topic)):
            self.lanes.add(0, request)
        else:  # any broker, in any order
            self._turn += 1
            self.lanes.add(self._turn, request)

    def _new_accumulator(self, topic: str, capacity: int) -> Accumulator:
        return new_accumulator(self._connection, topic, capacity, _address(self._connection, topic))


class PinnedSends:
    """Once: what was stored under this task's name and number is not stored again."""

    def __init__(
        self,
        connection: Connection,
        *,
        identity: str,
        partition_id: int,
        batch_id: int,
        total_ms: int,
        by_row: bool = False,
    ) -> None:
        """`identity`: of the query. `by_row`: message groups have no queue of their own. Raises InvalidParameter."""
        self._by_row = by_row
        self.lanes = TaskLanes()
        self._lane_of: dict[MessageQueue, int] = {}
        self._connection = connection
        self._identity = identity
        self._salt = partition_id + batch_id
        self._batch_id = batch_id
        self._total_ms = total_ms
        name = f"spark/{identity}/{partition_id}"
        self._sends = [SequencedSends(connection, name, group=GROUP, total_ms=total_ms) for _ in range(LANES)]
        self._batches = ReadyBatches(self._new_accumulator, keep=False, buffer_bytes=BUFFER_BYTES)
        self._next: dict[MessageQueue, int] = {}
        self._queues: dict[tuple[str, str], MessageQueue] = {}

    def destination(self, topic: str, group: str | None, block: int) -> MessageQueue | None:
        """A queue that was pinned when the query first wrote to the topic."""
        if group is None or self._by_row:
            return pinned_queue(self._pinned(topic), None, self._salt, block)
        queue = self._queues.get((topic, group))
        if queue is None:
            if len(self._queues) >= GROUPS_MAX:
                self._queues.clear()
            queue = self._queues[topic, group] = pinned_queue(self._pinned(topic), group, 0, 0)
        return queue

    def send(self, topic: str, queue: MessageQueue | None, rows: Rows, picks: Sequence[int]) -> None:
        """See `RowSends`."""
        assert queue is not None
        first = self._next.get(queue, self._batch_id << BATCH_SHIFT)
        self._next[queue] = first + len(picks)
        lane = self._lane_of.setdefault(queue, len(self._lane_of) % LANES)

        def request() -> int:
            batch = self._batches.make(topic, rows.fill(picks))
            result = self._sends[lane].send(queue, batch.payload(), batch.count, first)
            known = result.known_sequence >> BATCH_SHIFT
            if known > self._batch_id:
                raise BatchOutdated(self._identity, self._batch_id, known)
            return result.duplicate_messages

        self.lanes.add(lane, request)

    def _pinned(self, topic: str) -> tuple[MessageQueue, ...]:
        return pinned_queues(self._connection, self._identity, topic, self._total_ms)

    def _new_accumulator(self, topic: str, capacity: int) -> Accumulator:
        address = _address(self._connection, topic)
        return new_accumulator(self._connection, topic, capacity, address, own_properties=self._sends[0].room)


@lru_cache(maxsize=1024)
def pinned_queues(connection: Connection, identity: str, topic: str, total_ms: int) -> tuple[MessageQueue, ...]:
    """The queues that a query writes to: those that the topic had when it first did. Raises TopicNotFound, NoRoute.

    They never change, so a process asks once.
    """
    waits = Blocking(connection.remoting)
    route = run_blocking(connection.routes.refresh(check_send_topic(topic), waits, timeout_ms=total_ms))
    layout = shard_layout(route)
    if not layout:
        raise NoRoute(topic, "no queue takes messages")
    calls = PipelineCalls(connection, timeout_ms=total_ms)
    return parse_pinned(topic, calls.keep_query_offsets(pin_name(identity, topic), pinned_text(layout)))


def pin_name(identity: str, topic: str) -> str:
    """The name under which the queues are kept (zenit query-offsets list)."""
    return f"{identity}/sink/{topic}"


def has_one_queue(route: TopicRoute | None) -> bool:
    """Whether a topic's rows have an order even without message groups: it has one queue, as far as is known."""
    return route is None or sum(data.write_queues for data in route.queues) < 2


def _address(connection: Connection, topic: str) -> str | None:
    """A broker that serves the topic, by which a record's host fields are told apart in size."""
    route = connection.routes.cached(topic)
    return next((broker.master_address for broker in (route.brokers if route else ()) if broker.master_address), None)
