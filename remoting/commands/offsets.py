"""Requests for queue offsets and committed offsets. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request
from .rights import Action, on_group, on_topic


@dataclass(frozen=True, slots=True)
class OffsetReply(Reply):
    """One queue offset."""

    offset: int


@request(30, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.DESCRIBE),))
@dataclass(frozen=True, slots=True)
class GetMaxOffset(RequestFor[OffsetReply]):
    """GET_MAX_OFFSET: the offset that the next message will get."""

    topic: str
    queue_id: int


@request(31, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.DESCRIBE),))
@dataclass(frozen=True, slots=True)
class GetMinOffset(RequestFor[OffsetReply]):
    """GET_MIN_OFFSET: the oldest offset still held."""

    topic: str
    queue_id: int


@request(29, Lane.QUERY, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.DESCRIBE),))
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
    needs=(on_topic(Action.RECEIVE), on_group(Action.RECEIVE)),
)
@dataclass(frozen=True, slots=True)
class QueryConsumerOffset(RequestFor[ConsumerOffsetReply]):
    """QUERY_CONSUMER_OFFSET."""

    group: str
    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class BeginOffsetsReply(Reply):
    """One (committed, first) for each queue that was asked for, in that order: the group's offset, -1 = none was ever
    committed, and the oldest offset still held. eras: of each queue, see UpdateConsumerOffsets."""

    offsets: tuple[tuple[int, int], ...]
    eras: tuple[int, ...] = ()


@request(
    9011,
    Lane.QUERY,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.RECEIVE), on_group(Action.RECEIVE)),
)
@dataclass(frozen=True, slots=True)
class GetBeginOffsets(RequestFor[BeginOffsetsReply]):
    """Where a group goes on in queues of a topic: all of them in one question, since a member may have a thousand."""

    group: str
    topic: str
    queue_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CommitReply(Reply):
    """`moved`: the (topic, queue id) whose offset was not taken, as it is of another era: begin there anew."""

    moved: tuple[tuple[str, int], ...] = ()


@request(
    15,
    Lane.QUERY,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.RECEIVE, "offsets"), on_group(Action.RECEIVE)),
)
@dataclass(frozen=True, slots=True)
class UpdateConsumerOffsets(RequestFor[CommitReply]):
    """UPDATE_CONSUMER_OFFSET, several queues at once: ((topic, queue id, offset), ...). Durable as a send is.

    client_id: "" = of nobody in particular; else who consumes in order, and is refused (QueueNotOwned) where it does not
    have the lock of one of these queues (any more).
    forward_only: an offset below what is committed changes nothing, unless that is beyond the queue's end. For who may have
    lost a queue and not know it yet.
    incarnations: of the topic of each offset; none, or 0 = not said. One of a topic that was made again since is not taken.
    eras: of each offset: the era of the group in that queue when the sender began there; none, or -1 = not said. A reset
    begins a new era, 0 is before any reset. What is of another era is not taken, so no commit undoes a reset.
    """

    group: str
    offsets: tuple[tuple[str, int, int], ...]
    client_id: str = ""
    forward_only: bool = False
    incarnations: tuple[int, ...] = ()
    eras: tuple[int, ...] = ()


@request(
    222,
    Lane.ADMIN,
    served_by=ServedBy.MASTER_CONFIRMED,
    needs=(on_topic(Action.RECEIVE), on_group(Action.CHANGE)),
)
@dataclass(frozen=True, slots=True)
class ResetOffsets(RequestFor[JsonReply]):
    """INVOKE_BROKER_TO_RESET_OFFSET. to: "earliest", "latest", "offset" or "time" with `value` (an offset or ms). queue_id: of
    this queue only; -1 = of all.

    Members of the group are told (OffsetsReset). -> {"queues": [{topic, queue_id, from, to}]}, `from` null where nothing
    was committed; `dry_run` changes nothing."""

    group: str
    topic: str
    to: str
    value: int = 0
    dry_run: bool = False
    queue_id: int = -1


@request(220, Lane.HEARTBEAT, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class OffsetsReset(RequestFor[Done]):
    """RESET_CONSUMER_CLIENT_OFFSET: broker to client, one way: an operator moved the group. offsets: ((queue id, offset), ...).

    Who has one of these queues, of an older era, drops what it fetched and goes on at the offset. Who is not told learns it
    from its next commit.
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
    needs=(on_group(Action.DESCRIBE, "source"), on_group(Action.CHANGE)),
)
@dataclass(frozen=True, slots=True)
class CloneOffsets(RequestFor[JsonReply]):
    """CLONE_GROUP_OFFSET: `group` goes on where `source` is, in `topic` or ("") in all topics but the source's retry topic
    and dead letters. Members of `group` are told (OffsetsReset).

    -> {"queues": [{topic, queue_id, from, to}]}; `dry_run` changes nothing."""

    source: str
    group: str
    topic: str = ""
    dry_run: bool = False
