"""A replica's process registers its incarnation; if it may have forgotten something, it leaves both sets (R9). Pure.

A replica is *unclean* if it may lack bytes it acknowledged, although its name is in a set: its disk was wiped or set
back, or it lost power while it counted unflushed bytes. Its log may then have a hole of lost pages,
and ends there: flushed bytes are before it, so if only those counted, nothing is lost. One write records the new
incarnation and the departure, so that no election can come between them. A process killed under the same boot of the kernel
keeps its page cache and is clean.

A replica that belongs to another group of the same name is refused: the epochs of both begin at 1, so its log would
count as a copy. The group's id is chosen once, by the replica that founds the group where nobody knows of an epoch. Each
accepted replica stores it, and reports it each time. A log without an id (of a broker that was alone, of a static master or
its copy) becomes a group's in two ways only: a broker that was alone founds a new group, above the newest epoch of its log;
any other by an operator's command, which writes the id beside it (`zenit store join`).

A *follower* copies the log and counts for nothing else: it founds no group, is in neither set, and its name is never that of
one that counts. As a plain replica it registers once its setting says so, and then has to catch up like any other.

Two incarnations never share a name: a start counter that is not above the known one of the same store is refused first, so
that the replica raises it. Otherwise what was elected, or acknowledged, in a forgotten incarnation would count as its own.
While an incarnation is alive its name is not given to another address, of whatever store: two brokers on copies of one store
would count their starts above each other's for ever, and be in sync by turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...model.errors import (
    ForeignLog,
    ForeignReplica,
    GroupNodeLost,
    InvalidParameter,
    ReplicaGroupNotFound,
    ReplicaNameTaken,
    ReplicaNeeded,
    StartCounterBehind,
)
from ...model.groups.group import FlushMode, GroupNode, GroupSettings, Incarnation, Replica
from ...model.groups.group_limits import REPLICAS_MAX, check_address, check_count, check_name, check_token
from ...remoting.commands import RegisterReplica
from .group_state import check_not_lost, electable, with_in_sync


@dataclass(frozen=True, slots=True)
class ReplicaRegistration:
    """The result. `unclean`: why the replica left both sets, None if it did not have to.

    `repeated`: this very incarnation is already registered, and `node` is unchanged: nothing is to be written.
    """

    node: GroupNode
    unclean: str | None = None
    repeated: bool = False


def register(
    node: GroupNode | None,
    request: RegisterReplica,
    *,
    settings: GroupSettings,
    present_is_alive: bool,
    confirmed: int = 0,
) -> ReplicaRegistration:
    """The group's node after the registration. `node` None: the group does not exist, the process founds it
    with `settings`. `present_is_alive`: the node's incarnation of this name was heard recently. `confirmed`: the confirm offset
    that the group's master has reported; every electable replica holds it.

    Raises GroupNodeLost, ForeignReplica, ForeignLog, ReplicaNameTaken, StartCounterBehind, InvalidName, InvalidParameter;
    of a follower ReplicaGroupNotFound, ReplicaNeeded.
    """
    replica = _replica_of(request)
    group_id = check_token("group_id", request.group_id) if request.group_id else ""
    if not group_id:
        _check_log_is_new(node, request)
    if replica.is_follower:
        _check_may_follow(node, request)
    if node is None:
        if request.epoch > 0:  # it was in a group whose node ZooKeeper has lost
            raise GroupNodeLost(request.broker_name, 0, request.epoch)
        return ReplicaRegistration(_founded(request, replica, group_id or request.store_id, settings))
    epoch = max(request.epoch, request.newest_epoch)
    if group_id and group_id != node.group_id:
        raise ForeignReplica(node.broker_name, request.name, group_id, node.group_id, epoch, node.epoch)
    check_not_lost(node, epoch)
    present = node.replica(request.name)
    if present is not None and present_is_alive and not replica.has_place_of(present):
        raise ReplicaNameTaken(node.broker_name, request.name, present.address)
    if present is None:
        if len(node.replicas) >= REPLICAS_MAX:
            raise InvalidParameter("replicas", len(node.replicas) + 1, f"at most {REPLICAS_MAX}; remove one first")
        return ReplicaRegistration(_with_replica(node, replica))
    if (present.incarnation, present.life) == (replica.incarnation, replica.life):
        return ReplicaRegistration(node, repeated=True)
    if present.incarnation.store_id == request.store_id and request.starts <= present.incarnation.starts:
        raise StartCounterBehind(node.broker_name, request.name, request.starts, present.incarnation.starts)
    if node.master is None and node.in_sync:  # founded, but never led: nothing was acknowledged that could be forgotten
        return ReplicaRegistration(_with_replica(node, replica))
    is_electable = request.name in electable(node)
    why = _why_unclean(request, present.incarnation, node.settings.flush_mode, confirmed if is_electable else 0)
    if why is not None and is_electable:
        node = with_in_sync(node, node.in_sync, forgetful=frozenset({request.name}))
    return ReplicaRegistration(_with_replica(node, replica), unclean=why)


def _check_may_follow(node: GroupNode | None, request: RegisterReplica) -> None:
    """Raises ReplicaGroupNotFound, ReplicaNeeded: what acknowledges for its group does not become a follower."""
    if node is None:
        raise ReplicaGroupNotFound(request.broker_name)
    if request.name in electable(node) or request.name in (node.master, node.last):
        remedy = (
            f'set role = "replica"; or take it out first: zenit controller remove {node.broker_name} {request.name}'
        )
        raise ReplicaNeeded(node.broker_name, request.name, f"it counts for what the group acknowledges; {remedy}")


def _founded(request: RegisterReplica, replica: Replica, group_id: str, settings: GroupSettings) -> GroupNode:
    """A group that begins with its founder's log: its first epoch is above the newest row there."""
    node = GroupNode(broker_name=request.broker_name, group_id=group_id, epoch=request.newest_epoch, settings=settings)
    return replace(node, in_sync=(replica.name,), replicas=(replica,))


