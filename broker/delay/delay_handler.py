"""Handles SendDelayed and RecallMessage. Not on the hot path: each message of a batch is examined by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Final

from ...model.clock import Clock
from ...model.errors import InvalidParameter, MessageIllegal, MessageNotFound
from ...model.handles.recall_handle import RecallHandle
from ...model.ids import HostAddress
from ...model.names import TIMER_TOPIC
from ...model.route import TopicConfig
from ...record.kernel import RunKernel, decode_batch, why_refused
from ...remoting.commands import DelayedReply, RecallMessage, RecallReply, Request, SendDelayed, SendDelayedSequenced
from ...remoting.delayed_places import NOWHERE, Place, encode_places
from ...remoting.server import Call, RequestLoop
from ...store.config import StoreConfig
from ...store.message_store import MessageStore, Placed
from ..acknowledgements import Acknowledgements
from ..lite.lite_sends import check_waiting_batch
from ..metrics.flows import Flows
from ..state.admission import queues_to_create
from ..state.state_log import TOPICS, StateLog
from ..waiting.blocks import BLOCK_BYTES, blocks
from ..worker_pool import WorkerPool
from .delays import Delays, message_recalled
from .rewriting import immediate_record, waiting_record

_COPIES_MAX: Final = 64
_ALL_TIME: Final = 1 << 62


class DelayHandler:
    """Owned by the loop thread."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        delays: Delays,
        workers: WorkerPool,
        loop: RequestLoop,
        clock: Clock,
        config: StoreConfig,
        *,
        broker_name: str,
        store_host: HostAddress,
        auto_create_queues: int,
    ) -> None:
        """`auto_create_queues`: queues of a topic that a send creates; 0 = sends create none."""
        self._store = store
        self._state = state
        self._acknowledgements = acknowledgements
        self.flows: Flows | None = None  # set where metrics are on
        self._delays = delays
        self._workers = workers
        self._loop = loop
        self._clock = clock
        self._has_index = config.index_enabled
        self._block_bytes = min(BLOCK_BYTES, config.segment_bytes // 2)
        self._broker_name = broker_name
        self._store_host = store_host.encode()
        self._auto_create_queues = auto_create_queues
        self._kernel = RunKernel(
            store_host=self._store_host,
            record_max=config.record_bytes_max,
            body_max=config.body_bytes_max,
            index_keys=False,
        )

    # ---- sending

    def on_send(self, call: Call[SendDelayed]) -> None:
        """Stages a batch in which some messages wait.

        If it raises, nothing is staged, unless the disk filled up in the middle.
        """
        request = call.request
        self.take(call, request, bytearray(call.loop.arena.view[call.begin : call.end]), [])

    def take(
        self,
        call: Call[Request],
        request: SendDelayed | SendDelayedSequenced,
        payload: bytearray,
        staged: list[tuple[bool, Placed]],
        *,
        flags: int = 0,
    ) -> None:
        """Stages a batch and its answer.

        `staged`: gets, for each run that was staged, whether it waits and its place; also if the rest is refused. `flags`:
        SEQUENCED if the broker has filled in the producer and sequence of the records. Raises as `on_send` does.
        """
        topic, queue_id = request.topic, request.queue_id
        queues = 0
        if not 0 <= queue_id < self._state.topic_table.write_queues.get(topic, 0):
            queues = queues_to_create(self._state.topic_table, topic, queue_id, self._auto_create_queues)
        check_waiting_batch(self._state.topic_table, topic, payload, request.count)
        records = self._rewritten(request, payload, own=flags != 0)
        if queues:
            event = self._state.topic_table.event_set(TopicConfig(topic, read_queues=queues, write_queues=queues))
            self._state.stage(self._store, TOPICS, event)
        places = self._stage(topic, queue_id, records, staged, flags)
        reply = DelayedReply(queue_id, self._store_host)
        if self.flows is not None:
            self.flows.took(topic, len(records), len(payload))
        self._acknowledgements.staged.append((call, reply, staged[-1][1].end, (encode_places(places),)))

    def _rewritten(
        self, request: SendDelayed | SendDelayedSequenced, payload: bytearray, *, own: bool
    ) -> list[tuple[int, bytes]]:
        """(delivery time, or NOWHERE for at once; record) of each message.

        Raises MessageIllegal, MessageTooLarge, InvalidParameter.
        """
        if not payload:
            raise MessageIllegal("a send without records")
        now_ms = self._clock.now_ms()
        done = self._kernel.stamp(
            payload, 0, len(payload), request.topic.encode(), 0, request.count, request.queue_id, 0, 0, now_ms, own
        )
        self._kernel.clear()
        if done <= 0:
            raise MessageIllegal(why_refused(done, payload, 0, len(payload)))
        where = request.topic, request.queue_id
        host_bytes = len(self._store_host)
        records = []
        for message in decode_batch(bytes(payload)):
            deliver_at_ms = self._delays.rules.deliver_at(message.properties, now_ms)
            if deliver_at_ms > now_ms:
                records.append((deliver_at_ms, waiting_record(message, *where, deliver_at_ms, host_bytes)))
            else:
                records.append((NOWHERE, immediate_record(message, *where, host_bytes)))
        return records

    def _stage(
        self,
        topic: str,
        queue_id: int,
        records: Sequence[tuple[int, bytes]],
        staged: list[tuple[bool, Placed]],
        flags: int,
    ) -> list[Place]:
        """The places of the records. Raises MessageIllegal (a record over the limit), StoreNotWriteable."""
        places: list[Place] = []
        for waits, group in groupby(records, key=lambda item: item[0] != NOWHERE):
            target = (TIMER_TOPIC, 0) if waits else (topic, queue_id)
            items = list(group)
            for part in blocks([len(record) for _, record in items], self._block_bytes):
                block = items[part]
                data = b"".join([record for _, record in block])
                placed = self._store.stage_own(data, topic=target[0], queue_id=target[1], count=len(block), flags=flags)
                staged.append((waits, placed))
                at = placed.physical_offset
                for index, (deliver_at_ms, record) in enumerate(block):
                    offset = NOWHERE if waits else placed.queue_offset + index
                    places.append(Place(deliver_at_ms, offset, at))
                    at += len(record)
        return places

    # ---- recalling

    def on_recall(self, call: Call[RecallMessage]) -> None:
        """Recalls a waiting message. Raises InvalidParameter; later MessageNotFound if it no longer waits."""
        request = call.request
        handle = RecallHandle.parse(request.handle)
        if handle.topic != request.topic:
            raise InvalidParameter("topic", request.topic, f"{handle.topic}, as in the recall handle")
        if handle.broker_name != self._broker_name:
            raise InvalidParameter("recall handle", handle.broker_name, f"one of broker {self._broker_name}")
        if not self._has_index:
            raise InvalidParameter("recall", handle.message_id, "a broker with [store] index_enabled = true")
        work = partial(
            self._store.query, TIMER_TOPIC, handle.message_id, max_messages=_COPIES_MAX, begin_ms=0, end_ms=_ALL_TIME,
            unique=True,
        )  # fmt: skip
        self._workers.run(call, work, partial(self._end_wait, call, handle))

    def _end_wait(self, call: Call[Request], handle: RecallHandle, records: list[bytes]) -> None:
        end = 0
        for record in records:
            entry = message_recalled(record, handle.topic, handle.deliver_at_ms)
            if entry is not None and self._delays.is_waiting(entry[1], entry[0]):
                end = self._delays.stage_end(entry[1], handle.topic, handle.message_id, handle.deliver_at_ms).end
        if not end:
            raise MessageNotFound(f"message {handle.message_id} among those that wait")
        self._acknowledgements.staged.append((call, RecallReply(handle.message_id), end, ()))
