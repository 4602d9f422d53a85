"""A group whose node in ZooKeeper was lost or set back: how that is noticed, and how the group is restored. Pure.

ZooKeeper's data may be lost, or set back: a snapshot was restored, a disk copied. Replicas know better: one that
registers or sends a heartbeat may have persisted an epoch above the node's, or have adopted a later version of the node within
the same epoch; the controller that leads may know a later epoch, too. Such a *sighting* is stored beside the node, under the
replica's group id. While one is newer than the node, the node does not say who has what was acknowledged: nobody writes it,
nobody is elected, and no group is founded, whoever else registers. An operator's `restore` at or above the highest epoch
ends that: its epoch is above all that were ever given.

Only running processes know versions. So a node that was set back within one epoch is noticed only while a process lives
that knows more, and that one is heard before a controller writes anything (leadership_term).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...model.errors import GroupIdUnclear, GroupNodeLost, GroupNotLost, InvalidParameter, StaleGroupVersion
from ...model.groups.group import NO_VERSION, GroupNode, GroupSettings, KnownGroup, Seen, Sighting
from ...model.groups.group_limits import COUNT_MAX, SIGHTED_EPOCH_MAX, check_name, check_token
from ...remoting.commands import RegisterReplica, ReplicaHeartbeat, RestoreGroup


def is_newer(sighting: Sighting, known: KnownGroup | None) -> bool:
    """True if the replica knows of a newer node than this one; None: there is none.

    A group of another id counts its own versions. Its epochs are compared, since either of the two may have been
    founded when ZooKeeper had lost the other. A group that never had a master has nothing to lose.
    """
    if sighting.epoch == 0:
        return False
    if known is None:
        return True
    node = known.node
    later = sighting.epoch == node.epoch and sighting.version > known.version
    return sighting.epoch > node.epoch or (later and sighting.group_id == node.group_id)


def is_set_back(before: KnownGroup, found: KnownGroup) -> bool:
    """True if somebody has written an earlier epoch over a node that this controller knows: no controller does that."""
    return found.version > before.version and found.node.epoch < before.node.epoch


def sighting_at_registration(request: RegisterReplica, known: KnownGroup | None) -> Sighting | None:
    """The sighting in a registration, of a newer node than ZooKeeper has or of another group of the name; None if
    there is none. A log without a group id proves nothing about any group: its epochs are those of a static master.

    Raises InvalidName, InvalidParameter: a stored sighting must stay readable for ever.
    """
    if not request.group_id:
        return None
    sighting = _checked(request.broker_name, request.group_id, request.epoch, request.version)
    is_foreign = known is not None and sighting.group_id != known.node.group_id and sighting.epoch > 0
    return sighting if is_foreign or is_newer(sighting, known) else None


def sighting_in_heartbeat(request: ReplicaHeartbeat, known: KnownGroup) -> Sighting | None:
    """The same for a heartbeat of a registered incarnation of the group. Raises InvalidParameter."""
    if not known.node.group_id:
        return None
    sighting = _checked(request.broker_name, known.node.group_id, request.epoch, request.version)
    return sighting if is_newer(sighting, known) else None


def _checked(broker_name: str, group_id: str, epoch: int, version: int) -> Sighting:
    check_name("broker", broker_name)
    if epoch > SIGHTED_EPOCH_MAX or version > COUNT_MAX:
        raise InvalidParameter("epoch", epoch, f"at most {SIGHTED_EPOCH_MAX}, of a version up to {COUNT_MAX}")
    return Sighting(check_token("group_id", group_id), max(epoch, 0), max(version, NO_VERSION))


def newer_sightings(seen: Seen | None, known: KnownGroup | None) -> tuple[Sighting, ...]:
    """The sightings that prevent every write but `restore`."""
    return tuple(one for one in seen.sightings if is_newer(one, known)) if seen is not None else ()


def newest_epoch_seen(seen: Seen | None, known: KnownGroup | None) -> int:
    """The epoch of the newest node that a replica knows, if it is newer than ZooKeeper's; otherwise 0."""
    return max((one.epoch for one in newer_sightings(seen, known)), default=0)


