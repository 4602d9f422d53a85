"""RocketMQ's Java client 5.2.0 and Node client 1.0.8, unchanged, by gRPC: what each can do, and what is lost with a process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from classic_kit import ClientScenario, new_certificate, told
from proxy_clients import JAVA_CLIENT, NODE_CLIENT, has_jars, needs_client, node_modules
from proxy_kit import Inside, ProxyProcesses, java_scenario, node_scenario, running_proxy

from zenitmq import Message, Producer, PullConsumer, SimpleConsumer, StartFrom
from zenitmq.client.admin import Admin
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.principals import RuleEffect, User
from zenitmq.model.security.rule_text import parse_rule
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(150)
needs_java = needs_client("-".join(JAVA_CLIENT), is_there=has_jars(*JAVA_CLIENT))
needs_node = needs_client("-".join(NODE_CLIENT), is_there=node_modules() is not None)
Scenario = Callable[..., ClientScenario]


@pytest.fixture(
    params=[
        pytest.param(java_scenario, marks=needs_java, id="java"),
        pytest.param(node_scenario, marks=needs_node, id="node"),
    ]
)
def run(request: pytest.FixtureRequest) -> Scenario:
    found: Scenario = request.param
    return found


@pytest.fixture(scope="module")
def proxy(cluster: LocalCluster) -> Iterator[str]:
    """With groups that it knows of from its first look on."""
    policy = '{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}'
    with Admin(cluster.namesrv) as admin:
        for name in ("java", "node"):
            admin.create_group(f"grpc-pushed-{name}", {"groupRetryPolicy": policy, "retryMaxTimes": "1"})
            admin.create_group(f"grpc-ordered-{name}", {"consumeMessageOrderly": "true"})
    with running_proxy(cluster.namesrv) as address:
        yield address


def name_of(run: Scenario, what: str) -> str:
    return f"grpc-{what}-{'java' if run is java_scenario else 'node'}"


def native(cluster: LocalCluster, topic: str, count: int) -> dict[str, Message]:
    """{body: message} of so many, for a native consumer."""
    found: dict[str, Message] = {}
    with SimpleConsumer(f"native-{topic}", namesrv=cluster.namesrv) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            batch = consumer.receive(32, wait=5.0)
            assert batch, sorted(found)
            for one in batch:
                found[one.body.decode()] = one
                consumer.ack(one)
    return found


def test_sends_of_each_kind_reach_native_consumers(cluster: LocalCluster, proxy: str, run: Scenario) -> None:
    """With all they had; the order of a message group is that of its sends; what was recalled does not come."""
    topic = cluster.create_topic(name_of(run, "sends"))
    facts = run(proxy, "send", topic=topic).facts()
    sent = told(facts, "sent")
    assert told(facts, "recalled") == [[sent[-1][1]]]
    assert told(facts, "async") == [["50"]]
    assert len(told(facts, "nowhere")) == 1
    found = native(cluster, topic, 59)
    assert {"x" * 100_000, "delayed", "first", "async-49"} <= found.keys()
    assert "never" not in found
    plain = found["plain"]
    assert (plain.tags, plain.keys, plain.properties["region"]) == ("blue", ("key-1",), "eu")
    assert plain.message_id == sent[0][1]
    ordered = [found[f"ordered-{number}"] for number in range(5)]
    assert len({one.queue for one in ordered}) == 1
    assert [one.queue_offset for one in ordered] == sorted(one.queue_offset for one in ordered)


def test_a_simple_consumer_gets_what_it_asks_for(cluster: LocalCluster, proxy: str, run: Scenario) -> None:
    """By tag and by condition, packed ones too; what it gives back comes again with the next attempt."""
    topic = cluster.create_topic(name_of(run, "simple"))
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(8):
            properties = {"n": str(number), "region": "eu"}
            tag = "even" if number % 2 == 0 else "odd"
            producer.send(Message(topic, b"%d" % number, tags=tag, keys=[f"k{number}"], properties=properties))
        producer.send(Message(topic, b"y" * 50_000, tags="even", properties={"n": "8", "region": "eu"}))
    asked = {"topic": topic, "count": 6, "wait": 5}
    got = told(run(proxy, "simple", group=f"tags-{topic}", tags="even", again="4", **asked).facts(), "got")
    assert sorted(words[0] for words in got) == ["0", "2", "4", "4", "6", "long 50000"]
    assert [words[1] for words in got if words[0] == "4"] == ["1", "2"]
    assert next(words[2:5] for words in got if words[0] == "2") == ["even", "k2", "eu"]
    got = told(run(proxy, "simple", group=f"sql-{topic}", sql="n > 2", **asked).facts(), "got")
    assert sorted(words[0] for words in got) == ["3", "4", "5", "6", "7", "long 50000"]


def test_a_push_consumer_handles_all_and_failures_again(cluster: LocalCluster, proxy: str, run: Scenario) -> None:
    """What failed comes again after the group's delay; the dead letters have what failed too often."""
    topic, group = cluster.create_topic(name_of(run, "pushes")), name_of(run, "pushed")
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(20):
            producer.send(Message(topic, b"n%d" % number))
        producer.send(Message(topic, b"fail"))
    facts = run(proxy, "push", topic=topic, group=group, count=22, fails="fail", rest_ms=2500).facts()
    assert told(facts, "left") == [["0"]]
    got = told(facts, "got")
    assert sorted(words[0] for words in got) == sorted([*(f"n{number}" for number in range(20)), "fail", "fail"])
    assert [words[1] for words in got if words[0] == "fail"] == ["1", "2"]
    with Admin(cluster.namesrv) as admin:
        assert [letter.message.body for letter in admin.dead_letters(group)] == [b"fail"]


