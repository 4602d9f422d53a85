"""Decides which cluster a broker without one belongs to, from the answers of its name servers. Pure.

    one id is known for the name               --> that one; a living cluster before one that is only remembered
    different ids are known                    --> none: there are two clusters of the name, an operator must choose
    no id is known, and all have answered      --> a new cluster, with the smallest of the offered ids
    no id is known, and one is silent or young --> none yet: that name server may know

Every name server tells all brokers the first id that it was offered. So brokers that begin at the same time hear the same ids
from the same name servers, in any order of their lists, and choose the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...model.cluster_id import Standing
from ...model.plain_dataclass import dataclass
from ...remoting.commands import ClusterIdReply


@dataclass(frozen=True, slots=True)
class Belongs:
    """Join the cluster with this id."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """No decision yet. `reason`: for the log."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClusterDisagreement:
    """Name servers know different clusters of the name: {name server: its id}."""

    ids: Mapping[str, str]

    def __str__(self) -> str:
        return ", ".join(f"{address} knows {cluster_id}" for address, cluster_id in sorted(self.ids.items()))


def choose(
    name_servers: Iterable[str], replies: Mapping[str, ClusterIdReply]
) -> Belongs | Undecided | ClusterDisagreement:
    """`replies`: of the name servers that answered when all of them were asked."""
    for standing in (Standing.LIVING, Standing.REMEMBERED):
        ids = {address: reply.cluster_id for address, reply in replies.items() if reply.standing == standing}
        if len(set(ids.values())) > 1:
            return ClusterDisagreement(ids)
        if ids:
            return Belongs(min(ids.values()))
    silent = sorted(set(name_servers) - replies.keys())
    if silent:
        return Undecided(f"no other name server knows a cluster, and no answer came from {', '.join(silent)}")
    listening = sorted(address for address, reply in replies.items() if reply.standing != Standing.OFFERED)
    if listening:
        return Undecided(
            f"no name server knows a cluster, and {', '.join(listening)} was started a moment ago: brokers may come back"
        )
    return Belongs(min(reply.cluster_id for reply in replies.values()))
