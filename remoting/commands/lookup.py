"""Requests for single messages. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_cluster, on_topic
from .base import Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class MessagesReply(Reply):
    """Payload: `count` contiguous whole records."""

    count: int


@dataclass(frozen=True, slots=True)
class QueryReply(Reply):
    """The next page of a query. Payload: `count` contiguous whole records, newest first.

    `below`, `file`, `entry`: of the request for the page after it; `below` 0: nothing is left. There may be more however few
    there are in this one: a broker works on one page for a limited time. `examined`: the number of records that it has looked
    at, the last of which was stored at `reached_ms`; 0 if it looked at none.
    """

    count: int
    below: int = 0
    file: int = 0
    entry: int = 0
    examined: int = 0
    reached_ms: int = 0


@request(12, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.SUB),))
@dataclass(frozen=True, slots=True)
class QueryMessages(RequestFor[QueryReply]):
    """QUERY_MESSAGE: a page of messages, newest first, by key (or unique id, `unique`) or, with `key` "", all.

    Stored within [begin_ms, end_ms], in queue `queue_id` (-1: any) within queue offsets [queue_begin, queue_end), and with the
    bytes `contains` in their plain bodies. `below`, `file`, `entry`: from the page before. `below` is a physical offset, the
    same at all replicas of a group; the others say where the index was being read, and save time at the broker that told them.
    """

    topic: str
    key: str
    max_messages: int = 64
    begin_ms: int = 0
    end_ms: int = 1 << 62
    unique: bool = False
    below: int = 1 << 62
    file: int = 0
    entry: int = 0
    contains: bytes = b""
    queue_id: int = -1
    queue_begin: int = 0
    queue_end: int = 1 << 62


@request(33, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.SUB),))
@dataclass(frozen=True, slots=True)
class ViewMessage(RequestFor[MessagesReply]):
    """VIEW_MESSAGE_BY_ID: the one record that begins at a physical offset; MessageNotFound if none does."""

    physical_offset: int
