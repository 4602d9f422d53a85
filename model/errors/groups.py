"""Errors of replica groups, their controllers and ZooKeeper. Pure."""

from __future__ import annotations

from .base import ZenitError


class StaleEpoch(ZenitError):
    """The replica group is already in a later epoch than the request's. Args: group, epoch, current."""

    code = 2000

    def __init__(self, group: str, epoch: int, current: int) -> None:
        super().__init__(group, epoch, current)
        self.group = group
        self.epoch = epoch
        self.current = current

    def __str__(self) -> str:
        return f"replica group {self.group!r} is in epoch {self.current}, but the request is of epoch {self.epoch}"


class StaleGroupVersion(ZenitError):
    """A change was built on another version of the group's node than the present one. Args: group, version, current."""

    code = 2001

    def __init__(self, group: str, version: int, current: int) -> None:
        super().__init__(group, version, current)
        self.group = group
        self.version = version
        self.current = current

    def __str__(self) -> str:
        return f"the node of replica group {self.group!r} is at version {self.current}, the change names {self.version}"


class NotGroupMaster(ZenitError):
    """Only the elected incarnation of a group's master may send this. Args: group, replica, master ("" if there is none)."""

    code = 2002

    def __init__(self, group: str, replica: str, master: str) -> None:
        super().__init__(group, replica, master)
        self.group = group
        self.replica = replica
        self.master = master

    def __str__(self) -> str:
        return (
            f"{self.replica!r} is not the elected master of replica group {self.group!r} ({self.master or 'nobody'} is)"
        )


class UnknownReplica(ZenitError):
    """The group has no replica of this name. Args: group, replica."""

    code = 2003

    def __init__(self, group: str, replica: str) -> None:
        super().__init__(group, replica)
        self.group = group
        self.replica = replica

    def __str__(self) -> str:
        return f"{self.replica!r} is not a replica of group {self.group!r} (see zenit controller status {self.group})"


class ReplicaNotAlive(ZenitError):
    """A replica sends no heartbeats, so it cannot be elected. Args: group, replica."""

    code, retriable = 2006, True

    def __init__(self, group: str, replica: str) -> None:
        super().__init__(group, replica)
        self.group = group
        self.replica = replica

    def __str__(self) -> str:
        return f"replica {self.replica!r} of group {self.group!r} sends no heartbeats; start it, or choose another"


class ReplicaDrains(ZenitError):
    """A replica hands over to others, and is not to lead. Args: group, replica."""

    code = 9215

    def __init__(self, group: str, replica: str) -> None:
        super().__init__(group, replica)
        self.group = group
        self.replica = replica

    def __str__(self) -> str:
        return (
            f"replica {self.replica!r} of group {self.group!r} drains: choose another, or first: zenit broker drain"
            f" --undo with its address"
        )


class NotLeadingController(ZenitError):
    """Another controller leads. Args: leader (its address; "" if none is known)."""

    code, retriable = 2007, True

    def __init__(self, leader: str) -> None:
        super().__init__(leader)
        self.leader = leader

    def __str__(self) -> str:
        nobody = "it knows of no leader: check that ZooKeeper and the controllers run (zenit status)"
        return f"this controller does not lead; {self.leader + ' does' if self.leader else nobody}"


class ReplicaGroupNotFound(ZenitError):
    """No such replica group. Args: group."""

    code = 2008

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return (
            f"replica group {self.group!r} does not exist (zenit cluster lists the groups); its first broker founds it"
        )


class IncarnationUnknown(ZenitError):
    """The group's node has another incarnation of this replica: it must register. Args: group, replica, starts, current."""

    code = 2010

    def __init__(self, group: str, replica: str, starts: int, current: int) -> None:
        super().__init__(group, replica, starts, current)
        self.group = group
        self.replica = replica
        self.starts = starts
        self.current = current

    def __str__(self) -> str:
        return (
            f"start {self.starts} of replica {self.replica!r} is not the one that group {self.group!r} knows"
            f" (start {self.current}): the replica must register first"
        )


