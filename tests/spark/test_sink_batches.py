"""A batch that comes again with delivery=dedup: with the same rows nothing changes, with others it is refused by name.

Attempt by attempt, without a Spark around it, against a real broker. Every test counts what is in the topic in the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from spark.sink_kit import messages_of
from spark.test_sink_tasks import Attempt

from zenitmq import Admin, Message, Producer
from zenitmq.client.administration.pipeline_calls import pipeline_calls
from zenitmq.client.connection.connection import connect, release
from zenitmq.client.connection.unique_ids import BornTime
from zenitmq.client.connection.waiting import Blocking, run_blocking
from zenitmq.client.sending.accumulators import new_accumulator
from zenitmq.model.errors import BatchChanged, BatchOutdated
from zenitmq.model.properties import SEQUENCE, UNIQUE_KEY, encode_properties
from zenitmq.model.queue import MessageQueue
from zenitmq.pipeline.writing import row_sends
from zenitmq.pipeline.writing.batch_pins import parse_pin, pin_name
from zenitmq.pipeline.writing.sink import BatchWriter, StreamWriter, TaskCounts, batch_writer, stream_writer
from zenitmq.pipeline.writing.written_rows import BATCHES_MAX
from zenitmq.remoting.commands import SendMessages
from zenitmq.testing import LocalCluster

SCHEMA = StructType([StructField("body", BinaryType()), StructField("messageGroup", StringType())])
ARROW = pa.schema([("body", pa.binary()), ("messageGroup", pa.string())])


class Query:
    """One query that writes to one topic, task by task. Each `attempt` is planned anew, as Spark does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, namesrv: str, topic: str) -> None:
        self._monkeypatch = monkeypatch
        self.options = {"namesrv": namesrv, "topic": topic, "delivery": "dedup"}
        self.name = f"query-of-{topic}"

    def attempt(self) -> StreamWriter:
        """A new plan of a batch."""
        return stream_writer(self.options, SCHEMA, False)

    def run(
        self,
        writer: StreamWriter | BatchWriter,
        batch_id: int,
        rows: Sequence[str],
        *,
        task: int = 0,
        number: int = 0,
        groups: bool = False,
        topics: Sequence[str] = (),
        pieces: int = 1,
    ) -> TaskCounts:
        """One task, which may have been meant to write more. `groups`: each row has one of its own. `topics`: of each row.
        `pieces`: that the rows come in."""

        def batches() -> Iterator[pa.RecordBatch]:
            names = list(rows) if groups else [None] * len(rows)
            bodies = pa.array([row.encode() for row in rows], pa.binary())
            batch = pa.record_batch([bodies, pa.array(names, pa.string())], schema=ARROW)
            whole = batch.append_column("topic", pa.array(topics, pa.string())) if topics else batch
            for number in range(pieces):
                begin, end = (len(rows) * at // pieces for at in (number, number + 1))
                yield whole.slice(begin, end - begin)

        spark_says = Attempt(self.name, batch_id, task, number=number)
        self._monkeypatch.setattr(TaskContext, "get", staticmethod(lambda: spark_says))
        return writer.write(batches())


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch, cluster: LocalCluster, topic: str) -> Query:
    return Query(monkeypatch, cluster.namesrv, topic)


def numbered(begin: int, end: int) -> list[str]:
    return [f"row-{number:05d}" for number in range(begin, end)]


def stored(cluster: LocalCluster, topic: str) -> list[str]:
    """All bodies, sorted; twice what is there twice."""
    return sorted(message.body.decode() for message in messages_of(cluster.namesrv, topic))


