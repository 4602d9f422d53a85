"""Asks a group's replicas how far their logs reach; each answers for itself, in any role.

A replica that does not answer in time is left out, and so is whoever is not of the group; what it has is not known. Who
forces an election where nobody is known to have all messages compares those that answer, and is told first what points to
others (`not_compared`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...model.errors import ConnectionLost, RequestTimeout
from ...model.groups.group import GroupNode
from ...model.groups.log_reach import LogReach
from ...remoting.client import RemotingClient
from ...remoting.commands import GetBrokerStatistics


@dataclass(frozen=True, slots=True)
class ReplicaReach:
    """What a replica tells of itself. `halted`: why it takes no part in the present term, "" where it does. `hole_at`: where
    the first hole of its log begins, at which the log ends; None where it has none."""

    role: str
    halted: str
    hole_at: int | None
    log: LogReach


def ask_reaches(remoting: RemotingClient, node: GroupNode, *, timeout_ms: int) -> dict[str, ReplicaReach]:
    """By name, of those that answer. `timeout_ms`: for each."""
    found = {}
    for replica in node.replicas:
        try:
            _, payload = remoting.call(replica.address, GetBrokerStatistics(), timeout_ms=timeout_ms)
        except (ConnectionLost, RequestTimeout):
            continue
        facts = json.loads(payload).get("replication")
        if facts is None or (facts["replica"], facts["group_id"]) != (replica.name, node.group_id):
            continue  # somebody else has its address: another cluster's replicas may be named alike
        log = LogReach(
            name=replica.name,
            newest_epoch=facts["newest_epoch"],
            newest_begin=facts["newest_begin"],
            end=facts["written"],
            confirm=facts["confirm"],
        )
        found[replica.name] = ReplicaReach(facts["role"], facts["halted"] or "", facts["hole_at"], log)
    return found


def not_compared(node: GroupNode, reaches: Mapping[str, ReplicaReach], expected: Iterable[str]) -> str:
    """What says that a replica that does not answer may have more than all that do; "" where nothing does.

    Of a group of which nobody is known to have all messages: ZooKeeper may have forgotten its replicas as well, and knows those
    again that have registered since. `expected`: names that are known from elsewhere.
    """
    silent = sorted({*expected, *(replica.name for replica in node.replicas)} - reaches.keys())
    if silent:
        return f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'} not answer"
    led, newest = node.epoch - 1, max((reach.log.newest_epoch for reach in reaches.values()), default=0)
    if newest < led:
        return f"none that answers has led or followed in epoch {led}, the newest is of epoch {newest}"
    if len(reaches) < node.settings.min_in_sync:
        return f"{len(reaches)} replica of at least {node.settings.min_in_sync} answers"
    return ""
