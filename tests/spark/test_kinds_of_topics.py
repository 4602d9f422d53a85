"""Batch topics and compacted topics with a real Spark: read and written like others, and damage told from what is no damage."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from spark.sink_kit import messages_of
from spark.spark_kit import expected_row, place, send, stored
from spark.test_queue_reader import change_log

from zenitmq import Admin, Message, Producer
from zenitmq.deploy.cluster_status import ask_json
from zenitmq.model.errors import DamagedMessage
from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading.offsets import QueueRange
from zenitmq.pipeline.reading.queue_reader import read_range
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetBrokerStatistics
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamReader

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

Read = Callable[..., "DataFrame"]
KEYS = 50
SETTINGS = (
    "store.segment_bytes=65536",
    "store.body_bytes_max=16384",
    "store.record_bytes_max=32768",
    "store.retention_bytes=131072",
    "store.checkpoint_interval_ms=50",
    "store.preallocate_segments=0",
    "store.compaction_interval_ms=1000",
    "state_persist_ms=50",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One whose log soon loses its begin."""
    with LocalCluster(settings=SETTINGS) as running:
        yield running


# ---- compacted topics: first, because a read that fails holds the log's begin for a while


@pytest.fixture(scope="module")
def compacted(cluster: LocalCluster) -> tuple[str, dict[str, bytes]]:
    """A compacted topic whose first messages only its files have, and the newest body of each key."""
    newest: dict[str, bytes] = {}
    with Admin(cluster.namesrv) as admin, Producer(namesrv=cluster.namesrv) as producer:
        admin.create_topic("state", queues=1, attributes={"cleanup.policy": "COMPACTION"})
        cluster.create_topic("other", queues=1)
        for turn in range(4):
            for key in range(turn * 10, KEYS):
                newest[f"k{key}"] = b"%d of %d" % (turn, key)
                producer.send(Message("state", newest[f"k{key}"], keys=[f"k{key}"]))
        while log_begin(cluster) <= 65_536:
            producer.send_batch([Message("other", os.urandom(8000)) for _ in range(8)])
        admin.compact_topic("state")
        producer.send(Message("state", b"last", keys=["k49"]))
        newest["k49"] = b"last"
    return "state", newest


def log_begin(cluster: LocalCluster) -> int:
    with RemotingClient() as remoting:
        told = ask_json(remoting, cluster.process(cluster.brokers[0]).address, GetBrokerStatistics())
    return 0 if told is None else int(told["store"]["begin_offset"])


