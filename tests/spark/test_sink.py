"""Data frames and streams written to topics by a real Spark, and what the topics hold then, row by row."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming import DataStreamReader
from spark.sink_kit import count_of, messages_of, twice

from zenitmq.testing import LocalCluster

ROWS = 600
FILES = 3


@pytest.fixture
def other(cluster: LocalCluster) -> str:
    """A second topic."""
    return cluster.create_topic(f"u-{secrets.token_hex(5)}", queues=2)


@pytest.fixture
def write(cluster: LocalCluster) -> Callable[..., None]:
    """write(frame, **options): as a batch."""

    def save(frame: DataFrame, **options: Any) -> None:
        frame.write.format("zenit").mode("append").options(namesrv=cluster.namesrv, **options).save()

    return save


def test_every_column_becomes_a_part_of_a_message(
    spark: SparkSession, cluster: LocalCluster, topic: str, other: str, write: Callable[..., None]
) -> None:
    due = datetime(2021, 5, 6, 7, 8, 9, tzinfo=UTC)
    schema = (
        "topic STRING, value STRING, tags STRING, keys ARRAY<STRING>, key STRING, flag INT,"
        " properties MAP<STRING,STRING>, deliverTimestamp TIMESTAMP"
    )
    rows = [
        (topic, "größer", "buy", ["k1", "k2"], "user-7", 3, {"region": "eu", "UNIQ_KEY": "old"}, due),
        (other, "", None, None, None, None, None, None),
    ]
    write(spark.createDataFrame(rows, schema))
    (first,) = messages_of(cluster.namesrv, topic)
    assert (first.body, first.tags, list(first.keys), first.flag) == ("größer".encode(), "buy", ["k1", "k2"], 3)
    assert first.properties["region"] == "eu"
    assert first.properties["__SHARDINGKEY"] == "user-7"
    assert first.message_id not in ("", "old")
    (second,) = messages_of(cluster.namesrv, other)
    assert (second.body, second.tags, list(second.keys), second.flag) == (b"", None, [], 0)


def test_many_rows_of_several_tasks_arrive_once_each(
    spark: SparkSession, cluster: LocalCluster, topic: str, write: Callable[..., None]
) -> None:
    frame = spark.range(0, 20_000, 1, 3).selectExpr("lpad(cast(id AS STRING), 200, '.') AS body", "'odd' AS tags")
    write(frame, topic=topic)
    found = messages_of(cluster.namesrv, topic)
    assert {message.body for message in found} == {str(n).rjust(200, ".").encode() for n in range(20_000)}
    assert len(found) == 20_000
    assert {message.tags for message in found} == {"odd"}
    assert len({message.queue.queue_id for message in found}) == 4


@pytest.mark.parametrize(
    ("expression", "options", "says"),
    [
        ("id AS body", {}, "column 'body' cannot be written to a topic: it is of type bigint"),
        ("'x' AS body, id AS lag", {}, "column 'lag' cannot be written to a topic"),
        ("id AS lag", {}, "column 'lag' cannot be written"),
        ("'x' AS body", {"topik": "t"}, "topic"),
        ("'x' AS body", {"delivery": "dedup"}, "queryName"),
        ("'x' AS body", {"topic": "nowhere"}, "topic 'nowhere' does not exist"),
        ("cast(NULL AS STRING) AS body", {}, "column 'body' cannot be written to a topic: it is null"),
    ],
)
def test_what_cannot_be_written_is_told_with_its_name(
    spark: SparkSession,
    cluster: LocalCluster,
    topic: str,
    write: Callable[..., None],
    expression: str,
    options: dict[str, str],
    says: str,
) -> None:
    with pytest.raises(PySparkException, match=says):
        write(spark.range(1).selectExpr(*expression.split(", ")), **{"topic": topic, **options})
    assert count_of(cluster.namesrv, topic) == 0


def test_a_topic_is_not_overwritten(spark: SparkSession, cluster: LocalCluster, topic: str) -> None:
    writer = (
        spark.range(1).selectExpr("'x' AS body").write.format("zenit").options(namesrv=cluster.namesrv, topic=topic)
    )
    with pytest.raises(PySparkException, match="append"):
        writer.mode("overwrite").save()


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> str:
    """A directory of Parquet files, each a batch of a stream: the same rows each time."""
    for number in range(FILES):
        frame = spark.range(number * ROWS, (number + 1) * ROWS, 1, 1)
        frame.selectExpr("lpad(cast(id AS STRING), 1000, '0') AS body").write.parquet(f"{tmp_path}/in/{number}")
    return f"{tmp_path}/in"


class Run:
    """A stream of the files to a topic, one file a batch. `dies_at`: the row at which a worker of the task dies."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, files: str, work: Path, **options: str) -> None:
        self.spark, self.files, self.work, self.options = spark, files, work, options
        self.namesrv = cluster.namesrv

    def start(self, *, dies_at: int | None = None) -> Any:
        stream = (
            self.spark.readStream.schema("body STRING").option("maxFilesPerTrigger", "1").parquet(f"{self.files}/*")
        )
        if dies_at is not None:
            die = udf(dying(body_of(dies_at), self.namesrv, self.options["topic"]), "string", useArrow=False)
            stream = stream.select(die("body").alias("body"))
        writer = stream.writeStream.format("zenit").options(namesrv=self.namesrv, **self.options)
        return writer.option("checkpointLocation", f"{self.work}/checkpoint").trigger(availableNow=True).start()


