"""Shorthand for the controller's tests: replicas, nodes and requests with all that does not matter filled in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zenitmq.model.groups.group import GroupNode, GroupSettings, Incarnation, Replica
from zenitmq.remoting.commands import AlterInSync, RegisterReplica, ReplicaHeartbeat, ReportMasterGone

GROUP = "broker-a"
GROUP_ID = "store-a"
"""Replica a has founded the group."""


def life(name: str, starts: int = 1) -> Incarnation:
    """The `starts`-th life of a replica on its own store."""
    return Incarnation(f"store-{name}", starts)


def replica(name: str, starts: int = 1) -> Replica:
    return Replica(name, f"host-{name}:10911", f"host-{name}:10912", life(name, starts), f"life-{name}-{starts}")


def group(
    names: str = "abc",
    *,
    in_sync: str = "abc",
    eligible: str = "",
    master: str | None = "a",
    epoch: int = 1,
    last: str | None = None,
    starts: int = 1,
    **settings: Any,
) -> GroupNode:
    """A group whose replicas are called by one letter each; minimum 2."""
    return GroupNode(
        broker_name=GROUP,
        group_id=GROUP_ID,
        epoch=epoch,
        master=master,
        master_incarnation=None if master is None else life(master, starts),
        in_sync=tuple(in_sync),
        eligible=tuple(eligible),
        last=last,
        settings=GroupSettings(**({"min_in_sync": 2} | settings)),
        replicas=tuple(replica(name, starts) for name in names),
    )


def registration(name: str, starts: int = 1, **facts: Any) -> RegisterReplica:
    """Of a process that was stopped cleanly with its log at 1000 and remembers all of it."""
    plain = RegisterReplica(
        broker_name=GROUP,
        name=name,
        address=f"host-{name}:10911",
        replication_address=f"host-{name}:10912",
        store_id=f"store-{name}",
        starts=starts,
        life=f"life-{name}-{starts}",
        epoch=0,
        log_end=1000,
        clean_marker=True,
        marker_end=1000,
        same_boot=True,
        ran_async=True,
        group_id=GROUP_ID,
    )
    return replace(plain, **facts)


def proposal(in_sync: str, *, version: int, **changed: Any) -> AlterInSync:
    plain = AlterInSync(GROUP, version, epoch=1, master="a", store_id="store-a", starts=1, in_sync=tuple(in_sync))
    return replace(plain, **changed)


def heartbeat(name: str, starts: int = 1, **changed: Any) -> ReplicaHeartbeat:
    plain = ReplicaHeartbeat(
        GROUP, name, f"store-{name}", starts, version=0, epoch=1, log_end=1000, confirm_offset=1000
    )
    return replace(plain, **changed)


def report(name: str, *, epoch: int = 1, master: str = "a") -> ReportMasterGone:
    return ReportMasterGone(GROUP, name, f"store-{name}", 1, epoch, master)
