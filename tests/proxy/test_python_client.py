"""RocketMQ's own Python client, unchanged, against the proxy: every kind of send, both kinds of consumers, transactions, and
the loss of a master."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from proxy_clients import PYTHON_CLIENT, needs_client, python_client
from proxy_kit import ClientProcess, ProxyProcesses, run_client, running_proxy

from zenitmq import Message, Producer, PullConsumer, SimpleConsumer, StartFrom
from zenitmq.client.admin import Admin
from zenitmq.testing import LocalCluster

pytestmark = needs_client(PYTHON_CLIENT, is_there=python_client() is not None)


@pytest.fixture(scope="module")
def proxy(cluster: LocalCluster) -> Iterator[str]:
    """With groups that it knows of from its first look on."""
    policy = '{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}'
    with Admin(cluster.namesrv) as admin:
        admin.create_group("pushed", {"groupRetryPolicy": policy, "retryMaxTimes": "1"})
        admin.create_group("ordered", {"consumeMessageOrderly": "true"})
    with running_proxy(cluster.namesrv) as address:
        yield address


def bodies(result: Any) -> list[str]:
    return [one["body"] for one in result["messages"]]


def test_sends_of_each_kind_arrive_with_all_they_had(cluster: LocalCluster, proxy: str) -> None:
    """Tags, keys, properties and groups are the same for native consumers; a recalled message does not come."""
    topic = cluster.create_topic("kinds")
    sent = run_client(
        proxy,
        "send",
        topic=topic,
        messages=[
            {"body": "plain", "tag": "blue", "keys": "k1", "properties": {"region": "eu"}},
            {"body": "ordered", "message_group": "order-7"},
            {"body": "later", "in_s": 2},
            {"body": "never", "in_s": 60},
            {"body": "first", "priority": 3},
        ],
        recalls=[3],
    )
    assert sent["recalled"] == [sent["receipts"][3]["message_id"]]
    found = {}
    with SimpleConsumer("kinds-native", namesrv=cluster.namesrv) as consumer:
        consumer.subscribe(topic)
        while len(found) < 4:
            for one in consumer.receive(32, wait=10.0):
                found[one.body.decode()] = one
                consumer.ack(one)
    assert found.keys() == {"plain", "ordered", "later", "first"}
    plain = found["plain"]
    assert (plain.tags, plain.keys, plain.properties["region"]) == ("blue", ("k1",), "eu")
    assert plain.message_id == sent["receipts"][0]["message_id"]
    assert found["ordered"].properties["__SHARDINGKEY"] == "order-7"
    assert found["later"].stored_at_ms - plain.stored_at_ms >= 900


def test_a_simple_consumer_gets_what_it_asks_for_and_nothing_after_it(cluster: LocalCluster, proxy: str) -> None:
    topic = cluster.create_topic("simple")
    with Producer(group="simple", namesrv=cluster.namesrv) as producer:
        for number in range(8):
            producer.send(
                Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd", keys=[f"k{number}"])
            )
        producer.send(Message(topic, b"x" * 6000, tags="even", properties={"large": "yes"}))  # it is stored compressed
    seen = run_client(
        proxy, "simple", topic=topic, group="simple-even", filter="even", count=5, seconds=15, wait=1, then_empty=True
    )
    assert sorted(bodies(seen)) == ["0", "2", "4", "6", "x" * 6000]
    assert not any(one["corrupted"] for one in seen["messages"])
    assert seen["empty_s"] >= 0.9
    assert {one["attempt"] for one in seen["messages"]} == {1}


def test_a_message_that_is_not_acknowledged_comes_again(cluster: LocalCluster, proxy: str) -> None:
    topic = cluster.create_topic("again")
    run_client(proxy, "send", topic=topic, messages=[{"body": "again"}])
    seen = run_client(proxy, "simple", topic=topic, group="again", count=2, seconds=20, change=1, wait=5)
    assert [one["attempt"] for one in seen["messages"]] == [1, 2]


def test_a_push_consumer_handles_all_and_failures_again(cluster: LocalCluster, proxy: str) -> None:
    """What failed comes again after the group's first delay; the dead letters have what failed too often."""
    topic = cluster.create_topic("pushed")
    messages = [{"body": f"n{number}"} for number in range(20)] + [{"body": "fail"}]
    run_client(proxy, "send", topic=topic, messages=messages)
    seen = run_client(proxy, "push", topic=topic, group="pushed", count=22, fails=5, seconds=20, rest=2.5)
    assert sorted(bodies(seen)) == sorted([f"n{number}" for number in range(20)] + ["fail", "fail"])
    assert [one["attempt"] for one in seen["messages"] if one["body"] == "fail"] == [1, 2]
    with Admin(cluster.namesrv) as admin:
        assert [letter.message.body for letter in admin.dead_letters("pushed")] == [b"fail"]


