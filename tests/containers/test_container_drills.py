"""Containers are killed, paused, cut off, and lose their volumes, under load: nothing that was acknowledged is lost."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from containers.container_cluster import BROKERS, ContainerCluster, wait_until
from containers.engine import COMMAND_S

from zenitmq import FIRST, Message, Producer, PullConsumer
from zenitmq.model.errors import ZenitError

SEND_S = 30.0
GAP_S_MAX = 1.0
BUSY = 10  # this machine may be doing other things: what is asked of a quiet one, so many times
POLL_S = 1.0


class Load:
    """A producer that sends one message after the other, and remembers what was acknowledged."""

    def __init__(self, namesrv: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: list[bytes] = []
        self.longest_gap_s = 0.0  # between two acknowledgements
        self._namesrv, self._ended = namesrv, threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            self.wait_more()
            yield
        finally:
            self._ended.set()
            self._thread.join(2 * SEND_S)

    def wait_more(self, count: int = 20) -> None:
        """Waits until so many more are acknowledged: the group takes messages now."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, f"{count} more messages acknowledged")

    def _send(self) -> None:
        number, last = 0, time.monotonic()
        with Producer(namesrv=self._namesrv) as producer:
            while not self._ended.wait(0.005):
                body = b"%d" % number
                number += 1
                try:
                    producer.send(Message(self.topic, body), timeout=SEND_S)
                except ZenitError:
                    continue  # whether it was stored is not known
                self.acknowledged.append(body)
                self.longest_gap_s, last = max(self.longest_gap_s, time.monotonic() - last), time.monotonic()


@pytest.fixture
def load(cluster: ContainerCluster) -> Load:
    cluster.wait_healthy()
    return Load(cluster.namesrv, cluster.create_topic(f"drill-{secrets.token_hex(6)}"))


def assert_nothing_lost(cluster: ContainerCluster, load: Load) -> None:
    """All replicas are there again, and the master has all that was acknowledged."""
    cluster.wait_healthy()
    missing = set(load.acknowledged)
    with PullConsumer(f"g-{load.topic}", namesrv=cluster.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(load.topic)
        while missing and (found := consumer.poll(max_messages=1000, timeout=10 * POLL_S)):
            missing -= {bytes(message.body) for message in found}
    assert not missing, f"{len(missing)} of {len(load.acknowledged)} are lost"


def test_a_killed_master_is_replaced_and_comes_back_as_a_slave(cluster: ContainerCluster, load: Load) -> None:
    master = cluster.wait_master()
    with load.running():
        cluster.kill(master)
        cluster.wait_master(other_than=master)
        load.wait_more()
        cluster.start_again(master)
        wait_until(lambda: cluster.health(master).startswith("ready: slave"), f"{master} is a slave in sync")
    assert_nothing_lost(cluster, load)


def test_a_paused_master_is_replaced_and_knows_it_when_it_goes_on(cluster: ContainerCluster, load: Load) -> None:
    master = cluster.wait_master()
    with load.running():
        with cluster.paused(master):
            cluster.wait_master(other_than=master)
            load.wait_more()
        wait_until(lambda: cluster.health(master).startswith("ready: slave"), f"{master} is a slave in sync")
        load.wait_more()
    assert_nothing_lost(cluster, load)


def test_a_master_without_network_is_replaced_and_found_again_by_its_name(
    cluster: ContainerCluster, load: Load
) -> None:
    master = cluster.wait_master()
    with load.running():
        with cluster.cut_off(master):
            cluster.wait_master(other_than=master)
            load.wait_more()
        wait_until(lambda: cluster.health(master).startswith("ready: slave"), f"{master} is a slave in sync")
    assert_nothing_lost(cluster, load)


def test_a_slave_that_lost_its_volume_copies_everything(cluster: ContainerCluster, load: Load) -> None:
    slave = next(name for name in BROKERS if name != cluster.wait_master())
    with load.running():
        cluster.lose_volume(slave)
        wait_until(lambda: cluster.health(slave).startswith("ready: slave"), f"{slave} is a slave in sync")
        load.wait_more()
    assert_nothing_lost(cluster, load)


def test_a_name_server_and_a_controller_are_killed_and_nobody_notices(cluster: ContainerCluster, load: Load) -> None:
    with load.running():
        cluster.kill("namesrv-1")
        cluster.kill("controller-1")
        try:
            load.wait_more()
            wait_until(lambda: cluster.health("controller-2").startswith("ready"), "the other controller leads")
        finally:
            cluster.start_again("namesrv-1")
            cluster.start_again("controller-1")
    assert_nothing_lost(cluster, load)


def test_containers_are_replaced_one_by_one_and_a_producer_hardly_notices(
    cluster: ContainerCluster, load: Load
) -> None:
    """As a rolling upgrade does: a broker hands over, its container is replaced, and the next one waits until it is in sync.

    With -s it prints the producer's longest gap.
    """
    master = cluster.wait_master()
    order = [*(name for name in BROKERS if name != master), master]
    with load.running():
        for name in order:
            command = [sys.executable, "-m", "zenitmq", "broker", "drain", name, "--wait"]
            drained = subprocess.run(
                command, env=cluster.environ, capture_output=True, text=True, timeout=COMMAND_S, check=False
            )
            assert drained.returncode == 0, drained.stderr
            assert cluster.health(name) != "ready: master"
            cluster.replace(name)
            cluster.wait_healthy()
        load.wait_more()
    print(f"{len(load.acknowledged)} messages; longest gap of the producer {load.longest_gap_s:.2f} s")
    assert load.longest_gap_s < GAP_S_MAX * BUSY
    assert_nothing_lost(cluster, load)
