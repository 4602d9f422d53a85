"""Administration of a broker. Documents travel as JSON in a payload frame; `--json` prints them as they were sent. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, Resource, listed, on_cluster, on_topic
from .base import Done, JsonReply, Lane, RequestFor, ServedBy, request


@request(17, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_topic(Action.CREATE), on_topic(Action.UPDATE)))
@dataclass(frozen=True, slots=True)
class CreateTopic(RequestFor[Done]):
    """UPDATE_AND_CREATE_TOPIC. attributes: ((name, value), ...).

    An existing topic gets these settings; queues are never removed.
    """

    topic: str
    read_queues: int
    write_queues: int
    permission: int = 6
    order: bool = False
    attributes: tuple[tuple[str, str], ...] = ()


@request(215, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_topic(Action.DELETE),))
@dataclass(frozen=True, slots=True)
class DeleteTopic(RequestFor[Done]):
    """DELETE_TOPIC_IN_BROKER."""

    topic: str


@request(21, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(listed(Resource.TOPIC),))
@dataclass(frozen=True, slots=True)
class GetTopics(RequestFor[JsonReply]):
    """GET_ALL_TOPIC_CONFIG: {"topics": [{name, read_queues, write_queues, permission, order, attributes, system}]}.

    `prefix`: only those whose names begin so.
    """

    prefix: str = ""


@request(202, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_topic(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetTopicStatistics(RequestFor[JsonReply]):
    """GET_TOPIC_STATS_INFO: {"topic", "incarnation", "compacted", "queues": [{queue_id, min_offset, max_offset,
    last_stored_at_ms}]}."""

    topic: str


@request(9151, Lane.ADMIN, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class CompactTopic(RequestFor[JsonReply]):
    """How far a compacted topic is compacted at this replica; `begins`: it is compacted now, whatever that frees.

    {"topic", "ends_run", "runs", "is_running", "queues": [{"queue_id", "covered", "messages", "bytes", "tombstones", "lost",
    "waits_for"}]}: what was asked for has been done once `runs` exceeds `ends_run`. `covered`: messages below that queue offset
    have been taken from the log. `waits_for`: why the last run did not take all, or null.
    """

    topic: str
    begins: bool = False


@request(28, Lane.ADMIN, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetBrokerStatistics(RequestFor[JsonReply]):
    """GET_BROKER_RUNTIME_INFO: counters, positions and memory of the broker (shape: docs/operate.md)."""


@request(9009, Lane.ADMIN, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class ScrubLog(RequestFor[Done]):
    """The broker reads and checks its whole log again, starting now, whatever its load; its statistics report progress and
    findings. `bytes_per_second` 0: as configured.
    """

    bytes_per_second: int = 0


@request(9214, Lane.ADMIN, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class DrainBroker(RequestFor[Done]):
    """The broker hands over what it does in its replica group, and is not elected again while it runs; its statistics say how
    far that is (`replication.drain`). `ends`: then it leaves the in-sync set and its process ends, 20 s later at most.
    `undo`: it works as before.
    """

    ends: bool = False
    undo: bool = False


@request(26, Lane.ADMIN, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetBrokerConfig(RequestFor[JsonReply]):
    """GET_BROKER_CONFIG: {"key": value}, as used by the process."""
