"""RocketMQ's C++ client (the package `rocketmq` of PyPI), unchanged: it knows JSON and zlib only, and brokers by addresses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from classic_clients import CPP_CLIENT, cpp_python
from classic_kit import CLIENT_S, RunningFront, running_front
from proxy_clients import needs_client

from zenitmq import Message, Producer, PullConsumer, StartFrom
from zenitmq.testing import LocalCluster

pytestmark = needs_client(CPP_CLIENT, is_there=cpp_python() is not None)
DRIVER = Path(__file__).parent / "clients" / "cpp_client.py"


@pytest.fixture(scope="module")
def front(cluster: LocalCluster) -> Iterator[RunningFront]:
    with running_front(cluster.namesrv) as running:
        yield running


def run(front: RunningFront, scenario: str, **asked: object) -> Any:
    command = [str(cpp_python()), str(DRIVER), front.address, scenario, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_sends_reach_native_consumers(cluster: LocalCluster, front: RunningFront) -> None:
    topic = cluster.create_topic("cpp-sends")
    receipts = run(front, "send", topic=topic)["receipts"]
    assert {one["status"] for one in receipts} == {0}
    found = {}
    with PullConsumer("cpp-native", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe(topic)
        while len(found) < 14:
            batch = consumer.poll(timeout=10.0)
            assert batch, sorted(found)
            found.update((one.body.decode(), one) for one in batch)
    plain = found["plain"]
    assert (plain.tags, plain.keys, plain.properties["region"]) == ("blue", ("key-1",), "eu")
    assert {"x" * 50_000, "one-way", "delayed", "batch-4", "ordered-4"} <= found.keys()
    ordered = [found[f"ordered-{number}"] for number in range(5)]
    assert len({one.queue for one in ordered}) == 1
    assert [one.queue_offset for one in ordered] == sorted(one.queue_offset for one in ordered)


def test_a_push_consumer_gets_what_native_producers_send(cluster: LocalCluster, front: RunningFront) -> None:
    """LZ4 too, unpacked for it. That a handler failed, the package does not tell its own library: nothing comes again."""
    topic = cluster.create_topic("cpp-pushes")
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(20):
            producer.send(Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd"))
        producer.send(Message(topic, b"y" * 50_000, tags="even"))
    found = run(front, "push", topic=topic, group="cpp-pushed", tags="even", count=11)["messages"]
    assert sorted(one["body"] for one in found) == sorted([*(str(n) for n in range(0, 20, 2)), "long 50000"])


def test_an_ordered_consumer_gets_a_queue_in_its_order(cluster: LocalCluster, front: RunningFront) -> None:
    topic = cluster.create_topic("cpp-ordered")
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(10):
            producer.send(Message(topic, b"%d" % number), sharding_key="one")
    found = run(front, "push", topic=topic, group="cpp-ordered", count=10, orderly=True)["messages"]
    assert [one["body"] for one in found] == [str(number) for number in range(10)]
