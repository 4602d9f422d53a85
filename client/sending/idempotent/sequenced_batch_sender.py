"""Background batches of an idempotent producer: one a queue, tried there until it is stored once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ....model.errors import ZenitError
from ....model.queue import MessageQueue
from ....record.kernel import batch_sizes
from ....remoting.commands import Reply, RequestFor
from ...connection.connection import Connection
from ...connection.retry import RetryPolicy
from ...connection.waiting import Waits
from ...tracing.trace import TraceRecorder
from ..batch_sender import WINDOW_BATCHES, BatchSender
from ..batching import BufferPool, Sealed, SendLane
from ..delayed_send import Answer, answer_of
from ..destinations import Destinations
from ..latency_fault import LatencyFault
from .queue_streams import QueueStreams, new_producer_id
from .sequencing import SequencedBatch


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
        streams.watch(self._on_queue_free)

    # ---- places in the window: a queue that is taken is part of them

    def _choose(self, lane: SendLane) -> MessageQueue | None:
        if lane.shard is not None:
            shard = super()._choose(lane)
            return None if shard is None or self._streams.is_taken(shard) else shard
        for queue in self._destinations.queues_in_turn(lane.topic, has_room=self._has_room):
            if self._has_room(queue.broker_name) and not self._streams.is_taken(queue):
                return queue
        return None

    def _take(self, sealed: Sealed, queue: MessageQueue | None) -> bool:
        batch = sealed.batch = SequencedBatch(sealed.count, partial(batch_sizes, sealed.buffer, sealed.used))
        return queue is None or self._streams.take(queue, batch)

    def _on_queue_free(self) -> None:
        with self._lock:
            self._changed.set_all()

    def look_after(self) -> None:
        """As the base has it; queues of batches that are gone are free again."""
        self._streams.look_after()
        super().look_after()

    # ---- one try

    def _send(self, sealed: Sealed, serial: int, queue: MessageQueue) -> None:
        batch = _batch_of(sealed)
        if batch.result is None:
            super()._send(sealed, serial, queue)
        else:  # stored, and whoever learned of it was interrupted
            self._settle(sealed, serial, queue, batch.result, None)

    def _request_of(self, sealed: Sealed, serial: int, queue: MessageQueue) -> tuple[RequestFor[Reply], memoryview]:  # noqa: ARG002
        batch = _batch_of(sealed)
        part, payload = batch.part_bytes(), sealed.payload()
        request = batch.request(self._group, delayed=sealed.lane.delayed)
        return request, payload if part is None else payload[part[0] : part[1]]

    def _answer_of(self, sealed: Sealed, serial: int, reply: Reply | None, payload: bytes) -> Answer:  # noqa: ARG002
        return answer_of(reply, payload, _batch_of(sealed).part_count)

    def _on_stored(self, sealed: Sealed, serial: int, queue: MessageQueue, answer: Answer) -> None:
        if sealed.is_settled:
            return
        whole = _batch_of(sealed).on_answer(answer)
        if whole is not None:
            super()._on_stored(sealed, serial, queue, whole)
        else:
            self._go_on(sealed, serial, queue)

    def _on_failure(self, sealed: Sealed, serial: int, queue: MessageQueue, failure: ZenitError) -> None:
        batch = _batch_of(sealed)
        if sealed.is_settled or (batch.result is None and not batch.on_error(failure, new_producer_id)):
            super()._on_failure(sealed, serial, queue, failure)
        else:
            self._go_on(sealed, serial, queue)

    def _go_on(self, sealed: Sealed, serial: int, queue: MessageQueue) -> None:
        """There is more to ask of the same queue; not from within an answer, which a thread may hold a lock for."""
        self._connection.run_soon(partial(self._send, sealed, serial, queue))

    def _has_elsewhere(self, sealed: Sealed, serial: int, queue: MessageQueue) -> bool:
        return not _batch_of(sealed).in_doubt and super()._has_elsewhere(sealed, serial, queue)

    def _next_queue(self, sealed: Sealed, serial: int, last: MessageQueue) -> MessageQueue:  # noqa: ARG002
        """Another one only while nothing is in doubt, and only one that is free. Raises NoRoute."""
        batch = _batch_of(sealed)
        if sealed.lane.shard is not None or batch.in_doubt:
            return last
        for queue in self._destinations.queues_in_turn(last.topic, avoid=last.broker_name):
            if self._streams.move(batch, queue):
                return queue
        return last

    # ---- the end

    def _settle(
        self, sealed: Sealed, serial: int, queue: MessageQueue | None, reply: Answer | None, error: ZenitError | None
    ) -> bool:
        if error is not None:
            error = _batch_of(sealed).failure(error)
        return super()._settle(sealed, serial, queue, reply, error)

    def _drop(self, sealed: Sealed, serial: int) -> None:
        self._streams.give_back(_batch_of(sealed))
        super()._drop(sealed, serial)


def _batch_of(sealed: Sealed) -> SequencedBatch:
    assert sealed.batch is not None
    return sealed.batch