def test_what_newer_messages_have_replaced_is_no_damage(
    cluster: LocalCluster, compacted: tuple[str, dict[str, bytes]], read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    topic, newest = compacted
    rows = read(subscribe=topic, maxRecordsPerPartition="40").collect()
    assert len(rows) < 3 * KEYS, "most were replaced"
    assert {row["keys"]: bytes(row.body) for row in sorted(rows, key=lambda row: row.queueOffset)} == newest
    item = QueueRange(topic, cluster.brokers[0], 0, 0, KEYS)
    kept = bodies(read_range(ReadOptions.parse({"namesrv": cluster.namesrv, "subscribe": topic}), item))
    assert kept == [newest[f"k{n}"] for n in range(10)]
    assert "damaged" not in caplog.text


def test_a_stream_from_before_the_first_kept_message_loses_nothing(
    compacted: tuple[str, dict[str, bytes]], read_stream: Callable[..., DataStreamReader], tmp_path: Path
) -> None:
    topic, newest = compacted
    seen: dict[str, bytes] = {}

    def keep(frame: DataFrame, _number: int) -> None:
        seen.update({row["keys"]: bytes(row.body) for row in sorted(frame.collect(), key=lambda row: row.queueOffset)})

    start = f'{{"{topic}": {{"broker-a": {{"0": 0}}}}}}'
    query: Any = (
        read_stream(subscribe=topic, startingOffsets=start, maxOffsetsPerTrigger="60")
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert seen == newest


# ---- batch topics


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """A batch topic of two queues."""
    name = f"b-{secrets.token_hex(5)}"
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(name, queues=2, attributes={"queue.type": "BatchCQ"})
    return name


def test_the_messages_of_batches_are_rows(cluster: LocalCluster, topic: str, read: Read) -> None:
    send(cluster.namesrv, topic, 200)
    messages = stored(cluster.namesrv, topic, 200)
    assert {place(row): row.asDict() for row in read().collect()} == {
        where: expected_row(message) for where, message in messages.items()
    }
    assert read(includeBody="false").count() == 200
    split = read(columns="queueId,queueOffset", maxRecordsPerPartition="7", fetchMaxBytes="4k")
    assert sorted((row.queueId, row.queueOffset) for row in split.collect()) == sorted(
        (queue_id, offset) for _, _, queue_id, offset in messages
    )
    assert {row.tags for row in read(filter="odd").collect()} == {"odd"}
    assert read(filter="odd").count() == 100
    with pytest.raises(PySparkException, match="a filter by tags: the topic takes batches"):
        read(sqlFilter="number > 5").collect()


def test_offsets_may_lie_in_the_middle_of_a_batch(cluster: LocalCluster, topic: str) -> None:
    with Producer(namesrv=cluster.namesrv) as producer:
        for begin in range(0, 300, 100):
            producer.send_batch([Message(topic, b"%d" % n) for n in range(begin, begin + 100)], sharding_key="one")
    (queue,) = {message.queue for message in messages_of(cluster.namesrv, topic)}
    options = ReadOptions.parse({"namesrv": cluster.namesrv, "subscribe": topic})
    for start, end in ((0, 300), (1, 299), (99, 101), (150, 151), (100, 200), (70, 170)):
        item = QueueRange(topic, queue.broker_name, queue.queue_id, start, end)
        assert bodies(read_range(options, item)) == [b"%d" % n for n in range(start, end)]


def bodies(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [body for batch in batches for body in batch.column("body").to_pylist()]


def test_a_stream_goes_on_within_a_batch(
    cluster: LocalCluster, topic: str, read_stream: Callable[..., DataStreamReader], tmp_path: Path
) -> None:
    sent = send(cluster.namesrv, topic, 96)
    seen: list[bytes] = []
    sizes: list[int] = []

    def keep(frame: DataFrame, _number: int) -> None:
        rows = [bytes(row.body) for row in frame.collect()]
        seen.extend(rows)
        sizes.append(len(rows))

    for rows_max in ("25", "1000"):  # the second one goes on from the first one's checkpoint
        query = (
            read_stream(maxOffsetsPerTrigger=rows_max)
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        sent += send(cluster.namesrv, topic, 20, first=len(sent)) if rows_max == "25" else []
    assert max(sizes) <= 25
    assert sorted(seen) == sorted(sent)


def test_rows_are_written_as_batches(spark: SparkSession, cluster: LocalCluster, topic: str, read: Read) -> None:
    frame = spark.range(0, 500, 1, 2).selectExpr("cast(id AS STRING) AS value", "concat('k', id % 7) AS key")
    write = frame.write.format("zenit").mode("append").options(namesrv=cluster.namesrv, topic=topic)
    write.save()
    assert sorted(int(bytes(row.body)) for row in read().collect()) == list(range(500))
    places = {message.physical_offset for message in messages_of(cluster.namesrv, topic)}
    assert len(places) < 100, "each request is one record"
    with pytest.raises(PySparkException, match="takes batches"):
        write.options(delivery="dedup", queryName="q", batchId="1").save()
    assert read().count() == 500


@pytest.mark.parametrize("columns", ["queueOffset,body", "queueOffset"])
def test_a_damaged_batch_is_damage_as_a_whole(
    cluster: LocalCluster, topic: str, columns: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(namesrv=cluster.namesrv) as producer:
        for begin in range(0, 30, 10):
            texts = [f"{topic} {n}".encode() for n in range(begin, begin + 10)]
            receipts = producer.send_batch([Message(topic, text) for text in texts], sharding_key="one")
    queue = receipts[0].queue
    change_log(cluster, f"{topic} 15".encode(), 0)
    for start, damaged in ((0, 10), (13, 13)):
        item = QueueRange(topic, queue.broker_name, queue.queue_id, start, 30)
        given = {"namesrv": cluster.namesrv, "subscribe": topic, "columns": columns}
        with pytest.raises(DamagedMessage) as raised:
            list(read_range(ReadOptions.parse(given), item))
        assert raised.value.offset == damaged
        passed = read_range(ReadOptions.parse({**given, "onCorrupt": "quarantine"}), item)
        offsets = [offset for batch in passed for offset in batch.column("queueOffset").to_pylist()]
        assert offsets == [*range(start, 10), *range(20, 30)]
        assert f"damaged message passed over queue={item.key} offset={damaged}" in caplog.text
