"""RocketMQ's Java clients 5.5.0 and 4.9.8, unchanged, by the classic protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from classic_clients import JAVA_NAME, JAVA_VERSIONS, has_java
from classic_kit import JavaScenario, RunningFront, new_certificate, running_front, told
from proxy_clients import needs_client

from zenitmq import Message, Producer, PullConsumer, StartFrom
from zenitmq.testing import LocalCluster

COUNT = 69
"""Messages that the scenario `send` sends."""


@pytest.fixture(scope="module")
def front(cluster: LocalCluster) -> Iterator[RunningFront]:
    with running_front(cluster.namesrv) as running:
        yield running


@pytest.fixture(
    params=[
        pytest.param(version, marks=needs_client(JAVA_NAME, is_there=has_java(version))) for version in JAVA_VERSIONS
    ]
)
def java(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def topic_of(cluster: LocalCluster, name: str, java: str) -> str:
    return cluster.create_topic(f"{name}-{java.replace('.', '-')}")


def test_sends_of_each_kind_reach_native_consumers(cluster: LocalCluster, front: RunningFront, java: str) -> None:
    topic = topic_of(cluster, "java-sends", java)
    facts = JavaScenario(java, front.address, "send", topic=topic).facts()
    assert {words[-1] for words in told(facts, "sent")} == {"SEND_OK"}
    assert told(facts, "batch") == [["10", "SEND_OK"]]
    assert told(facts, "async") == [["0", "0"]]
    assert told(facts, "viewed") == told(facts, "queried") == [["plain"]]
    assert told(facts, "nowhere") == [["MQClientException"]]
    ordered = [words for words in told(facts, "sent") if words[0].startswith("ordered")]
    assert {words[3] for words in ordered} == {"3"}
    offsets = [int(words[4]) for words in ordered]
    assert offsets == list(range(offsets[0], offsets[0] + 5))
    found = {}
    with PullConsumer(f"native-{topic}", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe(topic)
        while len(found) < COUNT:
            batch = consumer.poll(timeout=10.0)
            assert batch, sorted(found)
            found.update((one.body.decode(), one) for one in batch)
    plain = found["plain"]
    assert (plain.tags, plain.keys, plain.properties["region"]) == ("blue", ("key-1",), "eu")
    assert plain.message_id == told(facts, "sent")[0][1]
    assert {"x" * 100_000, "one-way", "delayed", "batch-9", "async-49"} <= found.keys()


def test_a_push_consumer_gets_what_it_wants_and_failures_again(
    cluster: LocalCluster, front: RunningFront, java: str
) -> None:
    """Native messages, LZ4 among them; by tags; what failed comes again through the group's retry topic."""
    topic = topic_of(cluster, "java-pushes", java)
    group = f"pushed-{topic}"
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(20):
            producer.send(Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd"))
        producer.send(Message(topic, b"y" * 50_000, tags="even", properties={"region": "eu"}))
    asked = {"topic": topic, "group": group, "tags": "even || none", "count": 11, "fails": "4"}
    facts = JavaScenario(java, front.address, "push", **asked).facts()
    assert told(facts, "left") == [["0"]]
    got = told(facts, "got")
    assert sorted(words[0] for words in got) == sorted([*(str(n) for n in range(0, 20, 2)), "4", "long 50000"])
    again = [words for words in got if words[0] == "4"]
    assert [words[2] for words in again] == ["0", "1"]
    assert {words[5] for words in got} == {topic}


def test_sql_conditions(cluster: LocalCluster, front: RunningFront, java: str) -> None:
    topic = topic_of(cluster, "java-sql", java)
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(6):
            producer.send(Message(topic, b"%d" % number, properties={"n": str(number)}))
    asked = {"topic": topic, "group": f"sql-{topic}", "sql": "n > 3", "count": 2}
    facts = JavaScenario(java, front.address, "push", **asked).facts()
    assert sorted(words[0] for words in told(facts, "got")) == ["4", "5"]


def test_an_ordered_consumer_keeps_the_order_through_a_failure(
    cluster: LocalCluster, front: RunningFront, java: str
) -> None:
    topic = topic_of(cluster, "java-ordered", java)
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(10):
            producer.send(Message(topic, b"%d" % number), sharding_key="one")
    asked = {"topic": topic, "group": f"ordered-{topic}", "orderly": "yes", "count": 10, "fails": "3"}
    facts = JavaScenario(java, front.address, "push", **asked).facts()
    assert [words[0] for words in told(facts, "got")] == [*"0123", *"3456789"]


def test_two_members_share_a_topic_and_commit(cluster: LocalCluster, front: RunningFront, java: str) -> None:
    topic = topic_of(cluster, "java-pulls", java)
    group = f"pulled-{topic}"
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(40):
            producer.send(Message(topic, b"%d" % number))
    facts = JavaScenario(java, front.address, "pull", topic=topic, group=group, count=40).facts()
    assert sorted(int(words[0]) for words in told(facts, "got")) == list(range(40))
    committed = {int(words[0]): int(words[1]) for words in told(facts, "committed")}
    assert sum(committed.values()) == 40
    with PullConsumer(group, namesrv=cluster.namesrv) as native:  # goes on where Java's ended
        native.subscribe(topic)
        with Producer(namesrv=cluster.namesrv) as producer:
            producer.send(Message(topic, b"next"))
        assert [one.body for one in native.poll(timeout=10.0)] == [b"next"]


def test_transactions_are_decided_and_asked_about(cluster: LocalCluster, front: RunningFront, java: str) -> None:
    topic = topic_of(cluster, "java-transactions", java)
    facts = JavaScenario(java, front.address, "transaction", topic=topic, group=f"group-{topic}").facts()
    assert told(facts, "asked") == [["true"]]
    assert [words[0] for words in told(facts, "checked")] == ["UNKNOW"]
    found: set[str] = set()
    with PullConsumer(f"native-{topic}", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe(topic)
        while len(found) < 2:
            batch = consumer.poll(timeout=10.0)
            assert batch, found
            found |= {one.body.decode() for one in batch}
    assert found == {"COMMIT_MESSAGE", "UNKNOW"}


def test_requests_get_their_replies(cluster: LocalCluster, front: RunningFront, java: str) -> None:
    topic = topic_of(cluster, "java-requests", java)
    facts = JavaScenario(java, front.address, "request", topic=topic, group=f"group-{topic}").facts()
    assert told(facts, "reply") == [[f"re: question-{number}"] for number in range(3)]


def test_by_tls_and_by_the_port_of_old_clients(cluster: LocalCluster, java: str, tmp_path: Path) -> None:
    topic = topic_of(cluster, "java-tls", java)
    certificate, key = new_certificate(tmp_path)
    with running_front(cluster.namesrv, tls_certificate=str(certificate), tls_key=str(key)) as front:
        for how in ("tls", "vip"):
            facts = JavaScenario(java, front.address, "send", topic=topic, **{how: "yes"}).facts()
            assert {words[-1] for words in told(facts, "sent")} == {"SEND_OK"}
