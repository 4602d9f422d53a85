"""Brokers that hand over, with real processes under load: nothing is lost, nothing is sent twice, and nobody waits for long."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from zenitmq import FIRST, Admin, Message, Producer, PushConsumer, StoredMessage
from zenitmq.deploy.processes import wait_ended
from zenitmq.deploy.upgrade.upgrade_survey import wait_in_sync
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import InvalidParameter, ZenitError
from zenitmq.testing import LocalCluster

SENDERS = 4
GAP_MS = 1_500
"""The longest pause of a producer that passes here: below a second on an idle machine (docs/benchmarks.md), and this one may be
busy."""
ENDED_MS = 20_000


@dataclass
class Load:
    """Producers that send one message after the other, and a consumer of all of them."""

    cluster: LocalCluster
    topic: str
    acknowledged: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    gap_ms: int = 0
    failures: list[ZenitError] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for number in range(SENDERS):
            thread = threading.Thread(target=self._send, args=(number,))
            thread.start()
            self._threads.append(thread)

    def _send(self, number: int) -> None:
        with Producer(namesrv=self.cluster.namesrv) as producer:
            count, last_ms = 0, monotonic_ms()
            while not self._stopping.is_set():
                body = f"{number}-{count}"
                try:
                    producer.send(Message(self.topic, body.encode()))
                except ZenitError as error:
                    self.failures.append(error)
                    return
                now_ms = monotonic_ms()
                if count:  # the first send makes the connection
                    self.gap_ms = max(self.gap_ms, now_ms - last_ms)
                last_ms = now_ms
                self.acknowledged.add(body)
                count += 1
                sleep_ms(2)

    def on_messages(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            self.received.add(bytes(message.body).decode())

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def load(three_replicas: LocalCluster) -> Iterator[Load]:
    made = Load(three_replicas, three_replicas.create_topic("drained", queues=4))
    consumer = PushConsumer("drainers", namesrv=three_replicas.namesrv, start_from=FIRST)
    consumer.subscribe(made.topic)
    consumer.on_message(made.on_messages)
    with consumer:
        made.start()
        try:
            wait_until(lambda: len(made.received) > 100, "messages flow")
            yield made
        finally:
            made.stop()


def wait_until(condition: Callable[[], bool], what: str, timeout_ms: int = 30_000) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not condition():
        assert monotonic_ms() < deadline_ms, what
        sleep_ms(20)


def stored(cluster: LocalCluster, topic: str) -> int:
    with Admin(cluster.namesrv) as admin:
        return sum(admin.max_offset(queue) for queue in admin.queues(topic))


def test_a_group_is_restarted_by_sigterm_one_by_one_and_its_clients_hardly_notice(load: Load) -> None:
    """Slaves first, the master last: as `zenit upgrade plan` has it."""
    cluster = load.cluster
    before = stored(cluster, load.topic) - len(load.acknowledged)
    assert before <= SENDERS, "messages of an earlier test"
    old = cluster.master
    for name in sorted(cluster.brokers, key=lambda name: name == old):
        process = cluster.process(name)
        os.kill(process.pid, signal.SIGTERM)
        assert wait_ended(process.pid, process.birth, timeout_ms=ENDED_MS)
        group = cluster.group()
        assert name not in group["in_sync"], "it has left before it ended"
        assert group["master"] not in (None, name), "another leads before it ended"
        count = len(load.received)
        wait_until(lambda count=count: len(load.received) > count + 20, "messages flow on")  # type: ignore[misc]
        cluster.restart()
    load.stop()
    assert not load.failures
    assert load.gap_ms <= GAP_MS
    wait_until(lambda: load.received >= load.acknowledged, "all that was acknowledged is consumed")
    assert stored(cluster, load.topic) == len(load.acknowledged), "nothing was stored twice"


def test_a_broker_that_stays_is_not_elected_until_that_is_undone(three_replicas: LocalCluster) -> None:
    cluster = three_replicas
    old = cluster.master
    with Admin(cluster.namesrv) as admin:
        admin.drain_broker(cluster.process(old).address)
        wait_until(lambda: _drain_of(cluster, old) == "drained", "it has handed over")
        assert cluster.master != old
        assert old in cluster.group()["in_sync"]
        wait_in_sync(admin, "broker-a", seconds=0.1, timeout_s=30)
        admin.drain_broker(cluster.process(old).address, undo=True)
        wait_until(lambda: _drain_of(cluster, old) is None, "it works as before")


def _drain_of(cluster: LocalCluster, name: str) -> str | None:
    replicas = {one["name"]: one for one in cluster.group()["replicas"]}
    drain: str | None = replicas[name]["drain"]
    return drain


def test_a_broker_alone_ends_at_once_and_cannot_stay_without_leading() -> None:
    with LocalCluster() as cluster:
        process = cluster.process("broker-a")
        with Admin(cluster.namesrv) as admin:
            with pytest.raises(InvalidParameter, match="without replicas"):
                admin.drain_broker(process.address)
            begun_ms = monotonic_ms()
            admin.drain_broker(process.address, ends=True)
            assert wait_ended(process.pid, process.birth, timeout_ms=ENDED_MS)
            assert monotonic_ms() - begun_ms < ENDED_MS // 2