def test_an_ordered_group_gets_each_message_group_in_order(cluster: LocalCluster, proxy: str) -> None:
    topic = cluster.create_topic("ordered")
    sends = [{"body": f"{group}{number}", "message_group": group} for number in range(6) for group in "abc"]
    run_client(proxy, "send", topic=topic, messages=sends)
    seen = run_client(proxy, "push", topic=topic, group="ordered", count=18, seconds=20)
    for group in "abc":
        assert [body for body in bodies(seen) if body[0] == group] == [f"{group}{number}" for number in range(6)]


def test_transactions_are_ended_by_their_producer_or_by_its_check(cluster: LocalCluster, proxy: str) -> None:
    topic = cluster.create_topic("transactions")
    ended = ["commit now 1", "rollback now 2", "commit later 3", "rollback later 4"]
    asked = run_client(proxy, "transactions", topic=topic, bodies=ended, seconds=25, checks=2)
    assert sorted(asked["asked"]) == ["commit later 3", "rollback later 4"]
    seen = run_client(proxy, "simple", topic=topic, group="transactions", count=2, seconds=10, wait=1, then_empty=True)
    assert sorted(bodies(seen)) == ["commit later 3", "commit now 1"]


def test_what_was_answered_is_there_after_the_loss_of_a_master() -> None:
    with LocalCluster(replicas=2, settings=("store.segment_bytes=16777216",)) as cluster:
        topic = cluster.create_topic("lost")
        with running_proxy(cluster.namesrv) as address:
            client = ClientProcess(address, "send_on", {"topic": topic, "seconds": 4})
            client.wait_begun()
            cluster.kill(cluster.master)
            told = client.result()
            count = len(told["sent"])
            assert not told["failed"], told["failed"][:3]
            seen = run_client(address, "simple", topic=topic, group="lost", count=count, seconds=20, wait=1)
        assert sorted(bodies(seen)) == sorted(told["sent"])


def test_nothing_is_lost_with_the_process_of_a_proxy(cluster: LocalCluster) -> None:
    """What was answered is received; what was acknowledged does not come again, but where a send was tried again."""
    topic = cluster.create_topic("lost-process")
    with ProxyProcesses(cluster.namesrv) as proxy:
        asked = {"topic": topic, "group": topic, "seconds": 5}
        sender, receiver = (ClientProcess(proxy.address, name, asked) for name in ("send_on", "drain"))
        for client in (sender, receiver):
            client.wait_begun()
        time.sleep(1)  # messages are under way in both
        assert proxy.kill_serving() > 0
        sent, drained = sender.result()["sent"], receiver.result()
    acknowledged, rest = Counter(drained["acked"]), Counter[str]()
    found = {*drained["found"]}
    assert acknowledged
    with SimpleConsumer(topic, namesrv=cluster.namesrv) as consumer:
        consumer.subscribe(topic)
        while not {*sent} <= {*found, *rest}:
            batch = consumer.receive(32, wait=10.0)
            assert batch, {*sent} - {*found, *rest}
            rest.update(one.body.decode() for one in batch)
    stored: Counter[str] = Counter()
    with PullConsumer(f"native-{topic}", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as reader:
        reader.subscribe(topic)
        while {*sent} - stored.keys() or stored.total() < acknowledged.total():
            records = reader.poll(timeout=10.0)
            assert records, "what was answered is not stored"
            stored.update(one.body.decode() for one in records)
    assert acknowledged <= stored
    assert not acknowledged.keys() & {body for body in rest if stored[body] == 1}
