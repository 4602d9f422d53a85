"""Requests for single messages. Pure."""

from __future__ import annotations

from .base import Lane, Reply, RequestFor, ServedBy, request
from .plain_dataclass import dataclass
from .rights import Action, on_cluster, on_topic


@dataclass(frozen=True, slots=True)
class MessagesReply(Reply):
    """Payload: `count` contiguous whole records."""

    count: int


@request(12, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.RECEIVE),))
@dataclass(frozen=True, slots=True)
class QueryMessages(RequestFor[MessagesReply]):
    """QUERY_MESSAGE: by key (or unique id, `unique`) within [begin_ms, end_ms]; newest first, hash collisions resolved."""

    topic: str
    key: str
    max_messages: int = 64
    begin_ms: int = 0
    end_ms: int = 1 << 62
    unique: bool = False


@request(33, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.RECEIVE),))
@dataclass(frozen=True, slots=True)
class ViewMessage(RequestFor[MessagesReply]):
    """VIEW_MESSAGE_BY_ID: the one record that begins at a physical offset; MessageNotFound if none does."""

    physical_offset: int
