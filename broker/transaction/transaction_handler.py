"""SendHalves, EndTransactions, DecideTransactions, GetTransactions, and asking producers. Loop thread."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from ...model.errors import InvalidParameter, MessageIllegal, StoreNotWriteable, StorePoisoned, ZenitError
from ...model.handles.transaction import MESSAGE_ID_BYTES_MAX, Resolution, TransactionId, client_of
from ...model.ids import HostAddress
from ...model.names import UNDECIDED_TOPIC, check_group
from ...model.properties import PRODUCER_GROUP, UNIQUE_KEY
from ...model.route import TopicConfig
from ...model.security.rights import Action, Resource
from ...record.kernel import RunKernel, decode_batch, why_refused
from ...remoting.commands import (
    CheckTransaction,
    DecideTransactions,
    DelayedReply,
    EndReply,
    EndTransactions,
    GetTransactions,
    SendHalves,
)
from ...remoting.delayed_places import encode_places
from ...remoting.server import Call, RequestLoop
from ...store.config import StoreConfig
from ...store.message_store import Placed
from ..acknowledgements import Acknowledgements
from ..handlers.parts import Parts
from ..json_reply import reply_json
from ..lite.lite_sends import check_waiting_batch
from ..state.admission import queues_to_create
from ..state.client_registry import Client, ClientRegistry
from ..state.state_log import TOPICS
from ..waiting.blocks import BLOCK_BYTES
from ..waiting.copies import real_queue
from .half_records import check_times, first_offset, half_record
from .transactions import Outcome, Question, Traces, Transactions

ENDS_MAX: Final = 256
LISTED_MAX: Final = 200
"""In one answer: each is read on the loop."""


_End = tuple[str, str, int, int]
"""See EndTransactions."""

_Ended = Outcome | ZenitError | TransactionId
"""What became of a transaction; its name where that has to be looked for."""


class TransactionHandler:
    """Owned by the loop thread."""

    def __init__(self, parts: Parts, transactions: Transactions, *, auto_create_queues: int) -> None:
        """`auto_create_queues`: queues of a topic that a send creates; 0 = sends create none."""
        self._store = parts.store
        self._state = parts.state
        self._acknowledgements = parts.acknowledgements
        self._flows = parts.flows
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
        check_waiting_batch(self._state.topic_table, topic, payload, request.count)
        records = self._halves(request, payload)
        if queues:
            event = self._state.topic_table.event_set(TopicConfig(topic, read_queues=queues, write_queues=queues))
            self._state.stage(self._store, TOPICS, event)
        places = self._transactions.stage_halves(records, staged, block_bytes=self._block_bytes, flags=flags)
        reply = DelayedReply(queue_id, self._store_host)
        if self._flows is not None:
            self._flows.took(topic, len(records), len(payload))
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
            size = len(message.properties.get(UNIQUE_KEY, "").encode())
            if not 1 <= size <= MESSAGE_ID_BYTES_MAX:
                raise MessageIllegal(
                    f"a transactional message: unique id of {size} bytes, not 1 to {MESSAGE_ID_BYTES_MAX}"
                )
            halves.append(half_record(message, *where, group, self._host_bytes))
        return halves

    # ---- deciding

    def on_end(self, call: Call[EndTransactions]) -> None:
        """Decides transactions, each by itself. Raises InvalidParameter (their number), InvalidName, StoreNotWriteable,
        StorePoisoned."""
        self._on_ends(call, check_group(call.request.producer_group), call.request.ends)

    def on_decide(self, call: Call[DecideTransactions]) -> None:
        """The same for an operator."""
        self._on_ends(call, None, call.request.ends)

    def _on_ends(self, call: Call[Any], group: str | None, ends: tuple[_End, ...]) -> None:
        if not 1 <= len(ends) <= ENDS_MAX:
            raise InvalidParameter("ends", len(ends), f"1 to {ENDS_MAX}")
        outcomes = [self._decided(group, end) for end in ends]
        missing = {at: outcome for at, outcome in enumerate(outcomes) if isinstance(outcome, TransactionId)}
        if missing:
            work = partial(self._find_all, missing)
            self._workers.run(call, work, partial(self._end_found, call, group, ends, outcomes))
        else:
            self._answer(call, outcomes)

    def _decided(self, group: str | None, end: _End) -> _Ended:
        """What became of one, or that it has to be looked for. Raises StoreNotWriteable, StorePoisoned."""
        topic, text, number, half_offset = end
        try:
            which = TransactionId.parse(text)
            if which.topic != topic:
                raise InvalidParameter("topic", topic, f"{which.topic}, as in the transaction id")
            outcome = self._transactions.decide(which, _resolution(number), group, hint=half_offset)
            if outcome is None and not self._has_index:
                raise InvalidParameter(
                    "transaction_id", text, "one that is not decided yet: this broker has no index to look in"
                )
            return which if outcome is None else outcome
        except (StoreNotWriteable, StorePoisoned):
            raise
        except ZenitError as error:
            return error

    def _find_all(self, missing: dict[int, TransactionId]) -> dict[int, Traces]:
        """Worker thread."""
        return {at: self._transactions.find(which) for at, which in missing.items()}

    def _end_found(
        self,
        call: Call[Any],
        group: str | None,
        ends: tuple[_End, ...],
        outcomes: list[_Ended],
        found: dict[int, Traces],
    ) -> None:
        for at, traces in found.items():
            _, text, number, _ = ends[at]
            try:
                outcomes[at] = self._transactions.decide_found(
                    TransactionId.parse(text), _resolution(number), group, traces
                )
            except (StoreNotWriteable, StorePoisoned):
                raise
            except ZenitError as error:
                outcomes[at] = error
        self._answer(call, outcomes)

    def _answer(self, call: Call[Any], outcomes: list[_Ended]) -> None:
        end = max((outcome.end for outcome in outcomes if isinstance(outcome, Outcome)), default=0)
        self._acknowledgements.staged.append((call, EndReply(tuple(map(_row, outcomes))), end, ()))

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
        which = TransactionId(self._broker_name, topic, first_offset(message, properties), message_id)
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
    """Asks the producer that sent a half message; once it is gone one of its group, each time another.

    Only who may send to the topic is asked: the question has the message in it, and everybody may be of some groups.
    """

    def __init__(self, loop: RequestLoop, registry: ClientRegistry, acknowledgements: Acknowledgements) -> None:
        self._loop = loop
        self._acknowledgements = acknowledgements
        self._registry = registry
        self._turn = 0

    def ask(self, question: Question) -> None:
        """Once the half message is confirmed where it is now; before, nobody could decide it there."""
        self._acknowledgements.when_promised(question.end, partial(self._on_promised, question))

    def _on_promised(self, question: Question, error: ZenitError | None) -> None:
        """Nothing where nobody of the group is connected: it is asked again later."""
        if error is not None:
            return
        producers = self._registry.producers(question.group)
        identities = list(
            dict.fromkeys(each.identity for each in producers if self._may_send(each, question.which.topic))
        )
        own = self._registry.identity_of(client_of(question.sender))
        if own not in identities:
            if not identities:
                return
            self._turn += 1
            own = identities[self._turn % len(identities)]
        request = CheckTransaction(question.group, question.which.encode(), question.half_offset, question.sender)
        self._loop.send_to(own, request, (question.record,))

    def _may_send(self, client: Client, topic: str) -> bool:
        guard, owner = self._loop.guard, client.owner
        if guard is None:
            return True
        user = guard.user_of(owner.key)
        return user is not None and guard.table.decide(user, Action.PUB, Resource.TOPIC, topic, owner.address).allowed


def _resolution(number: int) -> Resolution:
    """Raises InvalidParameter."""
    if number not in (Resolution.COMMIT.value, Resolution.ROLLBACK.value):
        raise InvalidParameter("resolution", number, "8 (commit) or 12 (rollback)")
    return Resolution(number)


def _row(outcome: _Ended) -> tuple[int, str, int, int, int]:
    """Of the reply."""
    if isinstance(outcome, Outcome):
        return 0, outcome.state.value, outcome.queue_id, outcome.queue_offset, outcome.physical_offset
    assert isinstance(outcome, ZenitError)
    return outcome.code, json.dumps([fact if isinstance(fact, int) else str(fact) for fact in outcome.args]), -1, -1, -1


def sender_kernel(config: StoreConfig, store_host: HostAddress) -> RunKernel:
    """One that holds senders' records to the limits."""
    return RunKernel(
        store_host=store_host.encode(),
        record_max=config.record_bytes_max,
        body_max=config.body_bytes_max,
        index_keys=False,
    )
