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
    EngineLacks,
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
from zenitmq.local.embedded.refusals import LACKS
from zenitmq.testing import LocalCluster, MemoryCluster

WAIT_S = 20.0
PAGE = Path(__file__).parents[3] / "docs" / "guide" / "in-process.md"


@pytest.fixture(scope="module")
def memory() -> Iterator[MemoryCluster]:
    with MemoryCluster() as running:
        yield running


@pytest.fixture(params=["memory", "embedded", "local", "cluster"])
def namesrv(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in ("embedded", "local"):
        return f"{request.param}://{tmp_path}/store"
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


def test_transactions_and_delays(namesrv: str, topic: str) -> None:
    if namesrv.startswith("embedded"):
        return  # see test_what_embedded_lacks_it_refuses_by_name
    asked = threading.Event()

    def check(_: object) -> Resolution:
        asked.set()
        return Resolution.COMMIT

    with (
        TransactionProducer(f"p-{topic}", check, namesrv=namesrv) as transactions,
        Producer(namesrv=namesrv) as producer,
        PullConsumer(f"g-{topic}", namesrv=namesrv, start_from=FIRST) as consumer,
    ):
        consumer.subscribe(topic)
        transactions.send(Message(topic, b"committed"), lambda _: Resolution.COMMIT)
        transactions.send(Message(topic, b"dropped"), lambda _: Resolution.ROLLBACK)
        transactions.begin(Message(topic, b"asked about"), check_after=1)
        producer.send(Message(topic, b"delayed", delay=timedelta(seconds=1)))
        assert sorted(polled(consumer, 3)) == [b"asked about", b"committed", b"delayed"]
        assert asked.is_set()


def test_a_consumer_gets_what_its_condition_or_its_tags_match(namesrv: str, topic: str) -> None:
    with Producer(namesrv=namesrv) as producer:
        producer.send_batch([Message(topic, b"%d" % n, tags=f"t{n % 3}", properties={"n": str(n)}) for n in range(300)])
    for expression, expected in ((Sql("n >= 297"), {297, 298, 299}), ("t1 || t2", {n for n in range(300) if n % 3})):
        with PullConsumer(f"f-{secrets.token_hex(4)}", namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(topic, expression)
            assert {int(body) for body in polled(consumer, len(expected))} == expected


def test_a_request_gets_its_reply(namesrv: str, topic: str) -> None:
    def answer() -> None:
        with (
            Producer(namesrv=namesrv) as producer,
            PullConsumer(f"answers-{topic}", namesrv=namesrv, start_from=FIRST) as consumer,
        ):
            consumer.subscribe(topic)
            for request in consumer:
                producer.reply(request, b"42 for " + request.body)
                return

    answering = threading.Thread(target=answer)
    answering.start()
    with Producer(namesrv=namesrv, timeout=WAIT_S) as producer:
        assert producer.request(Message(topic, b"x"), timeout=WAIT_S).body == b"42 for x"
    answering.join(WAIT_S)


def test_an_ordered_group_has_each_queue_at_one_member(namesrv: str, topic: str) -> None:
    seen: dict[str, list[int]] = {}
    lock = threading.Lock()

    def handle(messages: list) -> None:
        with lock:
            for message in messages:
                seen.setdefault(message.properties["key"], []).append(int(message.body))

    consumers: list[PushConsumer] = []
    for _ in range(2):
        consumer = PushConsumer(f"o-{topic}", namesrv=namesrv, start_from=FIRST, ordered=True)
        consumer.subscribe(topic)
        consumer.on_message(handle)
        consumers.append(consumer)
    with Producer(namesrv=namesrv) as producer, consumers[0], consumers[1]:
        for number in range(60):
            key = f"k{number % 4}"
            producer.send(Message(topic, b"%d" % number, properties={"key": key}), sharding_key=key)
        wait_until(lambda: sum(map(len, seen.values())) == 60)
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_a_group_is_moved_by_its_operator(namesrv: str, topic: str, admin: Admin) -> None:
    group = f"m-{topic}"
    with Producer(namesrv=namesrv) as producer, PullConsumer(group, namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        producer.send_bodies(topic, [b"1", b"2"])
        assert sorted(polled(consumer, 2)) == [b"1", b"2"]
        consumer.commit()
        assert {queue: lag for queue, lag in admin.lag(group).items() if lag} == {}
    admin.reset_offset(group, topic, to="earliest")
    with PullConsumer(group, namesrv=namesrv) as consumer:
        consumer.subscribe(topic)
        assert sorted(polled(consumer, 2)) == [b"1", b"2"]


def test_an_administrator_sees_it(namesrv: str, topic: str, admin: Admin) -> None:
    with Producer(namesrv=namesrv) as producer:
        receipt = producer.send(Message(topic, b"x", keys=["order-1"]))
    assert topic in admin.topics()
    if not namesrv.startswith("embedded"):
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


def lacks() -> dict[str, tuple[str, str]]:
    """{what: (what is called for it, what to do)}: the table of the guide."""
    rows = PAGE.read_text(encoding="utf-8").partition("| `embedded://` has no |")[2].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[: rows.index("")]]
    return {what: (called, instead) for what, called, instead in cells}


CALLS: dict[str, Callable[[str, str], object]] = {
    "delayed messages": lambda namesrv, topic: sent(namesrv, Message(topic, b"x", delay=timedelta(seconds=1))),
    "transactions": lambda namesrv, topic: committed(namesrv, topic),
    "idempotent producers": lambda namesrv, topic: sent(namesrv, Message(topic, b"x"), idempotent=True),
    "queries by key, message id or time": lambda namesrv, topic: Admin(namesrv).query_by_key(topic, "k"),
    "compacted topics": lambda namesrv, topic: Admin(namesrv).compact_topic(topic),
    "lite topics": lambda namesrv, _: Admin(namesrv).create_topic(
        "lite", queues=1, attributes={"message.type": "LITE"}
    ),
    "readers of Spark": lambda namesrv, topic: None,  # they take no name of an engine at all
}


def sent(namesrv: str, message: Message, **options: bool) -> None:
    with Producer(namesrv=namesrv, **options) as producer:
        producer.send(message, timeout=2.0)


def committed(namesrv: str, topic: str) -> None:
    with TransactionProducer("p", lambda _: Resolution.COMMIT, namesrv=namesrv) as producer:
        producer.send(Message(topic, b"x"), lambda _: Resolution.COMMIT)


@pytest.mark.parametrize("what", sorted(CALLS))
def test_what_embedded_lacks_it_refuses_by_name(what: str, tmp_path: Path) -> None:
    namesrv, told = f"embedded://{tmp_path}/store", lacks()
    assert set(told) == set(CALLS) == {lack.what for lack in LACKS}
    assert told[what][1] == next(lack.instead for lack in LACKS if lack.what == what)
    if what == "readers of Spark":
        return
    with Admin(namesrv) as admin:
        admin.create_topic("t", queues=1)
        with pytest.raises(EngineLacks, match=what) as refused:
            CALLS[what](namesrv, "t")
    assert told[what][1] in str(refused.value)


@pytest.mark.parametrize(
    "attribute", [("queue.type", "BatchCQ"), ("cleanup.policy", "COMPACTION"), ("message.type", "DELAY")]
)
def test_embedded_refuses_topics_of_other_kinds_by_name(attribute: tuple[str, str], tmp_path: Path) -> None:
    name, value = attribute
    with Admin(f"embedded://{tmp_path}/store") as admin:
        with pytest.raises(EngineLacks, match=f"topics with {name}={value}"):
            admin.create_topic("t", queues=1, attributes={name: value})
        admin.create_topic("t", queues=1, attributes={"message.type": "FIFO", "owner": "a text of the user's"})
