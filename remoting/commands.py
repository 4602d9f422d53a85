"""Every request and its reply, as typed values, in one table {code: request class, reply class, lane}.

Codes are RocketMQ's own (`RequestCode`). The fields travel by position in the header's ext list (see `header.py`), in
the order written here: a field is only ever appended, with a default, so that an older peer's shorter list still
decodes. Field types are int, str, bool, bytes and (nested) tuples of them; nothing else goes on the wire.
Bulk bytes (records) travel in payload frames beside the header, never in a field.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar


class Lane(enum.Enum):
    """The class of a request: each keeps its own queue limit and deadline, so that one cannot starve another."""

    SEND = "send"
    PULL = "pull"
    QUERY = "query"
    ADMIN = "admin"
    HEARTBEAT = "heartbeat"


class GetStatus(enum.IntEnum):
    """How a pull ended (RocketMQ's GetMessageStatus) and, in the comment, the next offset it implies."""

    FOUND = 0  # past the last unit examined
    NO_MATCHED_MESSAGE = 1  # past the last unit examined
    MESSAGE_WAS_REMOVING = 2  # the first offset of the next queue file
    OFFSET_FOUND_NULL = 3  # the first offset of the next queue file
    OFFSET_OVERFLOW_BADLY = 4  # the minimum where that is 0, else the maximum
    OFFSET_OVERFLOW_ONE = 5  # the same
    OFFSET_TOO_SMALL = 6  # the minimum
    NO_MATCHED_LOGIC_QUEUE = 7  # 0
    NO_MESSAGE_IN_QUEUE = 8  # 0


class Request:
    """Root of requests. `code`, `lane` and `reply` (the class of the answer) are the table's columns."""

    __slots__ = ()

    code: ClassVar[int]
    lane: ClassVar[Lane]
    reply: ClassVar[type[Reply]]


class Reply:
    """Root of replies; an empty one says "done"."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Done(Reply):
    """The request was carried out; there is nothing to tell."""


REQUESTS: Final[dict[int, type[Request]]] = {}

_R = TypeVar("_R", bound=type[Request])


def request(code: int, lane: Lane, reply: type[Reply] = Done) -> Callable[[_R], _R]:
    """Registers a request class in the table; a code is given once."""

    def register(cls: _R) -> _R:
        if code in REQUESTS:
            raise ValueError(f"request code {code} is given twice")
        cls.code, cls.lane, cls.reply = code, lane, reply
        REQUESTS[code] = cls
        return cls

    return register


# ---- sending


@dataclass(slots=True)
class SendReply(Reply):
    """Where a batch landed. Record i is at queue offset `queue_offset + i`. Like SendMessages not frozen: each is made anew
    for every send, and freezing doubles what that costs.

    `physical_offset`: of the first record; the records follow one another unless `pieces` ((count, physical offset),
    ...) says that the batch was larger than a segment and had to be split. `store_host`: 8 or 20 bytes.
    """

    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    store_host: bytes
    pieces: tuple[tuple[int, int], ...] = ()


@request(320, Lane.SEND, SendReply)
@dataclass(slots=True)
class SendMessages(Request):
    """SEND_BATCH_MESSAGE. Payload: `count` complete commit-log records of one topic, broker-assigned fields zero."""

    topic: str
    queue_id: int
    count: int
    producer_group: str = ""


# ---- pulling and offsets


@dataclass(frozen=True, slots=True)
class PullReply(Reply):
    """What was found from the asked offset on. Payload: `count` whole records, back to back, in queue order.

    The record that has queue offset q is not told beside it: records carry their own. `suggested_broker_id`: read
    from there next.
    """

    status: int  # GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    count: int
    suggested_broker_id: int = 0


@request(11, Lane.PULL, PullReply)
@dataclass(frozen=True, slots=True)
class PullMessages(Request):
    """PULL_MESSAGE. Nothing there and `suspend_ms` > 0: the reply waits for a message at most that long.

    `tag_codes`: hashes wanted, sorted; empty = all. `max_messages`, `max_bytes`: bounds (the broker's own hold too).
    """

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    max_bytes: int
    suspend_ms: int = 0
    tag_codes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetReply(Reply):
    """One queue offset."""

    offset: int


@request(30, Lane.QUERY, OffsetReply)
@dataclass(frozen=True, slots=True)
class GetMaxOffset(Request):
    """GET_MAX_OFFSET: the offset that the next message will get."""

    topic: str
    queue_id: int


@request(31, Lane.QUERY, OffsetReply)
@dataclass(frozen=True, slots=True)
class GetMinOffset(Request):
    """GET_MIN_OFFSET: the oldest offset still held."""

    topic: str
    queue_id: int


@request(29, Lane.QUERY, OffsetReply)
@dataclass(frozen=True, slots=True)
class SearchOffset(Request):
    """SEARCH_OFFSET_BY_TIMESTAMP. `upper` False: the first message stored at or after the time; True: the last at or before."""

    topic: str
    queue_id: int
    timestamp_ms: int
    upper: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerOffsetReply(Reply):
    """A group's offset in one queue; -1 = none was ever committed."""

    offset: int


@request(14, Lane.QUERY, ConsumerOffsetReply)
@dataclass(frozen=True, slots=True)
class QueryConsumerOffset(Request):
    """QUERY_CONSUMER_OFFSET."""

    group: str
    topic: str
    queue_id: int


@request(15, Lane.QUERY)
@dataclass(frozen=True, slots=True)
class UpdateConsumerOffsets(Request):
    """UPDATE_CONSUMER_OFFSET, several queues at once: ((topic, queue id, offset), ...). Durable as a send is."""

    group: str
    offsets: tuple[tuple[str, int, int], ...]


# ---- looking up messages


@dataclass(frozen=True, slots=True)
class MessagesReply(Reply):
    """Payload: `count` whole records, back to back."""

    count: int


@request(12, Lane.QUERY, MessagesReply)
@dataclass(frozen=True, slots=True)
class QueryMessages(Request):
    """QUERY_MESSAGE: by key (or unique id, `unique`) within [begin_ms, end_ms]; newest first, hash collisions resolved."""

    topic: str
    key: str
    max_messages: int = 64
    begin_ms: int = 0
    end_ms: int = 1 << 62
    unique: bool = False


@request(33, Lane.QUERY, MessagesReply)
@dataclass(frozen=True, slots=True)
class ViewMessage(Request):
    """VIEW_MESSAGE_BY_ID: the one record that begins at a physical offset; MessageNotFound where none does."""

    physical_offset: int


# ---- clients and groups


@dataclass(frozen=True, slots=True)
class HeartbeatReply(Reply):
    """`heartbeat_ms`: send the next within it."""

    heartbeat_ms: int


@request(34, Lane.HEARTBEAT, HeartbeatReply)
@dataclass(frozen=True, slots=True)
class Heartbeat(Request):
    """HEART_BEAT. producers: (group, ...). consumers: ((group, model, ((topic, expression), ...)), ...)."""

    client_id: str
    producers: tuple[str, ...] = ()
    consumers: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = ()


@request(35, Lane.HEARTBEAT)
@dataclass(frozen=True, slots=True)
class UnregisterClient(Request):
    """UNREGISTER_CLIENT: the client leaves all its groups now."""

    client_id: str


@dataclass(frozen=True, slots=True)
class ConsumerListReply(Reply):
    """Client ids of a group's members, sorted."""

    client_ids: tuple[str, ...]


@request(38, Lane.HEARTBEAT, ConsumerListReply)
@dataclass(frozen=True, slots=True)
class GetConsumerList(Request):
    """GET_CONSUMER_LIST_BY_GROUP."""

    group: str


@request(40, Lane.HEARTBEAT)
@dataclass(frozen=True, slots=True)
class ConsumersChanged(Request):
    """NOTIFY_CONSUMER_IDS_CHANGED: broker to client, one way: rebalance now."""

    group: str


# ---- administration of a broker. Documents travel as JSON in a payload frame, so that `--json` shows what was sent


@dataclass(frozen=True, slots=True)
class JsonReply(Reply):
    """Payload: one JSON document; its shape is the request's, given in its docstring."""


@request(17, Lane.ADMIN)
@dataclass(frozen=True, slots=True)
class CreateTopic(Request):
    """UPDATE_AND_CREATE_TOPIC. attributes: ((name, value), ...). An existing one takes these settings; queues never shrink."""

    topic: str
    read_queues: int
    write_queues: int
    permission: int = 6
    order: bool = False
    attributes: tuple[tuple[str, str], ...] = ()


@request(215, Lane.ADMIN)
@dataclass(frozen=True, slots=True)
class DeleteTopic(Request):
    """DELETE_TOPIC_IN_BROKER."""

    topic: str


@request(21, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetTopics(Request):
    """GET_ALL_TOPIC_CONFIG: {"topics": [{name, read_queues, write_queues, permission, order, attributes, system}]}."""


@request(202, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetTopicStatistics(Request):
    """GET_TOPIC_STATS_INFO: {"topic", "queues": [{queue_id, min_offset, max_offset, last_stored_at_ms}]}."""

    topic: str


@request(200, Lane.ADMIN)
@dataclass(frozen=True, slots=True)
class CreateGroup(Request):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP. attributes: ((name, value as JSON), ...), RocketMQ's field names."""

    group: str
    attributes: tuple[tuple[str, str], ...] = ()


@request(201, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetGroups(Request):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {"groups": [{name, members, topics, ...}]}."""


@request(207, Lane.ADMIN)
@dataclass(frozen=True, slots=True)
class DeleteGroup(Request):
    """DELETE_SUBSCRIPTIONGROUP, with the group's offsets."""

    group: str


@request(208, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetConsumeStatistics(Request):
    """GET_CONSUME_STATS: {"group", "members": [client id], "queues": [{topic, queue_id, broker_queue_offset,
    consumer_queue_offset, lag, lag_seconds, owner}]}; lag_seconds null = unknown."""

    group: str


@request(222, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class ResetOffsets(Request):
    """INVOKE_BROKER_TO_RESET_OFFSET. to: "earliest", "latest", "offset" or "time" with `value` (an offset or ms).

    -> {"queues": [{topic, queue_id, from, to}]}; `dry_run` changes nothing."""

    group: str
    topic: str
    to: str
    value: int = 0
    dry_run: bool = False


@request(28, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetBrokerStatistics(Request):
    """GET_BROKER_RUNTIME_INFO: counters, positions and memory of the broker (shape: docs/operate.md)."""


@request(26, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetBrokerConfig(Request):
    """GET_BROKER_CONFIG: {"key": value} as the process runs with."""


# ---- name server


@dataclass(frozen=True, slots=True)
class RegisterReply(Reply):
    """`publish_port`: where this name server publishes route changes."""

    publish_port: int


@request(103, Lane.HEARTBEAT, RegisterReply)
@dataclass(frozen=True, slots=True)
class RegisterBroker(Request):
    """REGISTER_BROKER: all topics of one broker. topics: ((name, read queues, write queues, permission), ...).

    `epoch`: of the registering master; a name server ignores a lower one of the same broker name.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    epoch: int
    topics: tuple[tuple[str, int, int, int], ...]
    replication_address: str = ""


@request(104, Lane.HEARTBEAT)
@dataclass(frozen=True, slots=True)
class UnregisterBroker(Request):
    """UNREGISTER_BROKER: this member leaves now."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatReply(Reply):
    """`known` False: this name server does not know the broker (it restarted): register again."""

    known: bool


@request(904, Lane.HEARTBEAT, BrokerHeartbeatReply)
@dataclass(frozen=True, slots=True)
class BrokerHeartbeat(Request):
    """BROKER_HEARTBEAT, each second; 10 s of silence = dead."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class RouteReply(Reply):
    """queues: ((broker name, read queues, write queues, permission), ...).

    brokers: ((cluster, broker name, ((broker id, address), ...)), ...).
    """

    queues: tuple[tuple[str, int, int, int], ...]
    brokers: tuple[tuple[str, str, tuple[tuple[int, str], ...]], ...]
    publish_port: int = 0


@request(105, Lane.QUERY, RouteReply)
@dataclass(frozen=True, slots=True)
class GetRoute(Request):
    """GET_ROUTEINFO_BY_TOPIC; TopicNotFound where no broker has the topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicListReply(Reply):
    """Topic names, sorted."""

    topics: tuple[str, ...]


@request(206, Lane.QUERY, TopicListReply)
@dataclass(frozen=True, slots=True)
class GetTopicList(Request):
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""


@request(106, Lane.QUERY, JsonReply)
@dataclass(frozen=True, slots=True)
class GetClusterInfo(Request):
    """GET_BROKER_CLUSTER_INFO: {"clusters": {name: [broker name]}, "brokers": [{cluster, broker_name, broker_id, address,
    epoch, last_heartbeat_ms_ago, writeable}]}."""


@dataclass(frozen=True, slots=True)
class CountReply(Reply):
    """How many things were changed."""

    count: int


@request(205, Lane.ADMIN, CountReply)
@dataclass(frozen=True, slots=True)
class WipeWritePermission(Request):
    """WIPE_WRITE_PERM_OF_BROKER: producers leave this broker; kept over its registrations until given back."""

    broker_name: str


@request(327, Lane.ADMIN, CountReply)
@dataclass(frozen=True, slots=True)
class AddWritePermission(Request):
    """ADD_WRITE_PERM_OF_BROKER: gives it back."""

    broker_name: str


@request(216, Lane.ADMIN)
@dataclass(frozen=True, slots=True)
class DeleteTopicRoute(Request):
    """DELETE_TOPIC_IN_NAMESRV: forgets a topic until a broker registers it again."""

    topic: str


# ---- controller. Every reply and push carries the group's node as ZooKeeper holds it: its JSON bytes and their version


@dataclass(frozen=True, slots=True)
class GroupReply(Reply):
    """A replica group: `node` is the content of its ZooKeeper node (docs/formats/group-node.md), `version` the node's.

    `node` is empty where the request named that version already. A version lower than one adopted is old news.
    """

    version: int
    node: bytes


@request(1003, Lane.HEARTBEAT, GroupReply)
@dataclass(frozen=True, slots=True)
class RegisterReplica(Request):
    """REGISTER_BROKER of the controller: a process tells of its life, and of what it may have forgotten (rule R9).

    `life`: a token the process drew at its start, so that the same registration asked twice is known as one.
    `epoch`: the highest it has persisted. `clean_marker`: the last life stopped cleanly, with its log ending at
    `marker_end` (-1: no marker). `same_boot`: the kernel is the one of the last life. `ran_async`: the last life
    counted bytes as its own that it had not flushed. `log_end`: where the log ends now. `set_back`: StartCounterBehind
    was the answer before, now or in a life whose registration was not seen.
    No node is adopted before this was answered: one that was heard earlier may mean another life.
    """

    broker_name: str
    name: str
    address: str
    replication_address: str
    store_id: str
    starts: int
    life: str
    epoch: int
    log_end: int
    clean_marker: bool
    marker_end: int
    same_boot: bool
    ran_async: bool
    set_back: bool = False


@request(9001, Lane.HEARTBEAT, GroupReply)
@dataclass(frozen=True, slots=True)
class ReplicaHeartbeat(Request):
    """A sign of life, each 0.5 s. `version`: the newest node adopted. `epoch`: the highest persisted. `probe`: the number of
    the last ProbeReplica; a probe is answered by a heartbeat at once. IncarnationUnknown, UnknownReplica: register."""

    broker_name: str
    name: str
    store_id: str
    starts: int
    version: int
    epoch: int
    log_end: int
    confirm_offset: int
    probe: int = 0


@request(9002, Lane.HEARTBEAT, GroupReply)
@dataclass(frozen=True, slots=True)
class ReportMasterGone(Request):
    """A slave's session ended because `master`, elected in `epoch`, closed it. Said again each 0.5 s while that lasts."""

    broker_name: str
    name: str
    store_id: str
    starts: int
    epoch: int
    master: str


@request(1001, Lane.HEARTBEAT, GroupReply)
@dataclass(frozen=True, slots=True)
class AlterInSync(Request):
    """ALTER_SYNC_STATE_SET: the master, in its elected life, proposes the in-sync set; built on `version` and no other."""

    broker_name: str
    version: int
    epoch: int
    master: str
    store_id: str
    starts: int
    in_sync: tuple[str, ...]


@request(1002, Lane.ADMIN, GroupReply)
@dataclass(frozen=True, slots=True)
class ElectMaster(Request):
    """ELECT_MASTER, an operator's. candidate "": the best. `force`: also one that may lack acknowledged messages (they are
    lost), once the old master was silent for a dead time."""

    broker_name: str
    version: int
    candidate: str = ""
    force: bool = False


@request(9003, Lane.ADMIN, GroupReply)
@dataclass(frozen=True, slots=True)
class ChangeGroup(Request):
    """settings: ((name, value), ...) of GroupSettings as text; those not named stay. Built on `version` and no other."""

    broker_name: str
    version: int
    settings: tuple[tuple[str, str], ...]


@request(1011, Lane.ADMIN, GroupReply)
@dataclass(frozen=True, slots=True)
class RemoveReplica(Request):
    """CLEAN_BROKER_DATA: the group forgets a replica, which is neither its master nor needed for an election."""

    broker_name: str
    version: int
    name: str


@request(9004, Lane.ADMIN, GroupReply)
@dataclass(frozen=True, slots=True)
class RestoreGroup(Request):
    """After ZooKeeper lost its data: the group begins anew above `epoch`, the highest that any replica has persisted.
    version -1: there is no node. Nobody is electable then until an operator forces it."""

    broker_name: str
    version: int
    epoch: int


@request(1004, Lane.QUERY, GroupReply)
@dataclass(frozen=True, slots=True)
class GetGroup(Request):
    """GET_REPLICA_INFO: the node as it is now; ReplicaGroupNotFound."""

    broker_name: str


@dataclass(frozen=True, slots=True)
class ControllerReply(Reply):
    """Addresses of the controller that leads ("" = none known) and of all of them; the groups there are, sorted."""

    leader: str
    controllers: tuple[str, ...]
    broker_names: tuple[str, ...]


@request(1005, Lane.QUERY, ControllerReply)
@dataclass(frozen=True, slots=True)
class GetController(Request):
    """CONTROLLER_GET_METADATA_INFO: answered by every controller, leading or not."""


@request(1008, Lane.HEARTBEAT)
@dataclass(frozen=True, slots=True)
class GroupChanged(Request):
    """NOTIFY_BROKER_ROLE_CHANGED: controller to replica, one way: the node has become this."""

    broker_name: str
    version: int
    node: bytes


@request(9005, Lane.HEARTBEAT)
@dataclass(frozen=True, slots=True)
class ProbeReplica(Request):
    """Controller to replica, one way: send a heartbeat with this number at once."""

    broker_name: str
    probe: int


@request(9006, Lane.ADMIN, JsonReply)
@dataclass(frozen=True, slots=True)
class GetBeginning(Request):
    """Slave to master: what a log that begins at the master's own begin must know (broker/replication/beginning):
    {"begin", "epochs", "snapshots", "queue_minimums"}."""


@request(9007, Lane.ADMIN)
@dataclass(frozen=True, slots=True)
class FlushLog(Request):
    """Controller to replica: answered once the disk has all that this life's log held when it was asked. Another life than
    the one that is named answers IncarnationUnknown, another replica UnknownReplica."""

    broker_name: str
    name: str
    store_id: str
    starts: int
