"""Requests of replicas, masters and operators to a controller. Pure.

Every reply and push contains the group's node from ZooKeeper: its JSON bytes and their version.
"""

from __future__ import annotations

from typing import Final

from ...model.groups.group import NO_VERSION
from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, as_replica, on_cluster
from .base import Done, Lane, Reply, RequestFor, ServedBy, request

SEEN_DAMAGED: Final = -1


@dataclass(frozen=True, slots=True)
class GroupReply(Reply):
    """A replica group: `node` is the content of its ZooKeeper node (docs/formats/group-node.md), `version` the node's.

    `node` is empty if the request named that version already. Of two nodes the one of the higher epoch is newer, within an
    epoch that of the higher version. `seen_epoch`: 0, or the epoch of a newer node that a replica knows: ZooKeeper was
    restored to an older state, and only RestoreGroup changes the group. SEEN_DAMAGED means the same: the record of epochs
    that replicas reported cannot be read.
    """

    version: int
    node: bytes
    seen_epoch: int = 0


@request(1003, Lane.HEARTBEAT, served_by=ServedBy.LEADING_CONTROLLER, needs=(as_replica("broker_name", "name"),))
@dataclass(frozen=True, slots=True)
class RegisterReplica(RequestFor[GroupReply]):
    """REGISTER_BROKER of the controller: a process registers, and reports what it may have forgotten (rule R9).

    `life`: a token that the process drew at its start, so that a repeated registration is recognized. `epoch`: the highest
    it has persisted. `clean_marker`: the last process stopped cleanly, with its log ending at `marker_end` (-1: no marker).
    `same_boot`: the machine has not restarted since. `ran_async`: the last process counted bytes as its own that it had not
    flushed. `log_end`: the log's present end. `set_back`: StartCounterBehind was the answer before, now or to a process
    whose registration was not seen. `group_id`: of its group; "" if it never was in one. `version`: of the newest node that
    this process has adopted (-1: none). `newest_epoch`, `newest_begin`: the last row of its epoch list (0, 0: it has none).
    `has_hole`: recovery found damage at `log_end`, and more of the log behind it. `confirm_heard`: how far its log was
    confirmed, as stored by an earlier process. `is_follower`: it copies the log, and counts for nothing
    else. No node is adopted before this is answered: an earlier one may refer to an earlier process.
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
    group_id: str = ""
    version: int = NO_VERSION
    newest_epoch: int = 0
    newest_begin: int = 0
    cluster_id: str = ""
    has_hole: bool = False
    confirm_heard: int = 0
    is_follower: bool = False


@request(9001, Lane.HEARTBEAT, served_by=ServedBy.LEADING_CONTROLLER, needs=(as_replica("broker_name", "name"),))
@dataclass(frozen=True, slots=True)
class ReplicaHeartbeat(RequestFor[GroupReply]):
    """A sign of life, each 0.5 s. `version`: the newest node adopted. `epoch`: the highest persisted. `probe`: the number
    of the last ProbeReplica; a probe is answered by a heartbeat at once. `newest_epoch`, `newest_begin`: as in
    RegisterReplica. IncarnationUnknown, UnknownReplica: register.

    What keeps it from its work, and for how many ms so far, 0 = nothing: `sync_pending_ms`: a sync of its log that has not
    returned; `no_room_ms`: a full disk; `cut_off_ms`: on a slave, nothing was heard of the master of `epoch`, on a master,
    fewer replicas than the minimum have acknowledged anything.

    `drains`: it is about to stop, or is not to lead: another is elected in its place.
    """

    broker_name: str
    name: str
    store_id: str
    starts: int
    version: int
    epoch: int
    log_end: int
    confirm_offset: int
    probe: int = 0
    sync_pending_ms: int = 0
    no_room_ms: int = 0
    cut_off_ms: int = 0
    newest_epoch: int = 0
    newest_begin: int = 0
    drains: bool = False


@request(9002, Lane.HEARTBEAT, served_by=ServedBy.LEADING_CONTROLLER, needs=(as_replica("broker_name", "name"),))
@dataclass(frozen=True, slots=True)
class ReportMasterGone(RequestFor[GroupReply]):
    """A slave's session ended because `master`, elected in `epoch`, closed it. Repeated each 0.5 s while that lasts."""

    broker_name: str
    name: str
    store_id: str
    starts: int
    epoch: int
    master: str