@pytest.mark.parametrize("groups", [False, True])
def test_the_same_rows_change_nothing_however_often_they_come(
    query: Query, cluster: LocalCluster, topic: str, groups: bool
) -> None:
    rows = numbered(0, 1500)
    query.run(query.attempt(), 0, rows[:700], groups=groups)
    query.run(query.attempt(), 0, rows[:1100], groups=groups)
    writer = query.attempt()
    counts = query.run(writer, 0, rows, groups=groups)
    assert counts.duplicates == 1100
    writer.commit([counts], 0)
    assert stored(cluster, topic) == rows
    again = query.attempt()
    counts = query.run(again, 0, rows, groups=groups)
    assert counts.duplicates == counts.rows == 1500
    again.commit([counts], 0)
    assert stored(cluster, topic) == rows


@pytest.mark.parametrize(
    "second",
    [
        numbered(3, 10),  # its first rows expired, or were passed over, before the second attempt
        ["row-00000", "row-00002", *numbered(3, 10)],
        ["row-00000", "another", *numbered(2, 10)],
        numbered(100, 110),  # another checkpoint under the same id
    ],
    ids=["first rows gone", "one gone", "one changed", "all others"],
)
@pytest.mark.parametrize("is_same_attempt", [False, True])
def test_other_rows_are_refused_before_one_is_written(
    query: Query, cluster: LocalCluster, topic: str, second: list[str], is_same_attempt: bool
) -> None:
    """Numbered anew they would pass for those that were written, and the query would end well without them."""
    writer = query.attempt()
    query.run(writer, 7, numbered(0, 5))
    writer = writer if is_same_attempt else query.attempt()
    with pytest.raises(BatchChanged, match=r"batch 7 of query 'query-of-.*is repeated with other rows.*of task 0 in"):
        query.run(writer, 7, second, number=int(is_same_attempt))
    assert stored(cluster, topic) == numbered(0, 5)


def test_fewer_rows_than_were_written_are_refused(query: Query, cluster: LocalCluster, topic: str) -> None:
    """All that come are known, but what else was written would be there twice once another task brings it."""
    query.run(query.attempt(), 1, numbered(0, 50))
    writer = query.attempt()
    counts = [query.run(writer, 1, numbered(0, 33)), query.run(writer, 1, numbered(33, 66), task=1)]
    with pytest.raises(BatchChanged, match="task 0 has 50 rows in the topics, and 33 come now"):
        writer.commit(counts, 1)


def test_rows_of_a_task_that_is_no_more_are_refused(query: Query, cluster: LocalCluster, topic: str) -> None:
    """Three partitions, then two: nobody asks for what the third wrote."""
    writer = query.attempt()
    query.run(writer, 1, numbered(66, 100), task=2)
    writer = query.attempt()
    counts = [query.run(writer, 1, numbered(0, 50)), query.run(writer, 1, numbered(50, 100), task=1)]
    with pytest.raises(BatchChanged, match="task 2 has 34 rows in the topics, and 0 come now"):
        writer.commit(counts, 1)


def test_rows_of_a_batch_that_is_empty_when_it_comes_again_are_refused(
    query: Query, cluster: LocalCluster, topic: str
) -> None:
    """All rows expired, say: no task has a row, and none looks at what is there."""
    query.run(query.attempt(), 1, numbered(0, 50))
    writer = query.attempt()
    with pytest.raises(BatchChanged, match="task 0 has 50 rows in the topics, and 0 come now"):
        writer.commit([query.run(writer, 1, [])], 1)
    options = query.options | {"queryName": "daily", "batchId": "7"}
    query.run(batch_writer(options, SCHEMA, False), 0, numbered(50, 60))
    batch = batch_writer(options, SCHEMA, False)
    with pytest.raises(BatchChanged, match="task 0 has 10 rows in the topics, and 0 come now"):
        batch.commit([query.run(batch, 0, [])])


def test_rows_in_a_topic_that_a_stream_does_not_write_any_more_are_refused(
    query: Query, cluster: LocalCluster, topic: str
) -> None:
    other = f"{topic}-2"
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(other, queues=1)
    query.run(query.attempt(), 1, numbered(0, 5))
    query.options["topic"] = other
    writer = query.attempt()
    with pytest.raises(BatchChanged, match="task 0 has 10 rows in the topics, and 5 come now"):
        writer.commit([query.run(writer, 1, numbered(0, 5))], 1)


