"""The id of the cluster whose folder in ZooKeeper a controller looks after: `/zenit/{cluster}/id`.

    read with the members --> known; else the first registration makes it: the operator's, what was read before ZooKeeper was
    emptied, that of the group nodes, the one that the broker brings, or a new one --> whoever comes later is told what it says

A controller with the setting `cluster_id` ends where ZooKeeper holds another. Loop thread; the worker's worker asks ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from ..model.errors import BrokerBusy, ConfigError, WrongCluster, ZenitError
from ..model.new_cluster import new_cluster_id
from .group_store import GroupStore
from .store_worker import RETRY_AFTER_MS, StoreWorker

log = logging.getLogger(__name__)


class ClusterNaming:
    """`cluster_id`: "" = ZooKeeper has none yet, or was not read yet."""

    def __init__(self, *, cluster: str, pinned: str = "", on_known: Callable[[str], None] = lambda _: None) -> None:
        """`pinned`: the operator's setting, "" = none. `on_known`: called with the id whenever another one is known."""
        self.cluster_id = ""
        self._cluster = cluster
        self._pinned = pinned
        self._remembered = ""  # what ZooKeeper held before it was emptied
        self._on_known = on_known

    def on_read(self, cluster_id: str) -> None:
        """What ZooKeeper holds; "" = nothing. Raises ConfigError where that is not what the operator set."""
        if self._pinned and cluster_id and cluster_id != self._pinned:
            held = f"{cluster_id}, which ZooKeeper holds in /zenit/{self._cluster}/id, or the ZooKeeper of that cluster"
            raise ConfigError("cluster_id", self._pinned, held)
        if cluster_id != self.cluster_id:
            log.info("cluster=%s cluster_id=%s", self._cluster, cluster_id or "none yet")
            self.cluster_id = cluster_id
            self._remembered = cluster_id or self._remembered
            self._on_known(cluster_id)

    def check(self, cluster_id: str) -> None:
        """What a broker brings. Raises WrongCluster where it is another cluster's; "" = it has none yet."""
        if cluster_id and cluster_id != self.cluster_id:
            raise WrongCluster(self._cluster, self.cluster_id, cluster_id)

    def settle(
        self,
        store: GroupStore,
        worker: StoreWorker,
        known: Iterable[str],
        then: Callable[[ZenitError | None], None],
        *,
        may_draw: bool,
    ) -> None:
        """Makes the node where there is none. `known`: what group nodes and the broker hold, "" = nothing. `may_draw`: where
        nobody knows an id, a new one is drawn; else the broker is told to come again, since another one may bring it.

        `then(error)`: None = `cluster_id` is known now.
        """
        held = (self._pinned, self._remembered, *known)
        offered = next((cluster_id for cluster_id in held if cluster_id), "")
        if not offered and not may_draw:
            then(BrokerBusy(RETRY_AFTER_MS, "waiting for a broker that knows the cluster's id"))
            return
        offered = offered or new_cluster_id()
        try:
            worker.ask(partial(store.make_cluster_id, offered), partial(self._on_made, then))
        except BrokerBusy as error:
            then(error)

    def _on_made(self, then: Callable[[ZenitError | None], None], result: str | ZenitError) -> None:
        if isinstance(result, ZenitError):
            then(result)
            return
        self.on_read(result)
        then(None)
