"""What a program does with a cluster it does with an engine in its own process, and sees the same."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from zenitmq import (
    FIRST,
    Admin,
    InvalidParameter,
    Message,
    NoRoute,
    Producer,
    PullConsumer,
    PushConsumer,
    Resolution,
    SimpleConsumer,
    Sql,
    TopicNotFound,
    TransactionProducer,
    aio,
)
from zenitmq.testing import LocalCluster, MemoryCluster

WAIT_S = 20.0


@pytest.fixture(scope="module")
def memory() -> Iterator[MemoryCluster]:
    with MemoryCluster() as running:
        yield running


@pytest.fixture(params=["memory", "local", "cluster"])
def namesrv(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return f"local://{tmp_path}/store"
    of: MemoryCluster | LocalCluster = request.getfixturevalue("memory" if request.param == "memory" else "one_broker")
    return of.namesrv


@pytest.fixture
def admin(namesrv: str) -> Iterator[Admin]:
    with Admin(namesrv) as made:
        yield made


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"t-{secrets.token_hex(6)}"
    admin.create_topic(name, queues=2)
    return name


def wait_until(holds: Callable[[], object]) -> None:
    for _ in range(int(WAIT_S / 0.02)):
        if holds():
            return
        threading.Event().wait(0.02)
    assert holds()


def polled(consumer: PullConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    for _ in range(int(3 * WAIT_S)):  # a question about a transaction that nobody heard comes again after 30 s
        found += [message.body for message in consumer.poll(timeout=1.0)]
        if len(found) >= count:
            break
    return found


def test_each_way_to_send_arrives_and_a_group_goes_on_where_it_stopped(namesrv: str, topic: str) -> None:
    with Producer(namesrv=namesrv) as producer:
        producer.send(Message(topic, b"a", keys=["k"], tags="buy"), sharding_key="one")
        producer.send_async(Message(topic, b"b"), sharding_key="one").result(WAIT_S)
        producer.post(topic, b"c")
        producer.flush()
        producer.send_batch([Message(topic, b"d"), Message(topic, b"e")])
        producer.send_bodies(topic, [b"f"])
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        found = polled(consumer, 6)
        assert sorted(found) == [b"a", b"b", b"c", b"d", b"e", b"f"]
        assert found.index(b"a") < found.index(b"b")
        consumer.commit()
    with Producer(namesrv=namesrv) as producer, PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        producer.send(Message(topic, b"later"))
        assert polled(consumer, 1) == [b"later"]


def test_what_fails_is_handed_out_again_and_ends_among_the_dead_letters(namesrv: str, topic: str, admin: Admin) -> None:
    group = f"g-{topic}"
    calls: list[bytes] = []

    def handle(messages: list) -> None:
        calls.extend(message.body for message in messages)
        raise ValueError("a test")

    consumer = PushConsumer(group, namesrv=namesrv, start_from=FIRST, max_attempts=1)
    consumer.subscribe(topic)
    consumer.on_message(handle)
    with Producer(namesrv=namesrv) as producer, consumer:
        producer.send(Message(topic, b"bad"))
        wait_until(lambda: [letter.message.body for letter in admin.dead_letters(group)] == [b"bad"])
    assert calls == [b"bad"]


def test_single_messages_are_leased_and_acknowledged(namesrv: str, topic: str) -> None:
    with Producer(namesrv=namesrv) as producer, SimpleConsumer(f"s-{topic}", namesrv=namesrv) as consumer:
        consumer.subscribe(topic)
        producer.send_batch([Message(topic, b"1"), Message(topic, b"2")])
        first, second = sorted(consumer.receive(2, invisible=1.0) + consumer.receive(1, wait=0), key=lambda m: m.body)
        consumer.ack(first, wait=True)
        (again,) = consumer.receive(2, wait=WAIT_S)
        assert (again.body, again.reconsume_times) == (second.body, 1)
        consumer.ack(again, wait=True)


def test_transactions_delays_and_conditions(namesrv: str, topic: str) -> None:
    asked = threading.Event()

    def check(_: object) -> Resolution:
        asked.set()
        return Resolution.COMMIT

    with (
        TransactionProducer(f"p-{topic}", check, namesrv=namesrv) as transactions,
        Producer(namesrv=namesrv) as producer,
        PullConsumer(f"g-{topic}", namesrv=namesrv, start_from=FIRST) as consumer,
    ):
        consumer.subscribe(topic, Sql("kind = 'wanted'"))
        wanted = {"kind": "wanted"}
        transactions.send(Message(topic, b"committed", properties=wanted), lambda _: Resolution.COMMIT)
        transactions.send(Message(topic, b"dropped", properties=wanted), lambda _: Resolution.ROLLBACK)
        transactions.begin(Message(topic, b"asked about", properties=wanted), check_after=1)
        producer.send(Message(topic, b"delayed", properties=wanted, delay=timedelta(seconds=1)))
        producer.send(Message(topic, b"unwanted", properties={"kind": "other"}))
        assert sorted(polled(consumer, 3)) == [b"asked about", b"committed", b"delayed"]
        assert asked.is_set()


def test_an_administrator_sees_it(namesrv: str, topic: str, admin: Admin) -> None:
    with Producer(namesrv=namesrv) as producer:
        receipt = producer.send(Message(topic, b"x", keys=["order-1"]))
    assert topic in admin.topics()
    wait_until(lambda: [message.body for message in admin.query_by_key(topic, "order-1")] == [b"x"])
    assert admin.view_message(receipt.offset_message_id).message_id == receipt.message_id
    admin.delete_topic(topic)
    with Producer(namesrv=namesrv) as producer, pytest.raises((TopicNotFound, NoRoute)):
        producer.send(Message(topic, b"too late"), timeout=2.0)


def test_coroutines(namesrv: str, topic: str) -> None:
    async def story() -> list[bytes]:
        async with (
            aio.Producer(namesrv=namesrv) as producer,
            aio.PullConsumer("aio", namesrv=namesrv, start_from=FIRST) as consumer,
        ):
            consumer.subscribe(topic)
            await asyncio.gather(*(producer.send(Message(topic, b"%d" % number)) for number in range(10)))
            found: list[bytes] = []
            while len(found) < 10:
                found += [message.body for message in await consumer.poll(timeout=WAIT_S)]
            return found

    assert sorted(asyncio.run(story())) == [b"%d" % number for number in range(10)]


def test_what_is_wrong_is_refused(namesrv: str) -> None:
    with Producer(namesrv=namesrv) as producer:
        with pytest.raises(TopicNotFound):
            producer.send(Message("nowhere", b"x"))
        with pytest.raises(InvalidParameter):
            producer.send(Message("nowhere", b"x"), timeout=-1)
