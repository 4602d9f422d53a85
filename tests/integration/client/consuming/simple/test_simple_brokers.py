"""Simple consumers of a topic at two brokers: both are asked at once, and what is too much is given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from integration.client.consuming.push_kit import wait_until
from integration.client.real_broker import RealBroker

from zenitmq import Admin, Message, Producer, SimpleConsumer

TOPIC = "trades"


@pytest.fixture
def brokers(namesrv: str, tmp_path: Path) -> Iterator[list[RealBroker]]:
    with ExitStack() as running:
        made = []
        for name in ("broker-a", "broker-b"):
            made.append(RealBroker(namesrv, tmp_path, name))
            running.callback(made[-1].stop)
        with Admin(namesrv) as admin:
            admin.create_topic(TOPIC, queues=2)
            wait_until(lambda: len(admin.queues(TOPIC)) == 4)
        yield made


@pytest.fixture
def producer(namesrv: str, brokers: list[RealBroker]) -> Iterator[Producer]:
    with Producer("p", namesrv=namesrv) as made:
        yield made


def fill(producer: Producer, count: int) -> list[bytes]:
    """In turn to all queues of both."""
    bodies = [b"%05d" % number for number in range(count)]
    for body in bodies:
        producer.send(Message(TOPIC, body))
    return bodies


def test_a_backlog_at_both_is_received_once_and_no_attempt_is_counted(namesrv: str, producer: Producer) -> None:
    expected = fill(producer, 400)
    seen: list[bytes] = []
    with SimpleConsumer("g", namesrv=namesrv, invisible=600) as consumer:
        consumer.subscribe(TOPIC)
        brokers = set()
        while messages := consumer.receive(10, wait=1):
            assert len(messages) <= 10
            assert not any(message.reconsume_times for message in messages)
            brokers.update(message.broker_name for message in messages)
            seen += [message.body for message in messages]
            consumer.ack_batch(messages)
    assert sorted(seen) == expected
    assert brokers == {"broker-a", "broker-b"}
    assert consumer.statistics().acknowledged == 400


def test_many_at_a_time_come_from_both(namesrv: str, producer: Producer) -> None:
    expected = fill(producer, 600)
    seen: list[bytes] = []
    with SimpleConsumer("g", namesrv=namesrv, invisible=600) as consumer:
        consumer.subscribe(TOPIC)
        while messages := consumer.receive(200, wait=1):
            assert len(messages) <= 200
            seen += [message.body for message in messages]
            consumer.ack_batch(messages)
    assert sorted(seen) == expected


def test_a_message_at_one_ends_the_waiting_at_the_other(namesrv: str, producer: Producer) -> None:
    with SimpleConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        for number in range(6):
            threading.Timer(0.1, producer.send, (Message(TOPIC, b"%d" % number),)).start()
            begin = time.monotonic()
            (message,) = consumer.receive(wait=20)
            assert time.monotonic() - begin < 5
            assert (message.body, message.reconsume_times) == (b"%d" % number, 0)
            consumer.ack(message)


def test_while_one_is_down_the_other_ones_messages_come(
    namesrv: str, brokers: list[RealBroker], producer: Producer
) -> None:
    with SimpleConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        expected = fill(producer, 40)
        brokers[0].stop()
        seen = []
        for _ in range(20):
            messages = consumer.receive(wait=0.2)
            seen += [message.body for message in messages]
            consumer.ack_batch(messages)
        assert len(seen) == 20
        brokers[0].start()
        give_up = time.monotonic() + 30
        while len(seen) < 40 and time.monotonic() < give_up:
            messages = consumer.receive(wait=1)
            seen += [message.body for message in messages]
            consumer.ack_batch(messages)
        assert sorted(seen) == expected
        assert consumer.receive(wait=0.5) == []
        assert consumer.waits_for is None