def check_not_set_back(broker_name: str, seen: Seen | None, known: KnownGroup | None) -> None:
    """Raises GroupNodeLost if a replica knows of a newer node."""
    epoch = newest_epoch_seen(seen, known)
    if epoch > 0:
        raise GroupNodeLost(broker_name, 0 if known is None else known.node.epoch, epoch)


def restore(
    known: KnownGroup | None, request: RestoreGroup, *, seen: Seen | None, settings: GroupSettings
) -> GroupNode:
    """The group restored above the highest epoch that a replica has persisted, after ZooKeeper's data was lost.

    Who was in sync is no longer known, so nobody is electable: its replicas register, and an operator forces one. But
    if only replicas of another group id know more, and the operator says that they are not this group's, the node was
    right: its sets stay, and its master leads in the next epoch. `settings`: for a group whose node is lost, with its
    settings. A group of which nothing is known to be lost is restored only if the operator forces it, or says that the others
    belong to another group.

    Raises StaleGroupVersion; InvalidParameter if the epoch is below a known one; GroupNotLost; GroupIdUnclear.
    """
    present = known.version if known is not None else NO_VERSION
    if request.version != present:
        raise StaleGroupVersion(request.broker_name, request.version, present)
    node = known.node if known is not None else GroupNode(broker_name=request.broker_name, settings=settings)
    newer = newer_sightings(seen, known)
    lowest = max([one.epoch for one in newer], default=node.epoch + 1)
    if request.epoch > SIGHTED_EPOCH_MAX:
        raise InvalidParameter("epoch", request.epoch, f"at most {SIGHTED_EPOCH_MAX}")
    if request.epoch < lowest:
        raise InvalidParameter(
            "epoch", request.epoch, f"at least {lowest}: a replica or ZooKeeper already knows the epochs below"
        )
    is_other = known is not None and request.group_id not in ("", node.group_id)
    if known is not None and not (newer or is_other or request.force):
        raise GroupNotLost(request.broker_name, node.epoch, node.master or "")
    heard = seen.sightings if seen is not None else ()
    group_id = _restored_id(node, newer, request.group_id, heard={one.group_id for one in heard})
    if known is not None and newer and group_id == node.group_id not in {one.group_id for one in newer}:
        return replace(node, epoch=request.epoch + 1)
    return replace(
        node,
        group_id=group_id,
        epoch=request.epoch + 1,
        master=None,
        master_incarnation=None,
        in_sync=(),
        eligible=(),
        last=None,
        replicas=node.replicas if group_id == node.group_id else (),
    )


def asserted_sighting(known: KnownGroup | None, request: RestoreGroup, *, settings: GroupSettings) -> Sighting:
    """The operator's word in place of sightings that cannot be read: the restore uses it.

    Raises GroupIdUnclear if nobody names the group, and what `restore` raises.
    """
    group_id = request.group_id or (known.node.group_id if known is not None else "")
    if not group_id:
        raise GroupIdUnclear(request.broker_name, "")
    asserted = Sighting(check_token("group_id", group_id), request.epoch)
    restore(known, request, seen=Seen(request.broker_name).with_sighting(asserted), settings=settings)
    return asserted


def _restored_id(node: GroupNode, newer: tuple[Sighting, ...], asked: str, *, heard: Collection[str]) -> str:
    """The id of the group: of the replicas that have an epoch, which must agree. A group founded meanwhile by a replica
    without an epoch, and never led, does not count. `asked`: the operator's id, "" for none, is accepted if it is
    the node's id, or one of those `heard`."""
    epochs = {one.group_id: one.epoch for one in newer}
    if node.group_id and (node.epoch > 0 or not epochs):
        epochs.setdefault(node.group_id, node.epoch)
    if asked:
        if epochs and asked not in (*epochs, *heard, node.group_id):
            raise InvalidParameter("group_id", asked, " or ".join(sorted(epochs)))
        return check_token("group_id", asked)
    if len(epochs) != 1:
        told = ", ".join(f"{group_id} with epoch {epoch}" for group_id, epoch in sorted(epochs.items()))
        raise GroupIdUnclear(node.broker_name, told)
    return next(iter(epochs))
