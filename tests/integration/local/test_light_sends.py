"""Messages that a producer sends into light queues, by each way of sending, as they are in the store afterwards."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from store_kit import StillClock, make_store, read_queue

from zenitmq import Admin, EngineLacks, Message, Producer, Resolution, TransactionProducer

A = "%LMQ%a"


def lite(name: str) -> str:
    return f"%LMQ%$chats${name}"


def test_every_way_of_sending_reaches_the_light_queues(tmp_path: Path) -> None:
    engine = f"local://{tmp_path / 'store'}"
    with Admin(engine) as admin:
        admin.create_topic("t", queues=2)
        admin.create_topic("chats", queues=1, attributes={"message.type": "LITE"})
    with Producer(namesrv=engine) as producer:
        producer.send(Message("t", b"single", light_queues=(A,)))
        producer.send_async(Message("t", b"async", light_queues=[A, "%LMQ%b"])).result(10)
        receipts = producer.send_batch([Message("chats", b"%d" % n, lite_topic=f"s{n % 3}") for n in range(7)])
        assert len({(receipt.queue, receipt.queue_offset) for receipt in receipts}) == 7
        producer.send(Message("t", b"late", light_queues=(A,), delay=timedelta(milliseconds=300)))
        deadline = time.monotonic() + 15
        with Admin(engine) as admin:
            while sum(admin.max_offset(queue) for queue in admin.queues("t")) < 3:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    with TransactionProducer("g", namesrv=engine, check=lambda _: Resolution.COMMIT) as producer:
        producer.send(Message("t", b"committed", light_queues=(A,)), execute=lambda _: Resolution.COMMIT)
        producer.send(Message("t", b"rolled back", light_queues=(A,)), execute=lambda _: Resolution.ROLLBACK)
    with make_store(tmp_path / "store", StillClock(int(time.time() * 1000)), segment_bytes=1 << 30) as store:
        found = read_queue(store, A, 0)
        assert [m.body for m in found] == [b"single", b"async", b"late", b"committed"]
        assert [m.queue_offset for m in found] == [0, 1, 2, 3]
        assert [m.body for m in read_queue(store, "%LMQ%b", 0)] == [b"async"]
        for name in range(3):
            messages = read_queue(store, lite(f"s{name}"), 0)
            assert [m.body for m in messages] == [b"%d" % n for n in range(name, 7, 3)]
            assert {(m.topic, m.lite_topic) for m in messages} == {("chats", f"s{name}")}


def test_an_engine_without_them_says_so(tmp_path: Path) -> None:
    engine = f"embedded://{tmp_path / 'store'}"
    with Admin(engine) as admin:
        admin.create_topic("t")
    with Producer(namesrv=engine) as producer:
        with pytest.raises(EngineLacks, match="light queues"):
            producer.send(Message("t", b"x", light_queues=(A,)))
        producer.send(Message("t", b"x"))
