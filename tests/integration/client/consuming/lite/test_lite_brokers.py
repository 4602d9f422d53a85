"""Lite topics of a parent at two brokers: each at one of them, and received from both.

Also after the parent got another broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from integration.client.consuming.push_kit import wait_until
from integration.client.real_broker import RealBroker

from zenitmq import Admin, LiteConsumer, Message, MessageIllegal, Producer

PARENT = "chats"
NAMES = [f"session-{number}" for number in range(40)]


@pytest.fixture
def brokers(namesrv: str, tmp_path: Path) -> Iterator[dict[str, RealBroker]]:
    with ExitStack() as running:
        made = {}
        for name in ("broker-a", "broker-b"):
            made[name] = RealBroker(namesrv, tmp_path, name)
            running.callback(made[name].stop)
        yield made


def create(namesrv: str, *brokers: str) -> None:
    with Admin(namesrv) as admin:
        admin.create_topic(PARENT, attributes={"message.type": "LITE"}, brokers=brokers)


def say(producer: Producer, *words: bytes) -> None:
    for word in words:
        for name in NAMES:
            producer.send_async(Message(PARENT, word, lite_topic=name))
    producer.flush()


def receive(consumer: LiteConsumer, count: int) -> dict[str, list[tuple[str, bytes]]]:
    """{lite topic: [(broker, body)]}."""
    seen: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
    while sum(map(len, seen.values())) < count:
        messages = consumer.receive(64, wait=10)
        assert messages
        for message in messages:
            seen[str(message.lite_topic)].append((message.broker_name, message.body))
        consumer.ack_batch(messages, wait=True)
    return seen


def test_each_lite_topic_is_at_one_broker_and_all_are_received(namesrv: str, brokers: dict[str, RealBroker]) -> None:
    create(namesrv, *brokers)
    with Producer(namesrv=namesrv) as producer, LiteConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(PARENT, NAMES)
        say(producer, b"0", b"1", b"2")
        seen = receive(consumer, 120)
        assert all([body for _, body in of_one] == [b"0", b"1", b"2"] for of_one in seen.values())
        homes = {name: {broker for broker, _ in of_one} for name, of_one in seen.items()}
        assert all(len(home) == 1 for home in homes.values())
        assert {broker for home in homes.values() for broker in home} == set(brokers)
        with pytest.raises(MessageIllegal, match="send_async"):
            producer.send_batch([Message(PARENT, b"x", lite_topic=name) for name in NAMES])


def test_what_came_before_a_broker_was_added_is_received_too(namesrv: str, brokers: dict[str, RealBroker]) -> None:
    create(namesrv, "broker-a")
    with Producer(namesrv=namesrv) as producer, LiteConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(PARENT, NAMES)
        say(producer, b"0")
        create(namesrv, "broker-b")
        with Admin(namesrv) as admin:
            wait_until(lambda: len(admin.queues(PARENT)) == 2)
    with Producer(namesrv=namesrv) as producer, LiteConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(PARENT, NAMES)
        say(producer, b"1")
        seen = receive(consumer, 80)
        assert all(sorted(body for _, body in of_one) == [b"0", b"1"] for of_one in seen.values())
        moved = [name for name, of_one in seen.items() if "broker-b" in {broker for broker, _ in of_one}]
        assert 5 <= len(moved) <= 35
