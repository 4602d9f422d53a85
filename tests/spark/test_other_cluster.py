"""A session outlives its cluster; another one of that name comes up at the same addresses, with topics that look alike."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType
from spark.sink_kit import count_of
from spark.spark_kit import send

from zenitmq import Message, Producer
from zenitmq.model.errors import RangeUnread, WrongCluster
from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading.queue_reader import read_range
from zenitmq.pipeline.reading.range_partition import RangePartition
from zenitmq.pipeline.reading.stream_reader import StreamReader
from zenitmq.pipeline.writing.sink import stream_writer
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(300)

TOPIC = "orders"
SCHEMA = StructType([StructField("body", BinaryType())])
ALL = ReadAllAvailable()

Replace = Callable[[], LocalCluster]


@pytest.fixture
def taken_over() -> Iterator[Replace]:
    """Each call ends the cluster before and starts one at its addresses, with an empty topic of the same name."""
    with ExitStack() as running:
        addresses: list[str] = []

        def start() -> LocalCluster:
            running.close()
            cluster = running.enter_context(LocalCluster())
            cluster.create_topic(TOPIC, queues=1)
            addresses.append(cluster.namesrv)
            assert len(set(addresses)) == 1, "somebody else has taken the port"
            return cluster

        yield start


def reader_of(cluster: LocalCluster, **options: str) -> StreamReader:
    given = {"namesrv": cluster.namesrv, "subscribe": TOPIC, "startingoffsets": "earliest", "requesttimeoutms": "2500"}
    return StreamReader(ReadOptions.parse(given | options).for_stream())


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_checkpoint_names_its_cluster(taken_over: Replace, fail_on_data_loss: str) -> None:
    """Neither a reader that lives nor a new one goes on with it elsewhere, nor is a range read that was planned before; one
    that begins reads what is there."""
    first = taken_over()
    send(first.namesrv, TOPIC, 10)
    options = {"failondataloss": fail_on_data_loss}
    living = reader_of(first, **options)
    start = living.initialOffset()
    end = living.latestOffset(start, ALL)
    (piece,) = living.partitions(start, end)
    second = taken_over()
    send(second.namesrv, TOPIC, 30)
    for reader in (living, reader_of(second, **options)):
        with pytest.raises(WrongCluster) as refused:
            reader.latestOffset(end, ALL)
        assert refused.value.asked_id == end["@cluster"]
        with pytest.raises(WrongCluster):
            reader.partitions(start, end)
    assert isinstance(piece, RangePartition)
    given = ReadOptions.parse({"namesrv": second.namesrv, "subscribe": TOPIC, "retries": "2"})
    with pytest.raises((WrongCluster, RangeUnread), match="another cluster answers here"):
        list(read_range(given, piece.value))
    fresh = reader_of(second, **options)
    start = fresh.initialOffset()
    end = fresh.latestOffset(start, ALL)
    assert sum(batch.num_rows for item in fresh.partitions(start, end) for batch in fresh.read(item)) == 30


def test_a_query_that_writes_goes_on_where_it_began(taken_over: Replace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark plans a writer a batch; the tasks of a query remember. Another query writes to whoever is there."""

    class Task:
        query = secrets.token_hex(16)

        def getLocalProperty(self, key: str) -> str | None:
            return {"sql.streaming.queryId": self.query, "streaming.sql.batchId": "1"}.get(key)

        def partitionId(self) -> int:
            return 0

    def write(namesrv: str) -> int:
        options = {"namesrv": namesrv, "topic": TOPIC, "requestTimeoutMs": "2000"}
        batch = pa.record_batch([pa.array([b"x"], pa.binary())], names=["body"])
        return stream_writer(options, SCHEMA, False).write(iter([batch])).rows

    monkeypatch.setattr(TaskContext, "get", staticmethod(Task))
    first = taken_over()
    assert write(first.namesrv) == 1
    second = taken_over()
    with pytest.raises(WrongCluster):
        write(second.namesrv)
    assert count_of(second.namesrv, TOPIC) == 0
    monkeypatch.setattr(Task, "query", secrets.token_hex(16))
    assert write(second.namesrv) == 1
    assert count_of(second.namesrv, TOPIC) == 1


def test_a_notebook_goes_on_with_a_new_cluster_and_its_queries_do_not(
    spark: SparkSession, taken_over: Replace, tmp_path: Path
) -> None:
    """What begins works with who is there; what lives, or has a checkpoint, refuses by name."""

    def topic(reader: Any, timeout_ms: int = 20_000) -> DataFrame:
        options = {"namesrv": namesrv, "subscribe": TOPIC, "startingOffsets": "earliest"}
        frame: DataFrame = reader.format("zenit").options(**options, requestTimeoutMs=str(timeout_ms)).load()
        return frame

    def archive(name: str, timeout_ms: int) -> Any:
        """A query that keeps what it reads. What refuses takes its whole time to do so."""
        read = topic(spark.readStream, timeout_ms).select("body")
        writer = read.writeStream.format("parquet").option("path", str(tmp_path / name))
        return writer.option("checkpointLocation", str(tmp_path / f"{name}-checkpoint")).start()

    def kept(name: str) -> int:
        return spark.read.schema("body BINARY").parquet(str(tmp_path / name)).count()

    first = taken_over()
    namesrv = first.namesrv
    send(namesrv, TOPIC, 10)
    assert topic(spark.read).count() == 10
    with Producer("p", namesrv=namesrv, timeout=1) as producer:
        producer.send(Message(TOPIC, b"ours"))
        source = archive("old", 6_000)
        source.processAllAvailable()
        taken_over()
        with pytest.raises(WrongCluster):
            producer.send(Message(TOPIC, b"ours"))
        send(namesrv, TOPIC, 500)
        assert topic(spark.read).count() == 500
        spark.createDataFrame([("new",)], "body STRING").write.format("zenit").options(
            namesrv=namesrv, topic=TOPIC
        ).mode("append").save()
        with pytest.raises(PySparkException, match="another cluster answers here"):
            source.awaitTermination(120)
        assert topic(spark.read).count() == count_of(namesrv, TOPIC) == 501
    assert kept("old") == 11
    again = archive("old", 6_000)
    with pytest.raises(PySparkException, match="another cluster answers here"):
        again.processAllAvailable()
    assert kept("old") == 11
    fresh = archive("new", 20_000)
    fresh.processAllAvailable()
    fresh.stop()
    assert kept("new") == 501