class MasterStillAlive(ZenitError):
    """A forced election must wait until the former master was silent for one dead time. Args: group, master ("": the group was
    restored, and its former master is unknown), wait_ms."""

    code, retriable = 2011, True

    def __init__(self, group: str, master: str, wait_ms: int) -> None:
        super().__init__(group, master, wait_ms)
        self.group = group
        self.master = master
        self.wait_ms = wait_ms

    def __str__(self) -> str:
        who = f"master {self.master!r}" if self.master else "the master before the restore"
        return f"{who} of group {self.group!r} may be alive; stop it, then force again after {self.wait_ms} ms"


class NotElectable(ZenitError):
    """A replica that may lack acknowledged messages cannot be elected. Args: group, replica ("": each of them), electable
    (names as text)."""

    code = 2012

    def __init__(self, group: str, replica: str, electable: str) -> None:
        super().__init__(group, replica, electable)
        self.group = group
        self.replica = replica
        self.electable = electable

    def __str__(self) -> str:
        who = repr(self.replica) if self.replica else "each replica"
        return (
            f"{who} may lack acknowledged messages of group {self.group!r}; electable: {self.electable or 'nobody'}"
            " (an operator may force the election, which loses them)"
        )


class ReplicaNameTaken(ZenitError):
    """Another store, or a copy of the same store, registers under the name of a living replica. Args: group,
    replica, address (of the living one)."""

    code, retriable = 2014, True

    def __init__(self, group: str, replica: str, address: str) -> None:
        super().__init__(group, replica, address)
        self.group = group
        self.replica = replica
        self.address = address

    def __str__(self) -> str:
        return (
            f"replica {self.replica!r} of group {self.group!r} is alive at {self.address}; stop one of the two, or give this"
            " one its own name and store"
        )


class GroupNodeLost(ZenitError):
    """The group's node in ZooKeeper is missing, or older than the one a replica knows. Args: group, epoch, persisted (the epoch
    that the replica knows)."""

    code = 9040

    def __init__(self, group: str, epoch: int, persisted: int) -> None:
        super().__init__(group, epoch, persisted)
        self.group = group
        self.epoch = epoch
        self.persisted = persisted

    def __str__(self) -> str:
        return (
            f"ZooKeeper has group {self.group!r} in epoch {self.epoch}, a replica has seen a newer state, in epoch"
            f" {self.persisted}: data was lost or set back. No master is elected and no in-sync set changes until you restore"
            f" the group: zenit controller restore {self.group} --epoch {self.persisted} (or a higher epoch, if"
            " `zenit status` shows one)"
        )


class GroupNotLost(ZenitError):
    """A restore is refused: no replica knows more of the group than ZooKeeper.

    Args: group, epoch, master ("" if none leads).
    """

    code = 9126

    def __init__(self, group: str, epoch: int, master: str) -> None:
        super().__init__(group, epoch, master)
        self.group = group
        self.epoch = epoch
        self.master = master

    def __str__(self) -> str:
        elected = f"zenit controller elect {self.group}" + ("" if self.master else " --force")
        return (
            f"nothing of group {self.group!r} is known to be lost: no replica knows more than ZooKeeper's epoch {self.epoch}"
            f" ({self.master or 'nobody'} leads). To elect another master: {elected}. --force restores the group all the same:"
            " it deposes the master, and the group takes no writes until a forced election"
        )


class GroupNodeDamaged(ZenitError):
    """The content of a group's node is invalid. Args: group, field, reason."""

    code = 9041

    def __init__(self, group: str, field: str, reason: str) -> None:
        super().__init__(group, field, reason)
        self.group = group
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"node of replica group {self.group!r}: {self.field}: {self.reason}; correct it in ZooKeeper"


class SightingsDamaged(GroupNodeDamaged):
    """ZooKeeper's record of replicas that know more than the group's node is invalid. Args: group, field, reason."""

    code = 9124

    def __str__(self) -> str:
        return (
            f"what replicas of group {self.group!r} were heard to know cannot be read (/zenit/CLUSTER/seen/{self.group} in"
            f" ZooKeeper; {self.field}: {self.reason}). No master is elected and no in-sync set changes until you restore the"
            f" group: zenit controller restore {self.group} --epoch N, with the highest epoch that `zenit status` shows, and"
            " with --group-id ID if ZooKeeper has no such group"
        )


