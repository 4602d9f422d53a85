"""Requests of the data pipeline to a broker: stored query offsets, retention holds. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, Resource, listed, on_query, on_topic
from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request


@request(9140, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_query(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class KeepQueryOffsets(RequestFor[JsonReply]):
    """Payload: a JSON object, at most 1 MiB.

    It is stored unless the query has one already -> the stored one, as text. As durable as a send.
    """

    query: str


@request(9141, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_query(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetQueryOffsets(RequestFor[JsonReply]):
    """The stored JSON object of a query; QueryOffsetsNotFound if there is none."""

    query: str


@request(9142, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_query(Action.DELETE),))
@dataclass(frozen=True, slots=True)
class DropQueryOffsets(RequestFor[Done]):
    """Drops the stored object of a query; QueryOffsetsNotFound if there is none. As durable as a send."""

    query: str


@request(9143, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(listed(Resource.QUERY),))
@dataclass(frozen=True, slots=True)
class GetQueries(RequestFor[JsonReply]):
    """{"queries": [{query, kept_at_ms, size_bytes}]}: the queries with stored objects."""


@dataclass(frozen=True, slots=True)
class HoldReply(Reply):
    """`hold_id`: needed to renew and release it."""

    hold_id: str


@request(9144, Lane.QUERY, served_by=ServedBy.MASTER, needs=(on_topic(Action.SUB, "queues"),))
@dataclass(frozen=True, slots=True)
class HoldMessages(RequestFor[HoldReply]):
    """Keeps retention from deleting what is being read, for lease_ms (at most an hour). owner: for operators. queues:
    ((topic, queue id, first offset), ...). Stored in the master's memory.
    """

    owner: str
    queues: tuple[tuple[str, int, int], ...]
    lease_ms: int


@request(9145, Lane.QUERY, served_by=ServedBy.MASTER, needs=())
@dataclass(frozen=True, slots=True)
class RenewHold(RequestFor[HoldReply]):
    """A whole lease from now; HoldNotFound if it has expired, or another master gave it."""

    hold_id: str
    lease_ms: int


@request(9146, Lane.QUERY, served_by=ServedBy.MASTER, needs=())
@dataclass(frozen=True, slots=True)
class ReleaseHold(RequestFor[Done]):
    """Ends a hold; no error if it has expired already."""

    hold_id: str
