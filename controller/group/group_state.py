"""The changes of a replica group: each is a function from its node to the next one, or a refusal.

Pure, and the only place where the sets of a node change. The caller writes the result to ZooKeeper on condition that
the node still has the version it was made from; a write that fails is decided again from what is read then. R numbers
are the rules of replication that the code keeps:

- R1  An epoch is given with the master's name and incarnation, grows by one each time, and is never used again. An election
      keeps the in-sync set, adds the elected replica, and removes the dead former master in the same write. Within an epoch the
      flush mode is constant: a change of it elects the present master once more.
- R7  The master proposes the in-sync set; the proposal names the version it was built on, and is valid for no other.
- R9  A member that leaves in-sync by a write that leaves fewer than the minimum becomes *eligible*: nothing was acknowledged
      without it since. The write that brings in-sync to the minimum empties the eligible set.
- R10 Only a replica in one of the sets is elected unless an operator forces another (forcing).

Not here: registrations (registration), settings (group_settings), a node that was lost or set back (set_back), who is
alive and when to elect (detection).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...model.errors import (
    GroupNodeLost,
    IncarnationUnknown,
    InvalidParameter,
    NotElectable,
    NotGroupMaster,
    ReplicaNeeded,
    StaleEpoch,
    StaleGroupVersion,
    UnknownReplica,
)
from ...model.groups.group import GroupNode, Incarnation, KnownGroup, Replica
from ...remoting.commands import AlterInSync, RemoveReplica

NOBODY: frozenset[str] = frozenset()


# ---- questions


def electable(node: GroupNode) -> frozenset[str]:
    """The replicas that hold all that was acknowledged: the in-sync and the eligible set."""
    return frozenset(node.in_sync) | frozenset(node.eligible)


def known_replica(node: GroupNode, name: str) -> Replica:
    """The replica of that name; raises UnknownReplica."""
    replica = node.replica(name)
    if replica is None:
        raise UnknownReplica(node.broker_name, name)
    return replica


def check_life(node: GroupNode, name: str, incarnation: Incarnation) -> Replica:
    """The replica, if this is its registered incarnation; raises UnknownReplica or IncarnationUnknown: it must register."""
    replica = known_replica(node, name)
    if replica.incarnation != incarnation:
        raise IncarnationUnknown(node.broker_name, name, incarnation.starts, replica.incarnation.starts)
    return replica


def check_version(known: KnownGroup, version: int) -> GroupNode:
    """The node, if the caller's change was built on it; raises StaleGroupVersion."""
    if known.version != version:
        raise StaleGroupVersion(known.node.broker_name, version, known.version)
    return known.node


def check_not_lost(node: GroupNode, epoch_seen: int) -> None:
    """Raises GroupNodeLost if a replica has persisted a later epoch than the node's: ZooKeeper's data was set back."""
    if node.epoch < epoch_seen:
        raise GroupNodeLost(node.broker_name, node.epoch, epoch_seen)


# ---- changes


def with_in_sync(node: GroupNode, in_sync: Collection[str], *, forgetful: frozenset[str] = NOBODY) -> GroupNode:
    """The node with another in-sync set, and the eligible set that follows from it (R9).

    `forgetful`: replicas that may lack what they acknowledged; they leave both sets. If that empties both, the name is
    kept as `last`, for the operator who has to choose.
    """
    members = frozenset(in_sync) - forgetful
    eligible = NOBODY
    if len(members) < node.settings.min_in_sync:
        eligible = electable(node) - members - forgetful
    last = None if members or eligible else next(iter(sorted(electable(node) & forgetful)), node.last)
    return replace(node, in_sync=tuple(sorted(members)), eligible=tuple(sorted(eligible)), last=last)


def elect(node: GroupNode, name: str, *, old_master_is_dead: bool, epoch_seen: int) -> GroupNode:
    """The node after the election of `name`, in its present incarnation. `epoch_seen`: the highest that a replica reports.

    Raises UnknownReplica, NotElectable, GroupNodeLost.
    """
    check_not_lost(node, epoch_seen)
    replica = known_replica(node, name)
    if name not in electable(node):
        raise NotElectable(node.broker_name, name, ", ".join(sorted(electable(node))))
    members = {*node.in_sync, name}
    if old_master_is_dead and node.master is not None and node.master != name:
        members.discard(node.master)
    return crowned(with_in_sync(node, members), replica)


def begin_epoch_anew(node: GroupNode, *, epoch_seen: int) -> GroupNode:
    """The node with another epoch of its master, in the same incarnation: the flush mode has changed, and its followers
    must know that before it counts. A group without a master gets its next epoch with the next master.

    Raises GroupNodeLost.
    """
    check_not_lost(node, epoch_seen)
    return node if node.master is None else replace(node, epoch=node.epoch + 1)


def alter_in_sync(known: KnownGroup, request: AlterInSync) -> GroupNode:
    """The node with the in-sync set that its master proposes (R7). An unchanged set is written too: the new version
    tells the master that an earlier proposal can no longer be written.

    Raises StaleEpoch, StaleGroupVersion, NotGroupMaster, UnknownReplica, InvalidParameter.
    """
    node = known.node
    if request.epoch != node.epoch:
        raise StaleEpoch(node.broker_name, request.epoch, node.epoch)
    check_version(known, request.version)
    incarnation = Incarnation(request.store_id, request.starts)
    if request.master != node.master or incarnation != node.master_incarnation:
        raise NotGroupMaster(node.broker_name, request.master, node.master or "")
    for name in request.in_sync:
        if known_replica(node, name).is_follower:
            raise InvalidParameter("in_sync", name, "no follower")
    if request.master not in request.in_sync or len(set(request.in_sync)) != len(request.in_sync):
        raise InvalidParameter("in_sync", ",".join(request.in_sync), "each member once, the master among them")
    return with_in_sync(node, request.in_sync)


def remove_replica(known: KnownGroup, request: RemoveReplica) -> GroupNode:
    """The node without a replica. It leaves the in-sync set like a member that lags, but is not eligible later.

    Raises StaleGroupVersion, UnknownReplica; ReplicaNeeded for the master, and for the last that could be elected.
    """
    node = check_version(known, request.version)
    name = known_replica(node, request.name).name
    if name == node.master:
        raise ReplicaNeeded(node.broker_name, name, "it is the master; elect another first")
    if name == node.last or electable(node) == {name}:
        raise ReplicaNeeded(node.broker_name, name, "nobody else is known to hold all messages; elect another first")
    is_follower = known_replica(node, name).is_follower
    if not is_follower and len(node.members) <= node.settings.min_in_sync:
        raise ReplicaNeeded(node.broker_name, name, "fewer than min_in_sync would be left; lower it first")
    smaller = with_in_sync(node, set(node.in_sync) - {name}, forgetful=frozenset({name}))
    return replace(smaller, replicas=tuple(replica for replica in node.replicas if replica.name != name))


def crowned(node: GroupNode, replica: Replica) -> GroupNode:
    """Names a master, and gives its epoch. A follower is promoted by that: it is a plain replica from now on."""
    replicas = node.replicas
    if replica.is_follower:
        replicas = tuple(replace(one, is_follower=False) if one.name == replica.name else one for one in replicas)
    return replace(
        node, epoch=node.epoch + 1, master=replica.name, master_incarnation=replica.incarnation, replicas=replicas
    )
