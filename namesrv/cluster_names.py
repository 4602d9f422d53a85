"""Decides which id the cluster of a name has, as far as one name server knows. Pure: events in, decisions out.

    living      brokers of it are registered: no other id may use the name
    remembered  the last of them has left or died. Brokers with another id may take the name; a broker without one gets
                this id: the others of that cluster may come back
    offered     nobody has used the name since this name server started: the first id that was offered, until nobody has
                asked for it for a heartbeat time-out
    listening   the same within `listen_ms` of the start: nothing is offered, since living brokers come back within that time

At most `clusters_max` names are remembered, of which the oldest is forgotten first, and as many are offered. Times are
monotonic ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..model.cluster_id import Standing
from ..model.errors import BrokerBusy, WrongCluster

_NOBODY: Final[Mapping[str, str]] = {}


class ClusterNames:
    """Owned by the route table. `living`: {cluster: its id}."""

    def __init__(self, *, listens_until_ms: int, offer_ms: int, clusters_max: int) -> None:
        """`offer_ms`: an offer expires if nobody asks for it for this long."""
        self.living: Mapping[str, str] = _NOBODY
        self._listens_until_ms = listens_until_ms
        self._offer_ms = offer_ms
        self._clusters_max = clusters_max
        self._remembered: dict[str, str] = {}  # {cluster: id}, the latest last
        self._offered: dict[str, tuple[str, int]] = {}  # {cluster: (the first offered id, when it was last asked for)}

    def on_living(self, living: Mapping[str, str]) -> None:
        """Exactly these clusters have brokers now."""
        self.living = living
        for cluster, cluster_id in living.items():
            self._offered.pop(cluster, None)
            self._remembered.pop(cluster, None)
            self._remembered[cluster] = cluster_id
        while len(self._remembered) > self._clusters_max:
            del self._remembered[next(iter(self._remembered))]

    def check_free(self, cluster: str, cluster_id: str) -> None:
        """Raises WrongCluster if a cluster with that name and another id is living."""
        living = self.living.get(cluster)
        if living is not None and living != cluster_id:
            raise WrongCluster(cluster, living, cluster_id)

    def check_lives(self, cluster_id: str) -> None:
        """Raises WrongCluster if clusters are living here, but not that one."""
        if self.living and cluster_id not in self.living.values():
            cluster, other_id = min(self.living.items())
            raise WrongCluster(cluster, other_id, cluster_id)

    def on_claim(self, cluster: str, offered: str, now_ms: int) -> tuple[str, Standing]:
        """The answer to a broker without an id. Raises BrokerBusy if too many names are offered."""
        if cluster in self.living:
            return self.living[cluster], Standing.LIVING
        if cluster in self._remembered:
            return self._remembered[cluster], Standing.REMEMBERED
        if now_ms < self._listens_until_ms:
            return "", Standing.LISTENING
        held = {name: offer for name, offer in self._offered.items() if now_ms - offer[1] < self._offer_ms}
        if cluster not in held and len(held) >= self._clusters_max:
            raise BrokerBusy(self._offer_ms, f"{self._clusters_max} clusters are about to begin, brokers_max")
        cluster_id = held[cluster][0] if cluster in held else offered
        self._offered = held | {cluster: (cluster_id, now_ms)}
        return cluster_id, Standing.OFFERED
