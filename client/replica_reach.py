"""Asking a group's replicas how far their logs reach: each tells its own, whoever leads and whoever does not.

A replica that does not answer in time is left out; what it has is not known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..model.errors import ConnectionLost, RequestTimeout
from ..model.group import GroupNode
from ..model.log_reach import LogReach
from ..remoting.client import RemotingClient
from ..remoting.commands import GetBrokerStatistics


@dataclass(frozen=True, slots=True)
class ReplicaReach:
    """What a replica tells of itself. `halted`: why it takes no part in the present reign, "" where it does. `hole_at`: where
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
        if facts is None or facts["replica"] != replica.name:
            continue  # somebody else has its address
        log = LogReach(
            name=replica.name,
            newest_epoch=facts["newest_epoch"],
            newest_begin=facts["newest_begin"],
            end=facts["written"],
            confirm=facts["confirm"],
        )
        found[replica.name] = ReplicaReach(facts["role"], facts["halted"] or "", facts["hole_at"], log)
    return found
