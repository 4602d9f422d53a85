"""Sends: from the received frame into this turn's batch of the store. The hot path: one look-up, one stage, one reply.

Handlers run while the loop drains; at the end of the turn the service commits, and the acknowledgements go out.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.errors import MessageIllegal
from ...model.ids import HostAddress
from ...model.names import TRACE_TOPIC
from ...model.route import TopicConfig
from ...remoting.commands import Request, SendMessages, SendReply
from ...remoting.server import Call
from ...store.message_store import MessageStore, Placed
from ..acknowledgements import Acknowledgements
from ..lite.lite_sends import check_lite_batch
from ..metrics.flows import Flows
from ..stage_clock import StageClock
from ..state.admission import check_keyed, queues_to_create, takes_keyed
from ..state.state_log import TOPICS, StateLog

TRACE_QUEUES = 1


class SendHandler:
    """SendMessages. Owned by the loop thread."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        stages: StageClock,
        *,
        store_host: HostAddress,
        auto_create_queues: int,
    ) -> None:
        """`auto_create_queues`: the queues of a topic that a send creates; 0 = sends create none."""
        self._store = store
        self._stage_batch = store.stage
        self._state = state
        self._acknowledgements = acknowledgements
        self._stages = stages
        self._write_queues = state.topic_table.write_queues
        self._batch_write_queues = state.topic_table.batch_write_queues
        self._lite_parents = state.topic_table.lite_parents
        self._store_host = store_host.encode()
        self._auto_create_queues = auto_create_queues
        self.batches = 0
        self.messages = 0
        self.size_bytes = 0
        self.flows: Flows | None = None  # set where metrics are on

    def on_send(self, call: Call[SendMessages]) -> None:
        """Stages a batch. Raises the reason why it was refused; then nothing of it is staged."""
        request = call.request
        topic, queue_id = request.topic, request.queue_id
        if not 0 <= queue_id < self._write_queues.get(topic, 0):
            self._send_elsewhere(call, request)
            return
        if topic in self._lite_parents:
            records = bytes(self._store.arena.view[call.begin : call.end])
            check_lite_batch(self._state.topic_table, topic, records, request.count)
        reply, end = self._stage(call, request, self._stage_batch)
        self._acknowledgements.staged.append((call, reply, end, ()))

    def _stage(
        self, call: Call[Request], request: SendMessages, stage: Callable[[int, int, str, int, int], Placed]
    ) -> tuple[SendReply, int]:
        begin, end = call.begin, call.end
        if begin >= end:
            raise MessageIllegal("a send without records")
        entered = self._stages.enter_send() if self._stages.is_sampling else 0
        placed = stage(begin, end, request.topic, request.queue_id, request.count)
        if entered:
            self._stages.leave_send(entered)
        self.count(request.topic, placed.count, end - begin)
        reply = SendReply(
            request.queue_id,
            placed.queue_offset,
            placed.physical_offset,
            placed.store_timestamp_ms,
            self._store_host,
            placed.pieces,
        )
        return reply, placed.end

    def count(self, topic: str, messages: int, size_bytes: int) -> None:
        """A batch was staged."""
        self.batches += 1
        self.messages += messages
        self.size_bytes += size_bytes
        if self.flows is not None:
            self.flows.took(topic, messages, size_bytes)

    def _send_elsewhere(self, call: Call[Request], request: SendMessages) -> None:
        """A send to a batch topic or a compacted one, or to a queue that does not exist or is not writable: creates its topic
        if the configuration allows it, and the trace topic with the first trace.

        The batch is staged first, because its bytes are where the next record would go; one write covers both.
        """
        topic, queue_id = request.topic, request.queue_id
        if 0 <= queue_id < self._batch_write_queues.get(topic, 0):
            reply, end = self._stage(call, request, self._store.stage_batch)
            self._acknowledgements.staged.append((call, reply, end, ()))
            return
        if takes_keyed(self._state.topic_table, topic, queue_id):
            check_keyed(topic, bytes(self._store.arena.view[call.begin : call.end]))
            reply, end = self._stage(call, request, self._stage_batch)
            self._acknowledgements.staged.append((call, reply, end, ()))
            return
        queues = TRACE_QUEUES if topic == TRACE_TOPIC else self._auto_create_queues
        queues_to_create(self._state.topic_table, topic, queue_id, queues)
        reply, _ = self._stage(call, request, self._stage_batch)
        event = self._state.topic_table.event_set(TopicConfig(topic, read_queues=queues, write_queues=queues))
        end = self._state.stage(self._store, TOPICS, event)
        self._acknowledgements.staged.append((call, reply, end, ()))
