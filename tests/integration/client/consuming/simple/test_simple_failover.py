"""Simple consumers on a replica group whose master is killed: leases outlive it, and what was acknowledged stays so."""

from __future__ import annotations

import threading
import time

import pytest

from zenitmq import Message, Producer, SimpleConsumer, ZenitError
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(180)
COUNT = 400


def test_nothing_is_lost_and_nothing_acknowledged_comes_again(three_replicas: LocalCluster) -> None:
    topic = three_replicas.create_topic("popped", queues=4)
    bodies = {b"%05d" % number for number in range(COUNT)}
    with Producer(namesrv=three_replicas.namesrv) as producer:
        for body in sorted(bodies):
            producer.send(Message(topic, body))
    acknowledged: set[bytes] = set()
    twice: list[bytes] = []
    lock = threading.Lock()
    is_killed = threading.Event()

    def work() -> None:
        with SimpleConsumer("popping", namesrv=three_replicas.namesrv, invisible=20) as consumer:
            consumer.subscribe(topic)
            give_up = time.monotonic() + 90
            while len(acknowledged) < COUNT and time.monotonic() < give_up:
                for message in consumer.receive(8, wait=1):
                    body = message.body
                    with lock:
                        if body in acknowledged:
                            twice.append(body)
                    try:
                        consumer.ack(message, wait=True, timeout=15)
                    except ZenitError:
                        continue  # not known: it may come again
                    with lock:
                        acknowledged.add(body)
                    if len(acknowledged) >= COUNT // 4:
                        is_killed.wait(20)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    while len(acknowledged) < COUNT // 4:
        threading.Event().wait(0.02)
    three_replicas.kill(three_replicas.master)
    is_killed.set()
    for worker in workers:
        worker.join(120)
    assert acknowledged == bodies
    assert not twice


def test_a_lease_that_is_renewed_outlives_the_master(three_replicas: LocalCluster) -> None:
    topic = three_replicas.create_topic("renewed", queues=1)
    renewing = SimpleConsumer("renewers", namesrv=three_replicas.namesrv, auto_renew=True, invisible=3)
    with (
        Producer(namesrv=three_replicas.namesrv) as producer,
        renewing,
        SimpleConsumer("renewers", namesrv=three_replicas.namesrv) as other,
    ):
        renewing.subscribe(topic)
        other.subscribe(topic)
        producer.send(Message(topic, b"long work"))
        (message,) = renewing.receive()
        three_replicas.kill(three_replicas.master)
        end = time.monotonic() + 8
        while time.monotonic() < end:
            assert other.receive(wait=1) == []
        renewing.ack(message, wait=True, timeout=20)


def test_a_message_is_acknowledged_at_the_next_master(three_replicas: LocalCluster) -> None:
    topic = three_replicas.create_topic("leased", queues=1)
    with (
        Producer(namesrv=three_replicas.namesrv) as producer,
        SimpleConsumer("leasing", namesrv=three_replicas.namesrv) as consumer,
    ):
        consumer.subscribe(topic)
        producer.send(Message(topic, b"one"))
        producer.send(Message(topic, b"two"))
        messages = consumer.receive(2, invisible=60)
        messages += consumer.receive(1, invisible=60) if len(messages) < 2 else []
        first, second = messages
        three_replicas.kill(three_replicas.master)
        consumer.ack(first)  # in the background, as long as that takes
        consumer.change_invisible(second, 1, timeout=30)
        deadline = time.monotonic() + 60
        while consumer.statistics().acknowledged < 1 and time.monotonic() < deadline:
            threading.Event().wait(0.1)
        (again,) = consumer.receive(wait=20)
        assert (again.body, again.reconsume_times) == (second.body, 1)
        consumer.ack(again, wait=True)
        assert consumer.receive(wait=1) == []
