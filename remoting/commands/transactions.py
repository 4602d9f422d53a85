"""Requests of transactions: half messages and their decisions. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_cluster, on_group, on_topic
from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request
from .sending import DelayedReply

_OF_GROUP = on_group(Action.PUB, "producer_group")


@request(9132, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=(on_topic(Action.PUB), _OF_GROUP))
@dataclass(frozen=True, slots=True)
class SendHalves(RequestFor[DelayedReply]):
    """As SendSequenced, of messages that nobody sees until EndTransactions commits them. The reply's places tell where each
    half message is; its transaction is named after that (model.handles.transaction)."""

    topic: str
    queue_id: int
    count: int
    producer_group: str
    producer_id: str
    first_sequence: int


@dataclass(frozen=True, slots=True)
class EndReply(Reply):
    """One row for each: (0, "committed" or "rolled back", queue id, queue offset, physical offset of the committed message, or
    -1); or (the code of an error, its facts as a JSON list, -1, -1, -1)."""

    rows: tuple[tuple[int, str, int, int, int], ...]


@request(37, Lane.SEND, served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC, needs=(on_topic(Action.PUB, "ends"), _OF_GROUP))
@dataclass(frozen=True, slots=True)
class EndTransactions(RequestFor[EndReply]):
    """END_TRANSACTION: decides transactions of a producer group, at most 256, each by itself; once more, and it is answered as
    the first time. `ends`: ((topic, transaction id, 8 commit or 12 rollback, where its half message begins now as
    CheckTransaction told it, or -1), ...). One may be refused with TransactionDecided, TransactionNotFound."""

    producer_group: str
    ends: tuple[tuple[str, str, int, int], ...]


@request(9134, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class DecideTransactions(RequestFor[EndReply]):
    """EndTransactions as an operator sends it: of any producer group, and also of parked transactions."""

    ends: tuple[tuple[str, str, int, int], ...]


@request(39, Lane.HEARTBEAT, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class CheckTransaction(RequestFor[Done]):
    """CHECK_TRANSACTION_STATE: broker to a producer of the group, one way: what becomes of it? Payload: the message's record,
    in its real topic and queue. It is answered with EndTransactions. `sender`: "client id/number" of the send, or ""."""

    producer_group: str
    transaction_id: str
    half_offset: int
    sender: str = ""


@request(9133, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetTransactions(RequestFor[JsonReply]):
    """Transactions that are not decided, in the order of the log, from `begin` on: {"transactions": [{transaction_id, topic,
    queue_id, group, message_id, state ("pending" or "parked"), checks, stored_at_ms, age_ms, body_bytes}], "next"}. `next`: to
    go on with; null at the end."""

    begin: int
    count: int