def body_of(number: int) -> str:
    """Long enough that rows do not wait for others on their way to a worker."""
    return str(number).rjust(1000, "0")


def dying(at: str, namesrv: str, topic: str) -> Callable[[str], str]:
    """Passes bodies on until this one; there it waits until a part of the batch is stored, and kills its process."""

    def pass_on(body: str) -> str:
        if body == at:
            from zenitmq import Admin
            from zenitmq.model.clock import monotonic_ms, sleep_ms

            deadline_ms = monotonic_ms() + 30_000
            with Admin(namesrv) as admin:
                while monotonic_ms() < deadline_ms:
                    if sum(row["max_offset"] for row in admin.describe_topic(topic)["queues"]) > ROWS:
                        break
                    sleep_ms(20)
            os.kill(os.getpid(), 9)
        return body

    return pass_on


@pytest.mark.parametrize("delivery", ["at-least-once", "dedup"])
def test_a_stream_whose_task_was_killed_and_whose_last_batch_comes_again(
    spark: SparkSession, cluster: LocalCluster, topic: str, files: str, tmp_path: Path, delivery: str
) -> None:
    run = Run(spark, cluster, files, tmp_path, topic=topic, delivery=delivery)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        with pytest.raises(PySparkException):
            run.start(dies_at=ROWS + 450).awaitTermination()
        stored = count_of(cluster.namesrv, topic)
        assert ROWS < stored < 2 * ROWS, "it died in the middle of a batch"
        run.start().awaitTermination()

        # the driver died behind the last batch, before it said that it was done
        commits = tmp_path / "checkpoint" / "commits"
        (commits / f"{FILES - 1}").unlink()
        (commits / f".{FILES - 1}.crc").unlink(missing_ok=True)
        run.start().awaitTermination()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    bodies = [message.body for message in messages_of(cluster.namesrv, topic)]
    assert set(bodies) == {body_of(n).encode() for n in range(FILES * ROWS)}
    if delivery == "dedup":
        assert not twice(bodies)
    else:
        assert len(twice(bodies)) == stored, "a part of the second batch, and all of the third"


def test_a_stream_from_topic_to_topic(
    spark: SparkSession,
    cluster: LocalCluster,
    topic: str,
    other: str,
    write: Callable[..., None],
    read_stream: Callable[..., DataStreamReader],
    tmp_path: Path,
) -> None:
    numbers = spark.range(0, 3000, 1, 2)
    write(
        numbers.selectExpr("cast(id AS STRING) AS body", "'buy' AS tags", "cast(id % 7 AS STRING) AS key"), topic=topic
    )
    stream = read_stream(maxOffsetsPerTrigger="1000").select("body", "tags", "keys", "messageGroup", "properties")
    writer = stream.writeStream.format("zenit").options(namesrv=cluster.namesrv, topic=other, delivery="dedup")
    writer.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start().awaitTermination()
    found = messages_of(cluster.namesrv, other)
    assert sorted(int(message.body) for message in found) == list(range(3000))
    assert {message.tags for message in found} == {"buy"}
    assert all(message.properties["__SHARDINGKEY"] == str(int(message.body) % 7) for message in found)


def test_a_stream_started_in_a_thread_that_was_given_the_session(
    spark: SparkSession,
    cluster: LocalCluster,
    topic: str,
    other: str,
    write: Callable[..., None],
    read_stream: Callable[..., DataStreamReader],
    tmp_path: Path,
) -> None:
    """docs/pipeline.md gives the line; without it Spark finds no source in Python there."""
    write(spark.range(10).selectExpr("cast(id AS STRING) AS body"), topic=topic)
    writer = read_stream().select("body").writeStream.format("zenit").options(namesrv=cluster.namesrv, topic=other)
    writer = writer.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True)

    def with_session() -> None:
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[attr-defined]
        writer.start().awaitTermination()

    with ThreadPoolExecutor(1) as thread, pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        thread.submit(writer.start).result()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(with_session).result()
    assert len(messages_of(cluster.namesrv, other)) == 10