def test_more_partitions_are_no_harm_where_what_was_written_stays_where_it_was(
    query: Query, cluster: LocalCluster, topic: str
) -> None:
    query.run(query.attempt(), 1, numbered(0, 20))
    writer = query.attempt()
    counts = [query.run(writer, 1, numbered(at, at + 33), task=at // 33) for at in (0, 33, 66)]
    writer.commit(counts, 1)
    assert stored(cluster, topic) == numbered(0, 99)


@pytest.mark.parametrize("back_to", [4, 3, 1, 0])
def test_a_checkpoint_that_was_set_back_is_refused_however_few_batches(
    query: Query, cluster: LocalCluster, topic: str, back_to: int
) -> None:
    """Its batch begins with the rows that the batch of that number had, and goes on with those of later ones."""
    for batch_id in range(6):
        writer = query.attempt()
        writer.commit([query.run(writer, batch_id, numbered(10 * batch_id, 10 * batch_id + 10))], batch_id)
    with pytest.raises(BatchOutdated, match=rf"batch {back_to} of query .* comes after its batch 5"):
        query.run(query.attempt(), back_to, numbered(10 * back_to, 60))
    assert stored(cluster, topic) == numbered(0, 60)


@pytest.mark.parametrize("task", [0, 1], ids=["of a task that wrote", "of another task"])
def test_nothing_new_comes_of_a_batch_that_is_whole(query: Query, cluster: LocalCluster, topic: str, task: int) -> None:
    """A copy of the checkpoint begins with the same rows; those behind them are the next batch's of the query itself."""
    writer = query.attempt()
    writer.commit([query.run(writer, 3, numbered(0, 10))], 3)
    copy = query.attempt()
    with pytest.raises(BatchChanged, match=f"it was written whole, and task {task} has more rows for "):
        query.run(copy, 3, numbered(10 * task, 30), task=task)
    writer = query.attempt()
    writer.commit([query.run(writer, 4, numbered(10, 30))], 4)
    assert stored(cluster, topic) == numbered(0, 30)


def test_of_two_that_write_one_batch_at_once_the_one_with_other_rows_is_refused(
    query: Query, cluster: LocalCluster, topic: str
) -> None:
    """It began before the first one was done: its rows are there, but it does not end well."""
    first, second = query.attempt(), query.attempt()
    counts = query.run(first, 3, numbered(0, 10))
    more = query.run(second, 3, numbered(0, 30))
    first.commit([counts], 3)
    with pytest.raises(BatchChanged, match="it was written whole with 10 rows, and 30 were written now"):
        second.commit([more], 3)


def test_an_attempt_that_was_slower_with_the_same_rows_ends_well(
    query: Query, cluster: LocalCluster, topic: str
) -> None:
    first, second = query.attempt(), query.attempt()
    counts = [query.run(writer, 3, numbered(0, 10)) for writer in (first, second)]
    second.commit([counts[1]], 3)
    first.commit([counts[0]], 3)
    assert stored(cluster, topic) == numbered(0, 10)


def test_a_batch_of_a_stream_is_whole_in_all_topics(query: Query, cluster: LocalCluster, topic: str) -> None:
    """Rows that come later of it may be for a topic that it has not written."""
    other = f"{topic}-2"
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(other, queues=1)
    writer = query.attempt()
    writer.commit([query.run(writer, 3, numbered(0, 10))], 3)
    query.options["topic"] = other
    with pytest.raises(BatchChanged, match="it was written whole"):
        query.run(query.attempt(), 3, numbered(10, 20))
    assert stored(cluster, other) == []


def test_a_batch_may_go_to_several_topics_one_after_another(query: Query, cluster: LocalCluster, topic: str) -> None:
    """As foreachBatch does with several writes under one name and number."""
    other = f"{topic}-2"
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(other, queues=1)
    for name in (topic, other):
        for _ in range(2):
            options = query.options | {"queryName": "both", "batchId": "0", "topic": name}
            writer = batch_writer(options, SCHEMA, False)
            writer.commit([query.run(writer, 0, numbered(0, 5))])
    assert stored(cluster, topic) == stored(cluster, other) == numbered(0, 5)


def test_rows_that_name_their_topics_are_told_apart_from_another_write_of_the_same_batch(
    query: Query, cluster: LocalCluster, topic: str
) -> None:
    """foreachBatch with two writes under one name and number, and again after a restart."""
    names = [f"{topic}-2", f"{topic}-3"]
    with Admin(cluster.namesrv) as admin:
        for name in names:
            admin.create_topic(name, queues=1)
    options = query.options | {"queryName": "both", "batchId": "0"}
    by_row = {name: value for name, value in options.items() if name != "topic"}
    for _ in range(2):
        writer = batch_writer(options, SCHEMA, False)
        writer.commit([query.run(writer, 0, numbered(0, 5))])
        writer = batch_writer(by_row, StructType([*SCHEMA.fields, StructField("topic", StringType())]), False)
        writer.commit([query.run(writer, 0, numbered(5, 9), topics=names * 2)])
    assert stored(cluster, topic) == numbered(0, 5)
    assert [stored(cluster, name) for name in names] == [["row-00005", "row-00007"], ["row-00006", "row-00008"]]


def test_a_batch_is_written_to_a_topic_once(
    query: Query, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes of one foreachBatch under one name and number: the second would count as written."""
    options = query.options | {"queryName": "twice", "batchId": "0"}
    query.run(batch_writer(options, SCHEMA, False), 0, numbered(0, 5))
    with pytest.raises(BatchChanged, match="batch 0 of query 'twice/query-of-"):
        query.run(batch_writer(options, SCHEMA, False), 0, numbered(5, 10))
    assert stored(cluster, topic) == numbered(0, 5)


def test_what_others_write_to_the_queues_does_not_matter(query: Query, cluster: LocalCluster, topic: str) -> None:
    query.run(query.attempt(), 0, numbered(0, 5))
    other = Query(pytest.MonkeyPatch(), cluster.namesrv, topic)
    other.name = query.name + "-2"
    with Producer(namesrv=cluster.namesrv, group="g", idempotent=True) as producer:
        for _ in range(20):
            producer.send(Message(topic, b"other"))
    query.run(other.attempt(), 0, numbered(0, 2))
    writer = query.attempt()
    counts = query.run(writer, 0, numbered(0, 10))
    assert counts.duplicates == 5
    writer.commit([counts], 0)
    assert [body for body in stored(cluster, topic) if body != "other"] == numbered(0, 10)


def test_what_only_says_that_it_is_a_row_of_the_batch_is_none(query: Query, cluster: LocalCluster, topic: str) -> None:
    """A client that copies a message with all its properties sends such; that a record is of a sequence the broker says."""
    query.run(query.attempt(), 0, numbered(0, 5))
    for row in messages_of(cluster.namesrv, topic):
        producer_id, _, number = row.properties[SEQUENCE].rpartition(":")
        copied = {name: value for name, value in row.properties.items() if name != UNIQUE_KEY}
        forged = {SEQUENCE: f"{producer_id}:{int(number, 16) + 5:016x}"}
        send_plainly(cluster.namesrv, row.queue, b"forged", encode_properties(copied | forged))
        send_plainly(cluster.namesrv, row.queue, b"copied", encode_properties(copied))
    writer = query.attempt()
    counts = query.run(writer, 0, numbered(0, 10))
    assert counts.duplicates == 5
    writer.commit([counts], 0)
    assert [body for body in stored(cluster, topic) if body.startswith("row")] == numbered(0, 10)


def send_plainly(namesrv: str, queue: MessageQueue, body: bytes, properties: bytes) -> None:
    """As another client may: with properties that a producer of ours refuses."""
    connection = connect(namesrv)
    waits = Blocking(connection.remoting)
    run_blocking(connection.routes.route(queue.topic, waits, timeout_ms=5000))
    address = connection.routes.address_of(queue.topic, queue.broker_name)
    accumulator = new_accumulator(connection, queue.topic, 4096, address)
    accumulator.begin(*BornTime().read())
    assert accumulator.append(body, None, None, properties, 0, 0)
    records, used, *_ = accumulator.swap(bytearray(4096))
    request = SendMessages(queue.topic, queue.queue_id, 1, "g")
    run_blocking(waits.call(address, request, bytes(memoryview(records)[:used]), timeout_ms=5000))
    run_blocking(release(connection, waits))


def test_a_broker_that_forgot_the_task_stores_nothing_twice(
    query: Query, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are in the log for longer than their producer is in the broker's memory; a name it never heard is as good."""
    query.run(query.attempt(), 0, numbered(0, 5))
    monkeypatch.setattr(row_sends, "producer_name", lambda identity, task: f"spark/unheard-of-{identity}/{task}")
    writer = query.attempt()
    assert query.run(writer, 0, numbered(0, 10)).duplicates == 5
    assert stored(cluster, topic) == numbered(0, 10)


def test_of_however_many_topics_what_was_written_is_known(
    query: Query, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a process remembers between tasks."""
    names = [f"{topic}-{number}" for number in range(BATCHES_MAX + 2)]
    with Admin(cluster.namesrv) as admin:
        for name in names:
            admin.create_topic(name, queues=1)
    del query.options["topic"]
    rows, topics = numbered(0, 2 * len(names)), names * 2

    def attempt() -> TaskCounts:
        writer = stream_writer(query.options, StructType([*SCHEMA.fields, StructField("topic", StringType())]), False)
        counts = query.run(writer, 0, rows, topics=topics, pieces=2)
        writer.commit([counts], 0)
        return counts

    attempt()
    monkeypatch.setattr(row_sends, "producer_name", lambda identity, task: f"spark/unheard-of-{identity}/{task}")
    assert attempt().duplicates == len(rows)
    assert [len(stored(cluster, name)) for name in names] == [2] * len(names)


def test_a_topic_that_was_made_anew_is_written_with_the_next_batch(
    query: Query, cluster: LocalCluster, topic: str
) -> None:
    """To the queues that it has now; a batch of which the old one had rows is refused."""
    query.run(query.attempt(), 0, numbered(0, 2000))
    with Admin(cluster.namesrv) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=2)
    with pytest.raises(BatchChanged, match=f"topic {topic} was deleted and made again since it began"):
        query.run(query.attempt(), 0, numbered(0, 2000))
    assert stored(cluster, topic) == []
    writer = query.attempt()
    writer.commit([query.run(writer, 1, numbered(0, 2000))], 1)
    assert stored(cluster, topic) == numbered(0, 2000)
    assert {message.queue.queue_id for message in messages_of(cluster.namesrv, topic)} == {0, 1}


def test_a_pin_of_an_older_version_is_taken_over(query: Query, cluster: LocalCluster, topic: str) -> None:
    """It tells of queues alone: what its batch wrote may lie anywhere, and is found all the same."""
    query.run(query.attempt(), 0, numbered(0, 5))
    name = pin_name(query.name, topic)
    with pipeline_calls(cluster.namesrv) as calls:
        pin = json.loads(calls.query_offsets(name) or "")
        calls.drop_query_offsets(name)
        calls.keep_query_offsets(name, json.dumps({"queues": pin["queues"]}))
    writer = query.attempt()
    counts = query.run(writer, 0, numbered(0, 10))
    assert counts.duplicates == 5
    writer.commit([counts], 0)
    with pipeline_calls(cluster.namesrv) as calls:
        assert parse_pin(topic, calls.query_offsets(name) or "").batch == 0
    assert stored(cluster, topic) == numbered(0, 10)
