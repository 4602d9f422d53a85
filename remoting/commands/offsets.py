"""Requests for queue offsets and committed offsets. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_group, on_topic
from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class OffsetReply(Reply):
    """One queue offset."""

    offset: int


@request(30, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetMaxOffset(RequestFor[OffsetReply]):
    """GET_MAX_OFFSET: the offset that the next message will get."""

    topic: str
    queue_id: int


@request(31, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetMinOffset(RequestFor[OffsetReply]):
    """GET_MIN_OFFSET: the oldest offset that still exists."""

    topic: str
    queue_id: int


@request(29, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.GET),))
@dataclass(frozen=True, slots=True)
class SearchOffset(RequestFor[OffsetReply]):
    """SEARCH_OFFSET_BY_TIMESTAMP. `upper` False: the first message stored at or after the time; True: the last at or before."""

    topic: str
    queue_id: int
    timestamp_ms: int
    upper: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerOffsetReply(Reply):
    """A group's offset in one queue; -1 = none was ever committed. era: see UpdateConsumerOffsets."""

    offset: int
    era: int = -1


@request(
    14,
    Lane.QUERY,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class QueryConsumerOffset(RequestFor[ConsumerOffsetReply]):
    """QUERY_CONSUMER_OFFSET."""

    group: str
    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class BeginOffsetsReply(Reply):
    """One (committed, first) for each requested queue, in that order: the group's offset, -1 = none was ever committed, and
    the oldest offset that still exists. eras: of each queue, see UpdateConsumerOffsets.
    """

    offsets: tuple[tuple[int, int], ...]
    eras: tuple[int, ...] = ()


@request(
    9011,
    Lane.QUERY,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class GetBeginOffsets(RequestFor[BeginOffsetsReply]):
    """Where a group continues in queues of a topic: one request for all, because a member may have a thousand."""

    group: str
    topic: str
    queue_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CommitReply(Reply):
    """`moved`: each (topic, queue id) whose offset was refused because it is of another era: begin again there."""

    moved: tuple[tuple[str, int], ...] = ()


@request(
    15,
    Lane.QUERY,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB, "offsets"), on_group(Action.SUB)),
)
@dataclass(frozen=True, slots=True)
class UpdateConsumerOffsets(RequestFor[CommitReply]):
    """UPDATE_CONSUMER_OFFSET, several queues at once: ((topic, queue id, offset), ...). As durable as a send.

    client_id: "" = no particular one; else an ordered consumer, which is refused (QueueNotOwned) if it does not have the
    lock of one of these queues (any more). forward_only: an offset below the committed one changes nothing, unless that is
    beyond the queue's end. For a member that may have lost a queue without knowing it yet. incarnations: of the topic of
    each offset; empty, or 0 = not given. One of a topic that was recreated since is refused. eras: of each offset: the
    group's era in that queue when the sender began there; empty, or -1 = not given. A reset begins a new era, 0 is before
    any reset. An offset of another era is refused, so no commit undoes a reset. bounded: an offset beyond its queue's end is
    refused (OffsetOutOfRange); of a proxy's clients.
    """

    group: str
    offsets: tuple[tuple[str, int, int], ...]
    client_id: str = ""
    forward_only: bool = False
    incarnations: tuple[int, ...] = ()
    eras: tuple[int, ...] = ()
    bounded: bool = False


@request(
    222,
    Lane.ADMIN,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.SUB), on_group(Action.UPDATE)),
)
@dataclass(frozen=True, slots=True)
class ResetOffsets(RequestFor[JsonReply]):
    """INVOKE_BROKER_TO_RESET_OFFSET. to: "earliest", "latest", "offset" or "time" with `value` (an offset or ms). queue_id:
    this queue only; -1 = all.

    Members of the group are notified (OffsetsReset). -> {"queues": [{topic, queue_id, from, to}]}, `from` null if nothing
    was committed; `dry_run` changes nothing.
    """

    group: str
    topic: str
    to: str
    value: int = 0
    dry_run: bool = False
    queue_id: int = -1


@request(220, Lane.HEARTBEAT, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class OffsetsReset(RequestFor[Done]):
    """RESET_CONSUMER_CLIENT_OFFSET: broker to client, one way: an operator reset the group. offsets: ((queue id, offset),
    ...).

    A member with one of these queues, of an older era, drops what it fetched and continues at the offset. A member that
    does not get this learns it from its next commit.
    """

    group: str
    broker_name: str
    topic: str
    offsets: tuple[tuple[int, int], ...]
    era: int


@request(
    314,
    Lane.ADMIN,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_group(Action.GET, "source"), on_group(Action.UPDATE)),
)
@dataclass(frozen=True, slots=True)
class CloneOffsets(RequestFor[JsonReply]):
    """CLONE_GROUP_OFFSET: `group` gets the offsets of `source`, in `topic` or ("") in all topics except the source's retry
    topic and dead letters. Members of `group` are notified (OffsetsReset).

    -> {"queues": [{topic, queue_id, from, to}]}; `dry_run` changes nothing.
    """

    source: str
    group: str
    topic: str = ""
    dry_run: bool = False
