"""The text of a replica group's state: its node in ZooKeeper, and how far each replica's log reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import typer

from ..model.groups.group import GroupNode
from .output import note, print_facts, print_table, table

if TYPE_CHECKING:
    from ..client.administration.replica_reach import ReplicaReach
    from ..client.connection.controller_calls import GroupState

REACH_COLUMNS: Final = ("replica", "role", "set", "newest_epoch", "written_offset", "confirm_offset", "hole_at")


def state_document(group: str, state: GroupState, reaches: Mapping[str, ReplicaReach]) -> dict[str, Any]:
    """The document of `zenit controller status --json`; values that a replica did not report are null."""
    document: dict[str, Any] = {"broker_name": group, "blocked": None if state.lost is None else str(state.lost)}
    if state.known is None:
        return document | {
            "group_id": None,
            "epoch": None,
            "master": None,
            "in_sync": [],
            "eligible": [],
            "replicas": [],
        }
    node = state.known.node
    document |= {"group_id": node.group_id, "epoch": node.epoch, "master": node.master}
    document |= {"in_sync": list(node.in_sync), "eligible": list(node.eligible)}
    return document | {"replicas": [_replica(node, replica.name, reaches) for replica in node.replicas]}


def print_state(document: dict[str, Any]) -> None:
    """Prints the document as text."""
    names = ("broker_name", "group_id", "epoch", "master")
    print_facts({name: document[name] for name in names})
    print_table(REACH_COLUMNS, [[replica[name] for name in REACH_COLUMNS] for replica in document["replicas"]])
    if document["blocked"]:
        typer.echo(document["blocked"])
    for replica in document["replicas"]:
        if replica["halted"]:
            typer.echo(f"{replica['replica']} is halted: {replica['halted']}")


def note_reaches(node: GroupNode, reaches: Mapping[str, ReplicaReach]) -> None:
    """Prints how far the logs reach to stderr, before an operator's choice."""
    rows = [_replica(node, replica.name, reaches) for replica in node.replicas]
    note(table(REACH_COLUMNS, [[row[name] for name in REACH_COLUMNS] for row in rows]).rstrip())


def _replica(node: GroupNode, name: str, reaches: Mapping[str, ReplicaReach]) -> dict[str, Any]:
    known = node.replica(name)
    is_follower = known is not None and known.is_follower
    members = "in_sync" if name in node.in_sync else "eligible" if name in node.eligible else None
    members = "follower" if is_follower else members
    found: dict[str, Any] = {"replica": name, "role": "down", "set": members, "newest_epoch": None}
    found |= {"written_offset": None, "confirm_offset": None, "hole_at": None, "halted": None}
    reach = reaches.get(name)
    if reach is None:
        return found
    log = reach.log
    found |= {
        "role": "halted" if reach.halted else reach.role,
        "halted": reach.halted or None,
        "hole_at": reach.hole_at,
    }
    return found | {"newest_epoch": log.newest_epoch, "written_offset": log.end, "confirm_offset": log.confirm}
