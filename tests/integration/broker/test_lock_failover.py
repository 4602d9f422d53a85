"""A group of two replicas and its queue locks: what a renewal waits for, and whose a queue is under the next master."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from client_kit import remoting_of

from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import QueueNotOwned, RequestTimeout, ZenitError
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

    def renew_without_the_slave(self, client_id: str, timeout_ms: int) -> None:
        """Has the client own the queue, then asks the master once, while its slave stands still."""
        self._cluster.wait_healthy()
        master = self._cluster.master
        (slave,) = (name for name in self._cluster.brokers if name != master)
        address = self._cluster.process(master).address
        assert self.lock(client_id)
        with self._cluster.paused(slave):
            self._client.call(address, commands.LockQueues("g", client_id, QUEUE, renews=True), timeout_ms=timeout_ms)

    def commit(self, client_id: str, offset: int) -> None:
        self.ask(commands.UpdateConsumerOffsets("g", (("trades", 0, offset),), client_id))

    def fail_over(self) -> None:
        master = self._cluster.master
        self._cluster.kill(master)
        deadline_ms = monotonic_ms() + 20_000
        while self._cluster.master == master:
            assert monotonic_ms() < deadline_ms
            threading.Event().wait(0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = (*SMALL_STORE, f"queue_lock_lease_ms={LEASE_MS}")
    with LocalCluster(replicas=2, settings=settings) as started, remoting_of(started.namesrv) as client:
        started.create_topic("trades")
        cluster = Cluster(started, client)
        cluster.ask(commands.CreateGroup("g"))
        yield cluster


def test_nobody_is_granted_a_lease_by_a_master_that_only_thinks_it_leads(cluster: Cluster) -> None:
    """While its slave is silent a master cannot know: the other may have been elected."""
    with pytest.raises(RequestTimeout):
        cluster.renew_without_the_slave("a", timeout_ms=500)  # before the slave is struck off
    assert cluster.lock("a"), "and goes on once it knows"
    cluster.ask(commands.UnlockQueues("g", "a", QUEUE))


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
