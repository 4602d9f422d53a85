"""Requests of brokers and clients to a name server. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, Resource, as_replica, listed, on_cluster, on_topic
from .base import Done, JsonReply, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class RegisterReply(Reply):
    """`publish_port`: where this name server publishes route changes."""

    publish_port: int


@request(103, Lane.HEARTBEAT, served_by=ServedBy.NAME_SERVER, needs=(as_replica(),))
@dataclass(frozen=True, slots=True)
class RegisterBroker(RequestFor[RegisterReply]):
    """REGISTER_BROKER: all topics of one broker. topics: ((name, read queues, write queues, permission), ...).

    `epoch`: of the registering master; a name server ignores a lower one of the same broker name. `cluster_id`: a cluster
    of the same name with another id is refused (WrongCluster) while the first is alive. incarnations: of the topics, in the
    same order; empty = not given. `version`: of these topics, which heartbeats and UpdateTopics name; 0 = not given.
    `is_whole` False: more topics follow (RegisterTopics); those that were registered before stay until the last have come.
    `open_address`: where clients without a key connect to; "" = nowhere else.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    epoch: int
    topics: tuple[tuple[str, int, int, int], ...]
    replication_address: str = ""
    cluster_id: str = ""
    incarnations: tuple[int, ...] = ()
    version: int = 0
    is_whole: bool = True
    open_address: str = ""


@request(104, Lane.HEARTBEAT, served_by=ServedBy.NAME_SERVER, needs=(as_replica(),))
@dataclass(frozen=True, slots=True)
class UnregisterBroker(RequestFor[Done]):
    """UNREGISTER_BROKER: this member leaves now."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class ClusterIdReply(Reply):
    """The id of the cluster with that name, and how certain it is (`Standing`); "" while the name server is still listening."""

    cluster_id: str
    standing: str


@request(9030, Lane.HEARTBEAT, served_by=ServedBy.NAME_SERVER, needs=(on_cluster(Action.SERVE),))
@dataclass(frozen=True, slots=True)
class ClaimClusterId(RequestFor[ClusterIdReply]):
    """A broker without an id asks for the id of the cluster with its name; if none is known, it offers one."""

    cluster: str
    offered: str


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatReply(Reply):
    """`known` False: this name server does not know the broker, or not these topics (it restarted): register again."""

    known: bool


@request(904, Lane.HEARTBEAT, served_by=ServedBy.NAME_SERVER, needs=(as_replica(),))
@dataclass(frozen=True, slots=True)
class BrokerHeartbeat(RequestFor[BrokerHeartbeatReply]):
    """BROKER_HEARTBEAT, each second; 10 s of silence = dead. `takes_writes` False: the disk is full, only reads are served.
    `version`: of the topics that the name server should know; 0 = not given."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    epoch: int
    cluster_id: str = ""
    takes_writes: bool = True
    version: int = 0


@request(9147, Lane.HEARTBEAT, served_by=ServedBy.NAME_SERVER, needs=(as_replica(),))
@dataclass(frozen=True, slots=True)
class RegisterTopics(RequestFor[BrokerHeartbeatReply]):
    """More topics of a broker whose registration was not whole. `piece`: 1 for the first of these requests. topics:
    ((name, read queues, write queues, permission, incarnation), ...)."""

    broker_name: str
    broker_id: int
    address: str
    version: int
    piece: int
    topics: tuple[tuple[str, int, int, int, int], ...]
    is_last: bool


@request(9148, Lane.HEARTBEAT, served_by=ServedBy.NAME_SERVER, needs=(as_replica(),))
@dataclass(frozen=True, slots=True)
class UpdateTopics(RequestFor[BrokerHeartbeatReply]):
    """What has changed in a broker's topics since the version `since`; `topics` as in RegisterTopics, `removed`: names."""

    broker_name: str
    broker_id: int
    address: str
    since: int
    version: int
    topics: tuple[tuple[str, int, int, int, int], ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RouteReply(Reply):
    """queues: ((broker name, read queues, write queues, permission), ...).

    brokers: ((cluster, broker name, ((broker id, address), ...)), ...). cluster_ids: ((cluster, its id), ...).
    incarnations: of the topic at each of `queues`. server_keys: ((address, public key), ...) of the brokers, and `mark`, by
    which the name server announces changes of this topic; both only to a client with a key.
    """

    queues: tuple[tuple[str, int, int, int], ...]
    brokers: tuple[tuple[str, str, tuple[tuple[int, str], ...]], ...]
    publish_port: int = 0
    cluster_ids: tuple[tuple[str, str], ...] = ()
    incarnations: tuple[int, ...] = ()
    server_keys: tuple[tuple[str, str], ...] = ()
    mark: str = ""


@request(105, Lane.QUERY, served_by=ServedBy.NAME_SERVER, needs=(on_topic(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetRoute(RequestFor[RouteReply]):
    """GET_ROUTEINFO_BY_TOPIC; TopicNotFound if no broker has the topic. "%LMQ%": every broker, because each may have any light
    queue."""

    topic: str


@dataclass(frozen=True, slots=True)
class ServerKeysReply(Reply):
    """server_keys: ((address, public key), ...) of all brokers that are registered, and of the servers of the trusted file."""

    server_keys: tuple[tuple[str, str], ...]


@request(9210, Lane.QUERY, served_by=ServedBy.NAME_SERVER, needs=())
@dataclass(frozen=True, slots=True)
class GetServerKeys(RequestFor[ServerKeysReply]):
    """The public keys of servers, for whoever has a key of its own."""


@dataclass(frozen=True, slots=True)
class TopicListReply(Reply):
    """Topic names, sorted. `has_more`: others follow the last of these."""

    topics: tuple[str, ...]
    has_more: bool = False


@request(206, Lane.QUERY, served_by=ServedBy.NAME_SERVER, needs=(listed(Resource.TOPIC),))
@dataclass(frozen=True, slots=True)
class GetTopicList(RequestFor[TopicListReply]):
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER. The topics behind `after`, at most `count_max` (0: all, if a header has room)."""

    after: str = ""
    count_max: int = 0


@request(106, Lane.QUERY, served_by=ServedBy.NAME_SERVER, needs=())
@dataclass(frozen=True, slots=True)
class GetClusterInfo(RequestFor[JsonReply]):
    """GET_BROKER_CLUSTER_INFO: {"clusters": {name: [broker name]}, "brokers": [{cluster, cluster_id, broker_name,
    broker_id, address, replication_address, epoch, last_heartbeat_ms_ago, writeable}]}. For every user: routes tell as much."""


@dataclass(frozen=True, slots=True)
class CountReply(Reply):
    """How many entries were changed."""

    count: int


@request(205, Lane.ADMIN, served_by=ServedBy.NAME_SERVER, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class WipeWritePermission(RequestFor[CountReply]):
    """WIPE_WRITE_PERM_OF_BROKER: producers leave this broker; stays in force over its registrations until given back."""

    broker_name: str


@request(327, Lane.ADMIN, served_by=ServedBy.NAME_SERVER, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class AddWritePermission(RequestFor[CountReply]):
    """ADD_WRITE_PERM_OF_BROKER: gives the permission back."""

    broker_name: str


@request(216, Lane.ADMIN, served_by=ServedBy.NAME_SERVER, needs=(on_topic(Action.DELETE),))
@dataclass(frozen=True, slots=True)
class DeleteTopicRoute(RequestFor[Done]):
    """DELETE_TOPIC_IN_NAMESRV: removes a topic until a broker registers it again."""

    topic: str