def test_an_ordered_group_gets_each_message_group_in_order(cluster: LocalCluster, proxy: str, run: Scenario) -> None:
    topic = cluster.create_topic(name_of(run, "orders"))
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(6):
            for group in "abc":
                producer.send(Message(topic, f"{group}{number}".encode()), sharding_key=group)
    facts = run(proxy, "push", topic=topic, group=name_of(run, "ordered"), count=18).facts()
    got = told(facts, "got")
    for group in "abc":
        assert [words[0] for words in got if words[5] == group] == [f"{group}{number}" for number in range(6)]


def test_transactions_are_ended_by_their_producer_or_by_its_check(
    cluster: LocalCluster, proxy: str, run: Scenario
) -> None:
    topic = cluster.create_topic(name_of(run, "transactions"))
    with run(proxy, "transaction", topic=topic) as client:
        checked = {client.await_line("checked")[1] for _ in range(2)}
        found = native(cluster, topic, 2)
        client.facts()
    assert checked == {"commit later", "rollback later"}
    assert found.keys() == {"commit now", "commit later"}


@needs_java
def test_java_receives_lite_topics_in_their_order(cluster: LocalCluster, proxy: str) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("java-lite", attributes={"message.type": "LITE", "lite.topic.expiration": "1440"})
        admin.create_group("java-lite", {"lite.bind.topic": "java-lite"})
    facts = java_scenario(proxy, "lite", topic="java-lite", group="java-lite", names="a,b", count=10).facts()
    assert told(facts, "left") == [["0"]]
    got = told(facts, "got")
    for name in "ab":
        assert [words[0] for words in got if words[7] == name] == [f"{name}-{number}" for number in range(5)]
    assert len(got) == 10


