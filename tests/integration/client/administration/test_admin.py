"""The admin against a real name server and a real broker, in threads of this process."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from zenitmq import (
    FIRST,
    Admin,
    GroupNotFound,
    InvalidParameter,
    Message,
    MessageNotFound,
    NoPermission,
    Producer,
    PullConsumer,
    TopicNotFound,
)
from zenitmq.broker.service import Broker
from zenitmq.model.errors import LocalProtocolError, NoRoute

TOPIC = "trades"


def test_a_topic_that_is_there_keeps_its_queues_unless_told_otherwise(admin: Admin) -> None:
    counts = []
    for queues in (3, None, 4):
        admin.create_topic("kept", queues=queues)
        counts.append(len(admin.queues("kept")))
    admin.create_topic("new")
    assert (counts, len(admin.queues("new"))) == ([3, 3, 4], 8)


def test_topics(admin: Admin, producer: Producer) -> None:
    assert TOPIC in admin.topics()
    (config,) = [config for config in admin.topic_configs() if config["name"] == TOPIC]
    assert (config["read_queues"], config["write_queues"], config["permission"]) == (4, 4, 6)
    assert config["attributes"]["note"] == "x"
    assert [queue.queue_id for queue in admin.queues(TOPIC)] == [0, 1, 2, 3]
    receipt = producer.send(Message(TOPIC, b"x"))
    described = admin.describe_topic(TOPIC)
    assert described["topic"] == TOPIC
    row = described["queues"][receipt.queue.queue_id]
    assert (row["broker_name"], row["min_offset"], row["max_offset"]) == (receipt.queue.broker_name, 0, 1)
    assert (admin.min_offset(receipt.queue), admin.max_offset(receipt.queue)) == (0, 1)
    admin.create_topic(TOPIC, queues=6)
    assert len(admin.queues(TOPIC)) == 6
    admin.delete_topic(TOPIC)
    assert TOPIC not in admin.topics()
    for use in (lambda: admin.delete_topic(TOPIC), lambda: admin.route(TOPIC), lambda: admin.describe_topic(TOPIC)):
        with pytest.raises(TopicNotFound):
            use()


def test_groups(admin: Admin, producer: Producer, namesrv: str) -> None:
    queue = producer.send_bodies(TOPIC, [b"%d" % index for index in range(10)]).queue
    with pytest.raises(GroupNotFound):
        admin.describe_group("readers")
    with PullConsumer("readers", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        assert len(consumer.poll(4, timeout=5)) == 4
        consumer.commit()
        described = admin.describe_group("readers")
        assert described["lag"] == 6
        assert len(described["members"]) == 1
        (row,) = [row for row in described["queues"] if row["queue_id"] == queue.queue_id]
        assert (row["broker_queue_offset"], row["consumer_queue_offset"], row["lag"]) == (10, 4, 6)
        assert row["owner"] == described["members"][0]
        assert row["lag_seconds"] >= 0
        with pytest.raises(InvalidParameter):
            admin.delete_group("readers")  # it has a member
    assert admin.lag("readers")[queue] == 6
    assert [group["name"] for group in admin.groups()] == ["readers"]

    planned = admin.reset_offset("readers", TOPIC, "earliest", dry_run=True)
    (row,) = [row for row in planned if row["queue_id"] == queue.queue_id]
    assert (row["broker_name"], row["from"], row["to"]) == (queue.broker_name, 4, 0)
    assert admin.lag("readers")[queue] == 6
    admin.reset_offset("readers", TOPIC, "latest")
    assert admin.lag("readers")[queue] == 0
    admin.reset_offset("readers", TOPIC, "time", datetime.now(UTC) - timedelta(hours=1))
    assert admin.lag("readers")[queue] == 10
    admin.delete_group("readers")
    assert admin.groups() == []


def test_single_messages(admin: Admin, producer: Producer) -> None:
    receipts = [producer.send(Message(TOPIC, b"%d" % index, keys=["k", f"k{index}"])) for index in range(5)]
    admin.create_topic("other")
    found = admin.query_by_key(TOPIC, "k")
    assert sorted(message.body for message in found) == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.stored_at_ms for message in found] == sorted((m.stored_at_ms for m in found), reverse=True)
    assert [message.body for message in admin.query_by_key(TOPIC, "k3")] == [b"3"]
    assert len(admin.query_by_key(TOPIC, "k", max_messages=2)) == 2
    assert admin.query_by_key(TOPIC, "k", until=datetime.now(UTC) - timedelta(hours=1)) == []
    for message_id in (receipts[2].message_id, receipts[2].offset_message_id):
        assert admin.view_message(message_id).body == b"2"
        assert admin.view_message(message_id, topic=TOPIC).body == b"2"
        with pytest.raises(MessageNotFound):
            admin.view_message(message_id, topic="other")
    for message_id in ("0" * 32, "nonsense", receipts[0].offset_message_id[:-2] + "01"):
        with pytest.raises(MessageNotFound):
            admin.view_message(message_id)


def test_pages_of_messages(admin: Admin, producer: Producer) -> None:
    """By key, time, text, queue and offset; a page in the middle of the next, and without a group."""
    since = datetime.now(UTC) - timedelta(minutes=1)
    receipts = [producer.send(Message(TOPIC, b"paid %d" % index, keys=["k"])) for index in range(20)]
    sent = [b"paid %d" % index for index in range(20)]

    def all_pages(**criteria: Any) -> list[bytes]:
        found: list[bytes] = []
        cursor = None
        while True:
            page = admin.query(TOPIC, **criteria, max_messages=3, cursor=cursor)
            found += [message.body for message in page.messages]
            cursor = page.cursor
            if cursor is None:
                return found
            assert page.reached is not None
            assert page.examined > 0

    for criteria in ({"key": "k"}, {"since": since}, {"text": "paid", "since": since}, {}):
        assert sorted(all_pages(**criteria)) == sorted(sent)
    assert all_pages(text=b"d 17", since=since) == [b"paid 17"]
    assert all_pages(message_id=receipts[4].message_id) == [b"paid 4"]
    assert all_pages(until=since) == []
    queue, offset = receipts[7].queue, receipts[7].queue_offset
    assert all_pages(queue=queue, from_offset=offset, until_offset=offset + 1) == [b"paid 7"]
    first = admin.query(TOPIC, key="k", max_messages=3)
    for wrong in ({"key": "other", "cursor": first.cursor}, {"key": "k", "cursor": "nonsense"}, {"text": "paid"}):
        with pytest.raises(InvalidParameter):
            admin.query(TOPIC, **wrong)
    assert first.cursor is not None
    version, mark, _ = json.loads(base64.urlsafe_b64decode(first.cursor + "=" * (-len(first.cursor) % 4)))
    gone = base64.urlsafe_b64encode(json.dumps([version, mark, {"gone": [9, 0, 0]}]).encode()).decode()
    with pytest.raises(
        NoRoute, match="no replica of gone is up"
    ):  # whatever the others answered: no message can be next
        admin.query(TOPIC, key="k", cursor=gone, timeout=0.5)
    for key in ("\udcff", "two words", ""):
        with pytest.raises(InvalidParameter, match="key"):
            admin.query_by_key(TOPIC, key)
    assert admin.groups() == []


def test_a_viewer_is_of_no_group(admin: Admin, producer: Producer, namesrv: str) -> None:
    receipt = producer.send(Message(TOPIC, b"seen"))
    with PullConsumer(None, namesrv=namesrv, start_from=FIRST) as viewer:
        with pytest.raises(LocalProtocolError, match="assign"):
            viewer.subscribe(TOPIC)
        viewer.assign([receipt.queue])
        assert [message.body for message in viewer.poll(timeout=5)] == [b"seen"]
        for call in (viewer.commit, lambda: viewer.committed(receipt.queue)):
            with pytest.raises(LocalProtocolError, match="group"):
                call()
    assert admin.groups() == []
    with pytest.raises(InvalidParameter):
        PullConsumer(None, namesrv=namesrv, trace=True)


def test_offsets_by_time(admin: Admin, producer: Producer) -> None:
    receipt = producer.send_bodies(TOPIC, [b"a", b"b"])
    now = datetime.now(UTC)
    assert admin.search_offset(receipt.queue, now - timedelta(hours=1)) == 0
    assert admin.search_offset(receipt.queue, now + timedelta(hours=1), upper=True) in (1, 2)


def test_brokers(admin: Admin, producer: Producer, broker: Broker, namesrv: str) -> None:
    (row,) = admin.cluster()["brokers"]
    assert row["address"] == broker.address
    assert admin.broker_statistics()
    assert admin.broker_statistics(row["broker_name"]).keys() == admin.broker_statistics(broker.address).keys()
    assert admin.broker_config()["store.segment_bytes"] == 1 << 20
    with pytest.raises(InvalidParameter):
        admin.broker_config("nobody")
    with pytest.raises(InvalidParameter, match=r"127\.0\.0\.1:1'"):
        admin.broker_config("127.0.0.1:1")
    assert admin.wipe_write_permission(row["broker_name"]) >= 1
    with Producer("p2", namesrv=namesrv, timeout=0.3) as other, pytest.raises((NoRoute, NoPermission)):
        other.send(Message(TOPIC, b"x"))
    admin.add_write_permission(row["broker_name"])
    producer.send(Message(TOPIC, b"x"), timeout=5)


def test_ten_thousand_posts_come_out_whole(admin: Admin, namesrv: str) -> None:
    expected = {b"%05d" % index for index in range(10_000)}
    with Producer("p", namesrv=namesrv) as producer:
        for body in sorted(expected):
            producer.post(TOPIC, body, "even" if int(body) % 2 == 0 else "odd", body.decode())
    for expression, wanted in ((None, expected), ("even", {body for body in expected if int(body) % 2 == 0})):
        with PullConsumer(f"g-{expression}", namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(TOPIC, expression)
            got: list[bytes] = []
            while len(got) < len(wanted):
                batch = consumer.poll(timeout=5)
                assert batch
                got += [message.body for message in batch]
            assert not consumer.poll(timeout=0.2)
        assert sorted(got) == sorted(wanted)
    assert admin.lag("g-None") == dict.fromkeys(admin.queues(TOPIC), 0)
    assert admin.query_by_key(TOPIC, "04711")[0].body == b"04711"