class TooManyLostGroups(ZenitError):
    """The controllers heard replicas of too many groups that ZooKeeper does not know. Args: limit."""

    code = 9125

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"replicas of {self.limit} groups that ZooKeeper does not know were heard, so no group is founded:"
            " restore the groups"
            " that were lost (zenit controller restore), delete the others from /zenit/CLUSTER/seen in ZooKeeper, and restart"
            " the controllers"
        )


class ZooKeeperUnavailable(ZenitError):
    """ZooKeeper did not answer in time, or refused. Args: what, reason."""

    code, retriable = 9042, True

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"ZooKeeper: {self.what}: {self.reason}"


class ReplicaNeeded(ZenitError):
    """A replica cannot be removed from its group now. Args: group, replica, reason."""

    code = 9044

    def __init__(self, group: str, replica: str, reason: str) -> None:
        super().__init__(group, replica, reason)
        self.group = group
        self.replica = replica
        self.reason = reason

    def __str__(self) -> str:
        return f"replica {self.replica!r} stays in group {self.group!r}: {self.reason}"


class StartCounterBehind(ZenitError):
    """A disk was set back: its start counter is not above the one that the group knows. The replica records
    that it may have forgotten, raises its counter above `current`, and registers again. Args: group, replica, starts, current.
    """

    code = 9046

    def __init__(self, group: str, replica: str, starts: int, current: int) -> None:
        super().__init__(group, replica, starts, current)
        self.group = group
        self.replica = replica
        self.starts = starts
        self.current = current

    def __str__(self) -> str:
        return (
            f"replica {self.replica!r} of group {self.group!r} counts {self.starts} starts, the group {self.current}:"
            " the replica's disk was set back"
        )


class StaticMasterBehind(ZenitError):
    """A replica has seen a later epoch than that of its static master. Args: group, epoch, persisted."""

    code = 9048

    def __init__(self, group: str, epoch: int, persisted: int) -> None:
        super().__init__(group, epoch, persisted)
        self.group = group
        self.epoch = epoch
        self.persisted = persisted

    def __str__(self) -> str:
        return (
            f"the static master of group {self.group!r} is in epoch {self.epoch}, a replica has seen epoch"
            f" {self.persisted}: the"
            " master's store was replaced or set back; set static_master to the replica with all messages instead"
        )


class OtherReplicaMeant(ZenitError):
    """A request between replicas reached another replica than it names: the address now belongs to this one. Args: group,
    group_id, store_id (whom the request names), own_group_id, own_store_id (who got it)."""

    code, retriable = 9120, True

    def __init__(self, group: str, group_id: str, store_id: str, own_group_id: str, own_store_id: str) -> None:
        super().__init__(group, group_id, store_id, own_group_id, own_store_id)
        self.group = group
        self.group_id = group_id
        self.store_id = store_id
        self.own_group_id = own_group_id
        self.own_store_id = own_store_id

    def __str__(self) -> str:
        return (
            f"the request is for store {self.store_id} of group id {self.group_id or '(none)'}; this broker of group"
            f" {self.group!r} is store {self.own_store_id} of group id {self.own_group_id or '(none)'}"
        )


class ForeignReplica(ZenitError):
    """A replica belongs to another group of the same name: different records under equal epochs would count as the same.

    Args: group, replica, group_id (of its own group), expected (the id of this group), epoch (the highest that the replica
    knows), current (the epoch of this group).
    """

    code = 9112

    def __init__(self, group: str, replica: str, group_id: str, expected: str, epoch: int, current: int) -> None:
        super().__init__(group, replica, group_id, expected, epoch, current)
        self.group = group
        self.replica = replica
        self.group_id = group_id
        self.expected = expected
        self.epoch = epoch
        self.current = current

    def __str__(self) -> str:
        restored = max(self.epoch, self.current + 1)
        remedy = (
            f"if ZooKeeper lost that group, keep this directory: zenit controller restore {self.group} --epoch {restored}"
            f" --group-id {self.group_id}"
        )
        if self.epoch <= self.current:
            remedy += "; to add it here as a new replica, move its directory away"
        return (
            f"replica {self.replica!r} belongs to a group {self.group!r} of id {self.group_id} and knows its epoch"
            f" {self.epoch}; this group is of id {self.expected}, in epoch {self.current}: set the controllers of its own"
            f" cluster; {remedy}"
        )


