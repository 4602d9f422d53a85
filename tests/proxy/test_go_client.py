"""RocketMQ's Go client 2.1.2, unchanged: it names brokers by their addresses, and reads zlib only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from classic_clients import GO_CLIENT, go_driver
from classic_kit import ClientScenario, RunningFront, running_front, told
from proxy_clients import needs_client

from zenitmq import Message, Producer, PullConsumer, StartFrom
from zenitmq.testing import LocalCluster

pytestmark = needs_client(GO_CLIENT, is_there=go_driver() is not None)


@pytest.fixture(scope="module")
def front(cluster: LocalCluster) -> Iterator[RunningFront]:
    with running_front(cluster.namesrv) as running:
        yield running


def run(front: RunningFront, scenario: str, **asked: object) -> list[list[str]]:
    return ClientScenario([str(go_driver())], front.address, scenario, **asked).facts()


def test_sends_reach_native_consumers(cluster: LocalCluster, front: RunningFront) -> None:
    topic = cluster.create_topic("go-sends")
    facts = run(front, "send", topic=topic)
    assert {words[-1] for words in told(facts, "sent")} == {"0"}
    assert told(facts, "batch") == [["0"]]
    found = {}
    with PullConsumer("go-native", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe(topic)
        while len(found) < 14:
            batch = consumer.poll(timeout=10.0)
            assert batch, sorted(found)
            found.update((one.body.decode(), one) for one in batch)
    plain = found["plain"]
    assert (plain.tags, plain.keys, plain.properties["region"]) == ("blue", ("key-1",), "eu")
    assert {"x" * 50_000, "one-way", "delayed", "batch-9"} <= found.keys()


def test_a_push_consumer_gets_what_it_wants_and_failures_again(cluster: LocalCluster, front: RunningFront) -> None:
    topic = cluster.create_topic("go-pushes")
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(20):
            producer.send(Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd"))
        producer.send(Message(topic, b"y" * 50_000, tags="even"))
    facts = run(front, "push", topic=topic, group="go-pushed", tags="even", count=11, fails="4")
    assert told(facts, "left") == [["0"]]
    got = told(facts, "got")
    assert {words[0] for words in got} == {*(str(number) for number in range(0, 20, 2)), "long 50000"}
    assert [words[2] for words in got if words[0] == "4"] == ["0", "1"]


def test_an_ordered_consumer_gets_a_queue_in_its_order(cluster: LocalCluster, front: RunningFront) -> None:
    topic = cluster.create_topic("go-ordered")
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(10):
            producer.send(Message(topic, b"%d" % number), sharding_key="one")
    facts = run(front, "push", topic=topic, group="go-ordered", count=10, orderly="yes")
    assert [words[0] for words in told(facts, "got")] == [str(number) for number in range(10)]
