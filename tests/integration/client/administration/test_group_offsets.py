"""Moving groups while they consume, cloning their offsets, and how far they are behind. Real name server and broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from zenitmq import (
    FIRST,
    Admin,
    GroupNotFound,
    InvalidParameter,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    TopicNotFound,
)
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import Heartbeat

TOPIC = "trades"


def drain(consumer: PullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        batch = consumer.poll(timeout=5)
        assert batch, f"only {len(bodies)} of {count}"
        bodies += [message.body for message in batch]
    return bodies


def send(producer: Producer, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    producer.send_bodies(TOPIC, bodies)
    return bodies


@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_member_that_consumes_goes_on_where_its_group_is_moved(
    admin: Admin, producer: Producer, namesrv: str, auto_commit: bool
) -> None:
    sent = send(producer, 10)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit=auto_commit) as consumer:
        consumer.subscribe(TOPIC)
        assert drain(consumer, 10) == sent
        consumer.commit()
        assert admin.reset_offset("g", TOPIC, "earliest", dry_run=True)
        assert not consumer.poll(timeout=0.3)
        admin.reset_offset("g", TOPIC, "earliest")
        assert drain(consumer, 10) == sent
        admin.reset_offset("g", TOPIC, "earliest")
    assert admin.describe_group("g")["lag"] == 10  # whether or not it was told before it left


def test_a_message_at_hand_is_finished_before_the_group_moves(admin: Admin, producer: Producer, namesrv: str) -> None:
    sent = send(producer, 5)
    seen = []
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        for message in consumer:
            seen.append(message.body)
            if len(seen) == 2:
                admin.reset_offset("g", TOPIC, "earliest")
            if seen.count(sent[0]) == 2 and message.body == sent[-1]:
                break
    assert seen[:2] == sent[:2]
    assert seen[-5:] == sent
    assert len(seen) <= 10


def test_a_backlog_is_skipped(admin: Admin, producer: Producer, namesrv: str) -> None:
    queue = producer.send_bodies(TOPIC, [b"old"] * 5).queue
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.assign(admin.queues(TOPIC))
        consumer.poll(2, timeout=5)
        consumer.commit()
    admin.reset_offset("g", TOPIC, "latest")
    assert admin.lag("g")[queue] == 0
    producer.send_bodies(TOPIC, [b"new"])
    assert admin.describe_group("g")["lag"] == 1


def test_one_queue_is_moved_and_the_others_stay(admin: Admin, producer: Producer) -> None:
    queues = admin.queues(TOPIC)
    for number in range(8):
        producer.send(Message(TOPIC, b"%d" % number))
    admin.create_group("g")
    admin.reset_offset("g", TOPIC, "earliest")
    for to, value in (("offset", 1), ("time", 1 << 50)):
        chosen = next(queue for queue in queues if admin.max_offset(queue) > 1)
        (row,) = admin.reset_offset("g", TOPIC, to, value, queue=chosen)
        assert (row["broker_name"], row["queue_id"]) == (chosen.broker_name, chosen.queue_id)
        assert row["to"] == min(value, admin.max_offset(chosen))
        lag = admin.lag("g")
        assert all(lag[queue] == admin.max_offset(queue) for queue in queues if queue != chosen)
    for wrong in (
        MessageQueue(TOPIC, "nobody", 0),
        MessageQueue("other", chosen.broker_name, 0),
        MessageQueue(TOPIC, chosen.broker_name, 4),
        MessageQueue(TOPIC, chosen.broker_name, -1),
    ):
        with pytest.raises(InvalidParameter):
            admin.reset_offset("g", TOPIC, "latest", queue=wrong)


def test_a_group_goes_on_where_another_one_is(admin: Admin, producer: Producer, namesrv: str) -> None:
    sent = send(producer, 6)
    with PullConsumer("first", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        drain(consumer, 1)
        consumer.poll(2, timeout=0.1)
        consumer.seek(next(q for q in consumer.assignment() if admin.max_offset(q)), 4)
        consumer.commit()
    with pytest.raises(GroupNotFound):
        admin.clone_offsets("nobody", "second")
    with pytest.raises(InvalidParameter):
        admin.clone_offsets("first", "first")
    with pytest.raises(TopicNotFound):
        admin.clone_offsets("first", "second", topic="nope")
    planned = admin.clone_offsets("first", "second", dry_run=True)
    assert {row["from"] for row in planned} == {None}
    with pytest.raises(GroupNotFound):
        admin.describe_group("second")
    assert admin.clone_offsets("first", "second") == planned
    assert admin.lag("second") == admin.lag("first")
    with PullConsumer("second", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        assert drain(consumer, 2) == sent[4:]
        consumer.commit()
        admin.clone_offsets("first", "second", topic=TOPIC)  # while it is connected
        assert drain(consumer, 2) == sent[4:]


def test_what_nobody_knows_is_none(admin: Admin, producer: Producer) -> None:
    """A member is there, and has not said yet where its group begins."""
    queue = producer.send_bodies(TOPIC, [b"x"] * 3).queue
    address = admin.route(TOPIC).brokers[0].master_address
    assert address is not None
    with RemotingClient() as client:
        client.call(address, Heartbeat("c", (), (("g", "CLUSTERING", ((TOPIC, "TAG", "*"),)),)), timeout_ms=5000)
    described = admin.describe_group("g")
    (row,) = [row for row in described["queues"] if row["queue_id"] == queue.queue_id]
    assert (described["lag"], row["lag"], row["lag_seconds"], row["consumer_queue_offset"]) == (None,) * 4
    assert admin.lag("g")[queue] is None
    admin.reset_offset("g", TOPIC, "time", datetime.now(UTC) - timedelta(hours=1))
    assert admin.describe_group("g")["lag"] == 3
