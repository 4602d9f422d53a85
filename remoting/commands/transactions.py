"""Transactions: half messages, and what becomes of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request
from .rights import Action, on_cluster, on_topic
from .sending import DelayedReply


@request(9132, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=(on_topic(Action.SEND),))
@dataclass(frozen=True, slots=True)
class SendHalves(RequestFor[DelayedReply]):
    """As SendSequenced, of messages that nobody sees until EndTransaction commits them. The reply's places tell where each half
    message is; its transaction is named after that (model.handles.transaction)."""

    topic: str
    queue_id: int
    count: int
    producer_group: str
    producer_id: str
    first_sequence: int


@dataclass(frozen=True, slots=True)
class EndReply(Reply):
    """`state`: "committed" or "rolled back". Offsets are of the committed message; -1 where there is none."""

    state: str
    queue_id: int = -1
    queue_offset: int = -1
    physical_offset: int = -1


@request(37, Lane.SEND, served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC, needs=(on_topic(Action.SEND),))
@dataclass(frozen=True, slots=True)
class EndTransaction(RequestFor[EndReply]):
    """END_TRANSACTION: decides a transaction; once more, and it is answered as the first time. `resolution`: 8 commit, 12
    rollback. `producer_group`: "" for an operator. `half_offset`: where its half message begins now, as CheckTransaction told
    it; -1: not known. Refused with TransactionDecided, TransactionNotFound."""

    topic: str
    producer_group: str
    transaction_id: str
    resolution: int
    half_offset: int = -1


@request(39, Lane.HEARTBEAT, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class CheckTransaction(RequestFor[Done]):
    """CHECK_TRANSACTION_STATE: broker to a producer of the group, one way: what becomes of it? Payload: the message's record,
    in its real topic and queue. It is answered with EndTransaction."""

    producer_group: str
    transaction_id: str
    half_offset: int


@request(9133, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_cluster(Action.DESCRIBE),))
@dataclass(frozen=True, slots=True)
class GetTransactions(RequestFor[JsonReply]):
    """Transactions that are not decided, in the order of the log, from `begin` on: {"transactions": [{transaction_id, topic,
    queue_id, group, message_id, state ("pending" or "parked"), checks, stored_at_ms, age_ms, body_bytes}], "next"}. `next`: to
    go on with; null at the end."""

    begin: int
    count: int
