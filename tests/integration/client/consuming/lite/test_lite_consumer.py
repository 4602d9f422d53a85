"""The lite consumer at a real broker: what it receives, in which order, and what becomes of it."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest
from integration.client.consuming.push_kit import wait_until

from zenitmq import (
    Admin,
    ClientClosed,
    InvalidName,
    InvalidParameter,
    LeaseExpired,
    LiteConsumer,
    LiteQuotaExceeded,
    LiteTopicMissing,
    Message,
    MessageIllegal,
    NotLiteParent,
    Producer,
    StoredMessage,
    TopicNotFound,
    aio,
)
from zenitmq.model.errors import LocalProtocolError
from zenitmq.testing import LocalCluster

PARENT = "chats"
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def parent(admin: Admin) -> str:
    admin.create_topic(PARENT, attributes={"message.type": "LITE"})
    return PARENT


@pytest.fixture
def consumer(namesrv: str, parent: str) -> Iterator[LiteConsumer]:
    with LiteConsumer("agents", namesrv=namesrv) as made:
        yield made


def say(producer: Producer, lite_topic: str, *bodies: bytes) -> None:
    producer.send_batch([Message(PARENT, body, lite_topic=lite_topic) for body in bodies])


def receive(consumer: LiteConsumer, count: int, *, at_a_time: int = 32, wait: float = 5.0) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while len(found) < count:
        messages = consumer.receive(at_a_time, wait=wait)
        assert messages, f"{len(found)} of {count}"
        found += messages
    return found


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


def test_messages_of_each_lite_topic_come_in_order_and_each_once(producer: Producer, consumer: LiteConsumer) -> None:
    names = [f"session-{number}" for number in range(50)]
    consumer.subscribe(PARENT, names)
    for number in range(1000):
        producer.send_async(Message(PARENT, b"%d" % number, lite_topic=names[number % 50]))
    producer.flush()
    seen: dict[str, list[bytes]] = defaultdict(list)
    count = 0
    while count < 1000:
        messages = receive(consumer, 1, at_a_time=512)
        for message in messages:
            assert message.topic == PARENT
            assert message.lite_topic is not None
            seen[message.lite_topic].append(message.body)
        consumer.ack_batch(messages, wait=True)
        count += len(messages)
    assert seen == {name: [b"%d" % number for number in range(at, 1000, 50)] for at, name in enumerate(names)}
    assert consumer.receive(wait=0.2) == []
    assert consumer.statistics().acknowledged == 1000


def test_a_receive_waits_for_a_lite_topic_that_is_subscribed_meanwhile(
    producer: Producer, consumer: LiteConsumer
) -> None:
    consumer.subscribe(PARENT, "a")
    found: list[StoredMessage] = []
    waiting = threading.Thread(target=lambda: found.extend(consumer.receive(wait=20)))
    waiting.start()
    say(producer, "b", b"0")
    consumer.subscribe(PARENT, "b")
    waiting.join(10)
    assert bodies(found) == [b"0"]


def test_nothing_more_comes_of_a_lite_topic_until_all_is_acknowledged(
    producer: Producer, consumer: LiteConsumer
) -> None:
    consumer.subscribe(PARENT, "a")
    say(producer, "a", b"0", b"1", b"2")
    first, second = receive(consumer, 2, at_a_time=2)
    consumer.ack(second, wait=True)
    assert consumer.receive(wait=0.2) == []
    consumer.ack(first, wait=True)
    assert bodies(receive(consumer, 1)) == [b"2"]


def test_what_is_not_acknowledged_comes_again_first(producer: Producer, namesrv: str, parent: str) -> None:
    with LiteConsumer("agents", namesrv=namesrv, invisible=1.0) as consumer:
        consumer.subscribe(PARENT, "a")
        say(producer, "a", b"0", b"1")
        (first,) = consumer.receive(1, wait=5)
        (again,) = receive(consumer, 1, at_a_time=1, wait=5)
        assert (first.body, again.body, again.reconsume_times) == (b"0", b"0", 1)
        with pytest.raises(LeaseExpired):
            consumer.ack(first, wait=True)
        consumer.ack(again, wait=True)
        assert bodies(receive(consumer, 1)) == [b"1"]


def test_a_refused_message_comes_again_with_those_behind_it(producer: Producer, consumer: LiteConsumer) -> None:
    consumer.subscribe(PARENT, "a")
    say(producer, "a", b"0", b"1", b"2")
    first, second, _ = receive(consumer, 3)
    consumer.refuse(second, delay=0.3)
    consumer.ack(first, wait=True)
    again = receive(consumer, 2)
    assert (bodies(again), again[0].reconsume_times) == ([b"1", b"2"], 0)
    consumer.refuse(again[0])
    assert bodies(receive(consumer, 2)) == [b"1", b"2"]


def test_more_time_is_asked_for(producer: Producer, namesrv: str, parent: str) -> None:
    with LiteConsumer("agents", namesrv=namesrv, invisible=1.0) as consumer:
        consumer.subscribe(PARENT, "a")
        say(producer, "a", b"0")
        (message,) = receive(consumer, 1)
        consumer.extend(message, 30.0)
        assert consumer.receive(wait=1.5) == []
        consumer.ack(message, wait=True)


def test_a_dead_letter_lets_the_lite_topic_go_on(producer: Producer, consumer: LiteConsumer, admin: Admin) -> None:
    consumer.subscribe(PARENT, "a")
    say(producer, "a", b"0", b"1")
    (message,) = receive(consumer, 1, at_a_time=1)
    consumer.dead_letter(message, reason="no number")
    (second,) = receive(consumer, 1)
    assert second.body == b"1"
    consumer.ack(second, wait=True)
    (letter,) = admin.dead_letters("agents")
    assert letter.message.body == b"0"
    admin.redrive_dead_letters("agents")
    (again,) = receive(consumer, 1)
    assert (again.body, again.lite_topic) == (b"0", "a")


def test_members_share_lite_topics_and_each_message_goes_to_one(
    producer: Producer, consumer: LiteConsumer, namesrv: str
) -> None:
    names = [f"s{number}" for number in range(20)]
    with LiteConsumer("agents", namesrv=namesrv) as other:
        for one in (consumer, other):
            one.subscribe(PARENT, names)
        for name in names:
            say(producer, name, b"0", b"1")
        seen: list[tuple[str, bytes]] = []
        while len(seen) < 40:
            for one in (consumer, other):
                messages = one.receive(5, wait=0.2)
                seen += [(str(message.lite_topic), message.body) for message in messages]
                one.ack_batch(messages, wait=True)
        assert sorted(seen) == [(name, body) for name in sorted(names) for body in (b"0", b"1")]


def test_the_newcomer_of_an_exclusive_group_takes_over_and_the_other_is_told(
    producer: Producer, admin: Admin, namesrv: str, parent: str
) -> None:
    admin.create_group("agents", {"lite.sub.model": "Exclusive"})
    evicted: list[tuple[str, list[str]]] = []
    with (
        LiteConsumer("agents", namesrv=namesrv, on_evicted=lambda topic, names: evicted.append((topic, names))) as old,
        LiteConsumer("agents", namesrv=namesrv) as new,
    ):
        old.subscribe(PARENT, ["a", "b"])
        waiting = threading.Thread(target=lambda: old.receive(wait=3))
        waiting.start()
        new.subscribe(PARENT, "a")
        wait_until(lambda: bool(evicted), 5)
        waiting.join(5)
        assert evicted == [(PARENT, ["a"])]
        assert old.subscription == {PARENT: frozenset({"b"})}
        say(producer, "a", b"a")
        say(producer, "b", b"b")
        assert bodies(receive(new, 1)) == [b"a"]
        assert bodies(receive(old, 1)) == [b"b"]


def test_unsubscribed_lite_topics_bring_nothing(producer: Producer, consumer: LiteConsumer) -> None:
    consumer.subscribe(PARENT, ["a", "b", "c"])
    consumer.unsubscribe(PARENT, "a")
    say(producer, "a", b"a")
    say(producer, "b", b"b")
    assert bodies(receive(consumer, 1)) == [b"b"]
    consumer.unsubscribe(PARENT)
    say(producer, "c", b"c")
    assert consumer.receive(wait=0.2) == []
    assert consumer.subscription == {}


def test_what_is_refused_is_refused_by_name(producer: Producer, consumer: LiteConsumer, admin: Admin) -> None:
    admin.create_topic("plain")
    with pytest.raises(LiteTopicMissing, match=PARENT):
        producer.send(Message(PARENT, b"x"))
    with pytest.raises(NotLiteParent, match="plain"):
        producer.send(Message("plain", b"x", lite_topic="a"))
    with pytest.raises(NotLiteParent):
        consumer.subscribe("plain", "a")
    with pytest.raises(TopicNotFound):
        consumer.subscribe("missing", "a")
    with pytest.raises(InvalidName):
        consumer.subscribe(PARENT, "a b")
    with pytest.raises(InvalidName):
        producer.send(Message(PARENT, b"x", lite_topic=""))
    with pytest.raises(InvalidParameter, match="priority"):
        producer.send(Message(PARENT, b"x", lite_topic="a", priority=1))
    with pytest.raises(InvalidParameter, match="sharding_key"):
        producer.send(Message(PARENT, b"x", lite_topic="a"), sharding_key="k")
    with pytest.raises(MessageIllegal):
        producer.send_batch([Message(PARENT, b"x", lite_topic="a"), Message(PARENT, b"x")])
    with pytest.raises(InvalidParameter, match="delay"):
        consumer.refuse(StoredMessage, delay=-1)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="LITE"):
        admin.update_topic("plain", attributes={"message.type": "LITE"})
    assert consumer.subscription == {}
    with pytest.raises(LocalProtocolError, match="subscribe"):
        consumer.receive()


def test_a_quota_is_told_and_leaves_the_subscription_as_it_was(
    producer: Producer, consumer: LiteConsumer, admin: Admin
) -> None:
    admin.create_group("agents", {"lite.sub.client.quota": "2"})
    consumer.subscribe(PARENT, ["a", "b"])
    with pytest.raises(LiteQuotaExceeded, match="at most 2"):
        consumer.subscribe(PARENT, ["b", "c"])
    assert consumer.subscription == {PARENT: frozenset({"a", "b"})}
    say(producer, "a", b"0")
    assert bodies(receive(consumer, 1)) == [b"0"]


def test_operators_see_lite_topics_and_what_groups_have_of_them(
    producer: Producer, consumer: LiteConsumer, admin: Admin
) -> None:
    consumer.subscribe(PARENT, ["a", "b"])
    say(producer, "a", b"0", b"1")
    say(producer, "c", b"0")
    (message,) = receive(consumer, 1, at_a_time=1)
    found = admin.lite_topics(PARENT)
    assert found["count"] == 2
    assert [
        (row["lite_topic"], row["max_offset"] - row["min_offset"], row["subscribers"]) for row in found["lite_topics"]
    ] == [
        ("a", 2, 1),
        ("c", 1, 0),
    ]
    assert all(row["last_stored_at_ms"] for row in found["lite_topics"])
    group = admin.lite_group("agents")
    assert [(row["topic"], row["lite_topics"]) for row in group["members"]] == [(PARENT, 2)]
    assert [(row["lite_topic"], row["lag"], row["leased"]) for row in group["lite_topics"]] == [("a", 2, 1)]
    consumer.ack(message, wait=True)
    assert admin.lite_group("agents")["lite_topics"][0]["leased"] == 0
    assert admin.leases("agents") == []


def test_what_is_closed_gives_back_what_nobody_got(producer: Producer, namesrv: str, parent: str) -> None:
    with LiteConsumer("agents", namesrv=namesrv) as first:
        first.subscribe(PARENT, "a")
    with pytest.raises(ClientClosed):
        first.receive()
    say(producer, "a", b"0")
    with LiteConsumer("agents", namesrv=namesrv) as second:
        second.subscribe(PARENT, "a")
        assert bodies(receive(second, 1)) == [b"0"]


def test_with_coroutines(producer: Producer, namesrv: str, parent: str) -> None:
    say(producer, "a", b"0", b"1")

    async def work() -> list[bytes]:
        async with aio.LiteConsumer("agents", namesrv=namesrv) as consumer:
            await consumer.subscribe(PARENT, ["a"])
            seen = []
            for _ in range(2):
                (message,) = await consumer.receive(1)
                seen.append(message.body)
                await consumer.ack(message, wait=True)
            await consumer.unsubscribe(PARENT, ["a"])
            return seen

    assert asyncio.run(work()) == [b"0", b"1"]


def test_the_next_master_knows_what_is_out_and_how_far_the_group_is(three_replicas: LocalCluster) -> None:
    """In a group of three the master is killed: nothing that was acknowledged comes again, nothing leased goes out twice, and
    each lite topic goes on in its order."""
    with Admin(three_replicas.namesrv) as admin:
        admin.create_topic("sessions", attributes={"message.type": "LITE"})
    names = [f"s{number}" for number in range(10)]
    with (
        Producer(namesrv=three_replicas.namesrv) as producer,
        LiteConsumer("agents", namesrv=three_replicas.namesrv, invisible=60.0) as consumer,
        LiteConsumer("agents", namesrv=three_replicas.namesrv, invisible=60.0) as other,
    ):
        for number in range(5):
            for name in names:
                producer.send(Message("sessions", b"%d" % number, lite_topic=name))
        for one in (consumer, other):
            one.subscribe("sessions", names)
        done = receive(consumer, 10, at_a_time=1)
        assert sorted(bodies(done)) == [b"0"] * 10
        consumer.ack_batch(done, wait=True)
        held = receive(consumer, 5, at_a_time=1)
        three_replicas.kill(three_replicas.master)
        seen: dict[str, list[bytes]] = defaultdict(list)
        while sum(map(len, seen.values())) < 20:
            messages = other.receive(8, wait=20)
            assert messages
            for message in messages:
                seen[str(message.lite_topic)].append(message.body)
            other.ack_batch(messages, wait=True, timeout=20)
        free = set(names) - {message.lite_topic for message in held}
        assert seen == {name: [b"1", b"2", b"3", b"4"] for name in free}
        assert other.receive(wait=1) == []
        consumer.ack_batch(held, wait=True, timeout=20)
        for message in receive(other, 15, wait=10):
            seen[str(message.lite_topic)].append(message.body)
        assert all(of_one[-3:] == [b"2", b"3", b"4"] for of_one in seen.values())