class ForeignLog(ZenitError):
    """A store of no group already has a log, or epochs of a static master, and would count as a copy. Args: group,
    replica, log_end (bytes), group_id (of the group to join; "" if there is none yet)."""

    code = 9049

    def __init__(self, group: str, replica: str, log_end: int, group_id: str) -> None:
        super().__init__(group, replica, log_end, group_id)
        self.group = group
        self.replica = replica
        self.log_end = log_end
        self.group_id = group_id

    def __str__(self) -> str:
        join = f"if it is a copy of the group's log, stop the broker and run: zenit store join DIR --group-id {self.group_id}"
        found = "to found the group with that log, see docs/replicas.md"
        return (
            f"replica {self.replica!r} is new to group {self.group!r} and has a log of its own, up to {self.log_end}:"
            f" {join if self.group_id else found}; otherwise move its directory away and start it with an empty one"
        )


class CutRefused(ZenitError):
    """A slave refuses to cut its log to where its master's agrees: it would lose confirmed bytes, or its log begins
    later. Args: replica, master, epoch (of its term), truncate_at, begin, end, confirm (of the slave's log, bytes).
    """

    code = 9122

    def __init__(
        self, replica: str, master: str, epoch: int, truncate_at: int, begin: int, end: int, confirm: int
    ) -> None:
        super().__init__(replica, master, epoch, truncate_at, begin, end, confirm)
        self.replica = replica
        self.master = master
        self.epoch = epoch
        self.truncate_at = truncate_at
        self.begin = begin
        self.end = end
        self.confirm = confirm

    def __str__(self) -> str:
        return (
            f"master {self.master!r} of epoch {self.epoch} agrees with this log up to {self.truncate_at} only; this log keeps"
            f" {self.begin} to {self.end}, confirmed up to {self.confirm}. Nothing is cut: a forced election gave these bytes"
            " up, or the master has lost them. To give them up here too: stop this broker, move its store directory away"
            " (it may be their last copy), start it with an empty one. To keep them: stop the master, then zenit controller"
            f" elect GROUP --replica {self.replica} --force; what was written since is lost then"
        )


class TooManyEpochs(ZenitError):
    """A log holds bytes of as many epochs as its list may have, so no further epoch can begin. Args: epochs, limit."""

    code = 9121

    def __init__(self, epochs: int, limit: int) -> None:
        super().__init__(epochs, limit)
        self.epochs = epochs
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the log holds bytes of {self.epochs} epochs, and its list has room for {self.limit}: lower retention_ms or"
            " retention_bytes of its replicas, so that the oldest bytes expire, and their epochs with them"
        )


class SegmentsDiffer(ZenitError):
    """A slave's log files have another size than its master's, so it cannot copy bytes at their ends. Args: replica,
    master, segment_bytes (of the slave's files), begin, end (of the chunk that does not fit)."""

    code = 9127

    def __init__(self, replica: str, master: str, segment_bytes: int, begin: int, end: int) -> None:
        super().__init__(replica, master, segment_bytes, begin, end)
        self.replica = replica
        self.master = master
        self.segment_bytes = segment_bytes
        self.begin = begin
        self.end = end

    def __str__(self) -> str:
        return (
            f"the log files of replica {self.replica!r} are of {self.segment_bytes} bytes and those of its master"
            f" {self.master!r} are not: bytes {self.begin} to {self.end} of its log do not fit. Stop this broker, move its"
            " store directory away, and start it with an empty one and with store.segment_bytes set to the size of the files in"
            " the master's commitlog directory"
        )


class GroupIdUnclear(ZenitError):
    """A restore needs one group id, and the replicas do not agree on one. Args: group, told (ids and epochs, as text; "" if no
    replica of it was heard)."""

    code = 9113

    def __init__(self, group: str, told: str) -> None:
        super().__init__(group, told)
        self.group = group
        self.told = told

    def __str__(self) -> str:
        found = (
            f"replicas of group {self.group!r} report several group ids ({self.told}): name one of them, --group-id ID"
        )
        none = (
            f"no replica of group {self.group!r} has been heard: start the replicas that have its messages, or name the group"
            " to restore, --group-id ID"
        )
        return found if self.told else none
