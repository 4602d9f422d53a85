"""Consumers of more queues than they keep long polls at: nothing is missed, and idle queues cost next to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import cast

import pytest
from client_kit import remoting_of

from zenitmq import Admin, Message, Producer, PullConsumer, PushConsumer
from zenitmq.client.consuming.broker_pulls import LONG_POLLS_MAX
from zenitmq.deploy.cluster_status import ask_json
from zenitmq.model.clock import monotonic_ms, sleep_ms
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


def pulls(cluster: LocalCluster) -> dict[str, int]:
    """What the master counts."""
    with remoting_of(cluster.namesrv) as client:
        document = ask_json(client, cluster.process(cluster.master).address, GetBrokerStatistics())
    assert document is not None
    return cast("dict[str, int]", document["pulls"])


def watched(cluster: LocalCluster) -> int:
    return pulls(cluster)["watched_queues"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_pull_consumer_of_four_hundred_queues_goes_on_after_their_broker_was_killed(replicas: int) -> None:
    with LocalCluster(replicas=replicas, settings=SMALL_STORE) as cluster:
        names = [cluster.create_topic(name, queues=QUEUES) for name in topics("many")]
        with PullConsumer("many", namesrv=cluster.namesrv) as consumer:
            for name in names:
                consumer.subscribe(name)
            take(consumer, send(cluster, names, "first"))
            idle_ms = monotonic_ms() + TIMEOUT_MS
            while watched(cluster) < TOPICS * QUEUES - LONG_POLLS_MAX:
                assert monotonic_ms() < idle_ms
                consumer.poll(timeout=0.1)
            take(consumer, send(cluster, names[:3], "second"))
            given_up, names = names[15:], names[:15]
            for name in given_up:
                consumer.unsubscribe(name)
            while watched(cluster) > len(names) * QUEUES:
                assert monotonic_ms() < idle_ms, "what it gave up is still watched"
                consumer.poll(timeout=0.1)
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
            await_that(lambda: watched(cluster) >= TOPICS * QUEUES - LONG_POLLS_MAX)
            with Admin(cluster.namesrv) as admin:
                admin.delete_topic(names[0])
            await_that(lambda: watched(cluster) <= (TOPICS - 1) * QUEUES)
            wanted += send(cluster, names[1:], "second")
            await_that(lambda: handled == wanted)


@pytest.mark.parametrize("kind", [PullConsumer, PushConsumer])
def test_a_closed_consumer_pulls_nothing_while_others_use_its_connection(
    kind: type[PullConsumer | PushConsumer],
) -> None:
    with LocalCluster(settings=SMALL_STORE) as cluster, Producer(namesrv=cluster.namesrv) as producer:
        name = cluster.create_topic("closed", queues=10 * QUEUES)
        consumer = kind("closed", namesrv=cluster.namesrv)
        consumer.subscribe(name)
        if isinstance(consumer, PushConsumer):
            consumer.on_message(lambda messages: None)
        with consumer:
            if isinstance(consumer, PullConsumer):
                consumer.poll(timeout=0.1)
            await_that(lambda: watched(cluster) >= 100)
        before, idle = pulls(cluster)["requests"], watched(cluster)
        for number in range(10 * QUEUES):
            producer.send(Message(name, b"x"), sharding_key=str(number))
        await_that(lambda: watched(cluster) < idle - LONG_POLLS_MAX)
        sleep_ms(500)
        assert pulls(cluster)["requests"] - before <= LONG_POLLS_MAX


def await_that(condition: Callable[[], bool]) -> None:
    deadline_ms = monotonic_ms() + TIMEOUT_MS
    while not condition():
        assert monotonic_ms() < deadline_ms
        sleep_ms(50)
