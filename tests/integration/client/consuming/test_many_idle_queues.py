"""Consumers of more queues than they keep long polls at: nothing is missed, and idle queues cost next to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from zenitmq import Admin, Message, Producer, PullConsumer, PushConsumer
from zenitmq.client.consuming.broker_pulls import LONG_POLLS_MAX
from zenitmq.deploy.cluster_status import ask_json
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetBrokerStatistics
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

pytestmark = pytest.mark.timeout(180)

TOPICS = 20
QUEUES = 20
TIMEOUT_MS = 60_000


def topics(name: str) -> list[str]:
    return [f"{name}-{number}" for number in range(TOPICS)]


def send(cluster: LocalCluster, names: list[str], word: str) -> Counter[bytes]:
    """To each topic as many messages as it has queues, one by one."""
    sent: Counter[bytes] = Counter()
    with Producer(namesrv=cluster.namesrv) as producer:
        for name in names:
            for number in range(QUEUES):
                body = f"{name}-{word}-{number}".encode()
                producer.send(Message(name, body), sharding_key=str(number))
                sent[body] += 1
    return sent


def take(consumer: PullConsumer, wanted: Counter[bytes]) -> None:
    """Until all have come. The first time they come once."""
    deadline_ms, found = monotonic_ms() + TIMEOUT_MS, Counter[bytes]()
    while wanted - found:
        assert monotonic_ms() < deadline_ms, sorted(wanted - found)[:10]
        found.update(bytes(message.body) for message in consumer.poll(timeout=1.0))
    assert not found - wanted


def watched(cluster: LocalCluster, name: str) -> int:
    with RemotingClient() as client:
        document = ask_json(client, cluster.process(name).address, GetBrokerStatistics())
    assert document is not None
    return int(document["pulls"]["watched_queues"])


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_pull_consumer_of_four_hundred_queues_goes_on_after_their_broker_was_killed(replicas: int) -> None:
    with LocalCluster(replicas=replicas, settings=SMALL_STORE) as cluster:
        names = [cluster.create_topic(name, queues=QUEUES) for name in topics("many")]
        with PullConsumer("many", namesrv=cluster.namesrv) as consumer:
            for name in names:
                consumer.subscribe(name)
            take(consumer, send(cluster, names, "first"))
            idle_ms = monotonic_ms() + TIMEOUT_MS
            while watched(cluster, cluster.master) < TOPICS * QUEUES - LONG_POLLS_MAX:
                assert monotonic_ms() < idle_ms
                consumer.poll(timeout=0.1)
            take(consumer, send(cluster, names[:3], "second"))
            cluster.kill(cluster.master)
            if replicas == 1:
                cluster.restart()
            take(consumer, send(cluster, names, "third"))


def test_a_push_consumer_of_four_hundred_queues_gets_each_message_and_hears_of_deleted_topics() -> None:
    with LocalCluster(settings=SMALL_STORE) as cluster:
        names = [cluster.create_topic(name, queues=QUEUES) for name in topics("pushed")]
        handled: Counter[bytes] = Counter()
        consumer = PushConsumer("pushed", namesrv=cluster.namesrv)
        for name in names:
            consumer.subscribe(name)
        consumer.on_message(lambda messages: handled.update(bytes(message.body) for message in messages))
        with consumer:
            wanted = send(cluster, names, "first")
            await_that(lambda: handled == wanted)
            await_that(lambda: watched(cluster, cluster.master) >= TOPICS * QUEUES - LONG_POLLS_MAX)
            with Admin(cluster.namesrv) as admin:
                admin.delete_topic(names[0])
            await_that(lambda: watched(cluster, cluster.master) <= (TOPICS - 1) * QUEUES)
            wanted += send(cluster, names[1:], "second")
            await_that(lambda: handled == wanted)


def await_that(condition: Callable[[], bool]) -> None:
    deadline_ms = monotonic_ms() + TIMEOUT_MS
    while not condition():
        assert monotonic_ms() < deadline_ms
        sleep_ms(50)
