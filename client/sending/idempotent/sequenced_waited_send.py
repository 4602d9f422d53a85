"""Sends of an idempotent producer that their caller waits for: one batch a queue, tried there until it is stored once."""

from __future__ import annotations

from ....model.clock import monotonic_ms
from ....model.errors import RequestTimeout, ZenitError
from ....model.queue import MessageQueue
from ...connection.connection import Connection
from ...connection.retry import RetryPolicy
from ...connection.waiting import Waits
from ...tracing.trace import TraceRecorder
from ..delayed_send import Answer, answer_of
from ..destinations import Destinations
from ..latency_fault import LatencyFault
from ..outgoing import Fill, check_send_topic
from ..ready_batch import ReadyBatch, ReadyBatches
from ..waited_send import WaitedSends
from .queue_streams import QueueStreams, new_producer_id
from .sequencing import SequencedBatch


class SequencedWaitedSends(WaitedSends):
    """One producer's. Any thread may call; each uses its own buffers."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        destinations: Destinations,
        batches: ReadyBatches,
        *,
        streams: QueueStreams,
        group: str,
        fault: LatencyFault,
        retry: RetryPolicy,
        trace: TraceRecorder | None = None,
    ) -> None:
        super().__init__(connection, waits, destinations, batches, group=group, fault=fault, retry=retry, trace=trace)
        self._streams = streams

    async def send(
        self, topic: str, fill: Fill, sharding_key: str | None, total_ms: int, *, delayed: bool = False
    ) -> tuple[ReadyBatch, MessageQueue, Answer]:
        """As the base has it. Raises OutcomeUnknown where the time was over before a broker said what it has."""
        deadline_ms = monotonic_ms() + total_ms
        if self._routes.cached(topic) is None:
            await self._routes.served_route(check_send_topic(topic), self._waits, timeout_ms=total_ms)
        batch = self._batches.make(topic, fill)
        sequenced = SequencedBatch(batch.count, batch.sizes)
        tries = 0
        avoid: str | None = None
        try:
            while True:
                started_ms = monotonic_ms()
                try:
                    if sequenced.queue is None:
                        await self._enter(sequenced, topic, sharding_key, avoid, total_ms, deadline_ms)
                    answer = await self._try(sequenced, batch, total_ms, deadline_ms, delayed=delayed)
                except ZenitError as error:
                    if sequenced.on_error(error, new_producer_id):
                        continue
                    tries += 1
                    avoid = sequenced.queue.broker_name if sequenced.queue is not None else avoid
                    stays = sequenced.in_doubt or sharding_key is not None
                    try:
                        await self._wait_for_next_try(error, topic, tries, deadline_ms, avoid, is_sharded=stays)
                    except ZenitError as last:
                        self._note(batch, None, total_ms - (deadline_ms - monotonic_ms()), is_ok=False)
                        raise sequenced.failure(last) from last
                    if not sequenced.in_doubt:
                        self._leave(sequenced)
                    continue
                if answer is None:
                    continue
                assert sequenced.queue is not None
                queue, now = sequenced.queue, monotonic_ms()
                self._fault.on_answered(queue.broker_name, now - started_ms, now)
                if self._trace is not None:
                    self._note(batch, answer, total_ms - (deadline_ms - now), is_ok=True)
                return batch, queue, answer
        finally:
            self._leave(sequenced)

    async def _try(
        self, sequenced: SequencedBatch, batch: ReadyBatch, total_ms: int, deadline_ms: int, *, delayed: bool
    ) -> Answer | None:
        """Asks the batch's queue; None where there is more to ask. From here on a caller who is gone leaves it in doubt."""
        queue = sequenced.queue
        assert queue is not None
        address = self._destinations.address_of(queue)
        payload, part = batch.payload(), sequenced.part_bytes()
        timeout_ms = self._retry.try_timeout_ms(total_ms, deadline_ms - monotonic_ms())
        request = sequenced.request(self._group, delayed=delayed)
        was_in_doubt, sequenced.in_doubt = sequenced.in_doubt, True
        try:
            reply, data = await self._waits.call(
                address, request, payload if part is None else payload[part[0] : part[1]], timeout_ms=timeout_ms
            )
        except ZenitError:
            sequenced.in_doubt = was_in_doubt  # what the error means is asked next
            raise
        return sequenced.on_answer(answer_of(reply, data, sequenced.part_count))

    # ---- the queue

    async def _enter(
        self,
        sequenced: SequencedBatch,
        topic: str,
        sharding_key: str | None,
        avoid: str | None,
        total_ms: int,
        deadline_ms: int,
    ) -> None:
        """Takes a queue for the batch, waiting for one. Raises NoRoute, RequestTimeout."""
        while not self._try_enter(sequenced, topic, sharding_key, avoid):
            changed = self._streams.next_change(self._waits.new_signal())
            try:
                if self._try_enter(sequenced, topic, sharding_key, avoid):
                    return
                left_ms = deadline_ms - monotonic_ms()
                if left_ms <= 0 or not await changed.wait(left_ms):
                    raise RequestTimeout(f"a queue of {topic} that no other send of this producer has", total_ms)
            finally:
                self._streams.forget(changed)

    def _try_enter(self, sequenced: SequencedBatch, topic: str, sharding_key: str | None, avoid: str | None) -> bool:
        if sharding_key is not None:
            candidates = iter((self._destinations.sharded_queue(topic, sharding_key),))
        else:
            candidates = self._destinations.queues_in_turn(topic, avoid=avoid)
        return any(self._streams.take(queue, sequenced) for queue in candidates)

    def _leave(self, sequenced: SequencedBatch) -> None:
        self._streams.give_back(sequenced)
