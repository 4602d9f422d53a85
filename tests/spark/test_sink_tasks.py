"""What one task of a write does, attempt by attempt, without a Spark around it: against a real broker."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType
from spark.sink_kit import messages_of, twice

from zenitmq import Admin
from zenitmq.client.administration.pipeline_calls import pipeline_calls
from zenitmq.model.errors import BatchOutdated, InvalidParameter, OptionRefused, TopicNotFound, UnwritableColumn
from zenitmq.pipeline.writing.batch_pins import pin_name
from zenitmq.pipeline.writing.sink import StreamWriter, TaskCounts, batch_writer, short_identity, stream_writer, summary
from zenitmq.testing import LocalCluster

SCHEMA = StructType([StructField("body", BinaryType()), StructField("messageGroup", StringType())])
COUNT = 3000


@dataclass
class Attempt:
    """What Spark tells a task."""

    query_id: str | None
    batch_id: int | None
    partition_id: int = 0
    speculation: str | None = None
    number: int = 0

    def getLocalProperty(self, key: str) -> str | None:
        batch_id = None if self.batch_id is None else str(self.batch_id)
        return {
            "sql.streaming.queryId": self.query_id,
            "streaming.sql.batchId": batch_id,
            "spark.speculation": self.speculation,
        }.get(key)

    def partitionId(self) -> int:
        return self.partition_id

    def attemptNumber(self) -> int:
        return self.number


class Stop(Exception):
    """The task is killed here."""


def batches(count: int, rows: int, *, groups: bool, stop_after: int | None = None, first: int = 0) -> Iterator[Any]:
    """The same rows each time, `rows` a batch. `stop_after`: so many batches are given, then the task dies."""
    schema = pa.schema([("body", pa.binary()), ("messageGroup", pa.string())])
    for number, begin in enumerate(range(first, first + count, rows)):
        if number == stop_after:
            raise Stop
        numbers = range(begin, min(begin + rows, first + count))
        bodies = [b"%07d" % n for n in numbers]
        names = [f"g{n % 11}" if groups and n % 5 else None for n in numbers]
        yield pa.record_batch([pa.array(bodies, pa.binary()), pa.array(names, pa.string())], schema=schema)


@pytest.fixture
def run_as(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_attempt(attempt: Attempt) -> None:
        monkeypatch.setattr(TaskContext, "get", staticmethod(lambda: attempt))

    return set_attempt


def writer_of(cluster: LocalCluster, topic: str, delivery: str) -> StreamWriter:
    return stream_writer({"namesrv": cluster.namesrv, "topic": topic, "delivery": delivery}, SCHEMA, False)


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("delivery", ["at-least-once", "dedup"])
def test_an_attempt_that_dies_is_repeated(
    cluster: LocalCluster, topic: str, run_as: Any, delivery: str, groups: bool
) -> None:
    """Rows are cut into other batches the second time, and the topic has got more queues meanwhile."""
    writer = writer_of(cluster, topic, delivery)
    query = secrets.token_hex(16)
    for batch_id in range(2):
        first = batch_id * COUNT
        run_as(Attempt(query, batch_id))
        with pytest.raises(Stop):
            writer.write(batches(COUNT, 700, groups=groups, stop_after=3, first=first))
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(topic, queues=7 + batch_id)
        counts = writer.write(batches(COUNT, 411, groups=groups, first=first))
        assert counts.rows == COUNT
        assert counts.body_bytes == 7 * COUNT
        known = counts.duplicates
        assert 0 < known <= 2100 if delivery == "dedup" else not known
    found = messages_of(cluster.namesrv, topic)
    bodies = [message.body for message in found]
    assert set(bodies) == {b"%07d" % n for n in range(2 * COUNT)}
    if delivery == "at-least-once":
        assert 0 < len(twice(bodies)) <= 2 * 2100, "or the test would show nothing"
        return
    assert not twice(bodies)
    assert {message.queue.queue_id for message in found} == set(range(4)), "queues are pinned"
    _assert_groups_in_order(found)


def _assert_groups_in_order(found: list[Any]) -> None:
    queues: dict[str, set[int]] = {}
    last: dict[str, bytes] = {}
    for message in found:
        group = message.properties.get("__SHARDINGKEY")
        if group is not None:
            queues.setdefault(group, set()).add(message.queue.queue_id)
            assert last.get(group, b"") < message.body
            last[group] = message.body
    assert all(len(ids) == 1 for ids in queues.values())


@pytest.mark.parametrize("delivery", ["at-least-once", "dedup"])
def test_a_topic_with_one_queue_keeps_the_order_of_a_task(cluster: LocalCluster, run_as: Any, delivery: str) -> None:
    """Requests that are under way at the same time would change places now and then."""
    topic = cluster.create_topic(f"one-{delivery}", queues=1)
    run_as(Attempt("q", 0))
    writer_of(cluster, topic, delivery).write(batches(40_000, 1000, groups=False))
    bodies = [message.body for message in messages_of(cluster.namesrv, topic)]
    assert bodies == [b"%07d" % number for number in range(40_000)]


def test_tasks_and_queries_are_told_apart(cluster: LocalCluster, topic: str, run_as: Any) -> None:
    writer = writer_of(cluster, topic, "dedup")
    for query in ("q1", "q2"):
        for partition_id in range(2):
            run_as(Attempt(query, 0, partition_id))
            assert writer.write(batches(10, 10, groups=False)).duplicates == 0
    assert len(messages_of(cluster.namesrv, topic)) == 40
    with pipeline_calls(cluster.namesrv) as calls:
        assert {pin_name("q1", topic), pin_name("q2", topic)} <= {row["query"] for row in calls.queries()}


def test_a_batch_of_a_data_frame_is_known_by_the_name_and_number_it_was_given(
    cluster: LocalCluster, topic: str, run_as: Any
) -> None:
    options = {"namesrv": cluster.namesrv, "topic": topic, "delivery": "dedup", "queryName": "n" * 100, "batchId": "7"}
    writer = batch_writer(options, SCHEMA, False)
    run_as(Attempt(None, None))
    assert writer.write(batches(20, 10, groups=False)).duplicates == 0
    assert writer.write(batches(20, 20, groups=False)).duplicates == 20
    later = batch_writer({**options, "batchId": "8"}, SCHEMA, False)
    assert later.write(batches(20, 20, groups=False)).duplicates == 0
    assert len(messages_of(cluster.namesrv, topic)) == 40


def test_batches_of_foreach_batch_are_those_of_their_stream(cluster: LocalCluster, topic: str, run_as: Any) -> None:
    """A new checkpoint counts batches from 0 again: under the same name its rows are other rows."""
    options = {"namesrv": cluster.namesrv, "topic": topic, "delivery": "dedup", "queryName": "copy", "batchId": "0"}
    writer = batch_writer(options, SCHEMA, False)
    run_as(Attempt("first-checkpoint", 0))
    assert writer.write(batches(20, 10, groups=False)).duplicates == 0
    assert writer.write(batches(20, 20, groups=False)).duplicates == 20, "the batch again"
    run_as(Attempt("second-checkpoint", 0))
    assert writer.write(batches(20, 10, groups=False, first=20)).duplicates == 0
    found = {message.body for message in messages_of(cluster.namesrv, topic)}
    assert found == {b"%07d" % number for number in range(40)}


def test_rows_that_are_routed_by_number_go_the_same_way_whatever_their_group(
    cluster: LocalCluster, topic: str, run_as: Any
) -> None:
    """By row the first 512 rows of a task go to one queue; by group these three would go to three."""
    options = {"namesrv": cluster.namesrv, "topic": topic, "delivery": "dedup", "queryName": "by-row", "batchId": "0"}
    writer = batch_writer({**options, "routeBy": "row"}, SCHEMA, False)
    schema = pa.schema([("body", pa.binary()), ("messageGroup", pa.string())])

    def rows(groups: list[str | None]) -> Iterator[Any]:
        bodies = [b"k%d" % number for number in range(len(groups))]
        yield pa.record_batch([pa.array(bodies, pa.binary()), pa.array(groups, pa.string())], schema=schema)

    run_as(Attempt("q", 0))
    assert writer.write(rows(["g0"])).duplicates == 0, "the first attempt ends here"
    assert writer.write(rows(["g0", "g1", "g2"])).duplicates == 1
    found = messages_of(cluster.namesrv, topic)
    assert [message.body for message in found] == [b"k0", b"k1", b"k2"]
    assert len({message.queue.queue_id for message in found}) == 1


def test_a_batch_that_is_older_than_what_was_written_is_refused(cluster: LocalCluster, topic: str, run_as: Any) -> None:
    """A checkpoint was set back: the batch of that number now has rows of later ones, which would count as written."""
    writer = writer_of(cluster, topic, "dedup")
    for batch_id in range(6):
        run_as(Attempt("set-back", batch_id))
        writer.write(batches(10, 10, groups=False, first=10 * batch_id))
    assert writer.write(batches(10, 10, groups=False, first=50)).duplicates == 10, "the last may come again"
    run_as(Attempt("set-back", 1))
    with pytest.raises(BatchOutdated, match=r"batch 1 of query 'set-back'.*comes after its batch 5"):
        writer.write(batches(60, 60, groups=False, first=10))
    assert len(messages_of(cluster.namesrv, topic)) == 60


def test_what_cannot_be_written_is_told(cluster: LocalCluster, topic: str, run_as: Any) -> None:
    options = {"namesrv": cluster.namesrv, "topic": topic}
    with pytest.raises(InvalidParameter, match="append"):
        batch_writer(options, SCHEMA, True)
    with pytest.raises(InvalidParameter, match="append or update"):
        stream_writer(options, SCHEMA, True)
    with pytest.raises(OptionRefused, match="queryName and batchId"):
        batch_writer({**options, "delivery": "dedup", "queryName": "q"}, SCHEMA, False)
    schema = StructType([*SCHEMA.fields, StructField("deliverTimestamp", TimestampType())])
    with pytest.raises(UnwritableColumn, match="deliverTimestamp"):
        stream_writer({**options, "delivery": "dedup"}, schema, False)
    run_as(Attempt("q", 0, speculation="true"))
    with pytest.raises(InvalidParameter, match=r"spark\.speculation"):
        writer_of(cluster, topic, "at-least-once").write(batches(1, 1, groups=False))
    run_as(Attempt(None, None))
    with pytest.raises(InvalidParameter, match=r"sql\.streaming\.queryId"):
        writer_of(cluster, topic, "dedup").write(batches(1, 1, groups=False))
    run_as(Attempt("q", 0))
    for delivery in ("at-least-once", "dedup"):
        for groups in (False, True):
            with pytest.raises(TopicNotFound):
                writer_of(cluster, "nowhere", delivery).write(batches(2, 2, groups=groups))
    assert messages_of(cluster.namesrv, topic) == []


def test_counts_of_tasks_are_put_together() -> None:
    counts = TaskCounts(rows=2, body_bytes=10, requests=1, duplicates=1)
    assert pickle.loads(pickle.dumps(counts)) == counts
    assert summary([None, counts, counts]) == "tasks=2 rows=4 body_bytes=20 requests=2 duplicates=2"


def test_a_long_name_stands_for_itself_by_its_hash() -> None:
    assert short_identity("x" * 64) == "x" * 64
    assert short_identity("x" * 65) != short_identity("x" * 66)
    assert len(short_identity("x" * 65)) == 32