def _check_log_is_new(node: GroupNode | None, request: RegisterReplica) -> None:
    """Raises ForeignLog for a log of no group with which no group begins. Its epochs begin at 1 as well, so it
    would count as a copy."""
    if request.epoch == 0 and request.log_end == 0:
        return
    present = node.replica(request.name) if node is not None else None
    founds = node is None or (present is not None and present.incarnation.store_id == request.store_id)
    if request.epoch > 0 or not founds:
        group_id = node.group_id if node is not None else ""
        raise ForeignLog(request.broker_name, request.name, request.log_end, group_id)


def _replica_of(request: RegisterReplica) -> Replica:
    check_name("broker", request.broker_name)
    check_count("epoch", request.epoch)
    check_count("newest_epoch", request.newest_epoch)
    check_count("log_end", request.log_end)
    check_count("confirm_heard", request.confirm_heard)
    incarnation = Incarnation(check_token("store_id", request.store_id), check_count("starts", request.starts, 1))
    return Replica(
        check_name("replica", request.name),
        check_address("address", request.address),
        check_address("replication_address", request.replication_address),
        incarnation,
        check_token("life", request.life),
        request.is_follower,
    )


def _why_unclean(request: RegisterReplica, present: Incarnation, flush_mode: FlushMode, confirmed: int) -> str | None:
    """What the new incarnation may have forgotten; None if nothing. `confirmed`: 0 if the replica is in neither set.

    `ran_async` counts under either mode: the group may have changed to `sync` after it counted bytes which the replica
    has not flushed since.
    """
    if request.store_id != present.store_id:
        return f"its store is another one ({request.store_id}, was {present.store_id})"
    if request.set_back:
        return "its disk was set back to an earlier state"
    if request.clean_marker and request.log_end < request.marker_end:
        return f"its log ends at {request.log_end}, below its clean end {request.marker_end}"
    if request.log_end < max(request.confirm_heard, confirmed):
        return f"its log ends at {request.log_end}, and up to {max(request.confirm_heard, confirmed)} it was confirmed"
    unflushed = flush_mode is FlushMode.ASYNC or request.ran_async
    if unflushed and request.has_hole:
        return f"its log has a hole at {request.log_end}: bytes that were not flushed are lost"
    if unflushed and not request.clean_marker and not request.same_boot:
        return "the machine stopped under it while bytes were not flushed"
    return None


def _with_replica(node: GroupNode, replica: Replica) -> GroupNode:
    others = [other for other in node.replicas if other.name != replica.name]
    return replace(node, replicas=tuple(sorted([*others, replica], key=lambda one: one.name)))
