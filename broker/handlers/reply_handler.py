"""Replies to requests: stored like a send, then pushed to the connection of the requester.

A reply is pushed when it is as durable as an acknowledged send, so nobody acts on a reply that a failover takes back.
If the requester is not connected, the reply is held for one heartbeat; then its sender is told. Loop thread.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...model.clock import Clock
from ...model.errors import CorruptRecordError, InvalidParameter, MessageIllegal, ZenitError
from ...model.ids import HostAddress
from ...model.names import reply_topic
from ...model.properties import CORRELATION_ID, REPLY_TO_CLIENT
from ...model.route import PERMISSION_READ, TopicConfig
from ...record.kernel import decode_batch
from ...remoting.commands import PushReply, ReplyStored, Request, SendReplyMessage
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore, Placed
from ..acknowledgements import Acknowledgements
from ..state.client_registry import ClientRegistry
from ..state.state_log import TOPICS, StateLog
from .reply_hold import ReplyHold

_log = logging.getLogger(__name__)

HELD_MAX: Final = 1_000
ANSWER_MS: Final = 200  # the part of the sender's time that our answer needs to reach it
NAME_LENGTH_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class _Stored:
    """A reply in the log: its sender and its requester."""

    call: Call[Request]
    placed: Placed
    push: PushReply
    record: bytes


class ReplyHandler:
    """SendReplyMessage."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        acknowledgements: Acknowledgements,
        loop: RequestLoop,
        clock: Clock,
        registry: ClientRegistry,
        *,
        cluster: str,
        broker_name: str,
        store_host: HostAddress,
    ) -> None:
        self._store = store
        self._state = state
        self._acknowledgements = acknowledgements
        self._loop = loop
        self._clock = clock
        self._registry = registry
        self._topic = reply_topic(cluster)
        self._broker_name = broker_name
        self._store_host = store_host.encode()
        self._hold: ReplyHold[_Stored] = ReplyHold(held_max=HELD_MAX)
        self._pushed = self._undelivered = 0

    def on_send_reply(self, call: Call[SendReplyMessage]) -> None:
        """Stages a reply. Raises InvalidParameter, MessageIllegal; then nothing of it is staged."""
        request = call.request
        if request.topic != self._topic:
            raise InvalidParameter("topic", request.topic[:128], f"{self._topic}, where this cluster keeps replies")
        view = self._loop.arena.view
        client_id, correlation_id = _addressee(bytes(view[call.begin : call.end]))
        placed = self._store.stage(call.begin, call.end, self._topic, 0, 1)
        record = bytes(view[call.begin : call.end])  # the time with which it is stamped now
        end = placed.end
        if self._topic not in self._state.topic_table.configs:
            config = TopicConfig(self._topic, read_queues=1, write_queues=1, permission=PERMISSION_READ)
            end = self._state.stage(self._store, TOPICS, self._state.topic_table.event_set(config))
        push = PushReply(client_id, correlation_id, self._broker_name)
        stored = _Stored(call, placed, push, record)
        self._acknowledgements.when_promised(end, partial(self._on_promised, stored))

    def on_client(self, client_id: str) -> None:
        """A client sent a heartbeat: pushes the replies held for it."""
        if self._hold.count:
            for stored in self._hold.take(client_id):
                self._deliver(stored)

    def on_tick(self, now_ms: int) -> None:
        """Tells the senders of replies whose requester did not come. `now_ms`: monotonic."""
        if self._hold.count:
            for stored in self._hold.due(now_ms):
                self._give_up(stored)

    def document(self) -> dict[str, int]:
        """For statistics: replies delivered, those without a requester, and those held now."""
        return {"pushed": self._pushed, "undelivered": self._undelivered, "held": self._hold.count}

    def _on_promised(self, stored: _Stored, error: ZenitError | None) -> None:
        if error is not None:
            self._loop.fail(stored.call, error)
            return
        self._deliver(stored)

    def _deliver(self, stored: _Stored) -> None:
        identity = self._registry.identity_of(stored.push.client_id)
        if identity is not None and self._loop.send_to(identity, stored.push, (stored.record,)):
            self._pushed += 1
            self._answer(stored, is_delivered=True)
            return
        now_ms = self._clock.monotonic_ms()
        until_ms = min(now_ms + self._registry.heartbeat_ms, stored.call.deadline_ms - ANSWER_MS)
        if not self._hold.add(stored.push.client_id, stored, until_ms=until_ms):
            self._give_up(stored)

    def _give_up(self, stored: _Stored) -> None:
        self._undelivered += 1
        _log.info(
            "a reply's requester is not connected client=%s correlation_id=%s",
            stored.push.client_id,
            stored.push.correlation_id,
        )
        self._answer(stored, is_delivered=False)

    def _answer(self, stored: _Stored, *, is_delivered: bool) -> None:
        placed = stored.placed
        self._loop.reply(
            stored.call,
            ReplyStored(
                placed.queue_offset,
                placed.physical_offset,
                placed.store_timestamp_ms,
                self._store_host,
                is_delivered,
            ),
        )


def _addressee(record: bytes) -> tuple[str, str]:
    """(client id, correlation id) of the one record. Raises MessageIllegal if they, or the record, are missing."""
    try:
        messages = decode_batch(record)
        if len(messages) != 1:
            raise MessageIllegal(f"{len(messages)} records where one reply is expected")
        properties = messages[0].properties
    except CorruptRecordError as error:
        raise MessageIllegal("a reply whose record cannot be decoded") from error
    for name in (REPLY_TO_CLIENT, CORRELATION_ID):
        if not 1 <= len(properties.get(name, "")) <= NAME_LENGTH_MAX:
            raise MessageIllegal(f"a reply needs property {name}, 1 to {NAME_LENGTH_MAX} characters")
    return properties[REPLY_TO_CLIENT], properties[CORRELATION_ID]