@needs_java
def test_java_is_asked_for_its_threads_and_to_handle_a_message(cluster: LocalCluster) -> None:
    topic, inside = cluster.create_topic("java-asked"), list[Inside]()
    with running_proxy(cluster.namesrv, inside=inside) as address:
        (proxy,) = inside
        with Producer(namesrv=cluster.namesrv) as producer:
            producer.send(Message(topic, b"one"))
        with SimpleConsumer("java-asked-native", namesrv=cluster.namesrv) as native:
            native.subscribe(topic)
            (message,) = native.receive(1, wait=10.0)
            with java_scenario(address, "push", topic=topic, group="java-asked", count=9, fails="two") as java:
                assert java.await_line("got")[1] == "one"
                (name,) = proxy.backs.asked.client_ids()
                asked = proxy.backs.asked.find(name)
                assert "main" in proxy.run(asked.thread_stacks())
                assert proxy.run(asked.handle(message)).is_success
                assert java.await_line("got")[1] == "one"
        with pytest.raises(InvalidParameter):
            proxy.backs.asked.find("nobody")


@needs_java
def test_java_comes_by_tls_and_signs(tmp_path: Path) -> None:
    """Its default is TLS; it may what its user may."""
    certificate, key = new_certificate(tmp_path)
    with LocalCluster(secure=True) as cluster:
        mine, other = cluster.create_topic("mine"), cluster.create_topic("other")
        with Admin(cluster.namesrv) as admin:
            rules = tuple(parse_rule(RuleEffect.ALLOW, "pub,sub,get", target) for target in ("topic:mine", "group:*"))
            admin.put_security_row(User("app", (), rules=rules))
            secret = admin.make_secret("app").secret
        settings = {"key": cluster.key(), "tls_port": 0, "tls_certificate": str(certificate), "tls_key": str(key)}
        with running_proxy(cluster.namesrv, is_tls=True, **settings) as address:
            signed = {"tls": "yes", "key": "app", "secret": secret}
            with java_scenario(address, "numbers", topic=mine, **signed) as client:
                client.await_line("acked")
                client.facts()
            for topic, more in ((other, signed), (mine, {**signed, "secret": "another"})):
                assert java_scenario(address, "numbers", topic=topic, **more).refused()


def test_nothing_is_lost_with_a_proxy_or_a_master(run: Scenario) -> None:
    """A sender and a receiver go on through the kill of the processes that serve them, then of the master. What was answered
    is received; what was acknowledged does not come again."""
    with LocalCluster(replicas=2) as cluster, ProxyProcesses(cluster.namesrv) as proxy:
        topic = cluster.create_topic(name_of(run, "losses"))
        asked = {"topic": topic, "group": topic, "attempts": 5, "timeout": 5}
        with run(proxy.address, "numbers", **asked) as sender, run(proxy.address, "drain", **asked) as receiver:
            for _ in range(50):
                sender.await_line("acked")
            receiver.await_line("acked")
            assert proxy.kill_serving() > 0
            for _ in range(50):
                sender.await_line("acked")
            receiver.await_line("acked")
            cluster.kill(cluster.master)
            for _ in range(50):
                sender.await_line("acked")
            sender.facts()
            answered = {words[0] for words in told(sender.lines, "acked")}
            while len(told(receiver.lines, "acked")) < len(answered) // 2:
                receiver.await_line("acked")
            receiver.facts()
        got, acknowledged = ([words[0] for words in told(receiver.lines, what)] for what in ("got", "acked"))
        rest: list[str] = []
        with SimpleConsumer(topic, namesrv=cluster.namesrv) as consumer:
            consumer.subscribe(topic)
            while not answered <= {*got, *rest}:
                batch = consumer.receive(32, wait=10.0)  # some were handed out to who was not there any more
                assert batch, answered - {*got, *rest}
                rest += [one.body.decode() for one in batch]
        stored: Counter[str] = Counter()  # a send that was tried again may be there twice
        with PullConsumer(f"native-{topic}", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as reader:
            reader.subscribe(topic)
            while answered - stored.keys() or stored.total() < len(acknowledged):
                records = reader.poll(timeout=10.0)
                assert records, "what was answered is not stored"
                stored.update(one.body.decode() for one in records)
        assert Counter(acknowledged) <= stored
        assert not set(acknowledged) & {body for body in rest if stored[body] == 1}
