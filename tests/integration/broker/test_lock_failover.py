"""The master that gave out a queue is killed: the next one keeps the queue for its owner, until one lease is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import QueueNotOwned, ZenitError
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

LEASE_MS = 4_000
QUEUE = (("trades", 0),)


class Cluster:
    """Two replicas, and whoever is master of them."""

    def __init__(self, cluster: LocalCluster, client: RemotingClient) -> None:
        self._cluster, self._client = cluster, client

    def ask(self, request: commands.Request) -> Any:
        """Of the master, again until it answers: it may be taking over."""
        deadline_ms = monotonic_ms() + 20_000
        while True:
            address = self._cluster.process(self._cluster.master).address
            try:
                return self._client.call(address, request, timeout_ms=2_000)[0]
            except ZenitError as error:
                if not error.retriable or monotonic_ms() > deadline_ms:
                    raise
            threading.Event().wait(0.05)

    def lock(self, client_id: str, *, renews: bool = False) -> bool:
        return bool(self.ask(commands.LockQueues("g", client_id, QUEUE, renews)).queues)

    def commit(self, client_id: str, offset: int) -> None:
        self.ask(commands.UpdateConsumerOffsets("g", (("trades", 0, offset),), client_id))

    def fail_over(self) -> None:
        master = self._cluster.master
        self._cluster.kill(master)
        deadline_ms = monotonic_ms() + 20_000
        while self._cluster.master == master:
            assert monotonic_ms() < deadline_ms
            threading.Event().wait(0.05)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = (*SMALL_STORE, f"queue_lock_lease_ms={LEASE_MS}")
    with LocalCluster(replicas=2, settings=settings) as started, RemotingClient() as client:
        started.create_topic("trades")
        cluster = Cluster(started, client)
        cluster.ask(commands.CreateGroup("g"))
        yield cluster


def test_a_queue_goes_to_its_recorded_owner_only_until_that_ones_lease_is_over(cluster: Cluster) -> None:
    assert cluster.lock("a")
    cluster.commit("a", 1)
    cluster.fail_over()
    assert not cluster.lock("b")
    taken_over_ms = monotonic_ms()
    assert cluster.lock("a", renews=True)
    cluster.commit("a", 2)
    renewed_ms = monotonic_ms()
    while not cluster.lock("b"):
        assert monotonic_ms() < renewed_ms + LEASE_MS + 10_000
        threading.Event().wait(0.05)
    assert monotonic_ms() - taken_over_ms >= LEASE_MS
    with pytest.raises(QueueNotOwned):
        cluster.commit("a", 3)
    assert cluster.ask(commands.QueryConsumerOffset("g", "trades", 0)).offset == 2
