"""Requests about clients and their groups. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, Resource, listed, on_group
from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class HeartbeatReply(Reply):
    """`heartbeat_ms`: send the next one within this time. conflicts: ((group, topic, client id), ...): that member has
    another subscription to the topic than the sender of the heartbeat.
    """

    heartbeat_ms: int
    conflicts: tuple[tuple[str, str, str], ...] = ()


@request(
    34,
    Lane.HEARTBEAT,
    served_by=ServedBy.MASTER,
    needs=(on_group(Action.PUB, "producers"), on_group(Action.SUB, "consumers")),
)
@dataclass(frozen=True, slots=True)
class Heartbeat(RequestFor[HeartbeatReply]):
    """HEART_BEAT. producers: (group, ...). consumers: ((group, model, ((topic, kind, expression), ...)), ...).

    kind: TAG or SQL92. language, version: of the client's library. host, pid, started_at_ms: of its process, to distinguish
    two with one client id (0 = not given). allocation: how it assigns queues to members.
    """

    client_id: str
    producers: tuple[str, ...] = ()
    consumers: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = ()
    language: str = ""
    version: str = ""
    host: str = ""
    pid: int = 0
    started_at_ms: int = 0
    allocation: str = ""


@dataclass(frozen=True, slots=True)
class KeepClientsReply(Reply):
    """`heartbeat_ms`, `conflicts`: as in HeartbeatReply, for all of them. unknown: those whose own heartbeat is wanted."""

    heartbeat_ms: int
    unknown: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str, str], ...] = ()


@request(9026, Lane.HEARTBEAT, served_by=ServedBy.MASTER, needs=())
@dataclass(frozen=True, slots=True)
class KeepClients(RequestFor[KeepClientsReply]):
    """These clients live, and say what they said in their last heartbeats, which came by the same connection and of the same
    user: at most 1,000, for a process that has very many.
    """

    client_ids: tuple[str, ...]


@request(35, Lane.HEARTBEAT, served_by=ServedBy.MASTER, needs=())
@dataclass(frozen=True, slots=True)
class UnregisterClient(RequestFor[Done]):
    """UNREGISTER_CLIENT: the client leaves all its groups now. pid, started_at_ms: as in its heartbeats; nothing changes if
    another process is known by this client id.
    """

    client_id: str
    pid: int = 0
    started_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerListReply(Reply):
    """Client ids of a group's members, sorted. settled: the broker has led long enough for all to have reported."""

    client_ids: tuple[str, ...]
    settled: bool = True


@request(38, Lane.HEARTBEAT, served_by=ServedBy.MASTER, needs=(on_group(Action.SUB),))
@dataclass(frozen=True, slots=True)
class GetConsumerList(RequestFor[ConsumerListReply]):
    """GET_CONSUMER_LIST_BY_GROUP. topic: only members that share its queues: they subscribe to it, and do not each read
    all; "" = all members.
    """

    group: str
    topic: str = ""


@request(9025, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_group(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetGroupClients(RequestFor[JsonReply]):
    """The members of a group: {"group", "clients": [{client_id, model, language, version, host, pid, started_at_ms,
    allocation, silent_ms, subscriptions: [[topic, kind, expression]]}]}; silent_ms: since its last heartbeat.
    """

    group: str


@request(40, Lane.HEARTBEAT, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class ConsumersChanged(RequestFor[Done]):
    """NOTIFY_CONSUMER_IDS_CHANGED: broker to client, one way: rebalance now."""

    group: str


@request(200, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_group(Action.CREATE), on_group(Action.UPDATE)))
@dataclass(frozen=True, slots=True)
class CreateGroup(RequestFor[Done]):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP. attributes: ((name, value as JSON), ...), RocketMQ's field names."""

    group: str
    attributes: tuple[tuple[str, str], ...] = ()


@request(201, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(listed(Resource.GROUP),))
@dataclass(frozen=True, slots=True)
class GetGroups(RequestFor[JsonReply]):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {"groups": [{name, members, topics, ...}]}."""


@request(207, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_group(Action.DELETE),))
@dataclass(frozen=True, slots=True)
class DeleteGroup(RequestFor[Done]):
    """DELETE_SUBSCRIPTIONGROUP, with the group's offsets."""

    group: str


@request(208, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_group(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetConsumeStatistics(RequestFor[JsonReply]):
    """GET_CONSUME_STATS: {"group", "members": [client id], "queues": [{topic, queue_id, broker_queue_offset,
    consumer_queue_offset, lag, lag_seconds, owner}], "sharing": {topic: {members, allocation}}, "conflicts": [{topic,
    subscriptions: [{kind, expression, members}]}]}; null = unknown; owner: who has locked the queue; allocation null =
    the members do not agree on one."""

    group: str