@request(1001, Lane.HEARTBEAT, served_by=ServedBy.LEADING_CONTROLLER, needs=(as_replica("broker_name", "master"),))
@dataclass(frozen=True, slots=True)
class AlterInSync(RequestFor[GroupReply]):
    """ALTER_SYNC_STATE_SET: the master, in its elected incarnation, proposes the in-sync set; valid only for this `version`."""

    broker_name: str
    version: int
    epoch: int
    master: str
    store_id: str
    starts: int
    in_sync: tuple[str, ...]


@request(1002, Lane.ADMIN, served_by=ServedBy.LEADING_CONTROLLER, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class ElectMaster(RequestFor[GroupReply]):
    """ELECT_MASTER, an operator's. candidate "": the best.

    `force`: also a replica that may lack acknowledged messages (these are lost), after the old master was silent for a dead
    time.
    """

    broker_name: str
    version: int
    candidate: str = ""
    force: bool = False


@request(9003, Lane.ADMIN, served_by=ServedBy.LEADING_CONTROLLER, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class ChangeGroup(RequestFor[GroupReply]):
    """settings: ((name, value), ...) of GroupSettings as text; others stay unchanged. Valid only for this `version`."""

    broker_name: str
    version: int
    settings: tuple[tuple[str, str], ...]


@request(1011, Lane.ADMIN, served_by=ServedBy.LEADING_CONTROLLER, needs=(on_cluster(Action.DELETE),))
@dataclass(frozen=True, slots=True)
class RemoveReplica(RequestFor[GroupReply]):
    """CLEAN_BROKER_DATA: removes a replica from the group, if it is neither the master nor needed for an election."""

    broker_name: str
    version: int
    name: str


@request(9004, Lane.ADMIN, served_by=ServedBy.LEADING_CONTROLLER, needs=(on_cluster(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class RestoreGroup(RequestFor[GroupReply]):
    """After ZooKeeper lost its data: the group begins again above `epoch`, the highest that any replica has persisted.
    version -1: there is no node. `group_id`: which group it is; "": the one on which its replicas agree. `force`: even
    if no replica knows more than ZooKeeper. Then nobody is electable until an operator forces an election.
    """

    broker_name: str
    version: int
    epoch: int
    group_id: str = ""
    force: bool = False


@request(1004, Lane.QUERY, served_by=ServedBy.LEADING_CONTROLLER, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetGroup(RequestFor[GroupReply]):
    """GET_REPLICA_INFO: the present node; ReplicaGroupNotFound, or GroupNodeLost if a replica knows one."""

    broker_name: str


@dataclass(frozen=True, slots=True)
class ControllerReply(Reply):
    """Addresses of the leading controller ("" = none known) and of all of them; the names of all groups, sorted."""

    leader: str
    controllers: tuple[str, ...]
    broker_names: tuple[str, ...]


@request(1005, Lane.QUERY, served_by=ServedBy.CONTROLLER, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetController(RequestFor[ControllerReply]):
    """CONTROLLER_GET_METADATA_INFO: answered by every controller, leading or not."""


@request(1008, Lane.HEARTBEAT, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class GroupChanged(RequestFor[Done]):
    """NOTIFY_BROKER_ROLE_CHANGED: controller to replica, one way: the node has changed to this one."""

    broker_name: str
    version: int
    node: bytes


@request(9005, Lane.HEARTBEAT, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class ProbeReplica(RequestFor[Done]):
    """Controller to replica, one way: send a heartbeat with this number at once."""

    broker_name: str
    probe: int


@request(9007, Lane.ADMIN, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.SERVE),))
@dataclass(frozen=True, slots=True)
class FlushLog(RequestFor[Done]):
    """Controller to replica: answered when everything that its log held at the request is on its disk.

    A process other than the named one answers IncarnationUnknown, another replica UnknownReplica.
    """

    broker_name: str
    name: str
    store_id: str
    starts: int
