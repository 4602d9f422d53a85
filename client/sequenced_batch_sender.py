"""Background batches of an idempotent producer: one a queue, tried there until it is stored once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..model.errors import ZenitError
from ..model.queue import MessageQueue
from ..remoting.commands import Reply, Request
from ..store.record_kernel import batch_sizes
from .batch_sender import WINDOW_BATCHES, BatchSender
from .batching import BufferPool, Lane, Sealed
from .connection import Connection
from .delayed_send import Answer, answer_of
from .destinations import Destinations
from .latency_fault import LatencyFault
from .queue_streams import QueueStreams, new_producer_id
from .retry import RetryPolicy
from .sequencing import SequencedBatch
from .trace import TraceRecorder
from .waiting import Waits


class SequencedBatchSender(BatchSender):
    """Sends the sealed batches of one producer. Any thread may call."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        destinations: Destinations,
        *,
        streams: QueueStreams,
        group: str,
        fault: LatencyFault,
        retry: RetryPolicy,
        pool: BufferPool,
        batch_ms: int,
        on_failed: Callable[[Sealed, ZenitError], None],
        window_batches: int = WINDOW_BATCHES,
        trace: TraceRecorder | None = None,
    ) -> None:
        """As the base has it. `streams`: shared with the producer's other sends."""
        super().__init__(
            connection,
            waits,
            destinations,
            group=group,
            fault=fault,
            retry=retry,
            pool=pool,
            batch_ms=batch_ms,
            on_failed=on_failed,
            window_batches=window_batches,
            trace=trace,
        )
        self._streams = streams
        self._batches: dict[int, SequencedBatch] = {}  # by serial; of those under way
        streams.watch(self._on_queue_free)

    # ---- places in the window: a queue that is taken is part of them

    def _choose(self, lane: Lane) -> MessageQueue | None:
        if lane.shard is not None:
            return lane.shard if self._streams.take(lane.shard) is not None else None
        for queue in self._destinations.queues_in_turn(lane.topic, has_room=self._has_room):
            if self._has_room(queue.broker_name) and self._streams.take(queue) is not None:
                return queue
        return None

    def _on_queue_free(self) -> None:
        with self._lock:
            self._changed.set_all()

    def cancel(self, lane: Lane, queue: MessageQueue) -> None:
        """Gives a reserved place back unused."""
        super().cancel(lane, queue)
        self._streams.give_back(queue, self._streams.taken(queue))

    # ---- one try

    def _request_of(self, sealed: Sealed, serial: int, queue: MessageQueue) -> tuple[Request, memoryview]:
        batch = self._batches.get(serial)
        if batch is None:
            batch = self._batches[serial] = SequencedBatch(
                sealed.count, lambda: batch_sizes(sealed.buffer, sealed.used)
            )
            batch.enter(queue, self._streams.taken(queue))
        part, payload = batch.part_bytes(), sealed.payload()
        request = batch.request(self._group, waits=sealed.lane.waits)
        return request, payload if part is None else payload[part[0] : part[1]]

    def _answer_of(self, sealed: Sealed, serial: int, reply: Reply | None, payload: bytes) -> Answer:  # noqa: ARG002
        return answer_of(reply, payload, self._batches[serial].part_count)

    def _on_stored(self, sealed: Sealed, serial: int, queue: MessageQueue, answer: Answer) -> None:
        if sealed.is_settled:
            return
        whole = self._batches[serial].on_answer(answer)
        if whole is not None:
            super()._on_stored(sealed, serial, queue, whole)
        else:
            self._go_on(sealed, serial, queue)

    def _on_failure(self, sealed: Sealed, serial: int, queue: MessageQueue, failure: ZenitError) -> None:
        batch = self._batches.get(serial)
        if batch is not None and batch.on_error(failure, new_producer_id):
            self._go_on(sealed, serial, queue)
        else:
            super()._on_failure(sealed, serial, queue, failure)

    def _go_on(self, sealed: Sealed, serial: int, queue: MessageQueue) -> None:
        """There is more to ask of the same queue; not from within an answer, which a thread may hold a lock for."""
        self._connection.run_soon(partial(self._send, sealed, serial, queue))

    def _has_elsewhere(self, sealed: Sealed, serial: int, queue: MessageQueue) -> bool:
        batch = self._batches.get(serial)
        return (batch is None or not batch.in_doubt) and super()._has_elsewhere(sealed, serial, queue)

    def _next_queue(self, sealed: Sealed, serial: int, last: MessageQueue) -> MessageQueue:
        """Another one only while nothing is in doubt, and only one that is free. Raises NoRoute."""
        batch = self._batches.get(serial)
        if sealed.lane.shard is not None or (batch is not None and batch.in_doubt):
            return last
        for queue in self._destinations.queues_in_turn(last.topic, avoid=last.broker_name):
            if self._streams.take(queue) is not None:
                self._give_back(serial, last)
                return queue
        return last

    # ---- the end

    def _settle(
        self, sealed: Sealed, serial: int, queue: MessageQueue | None, reply: Answer | None, error: ZenitError | None
    ) -> bool:
        batch = self._batches.get(serial)
        if error is not None and batch is not None:
            error = batch.failure(error)
        if not super()._settle(sealed, serial, queue, reply, error):
            return False
        last = sealed.queue
        if last is not None:
            self._give_back(serial, last)
        return True

    def _give_back(self, serial: int, queue: MessageQueue) -> None:
        batch = self._batches.pop(serial, None)
        left = batch.leave() if batch is not None else None
        self._streams.give_back(*(left or (queue, self._streams.taken(queue))))
