"""The id of the cluster, in its folder in ZooKeeper: `/zenit/{cluster}/id`.

    read with the members --> known; otherwise the first registration makes it: the operator's, the one read before
    ZooKeeper was emptied, that of the group nodes, the broker's, or a new one --> later brokers get the stored one

A controller whose setting `cluster_id` differs from ZooKeeper's id ends. Loop thread; the worker asks ZooKeeper.
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
    """`cluster_id`: "" = ZooKeeper has none yet, or it was not read yet."""

    def __init__(self, *, cluster: str, pinned: str = "", on_known: Callable[[str], None] = lambda _: None) -> None:
        """`pinned`: the operator's setting, "" = none. `on_known`: called with the id whenever it changes."""
        self.cluster_id = ""
        self._cluster = cluster
        self._pinned = pinned
        self._remembered = ""  # what ZooKeeper held before it was emptied
        self._on_known = on_known

    def on_read(self, cluster_id: str) -> None:
        """The id in ZooKeeper; "" = none. Raises ConfigError if the operator's setting differs."""
        if self._pinned and cluster_id and cluster_id != self._pinned:
            held = f"{cluster_id}, which ZooKeeper holds in /zenit/{self._cluster}/id, or the ZooKeeper of that cluster"
            raise ConfigError("cluster_id", self._pinned, held)
        if cluster_id != self.cluster_id:
            log.info("cluster=%s cluster_id=%s", self._cluster, cluster_id or "none yet")
            self.cluster_id = cluster_id
            self._remembered = cluster_id or self._remembered
            self._on_known(cluster_id)

    def check(self, cluster_id: str) -> None:
        """Checks a broker's id. Raises WrongCluster if it is of another cluster; "" = it has none yet."""
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
        """Makes the node if there is none. `known`: the id of group nodes and the broker, "" = none. `may_draw`: if
        nobody knows an id, a new random one is made; otherwise the broker has to come again, since another one may bring an id.

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
