"""Consumers with filters at a real cluster: what they get, what they commit, and members who do not agree."""

from __future__ import annotations

import logging

import pytest

from zenitmq import FIRST, Message, MessageQueue, Producer, PullConsumer, PushConsumer, Sql, SqlSyntaxError
from zenitmq.client.admin import Admin
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.testing import LocalCluster

MESSAGES = 2000


@pytest.fixture(scope="module")
def topic(one_broker: LocalCluster) -> str:
    """Message n has amount n, region eu or us, and each tenth the tag rare."""
    name = one_broker.create_topic("filtered")
    with Producer(namesrv=one_broker.namesrv) as producer:
        futures = [
            producer.send_async(
                Message(
                    name,
                    b"%d" % number,
                    tags="rare" if number % 10 == 0 else "common",
                    properties={"amount": str(number), "region": "eu" if number % 2 else "us"},
                )
            )
            for number in range(MESSAGES)
        ]
        for future in futures:
            future.result(30)
    return name


def read(consumer: PullConsumer, count: int) -> list[int]:
    found: list[int] = []
    deadline_ms = monotonic_ms() + 30_000
    while len(found) < count and monotonic_ms() < deadline_ms:
        found += [int(message.body) for message in consumer.poll(timeout=0.5)]
    return sorted(found)


EXPRESSIONS = [
    ("rare", [n for n in range(MESSAGES) if n % 10 == 0]),
    ("rare || common", list(range(MESSAGES))),
    (Sql("amount >= 1990 AND region = 'eu'"), [1991, 1993, 1995, 1997, 1999]),
    (Sql("TAGS = 'rare' AND amount BETWEEN 100 AND 150"), [100, 110, 120, 130, 140, 150]),
]


@pytest.mark.parametrize(
    ("expression", "expected"), EXPRESSIONS, ids=["tag", "tags", "condition", "tag-in-a-condition"]
)
def test_a_member_gets_what_it_asks_for_and_its_group_moves_past_the_rest(
    one_broker: LocalCluster,
    topic: str,
    expression: str | Sql,
    expected: list[int],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "zenitmq.client.consuming.pull_calls.SUSPEND_MS", 500
    )  # what is passed over is told when a pull ends
    group = f"g-{request.node.callspec.id}"
    with PullConsumer(group, namesrv=one_broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic, expression)
        assert read(consumer, len(expected)) == expected
        deadline_ms = monotonic_ms() + 20_000
        queues = consumer.assignment()
        while sum(consumer.position(queue) for queue in queues) < MESSAGES and monotonic_ms() < deadline_ms:
            assert not consumer.poll(timeout=0.2)
        assert sum(consumer.position(queue) for queue in queues) == MESSAGES
        consumer.commit()
    with Admin(one_broker.namesrv) as admin:
        assert admin.describe_group(group)["lag"] == 0


def test_another_expression_counts_for_the_queues_at_hand(one_broker: LocalCluster) -> None:
    name = one_broker.create_topic("changed")
    with (
        Producer(namesrv=one_broker.namesrv) as producer,
        PullConsumer("g-changed", namesrv=one_broker.namesrv, start_from=FIRST) as consumer,
    ):
        for number in range(20):
            producer.send(Message(name, b"%d" % number, properties={"amount": str(number)}))
        consumer.subscribe(name, Sql("amount < 10"))
        assert read(consumer, 10) == list(range(10))
        consumer.subscribe(name, Sql("amount >= 100"))
        for number in range(95, 110):
            producer.send(Message(name, b"%d" % number, properties={"amount": str(number)}))
        assert read(consumer, 10) == list(range(100, 110))


def test_a_push_consumer_filters(one_broker: LocalCluster, topic: str) -> None:
    got: list[int] = []
    consumer = PushConsumer("g-push", namesrv=one_broker.namesrv, start_from=FIRST)
    consumer.subscribe(topic, Sql("amount BETWEEN 5 AND 8"))
    consumer.on_message(lambda messages: got.extend(int(message.body) for message in messages))
    with consumer:
        deadline_ms = monotonic_ms() + 30_000
        while len(got) < 4 and monotonic_ms() < deadline_ms:
            sleep_ms(50)
    assert sorted(got) == [5, 6, 7, 8]


def test_a_push_consumer_can_change_its_mind(one_broker: LocalCluster) -> None:
    name = one_broker.create_topic("changed-pushed")
    got: list[int] = []
    consumer = PushConsumer("g-changed-push", namesrv=one_broker.namesrv, start_from=FIRST)
    consumer.subscribe(name, Sql("amount < 0"))
    consumer.on_message(lambda messages: got.extend(int(message.body) for message in messages))
    with consumer, Producer(namesrv=one_broker.namesrv) as producer:
        consumer.subscribe(name, Sql("amount >= 100"))
        deadline_ms = monotonic_ms() + 30_000
        number = 99
        while not got and monotonic_ms() < deadline_ms:
            producer.send(Message(name, b"%d" % number, properties={"amount": str(number)}))
            number += 1
            sleep_ms(50)
    assert got
    assert min(got) >= 100


def test_given_queues_are_filtered_too(one_broker: LocalCluster) -> None:
    queue = MessageQueue(one_broker.create_topic("filtered-queue", queues=1), "broker-a", 0)
    with Producer(namesrv=one_broker.namesrv) as producer:
        producer.send_batch([Message(queue.topic, b"%d" % n, properties={"amount": str(n)}) for n in range(100)])
    with PullConsumer("g-assigned", namesrv=one_broker.namesrv, start_from=FIRST) as consumer:
        consumer.assign([queue], Sql("amount >= 90"))
        consumer.seek(queue, 50)
        batch = consumer.poll(timeout=20)
        assert [int(message.body) for message in batch] == list(range(90, 100))


def test_a_broken_condition_never_leaves_the_caller(one_broker: LocalCluster, topic: str) -> None:
    with (
        PullConsumer("g-broken", namesrv=one_broker.namesrv) as consumer,
        pytest.raises(SqlSyntaxError, match="character 10"),
    ):
        consumer.subscribe(topic, Sql("amount > 'ten'"))


def test_members_who_do_not_agree_are_told(
    one_broker: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with (
        PullConsumer("g-odd", namesrv=one_broker.namesrv) as first,
        PullConsumer("g-odd", namesrv=one_broker.namesrv) as second,
        Admin(one_broker.namesrv) as admin,
    ):
        first.subscribe(topic, "rare")
        second.subscribe(topic, Sql("amount > 5"))
        deadline_ms = monotonic_ms() + 20_000
        while caplog.text.count("subscribes to topic filtered differently") < 2 and monotonic_ms() < deadline_ms:
            first.poll(timeout=0.1)
            second.poll(timeout=0.1)
        assert caplog.text.count("subscribes to topic filtered differently") == 2  # each of the other
        (conflict,) = admin.describe_group("g-odd")["conflicts"]
        wants = {(want["kind"], want["expression"]): len(want["members"]) for want in conflict["subscriptions"]}
        assert wants == {("TAG", "rare"): 1, ("SQL92", "amount > 5"): 1}
