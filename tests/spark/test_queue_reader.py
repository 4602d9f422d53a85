"""Reading ranges of a real broker as columns, without Spark: exactly the range, whatever happens to the broker meanwhile."""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from zenitmq import Message, Producer
from zenitmq.model.errors import DamagedMessage, OffsetOutOfRange, RangeUnread, TopicNotFound
from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading.offsets import QueueRange
from zenitmq.pipeline.reading.queue_reader import read_range
from zenitmq.pipeline.session.connections import connection
from zenitmq.testing import LocalCluster

COUNT = 20_000


@pytest.fixture(scope="module")
def written(cluster: LocalCluster) -> str:
    """A topic of one queue with COUNT messages of 1 KiB: several batches' worth; every third has tag "c"."""
    topic = cluster.create_topic("written", queues=1)
    with Producer(namesrv=cluster.namesrv) as producer:
        for at in range(0, COUNT, 500):
            producer.send_batch([message(topic, number) for number in range(at, at + 500)])
    return topic


def message(topic: str, number: int) -> Message:
    return Message(topic, body(number), tags="abc"[number % 3])


def body(number: int) -> bytes:
    return (b"%08d " % number) * 114


def options(cluster: LocalCluster, topic: str, **given: str) -> ReadOptions:
    return ReadOptions.parse({"namesrv": cluster.namesrv, "subscribe": topic, **given})


def queue_of(cluster: LocalCluster, topic: str, start: int, end: int) -> QueueRange:
    return QueueRange(topic, cluster.brokers[0], 0, start, end)


def rows(batches: Iterator[pa.RecordBatch], *names: str) -> list[Any]:
    found = [row for batch in batches for row in batch.select(names).to_pylist()]
    return [tuple(row.values()) if len(names) > 1 else row[names[0]] for row in found]


@pytest.mark.parametrize(("start", "end"), [(0, COUNT), (1, COUNT - 1), (2345, 2346), (100, 9300), (7, 7)])
def test_a_range_is_read_exactly(cluster: LocalCluster, written: str, start: int, end: int) -> None:
    found = rows(read_range(options(cluster, written), queue_of(cluster, written, start, end)), "queueOffset", "body")
    assert found == [(number, body(number)) for number in range(start, end)]


@pytest.mark.parametrize("given", [{"filter": "c"}, {"sqlFilter": "TAGS = 'c'"}])
def test_filters_are_the_brokers(cluster: LocalCluster, written: str, given: dict[str, str]) -> None:
    found = rows(
        read_range(options(cluster, written, columns="queueOffset", **given), queue_of(cluster, written, 10, 5000)),
        "queueOffset",
    )
    assert found == [number for number in range(10, 5000) if number % 3 == 2]


def test_small_answers_are_put_together(cluster: LocalCluster, written: str) -> None:
    chosen = options(cluster, written, fetchMaxBytes="4k", columns="queueOffset")
    assert rows(read_range(chosen, queue_of(cluster, written, 50, 700)), "queueOffset") == list(range(50, 700))


def test_where_there_is_no_replica_the_master_is_read(cluster: LocalCluster, written: str) -> None:
    chosen = options(cluster, written, readFrom="replica", columns="queueOffset")
    assert rows(read_range(chosen, queue_of(cluster, written, 0, 100)), "queueOffset") == list(range(100))


def test_a_range_beyond_the_queue_is_an_error_or_passed_over(
    cluster: LocalCluster, written: str, caplog: pytest.LogCaptureFixture
) -> None:
    beyond = queue_of(cluster, written, COUNT - 1, COUNT + 5)
    with pytest.raises(OffsetOutOfRange):
        list(read_range(options(cluster, written, retries="0"), beyond))
    chosen = options(cluster, written, retries="0", failOnDataLoss="false", columns="queueOffset")
    assert rows(read_range(chosen, beyond), "queueOffset") == [COUNT - 1]
    assert f"rows lost queue={beyond.key} begin={COUNT} end={COUNT + 5}" in caplog.text


def test_a_topic_that_is_not_there(cluster: LocalCluster) -> None:
    with pytest.raises(TopicNotFound):
        list(read_range(options(cluster, "nothing"), queue_of(cluster, "nothing", 0, 1)))


def test_the_process_has_one_connection(cluster: LocalCluster) -> None:
    with connection(cluster.namesrv, "") as first:
        pass
    with connection(f" {cluster.namesrv},", "") as second:
        assert first is second


def change_log(cluster: LocalCluster, text: bytes, distance: int) -> None:
    """Flips a bit `distance` bytes from where `text` first stands in the commit log."""
    store = cluster.process(cluster.brokers[0]).store_dir
    assert store is not None
    for path in sorted(glob.glob(os.path.join(store, "commitlog", "*"))):
        with open(path, "r+b") as log:
            at = log.read().find(text)
            if at >= 0:
                log.seek(at + distance)
                (byte,) = log.read(1)
                log.seek(at + distance)
                log.write(bytes([byte ^ 1]))
                return
    raise AssertionError("the text is in no file")


@pytest.mark.parametrize("distance", [0, -4], ids=["body", "length"])
def test_a_damaged_message_is_an_error_or_passed_over(
    cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture, distance: int
) -> None:
    """A flip in its body leaves the others as they are; one in a length takes the frames from those behind it. Asked once
    more, the broker finds that nobody has it."""
    with Producer(namesrv=cluster.namesrv) as producer:
        receipts = [producer.send(Message(topic, f"{topic} {number}".encode())) for number in range(20)]
    queue = receipts[0].queue
    count = sum(receipt.queue == queue for receipt in receipts)
    change_log(cluster, f"{topic} 0".encode(), distance)
    item = QueueRange(topic, queue.broker_name, queue.queue_id, 0, count)
    with pytest.raises(DamagedMessage, match="lost at the broker") as raised:
        list(read_range(options(cluster, topic), item))
    assert raised.value.offset == 0
    found = rows(read_range(options(cluster, topic, onCorrupt="quarantine"), item), "queueOffset")
    assert found == list(range(1, count))
    assert f"damaged message passed over queue={item.key} offset=0" in caplog.text


def test_a_broker_that_comes_back_is_read_on(cluster: LocalCluster, written: str) -> None:
    """It is killed after the first batch, when several pulls are under way."""
    reading = read_range(options(cluster, written), queue_of(cluster, written, 0, COUNT))
    first = next(reading)
    assert first.num_rows < COUNT
    cluster.kill(cluster.brokers[0])
    back = threading.Timer(1.0, cluster.restart)
    back.start()
    try:
        found = rows(iter([first, *reading]), "queueOffset")
    finally:
        back.join()
    assert found == list(range(COUNT))


def test_a_broker_that_stays_away_is_an_error_in_time(cluster: LocalCluster, written: str) -> None:
    cluster.kill(cluster.brokers[0])
    try:
        with pytest.raises(RangeUnread):
            list(read_range(options(cluster, written, retries="2"), queue_of(cluster, written, 0, 10)))
    finally:
        cluster.restart()
