"""Topics read as streams by a real Spark: each row once, over restarts, new queues and failed batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from spark.quick_start import INTERPRETER
from spark.spark_kit import place, send, stored

from zenitmq import Admin
from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading.stream_reader import StreamReader
from zenitmq.testing import LocalCluster

ReadStream = Callable[..., DataFrame]

pytestmark = pytest.mark.timeout(600)  # Spark on a busy machine


def drain(frame: DataFrame, target: Path, checkpoint: Path) -> Any:
    """Writes what is there as Parquet and ends; returns the query."""
    writer = (
        frame.writeStream.format("parquet").option("path", str(target)).option("checkpointLocation", str(checkpoint))
    )
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(250)
    return query


def test_runs_that_follow_each_other_read_each_row_once(
    spark: SparkSession, cluster: LocalCluster, topic: str, read_stream: ReadStream, tmp_path: Path
) -> None:
    """In batches of a limited size; with queues that are new to the second run."""
    frame = read_stream(maxOffsetsPerTrigger="60", minPartitions="3")
    send(cluster.namesrv, topic, 150)
    first = drain(frame, tmp_path / "rows", tmp_path / "checkpoint")
    assert [progress.numInputRows for progress in first.recentProgress if progress.numInputRows] == [60, 60, 30]
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(topic, queues=6)
    send(cluster.namesrv, topic, 90, first=150)
    second = drain(frame, tmp_path / "rows", tmp_path / "checkpoint")
    messages = stored(cluster.namesrv, topic, 240)
    rows = [(place(row), bytes(row.body)) for row in spark.read.parquet(str(tmp_path / "rows")).collect()]
    assert sorted(rows) == sorted((where, message.body) for where, message in messages.items())
    assert len(rows) == len(dict(rows)) == 240
    source = json.loads(second.lastProgress.json)["sources"][0]
    assert source["endOffset"] == source["latestOffset"]
    ends = source["endOffset"][topic][cluster.brokers[0]]
    assert sorted(ends) == [*map(str, range(6)), "incarnation"]


def test_trap_a_batch_that_failed_is_read_again_from_where_it_began(
    cluster: LocalCluster, topic: str, read_stream: ReadStream, tmp_path: Path
) -> None:
    """From "latest", with messages that come between the runs: nothing between is left out."""
    seen: list[bytes] = []
    options = {"startingOffsets": "latest", "queryName": f"failing-{topic}"}
    given = {"namesrv": cluster.namesrv, "subscribe": topic} | {name.lower(): value for name, value in options.items()}
    StreamReader(ReadOptions.parse(given).for_stream()).initialOffset()

    def break_down(_batch: DataFrame, _number: int) -> None:
        raise ValueError("the sink broke")

    def take(batch: DataFrame, _number: int) -> None:
        seen.extend(bytes(row.body) for row in batch.collect())

    def run(sink: Callable[[DataFrame, int], None]) -> bool:
        frame = read_stream(columns="body", **options)
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start().awaitTermination(250)

    bodies = send(cluster.namesrv, topic, 20)
    with pytest.raises(PySparkException, match="the sink broke"):
        run(break_down)
    bodies += send(cluster.namesrv, topic, 20, first=20)
    assert run(take)
    assert sorted(seen) == sorted(bodies)


def test_bad_input_is_told_in_the_driver(read_stream: ReadStream) -> None:
    with pytest.raises(PySparkException, match="is for batches"):
        read_stream(endingOffsets="latest").writeStream.format("noop").start().awaitTermination(250)
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        read_stream(startingOfsets="latest")


def test_trap_filters_are_pushed_only_where_the_session_pushes_them(
    spark: SparkSession, cluster: LocalCluster, topic: str, read: Callable[..., DataFrame]
) -> None:
    """A reader that takes filters fails in a session that does not push them; one without the option works in both."""
    send(cluster.namesrv, topic, 20)
    conf = "spark.sql.python.filterPushdown.enabled"
    assert spark.conf.get(conf) == "true", "the session helper sets it"
    spark.conf.set(conf, "false")
    try:
        assert read().where("queueId = 1").count() == read().where("queueId + 0 = 1").count()
        with pytest.raises(PySparkException, match="PUSHDOWN_DISABLED"):
            read(pushdown="true").where("queueId = 1").count()
    finally:
        spark.conf.set(conf, "true")


def test_traps_of_the_session(spark: SparkSession) -> None:
    """Workers run this interpreter; state is in as many parts as there are cores, not in 200."""
    import sys

    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [str(INTERPRETER)]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None


def test_what_a_worker_has_imported_is_spared_from_collections(
    spark: SparkSession, cluster: LocalCluster, topic: str, read: Callable[..., DataFrame]
) -> None:
    """Pyspark's daemon collects after each task."""
    import gc

    class Reader(DataSourceReader):
        def read(self, partition: Any) -> Any:
            yield (gc.get_freeze_count(),)

    class Kept(DataSource):
        def reader(self, schema: Any) -> Any:
            return Reader()

    send(cluster.namesrv, topic, 20)
    assert read().count() == 20
    spark.dataSource.register(Kept)
    assert spark.read.format("Kept").schema("count BIGINT").load().collect()[0]["count"] > 10_000
