"""Producers and consumers of a batch topic: each way to send, and every message once, by any way to read."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from zenitmq import (
    FIRST,
    Admin,
    InvalidParameter,
    Message,
    MessageIllegal,
    Producer,
    PullConsumer,
    PushConsumer,
    Resolution,
    SimpleConsumer,
    Sql,
    StoredMessage,
    TransactionProducer,
)

WAIT_S = 20


@pytest.fixture(params=["memory", "local"])
def namesrv(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}" if request.param == "memory" else f"local://{tmp_path}/store"


def drained(consumer: PullConsumer, count: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(50, timeout=0.5)
    return found


def test_every_way_to_send_and_to_read(namesrv: str) -> None:
    with Admin(namesrv=namesrv) as admin, Producer("p", namesrv=namesrv) as producer:
        admin.create_topic("batches", queues=2, attributes={"queue.type": "BatchCQ"})
        single = producer.send(Message("batches", b"single", tags="red", keys=["s"]))
        receipts = producer.send_batch(
            [Message("batches", b"m%d" % n, tags=("red", "blue")[n % 2], keys=[f"x{n}"], flag=n) for n in range(10)]
        )
        big = producer.send_batch([Message("batches", bytes(9000) + b"%d" % n) for n in range(5)])
        future = producer.send_async(Message("batches", b"async"))
        for n in range(500):
            producer.post("batches", b"post %d" % n)
        bodies = producer.send_bodies("batches", [b"bodies"] * 300)
        producer.flush()
        assert (single.queue_offset, bodies.count, future.result(1).status) == (0, 300, single.status)
        assert [receipt.queue_offset - receipts[0].queue_offset for receipt in receipts] == list(range(10))
        assert len({receipt.offset_message_id for receipt in receipts}) == 1
        total = 1 + 10 + 5 + 1 + 500 + 300
        with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.subscribe("batches")
            found = drained(consumer, total)
            assert len({(message.queue, message.queue_offset) for message in found}) == total
            by_id = {message.message_id: message for message in found}
            assert [by_id[receipt.message_id].body for receipt in receipts] == [b"m%d" % n for n in range(10)]
            assert [by_id[receipt.message_id].flag for receipt in receipts] == list(range(10))
            assert by_id[big[4].message_id].body == bytes(9000) + b"4"
            queue, offset = receipts[7].queue, receipts[7].queue_offset
            consumer.seek(queue, offset)
            assert drained(consumer, 1)[0].queue_offset == offset
        with PullConsumer("tags", namesrv=namesrv, start_from=FIRST) as consumer:
            consumer.subscribe("batches", "blue")
            assert [message.tags for message in drained(consumer, 5)] == ["blue"] * 5
        (keyed,) = admin.query_by_key("batches", "x4")
        assert (keyed.body, keyed.message_id) == (b"m4", receipts[4].message_id)
        assert admin.view_message(receipts[6].message_id, topic="batches").body == b"m6"
        assert admin.view_message(receipts[6].offset_message_id).body == b"m0"


def test_a_failed_message_comes_again_alone(namesrv: str) -> None:
    failed: list[int] = []
    handled: list[tuple[bytes, int]] = []

    def handle(messages: list[StoredMessage]) -> None:
        for message in messages:
            if message.body == b"3" and not message.reconsume_times:
                failed.append(message.queue_offset)
                raise ValueError("not yet")
            handled.append((message.body, message.reconsume_times))

    with Admin(namesrv=namesrv) as admin, Producer("p", namesrv=namesrv) as producer:
        admin.create_topic("batches", queues=1, attributes={"queue.type": "BatchCQ"})
        producer.send_batch([Message("batches", b"%d" % n) for n in range(6)])
        consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST)
        consumer.subscribe("batches")
        consumer.on_message(handle)
        with consumer:
            deadline = time.monotonic() + WAIT_S
            while len(handled) < 6 and time.monotonic() < deadline:
                time.sleep(0.05)
    assert failed == [3]
    assert sorted(handled) == [(b"%d" % n, int(n == 3)) for n in range(6)]


def test_what_is_refused_by_name(namesrv: str) -> None:
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("batches", queues=1, attributes={"queue.type": "BatchCQ"})
    with Producer("i", namesrv=namesrv, idempotent=True) as producer, pytest.raises(MessageIllegal, match="idempotent"):
        producer.send(Message("batches", b"1"))
    with Producer("p", namesrv=namesrv) as producer, pytest.raises(MessageIllegal, match="delayed"):
        producer.send(Message("batches", b"1", delay_level=3))
    with (
        Producer("d", namesrv=namesrv, idempotent=True) as producer,
        pytest.raises(MessageIllegal, match="takes batches"),
    ):
        producer.send(Message("batches", b"1", delay_level=3))
    with (
        TransactionProducer("t", namesrv=namesrv, check=lambda _: Resolution.COMMIT) as producer,
        pytest.raises(MessageIllegal, match="takes batches"),
    ):
        producer.send(Message("batches", b"1"), execute=lambda _: Resolution.COMMIT)
    with SimpleConsumer("s", namesrv=namesrv) as consumer:
        consumer.subscribe("batches")
        with pytest.raises(InvalidParameter, match="use pulls"):
            consumer.receive(1, wait=2)
    with PullConsumer("q", namesrv=namesrv) as pulling:
        pulling.subscribe("batches", Sql("a > 1"))
        with pytest.raises(InvalidParameter, match="filter by tags"):
            pulling.poll(1, timeout=5)


@pytest.mark.parametrize("body", [b"1", b"1" * 10_000], ids=["plain", "compressed"])
def test_no_message_of_a_batch_is_for_a_lite_topic_or_a_light_queue(namesrv: str, body: bytes) -> None:
    """It would be stored, and never come into that queue."""
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("batches", queues=1, attributes={"queue.type": "BatchCQ"})
    lite, light = Message("batches", body, lite_topic="a"), Message("batches", body, light_queues=["%LMQ%a"])
    with Producer("p", namesrv=namesrv) as producer:
        for message in (lite, light):
            with pytest.raises(MessageIllegal, match="takes batches"):
                producer.send(message)
            with pytest.raises(MessageIllegal, match="takes batches"):
                producer.send_async(message).result(WAIT_S)
        with pytest.raises(MessageIllegal, match="takes batches"):
            producer.send_batch([Message("batches", body), light])
        assert producer.send(Message("batches", body + b"INNER_MULTI_DISPATCH\x01")).queue_offset == 0


def test_pages_of_a_query_may_end_within_a_batch(namesrv: str) -> None:
    with Admin(namesrv=namesrv) as admin, Producer("p", namesrv=namesrv) as producer:
        admin.create_topic("batches", queues=2, attributes={"queue.type": "BatchCQ"})
        for first in range(0, 40, 20):
            producer.send_batch([Message("batches", b"%d" % n, keys=["k"]) for n in range(first, first + 20)])
        for criteria in ({"key": "k"}, {"since": datetime(2020, 1, 1, tzinfo=UTC)}):
            cursor, found = None, []
            while True:
                page = admin.query("batches", **criteria, max_messages=7, cursor=cursor)  # type: ignore[arg-type]
                found += [int(message.body) for message in page.messages]
                cursor = page.cursor
                if cursor is None:
                    break
            assert found == list(range(39, -1, -1))


def test_dead_letters_go_back_into_batches(namesrv: str) -> None:
    def fail(messages: list[StoredMessage]) -> None:
        raise ValueError(messages[0].body)

    with Admin(namesrv=namesrv) as admin, Producer("p", namesrv=namesrv) as producer:
        admin.create_topic("batches", queues=1, attributes={"queue.type": "BatchCQ"})
        producer.send_batch([Message("batches", b"%d" % n) for n in range(3)])
        consumer = PushConsumer("g", namesrv=namesrv, start_from=FIRST, max_attempts=1)
        consumer.subscribe("batches")
        consumer.on_message(fail)
        with consumer:
            deadline = time.monotonic() + WAIT_S
            while consumer.statistics().sent_back < 3 and time.monotonic() < deadline:
                time.sleep(0.05)
        admin.redrive_dead_letters("g")
        with PullConsumer("all", namesrv=namesrv, start_from=FIRST) as pulling:
            pulling.subscribe("batches")
            assert sorted(message.body for message in drained(pulling, 6)) == sorted([b"0", b"1", b"2"] * 2)
