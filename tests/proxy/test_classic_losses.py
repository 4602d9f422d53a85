"""The classic front when a master is lost, when a proxy is replaced, and in a secured cluster."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from classic_clients import CPP_CLIENT, JAVA_NAME, JAVA_VERSIONS, cpp_python, has_java
from classic_kit import BareClient, ClientScenario, JavaScenario, RemotingProcess, heartbeat, running_front, told
from proxy_clients import DRIVERS, needs_client

from zenitmq import Message, Producer, PullConsumer, StartFrom
from zenitmq.client.admin import Admin
from zenitmq.model.security.principals import RuleEffect, User
from zenitmq.model.security.rule_text import parse_rule
from zenitmq.model.security.signatures import signature_of, signed_content
from zenitmq.proxy.classic.frames import IS_REPLY, ClassicFrame, encode_frame
from zenitmq.record.kernel import decode_batch
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(180)
BY_TAGS = 4


@needs_client(JAVA_NAME, is_there=has_java(JAVA_VERSIONS[0]))
def test_nothing_that_java_was_told_is_stored_is_lost_with_a_master() -> None:
    """And a consumer goes on at the next master."""
    with LocalCluster(replicas=3) as cluster, running_front(cluster.namesrv) as front:
        topic = cluster.create_topic("lost-master")
        consumer = JavaScenario(JAVA_VERSIONS[-1], front.address, "push", topic=topic, group="lost-master", count=400)
        with consumer, JavaScenario(JAVA_VERSIONS[0], front.address, "numbers", topic=topic) as java:
            acknowledged = [java.await_line("acked")[1] for _ in range(200)]
            consumer.await_line("got")
            cluster.kill(cluster.master)
            acknowledged += [java.await_line("acked")[1] for _ in range(200)]
            facts = java.facts()
            assert told(consumer.facts(), "left") == [["0"]]
        assert not told(facts, "failed")
        acknowledged += [words[0] for words in told(facts, "acked")]
        found: list[str] = []
        with PullConsumer("lost-master-native", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
            consumer.subscribe(topic)
            while batch := consumer.poll(timeout=3.0):
                found += [one.body.decode() for one in batch]
        assert set(acknowledged) <= set(found)


def java_numbers(addresses: str, topic: str) -> ClientScenario:
    return JavaScenario(JAVA_VERSIONS[0], addresses, "numbers", topic=topic)


def cpp_numbers(addresses: str, topic: str) -> ClientScenario:
    command = [str(cpp_python()), str(DRIVERS / "clients" / "cpp_client.py")]
    return ClientScenario(command, addresses, "numbers", topic=topic)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(java_numbers, marks=needs_client(JAVA_NAME, is_there=has_java(JAVA_VERSIONS[0]))),
        pytest.param(cpp_numbers, marks=needs_client(CPP_CLIENT, is_there=cpp_python() is not None)),
    ],
)
def test_a_client_goes_on_at_another_proxy(
    cluster: LocalCluster, scenario: Callable[[str, str], ClientScenario]
) -> None:
    """It knows both as its name servers. The first is killed; nothing that was acknowledged is lost with it."""
    topic = cluster.create_topic(f"lost-proxy-{scenario.__name__.replace('_', '-')}")
    with running_front(cluster.namesrv) as second, RemotingProcess(cluster.namesrv) as first:
        with scenario(f"{first.address};{second.address}", topic) as client:
            acknowledged = [client.await_line("acked")[1] for _ in range(100)]
            first.kill()
            acknowledged += [client.await_line("acked")[1] for _ in range(100)]
            assert second.on_loop(lambda: len(second.server.links))
            acknowledged += [words[0] for words in told(client.facts(), "acked")]
        found: set[str] = set()
        with PullConsumer(topic, namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
            consumer.subscribe(topic)
            while batch := consumer.poll(timeout=1.0):
                found |= {one.body.decode() for one in batch}
        assert set(acknowledged) <= found


def test_a_consumer_goes_on_at_the_next_proxy_before_it_said_anything(cluster: LocalCluster) -> None:
    """Its subscription is known to the brokers."""
    topic, group = cluster.create_topic("next-proxy"), "next-proxy"
    with Producer(namesrv=cluster.namesrv) as producer:
        receipt = producer.send(Message(topic, b"x", tags="a"))
    pull = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": receipt.queue.queue_id,
        "queueOffset": 0,
        "maxMsgNums": 9,
    }
    with running_front(cluster.namesrv) as first, BareClient(first.server.port) as client:
        assert client.ask(34, heartbeat("c", group, topic, "a || b")).code == 0
        with running_front(cluster.namesrv) as second, BareClient(second.server.port) as again:
            answer = again.ask(11, **pull)
            assert answer.code == 0, answer.remark
            assert [one.body for one in decode_batch(answer.body)] == [b"x"]
            assert again.ask(11, **{**pull, "consumerGroup": "nobody"}).code == 24


def test_users_sign_and_may_what_their_rules_say() -> None:
    with LocalCluster(secure=True) as cluster:
        mine, other = cluster.create_topic("mine"), cluster.create_topic("other")
        with Admin(cluster.namesrv) as admin:
            rules = tuple(parse_rule(RuleEffect.ALLOW, "pub,sub,get", target) for target in ("topic:mine", "group:*"))
            admin.put_security_row(User("app", (), rules=rules))
            secret = admin.make_secret("app").secret
        with running_front(cluster.namesrv, key=cluster.key()) as front, BareClient(front.server.port) as client:

            def ask(code: int, body: bytes = b"", secret: str = secret, **fields: object) -> int:
                texts = {name: str(value) for name, value in fields.items()} | {"AccessKey": "app"}
                signature = base64.b64encode(signature_of(secret, signed_content(texts, body))).decode()
                answer = client.ask(code, body, **texts, Signature=signature)
                return answer.code

            def known() -> list[bool]:
                found: list[bool] = front.on_loop(lambda: [link.held.is_known for link in front.server.links])
                return found

            send = {"topic": mine, "queueId": 0}
            assert client.ask(10, b"x", **send).code == 16
            assert ask(10, b"x", "another secret", **send) == 16
            assert known() == [False]
            for body in (b"x", bytes(200_000)):
                assert ask(10, body, **send) == 0
                assert known() == [True]
            assert ask(10, b"x", topic=other, queueId=0) == 16
            pull = {"topic": mine, "queueId": 0, "queueOffset": 0, "consumerGroup": "g", "maxMsgNums": 32}
            assert ask(11, **pull, sysFlag=BY_TAGS, subscription="*") == 0
            assert ask(17, topic="made") == 16


def test_what_one_user_tells_changes_nothing_of_anothers_clients() -> None:
    """Heartbeats and leaves with another's client id and group, refused ones too; questions to another's client."""
    with LocalCluster(secure=True) as cluster:
        secrets = {}
        with Admin(cluster.namesrv) as admin:
            for user, name in (("alice", "a"), ("bob", "b")):
                cluster.create_topic(name, queues=1)
                rules = tuple(parse_rule(RuleEffect.ALLOW, "pub,sub,get", f"{on}:{name}") for on in ("topic", "group"))
                admin.put_security_row(User(user, (), rules=rules))
                secrets[user] = admin.make_secret(user).secret
        with running_front(cluster.namesrv, key=cluster.key()) as front, ExitStack() as opened:
            port = front.server.port
            alice, again, bob = (opened.enter_context(BareClient(port)) for _ in range(3))

            def ask(client: BareClient, user: str, code: int, body: bytes = b"", **fields: object) -> ClassicFrame:
                return client.ask(code, body, **signed(user, body, **fields))

            def signed(user: str, body: bytes = b"", **fields: object) -> dict[str, str]:
                texts = {name: str(value) for name, value in fields.items()} | {"AccessKey": user}
                signature = base64.b64encode(signature_of(secrets[user], signed_content(texts, body))).decode()
                return texts | {"Signature": signature}

            def members() -> bytes:
                return ask(alice, "alice", 38, consumerGroup="a").body

            assert ask(alice, "alice", 34, heartbeat("c", "a", "a", "x")).code == 0
            present = members()
            assert b'"c"' in present
            assert ask(bob, "bob", 35, clientID="c", consumerGroup="a", producerGroup="a").code == 0
            assert members() == present
            assert ask(bob, "bob", 34, heartbeat("c", "b", "b")).code == 1
            assert ask(bob, "bob", 307, consumerGroup="a", clientId="c").code == 16
            assert members() == present

            no_right = heartbeat("third", "b", "b").replace(
                b'[{"groupName": "b"}]', b'[{"groupName": "b"}, {"groupName": "no"}]'
            )
            assert ask(bob, "bob", 34, no_right).code == 0
            assert b'"third"' in ask(bob, "bob", 38, consumerGroup="b").body

            assert ask(alice, "alice", 310, b"m", b="a", e=0, i="TAGS\x01x").code == 0
            assert ask(bob, "bob", 34, heartbeat("other", "a", "a", "nothing")).code == 16
            pull = {"consumerGroup": "a", "topic": "a", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32}
            assert ask(again, "alice", 11, **pull).fields["nextBeginOffset"] == "1"
            assert len(decode_batch(ask(again, "alice", 11, **pull).body)) == 1

            opaque = again.send(307, **signed("alice", consumerGroup="a", clientId="c"))
            question = alice.read()
            assert (question.code, question.fields) == (307, {"consumerGroup": "a", "clientId": "c"})
            alice.socket.sendall(encode_frame(ClassicFrame(0, question.opaque, IS_REPLY, body=b"{}")))
            assert again.read().opaque == opaque
