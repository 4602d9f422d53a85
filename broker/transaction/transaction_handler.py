"""SendHalves, EndTransaction, GetTransactions, and asking producers. Loop thread."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...model.errors import InvalidParameter, MessageIllegal
from ...model.handles.transaction import Resolution, TransactionId
from ...model.ids import HostAddress
from ...model.names import UNDECIDED_TOPIC, check_group
from ...model.properties import PRODUCER_GROUP, UNIQUE_KEY
from ...model.route import TopicConfig
from ...record.kernel import RunKernel, decode_batch, why_refused
from ...remoting.commands import (
    CheckTransaction,
    DelayedReply,
    EndReply,
    EndTransaction,
    GetTransactions,
    SendHalves,
)
from ...remoting.delayed_places import encode_places
from ...remoting.server import Call, RequestLoop
from ...store.config import StoreConfig
from ...store.message_store import Placed
from ..handlers.parts import Parts
from ..json_reply import reply_json
from ..state.admission import queues_to_create
from ..state.client_registry import ClientRegistry
from ..state.state_log import TOPICS
from ..waiting.blocks import BLOCK_BYTES
from ..waiting.copies import real_queue
from .half_records import check_times, first_offset, half_record
from .transactions import Outcome, Traces, Transactions

LISTED_MAX: Final = 200
"""In one answer: each is read on the loop."""


class TransactionHandler:
    """Owned by the loop thread."""

    def __init__(self, parts: Parts, transactions: Transactions, *, auto_create_queues: int) -> None:
        """`auto_create_queues`: queues of a topic that a send creates; 0 = sends create none."""
        self._store = parts.store
        self._state = parts.state
        self._acknowledgements = parts.acknowledgements
        self._workers = parts.workers
        self._loop = parts.loop
        self._clock = parts.clock
        self._transactions = transactions
        self._broker_name = parts.config.name
        self._has_index = parts.config.store.index_enabled
        self._host_bytes = len(parts.store_host.encode())
        self._store_host = parts.store_host.encode()
        self._auto_create_queues = auto_create_queues
        self._block_bytes = min(BLOCK_BYTES, parts.config.store.segment_bytes // 2)
        self._kernel = sender_kernel(parts.config.store, parts.store_host)

    # ---- sending

    def take(
        self,
        call: Call[SendHalves],
        request: SendHalves,
        payload: bytearray,
        staged: list[tuple[bool, Placed]],
        *,
        flags: int = 0,
    ) -> None:
        """Stages half messages and their answer; see DelayHandler.take."""
        topic, queue_id = request.topic, request.queue_id
        queues = 0
        if not 0 <= queue_id < self._state.topic_table.write_queues.get(topic, 0):
            queues = queues_to_create(self._state.topic_table, topic, queue_id, self._auto_create_queues)
        records = self._halves(request, payload)
        if queues:
            event = self._state.topic_table.event_set(TopicConfig(topic, read_queues=queues, write_queues=queues))
            self._state.stage(self._store, TOPICS, event)
        places = self._transactions.stage_halves(records, staged, block_bytes=self._block_bytes, flags=flags)
        reply = DelayedReply(queue_id, self._store_host)
        self._acknowledgements.staged.append((call, reply, staged[-1][1].end, (encode_places(places),)))

    def _halves(self, request: SendHalves, payload: bytearray) -> list[bytes]:
        """Raises MessageIllegal, MessageTooLarge, InvalidName."""
        group = check_group(request.producer_group)
        done = self._kernel.stamp(
            payload,
            0,
            len(payload),
            request.topic.encode(),
            0,
            request.count,
            request.queue_id,
            0,
            0,
            self._clock.now_ms(),
            True,  # its sequences are filled in already
        )
        self._kernel.clear()
        if done <= 0:
            raise MessageIllegal(why_refused(done, payload, 0, len(payload)))
        where = request.topic, request.queue_id
        halves = []
        for message in decode_batch(bytes(payload)):
            if not message.properties.get(UNIQUE_KEY):
                raise MessageIllegal("a transactional message without a unique id")
            halves.append(half_record(message, *where, group, self._host_bytes))
        return halves

    # ---- deciding

    def on_end(self, call: Call[EndTransaction]) -> None:
        """Decides a transaction. Raises InvalidParameter, TransactionDecided, TopicNotFound; later TransactionNotFound."""
        request = call.request
        which = TransactionId.parse(request.transaction_id)
        if which.topic != request.topic:
            raise InvalidParameter("topic", request.topic, f"{which.topic}, as in the transaction id")
        if request.resolution not in (Resolution.COMMIT.value, Resolution.ROLLBACK.value):
            raise InvalidParameter("resolution", request.resolution, "8 (commit) or 12 (rollback)")
        resolution = Resolution(request.resolution)
        outcome = self._transactions.decide(which, resolution, request.producer_group, hint=request.half_offset)
        if outcome is not None:
            self._answer(call, outcome)
        elif not self._has_index:
            raise InvalidParameter(
                "transaction_id",
                request.transaction_id,
                "one that is not decided yet: this broker has no index to look in",
            )
        else:
            work = partial(self._transactions.find, which)
            self._workers.run(call, work, partial(self._end_found, call, which, resolution))

    def _end_found(self, call: Call[Any], which: TransactionId, resolution: Resolution, traces: Traces) -> None:
        group = call.request.producer_group
        self._answer(call, self._transactions.decide_found(which, resolution, group, traces))

    def _answer(self, call: Call[Any], outcome: Outcome) -> None:
        reply = EndReply(outcome.state.value, outcome.queue_id, outcome.queue_offset, outcome.physical_offset)
        self._acknowledgements.staged.append((call, reply, outcome.end, ()))

    # ---- for operators

    def on_list(self, call: Call[GetTransactions]) -> None:
        """What is not decided."""
        request = call.request
        if request.count < 1:
            raise InvalidParameter("count", request.count, "at least 1")
        entries = self._transactions.listed(max(0, request.begin), min(request.count, LISTED_MAX))
        now_ms = self._clock.now_ms()
        rows = []
        for entry in entries:
            found = self._transactions.found_at(entry)
            if found is not None:
                rows.append(self._row(*found, now_ms))
        is_more = len(entries) == min(request.count, LISTED_MAX)
        reply_json(self._loop, call, {"transactions": rows, "next": entries[-1][1] + 1 if is_more else None})

    def _row(self, message: Any, properties: dict[str, str], now_ms: int) -> dict[str, Any]:
        topic, queue_id = real_queue(properties)
        message_id = properties.get(UNIQUE_KEY, "")
        which = TransactionId(self._broker_name, topic, first_offset(message), message_id)
        return {
            "transaction_id": which.encode(),
            "topic": topic,
            "queue_id": queue_id,
            "group": properties.get(PRODUCER_GROUP, ""),
            "message_id": message_id,
            "state": "parked" if message.topic == UNDECIDED_TOPIC else "pending",
            "checks": check_times(properties),
            "born_at_ms": message.born_at_ms,
            "age_ms": max(0, now_ms - message.born_at_ms),
            "body_bytes": len(message.body_as_stored),
            "physical_offset": message.physical_offset,
        }


class Asking:
    """Asks a producer of a group, each time another one."""

    def __init__(self, loop: RequestLoop, registry: ClientRegistry) -> None:
        self._loop = loop
        self._registry = registry
        self._turn = 0

    def ask(self, group: str, which: TransactionId, half_offset: int, record: bytes) -> None:
        """Nothing where nobody of the group is connected: it is asked again later."""
        identities = self._registry.producer_identities(group)
        if identities:
            self._turn += 1
            request = CheckTransaction(group, which.encode(), half_offset)
            self._loop.send_to(identities[self._turn % len(identities)], request, (record,))


def sender_kernel(config: StoreConfig, store_host: HostAddress) -> RunKernel:
    """One that holds senders' records to the limits."""
    return RunKernel(
        store_host=store_host.encode(),
        record_max=config.record_bytes_max,
        body_max=config.body_bytes_max,
        index_keys=False,
    )
