"""A topic whose brokers are gone for a while: producers try until their deadline, consumers wait and go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from zenitmq import FIRST, Message, Producer, PullConsumer
from zenitmq.model.errors import NoRoute
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import UnregisterBroker

TOPIC = "trades"


@pytest.fixture
def broker(new_broker: Callable) -> Iterator:
    return new_broker("a", trades=1)


def leave(broker) -> None:
    """Has the name server forget it."""
    with RemotingClient() as client:
        client.call(broker.namesrv, UnregisterBroker("z", broker.name, 0, broker.address), timeout_ms=3000)


def read(consumer: PullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    for _ in range(100):
        bodies += [message.body for message in consumer.poll(timeout=0.1)]
        if len(bodies) >= count:
            break
    return bodies


def test_a_producer_tries_until_its_deadline_and_names_the_cause(namesrv: str, broker) -> None:
    leave(broker)
    with Producer("p", namesrv=namesrv, timeout=0.5) as producer:
        with pytest.raises(NoRoute, match="no broker is registered"):
            producer.send(Message(TOPIC, b"x"))
        with pytest.raises(NoRoute, match="no broker is registered"):
            producer.send_async(Message(TOPIC, b"x"))
    assert not broker.batches


def test_a_producer_goes_on_once_the_broker_is_back(namesrv: str, broker) -> None:
    leave(broker)
    back = threading.Timer(0.5, broker.register)
    back.start()
    with Producer("p", namesrv=namesrv, timeout=10) as producer:
        producer.send(Message(TOPIC, b"x"))
    back.join()
    assert [message.body for message in broker.messages(TOPIC)] == [b"x"]


def test_a_producer_that_knew_the_topic_names_the_cause(namesrv: str, broker) -> None:
    with Producer("p", namesrv=namesrv, timeout=0.6) as producer:
        producer.send(Message(TOPIC, b"x"))
        leave(broker)
        broker.stop()
        with pytest.raises(NoRoute, match="registered"):
            producer.send(Message(TOPIC, b"y"))


def test_a_consumer_that_begins_waits_for_the_broker(namesrv: str, broker) -> None:
    with Producer("p", namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, b"x"))
    leave(broker)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        assert not consumer.poll(timeout=0.3)
        assert isinstance(consumer.waits_for, NoRoute)
        with pytest.raises(NoRoute):
            consumer.assignment()
        broker.register()
        assert read(consumer, 1) == [b"x"]
        assert consumer.waits_for is None


def test_a_consumer_keeps_its_queues_while_the_broker_is_gone(namesrv: str, broker) -> None:
    with Producer("p", namesrv=namesrv) as producer, PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        producer.send(Message(TOPIC, b"x"))
        consumer.subscribe(TOPIC)
        assert read(consumer, 1) == [b"x"]
        leave(broker)
        for _ in range(50):
            assert not consumer.poll(timeout=0.05)
            if isinstance(consumer.waits_for, NoRoute):
                break
        assert isinstance(consumer.waits_for, NoRoute)
        assert consumer.assignment()
        broker.register()
        producer.send(Message(TOPIC, b"y"), timeout=10)
        assert read(consumer, 1) == [b"y"]
