"""Topics read as batches by a real Spark, row by row against what a consumer sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from spark.spark_kit import expected_row, place, send, stored, utc

from zenitmq import Message, Producer
from zenitmq.model.clock import now_ms
from zenitmq.pipeline.column_names import COLUMN_NAMES
from zenitmq.testing import LocalCluster

Read = Callable[..., DataFrame]
COUNT = 200


def test_every_column_of_every_row(cluster: LocalCluster, topic: str, read: Read) -> None:
    send(cluster.namesrv, topic, COUNT)
    with Producer(namesrv=cluster.namesrv) as producer:
        producer.send(
            Message(topic, "größer".encode() * 2000, properties={"traceparent": "00-aa-bb-01"}), sharding_key="u7"
        )
    messages = stored(cluster.namesrv, topic, COUNT + 1)
    frame = read()
    assert frame.columns == list(COLUMN_NAMES)
    rows = {place(row): row.asDict() for row in frame.collect()}
    assert rows.keys() == messages.keys()
    for where, message in messages.items():
        expected = expected_row(message)
        expected["traceparent"] = message.properties.get("traceparent")
        assert rows[where] == expected


def test_only_what_is_asked_for_is_there(cluster: LocalCluster, topic: str, read: Read) -> None:
    bodies = send(cluster.namesrv, topic, COUNT)
    assert read(columns="queueOffset,body").columns == ["queueOffset", "body"]
    assert sorted(bytes(row.body) for row in read(columns="body").collect()) == sorted(bodies)
    assert "body" not in read(includeBody="false").columns
    assert read(includeBody="false").count() == COUNT


def test_a_schema_of_the_user_s_own(spark: SparkSession, cluster: LocalCluster, topic: str) -> None:
    send(cluster.namesrv, topic, 5)
    reader = spark.read.format("zenit").options(namesrv=cluster.namesrv, subscribe=topic)
    rows = reader.schema("flag INT, topic STRING").load().collect()
    assert [row.asDict().keys() for row in rows] == [{"flag", "topic"}] * 5
    with pytest.raises(PySparkException, match="flag int"):
        reader.schema("flag STRING").load().collect()


def test_an_empty_topic_has_no_rows(read: Read) -> None:
    assert read().collect() == []


def test_ranges_are_split_and_nothing_is_lost_or_twice(cluster: LocalCluster, topic: str, read: Read) -> None:
    bodies = send(cluster.namesrv, topic, COUNT)
    frame = read(minPartitions="7", maxRecordsPerPartition="40")
    assert frame.rdd.getNumPartitions() >= 7
    assert sorted(bytes(row.body) for row in frame.collect()) == sorted(bodies)


def test_offsets_say_what_is_read(cluster: LocalCluster, topic: str, read: Read) -> None:
    send(cluster.namesrv, topic, COUNT)
    messages = stored(cluster.namesrv, topic, COUNT)
    broker = next(iter(messages))[1]
    ends = {str(queue): max(where[3] for where in messages if where[2] == queue) + 1 for queue in range(4)}
    starting = {topic: {broker: dict.fromkeys(ends, 3)}}
    ending = {topic: {broker: {**ends, "0": -1, "1": 5}}}
    rows = read(startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending)).collect()
    expected = {where for where in messages if where[3] >= 3 and (where[2] != 1 or where[3] < 5)}
    assert {place(row) for row in rows} == expected
    assert len(rows) == len(expected)


def test_single_queues_and_patterns(cluster: LocalCluster, topic: str, read: Read) -> None:
    send(cluster.namesrv, topic, 40)
    broker = cluster.brokers[0]
    assert {row.queueId for row in read(assign=json.dumps({topic: {broker: [1, 3]}})).collect()} == {1, 3}
    assert read(subscribePattern=f"{topic[:-1]}.").count() == 40
    assert read(subscribePattern=topic[:-1]).count() == 0


def test_times_say_what_is_read(cluster: LocalCluster, topic: str, read: Read) -> None:
    send(cluster.namesrv, topic, 40)
    between_ms = now_ms() + 2
    while now_ms() <= between_ms:
        pass
    later = send(cluster.namesrv, topic, 40, first=40)
    rows = read(startingTimestamp=str(between_ms)).collect()
    assert sorted(bytes(row.body) for row in rows) == later
    assert read(endingTimestamp=str(between_ms)).count() == 40
    assert read(startingTimestamp=str(now_ms() + 60_000), startingOffsetsByTimestampStrategy="latest").count() == 0
    with pytest.raises(PySparkException, match="startingOffsetsByTimestampStrategy=latest"):
        read(startingTimestamp=str(now_ms() + 60_000)).collect()


def test_filters_are_evaluated_at_the_broker(cluster: LocalCluster, topic: str, read: Read) -> None:
    send(cluster.namesrv, topic, COUNT)
    assert {row.tags for row in read(filter="odd || none").collect()} == {"odd"}
    assert read(filter="odd").count() == COUNT // 2
    assert read(sqlFilter="number < 10 AND TAGS = 'even'").count() == 5


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("queueId = 2", lambda row: row["queueId"] == 2),
        ("queueId IN (0, 3) AND queueOffset >= 5", lambda row: row["queueId"] in (0, 3) and row["queueOffset"] >= 5),
        ("queueOffset > 5 AND queueOffset <= 9", lambda row: 5 < row["queueOffset"] <= 9),
        ("queueOffset < 4 OR queueId = 1", lambda row: row["queueOffset"] < 4 or row["queueId"] == 1),
        ("tags = 'odd'", lambda row: row["tags"] == "odd"),
        ("tags IN ('odd', '*')", lambda row: row["tags"] == "odd"),
        ("topic = 'another'", lambda row: False),
        ("NOT queueId = 2", lambda row: row["queueId"] != 2),
        ("keys LIKE 'k1%'", lambda row: (row["keys"] or "").startswith("k1")),
    ],
)
def test_pushed_filters_change_no_result(
    cluster: LocalCluster, filled: dict, read: Read, condition: str, expected: Callable
) -> None:
    topic, rows = filled["topic"], filled["rows"]
    wanted = {where for where, row in rows.items() if expected(row)}
    for pushdown in ("true", "false"):
        frame = read(subscribe=topic, pushdown=pushdown, columns="topic,broker,queueId,queueOffset,keys,tags")
        assert {place(row) for row in frame.where(condition).collect()} == wanted


@pytest.fixture(scope="module")
def filled(cluster: LocalCluster) -> dict:
    """A topic whose rows are known."""
    topic = cluster.create_topic("filled")
    send(cluster.namesrv, topic, COUNT)
    return {
        "topic": topic,
        "rows": {where: expected_row(message) for where, message in stored(cluster.namesrv, topic, COUNT).items()},
    }


def test_a_pushed_time_changes_no_result(cluster: LocalCluster, filled: dict, read: Read) -> None:
    moments = sorted(row["storeTimestamp"] for row in filled["rows"].values())
    middle: datetime = moments[len(moments) // 2]
    frame = read(subscribe=filled["topic"], pushdown="true")
    assert frame.where(col("storeTimestamp") >= middle).count() == sum(moment >= middle for moment in moments)
    assert frame.where(col("storeTimestamp") < middle).count() == sum(moment < middle for moment in moments)
    assert frame.where(col("storeTimestamp") > utc(now_ms()) + timedelta(days=1)).count() == 0


def test_pushed_offsets_are_not_read_at_all(filled: dict, read: Read) -> None:
    frame = read(subscribe=filled["topic"], pushdown="true", columns="queueId,queueOffset", maxRecordsPerPartition="1")
    assert frame.where("queueId = 1 AND queueOffset < 7").rdd.getNumPartitions() == 7


# ---- what goes wrong is one clear line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscibe": "t"}, "did you mean subscribe"),
        ({"tls.ca": "x"}, "no TLS"),
        ({"subscribe": "nobody-made-this"}, "zenit topic create nobody-made-this"),
        ({"startingOffsets": '{"t": {"b": {"0": 5}}}'}, "is not named"),
        ({"maxOffsetsPerTrigger": "5"}, "is for streams"),
        ({"namesrv": "127.0.0.1:1", "requestTimeoutMs": "500"}, "127.0.0.1:1"),
    ],
)
def test_bad_input_is_told_in_the_driver(read: Read, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        read(**options).collect()


def test_offsets_out_of_range(cluster: LocalCluster, topic: str, read: Read) -> None:
    send(cluster.namesrv, topic, 8)
    offsets = {topic: {cluster.brokers[0]: {"0": 1000, "1": 0, "2": 0, "3": 0}}}
    with pytest.raises(PySparkException, match=r"offset 1000 of .* is outside"):
        read(endingOffsets=json.dumps(offsets)).collect()
    ends = {topic: {cluster.brokers[0]: dict.fromkeys("0123", 0)}}
    starts = {topic: {cluster.brokers[0]: {"0": 1, "1": 0, "2": 0, "3": 0}}}
    with pytest.raises(PySparkException, match="is beyond end"):
        read(startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends)).collect()
