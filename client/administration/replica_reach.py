"""Asks a group's replicas how far their logs reach; each answers for itself, in any role.

A replica that does not answer in time is left out, and so is one of another group; what it has is unknown. An operator who
forces an election, while no replica is known to have all messages, compares those that answer. Signs of further replicas
are reported first (`not_compared`).
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
    """A replica's answer.

    `halted`: why it takes no part in the present term, "" if it does. `hole_at`: the begin of the first hole in its log, at
    which the log ends; None if it has none.
    """

    role: str
    halted: str
    hole_at: int | None
    log: LogReach


def ask_reaches(remoting: RemotingClient, node: GroupNode, *, timeout_ms: int) -> dict[str, ReplicaReach]:
    """The answers by name. `timeout_ms`: for each replica."""
    found = {}
    for replica in node.replicas:
        try:
            _, payload = remoting.call(replica.address, GetBrokerStatistics(), timeout_ms=timeout_ms)
        except (ConnectionLost, RequestTimeout):
            continue
        facts = json.loads(payload).get("replication")
        if facts is None or (facts["replica"], facts["group_id"]) != (replica.name, node.group_id):
            continue  # another program has its address: another cluster's replicas may have the same names
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
    """A sign that a replica without an answer may have more than all others; "" if there is none.

    For a group in which no replica is known to have all messages: ZooKeeper may have lost the list of replicas too, and
    gets them back only as they register. `expected`: names that are known from elsewhere.
    """
    silent = sorted({*expected, *(replica.name for replica in node.replicas)} - reaches.keys())
    if silent:
        return f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'} not answer"
    led, newest = node.epoch - 1, max((reach.log.newest_epoch for reach in reaches.values()), default=0)
    if newest < led:
        return f"who led or followed in epoch {led} does not answer, the newest that does is of epoch {newest}"
    if len(reaches) < node.settings.min_in_sync:
        return f"{len(reaches)} replica of at least {node.settings.min_in_sync} answers"
    return ""
