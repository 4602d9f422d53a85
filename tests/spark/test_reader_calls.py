"""What Spark calls on the driver, called as Spark does, against a real cluster and without Spark: where, how far, what."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from spark.spark_kit import send

from zenitmq import Admin
from zenitmq.client.administration.pipeline_calls import PipelineCalls
from zenitmq.model.clock import now_ms
from zenitmq.model.errors import (
    ConnectionLost,
    DataLost,
    NoRoute,
    OffsetsBackwards,
    OffsetsIncomplete,
    RequestTimeout,
    TopicNotFound,
    TopicReplaced,
    ZenitError,
)
from zenitmq.pipeline.options.options import ReadOptions
from zenitmq.pipeline.reading.batch_reader import BatchReader
from zenitmq.pipeline.reading.offsets import Offsets, QueueKey, document_of, offsets_of, row_count
from zenitmq.pipeline.reading.stream_reader import StreamReader
from zenitmq.pipeline.session.connections import connection
from zenitmq.pipeline.source import ZenitDataSource
from zenitmq.testing import LocalCluster

NewReader = Callable[..., StreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def new_reader(cluster: LocalCluster, topic: str) -> NewReader:
    def make(**options: Any) -> StreamReader:
        given = {"namesrv": cluster.namesrv, "subscribe": topic, "startingOffsets": "earliest"} | options
        told = {name.lower(): str(value) for name, value in given.items() if value is not None}
        return StreamReader(ReadOptions.parse(told).for_stream())

    return make


def rows_between(start: dict, end: dict) -> int:
    return row_count(offsets_of(start), offsets_of(end))


def read_all(reader: Any, partitions: list) -> list[bytes]:
    return [body for item in partitions for batch in reader.read(item) for body in batch.column("body").to_pylist()]


def test_batches_go_from_offset_to_offset(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    assert reader.reportLatestOffset() is None
    bodies = send(cluster.namesrv, topic, 100)
    end = reader.latestOffset(start, ALL)
    assert rows_between(start, end) == 100
    assert reader.reportLatestOffset() == end
    assert sorted(read_all(reader, reader.partitions(start, end))) == bodies
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []


def test_offsets_are_plain_and_sorted(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    send(cluster.namesrv, topic, 100)
    reader = new_reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert list(end[topic][cluster.brokers[0]]) == ["0", "1", "2", "3", "incarnation"]
    assert json.loads(json.dumps(end)) == end
    assert all(type(offset) is int for offset in end[topic][cluster.brokers[0]].values())


def test_trap_the_beginning_is_the_same_in_a_run(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    reader = new_reader(startingOffsets="latest")
    with pytest.warns(UserWarning, match="queryName"):
        first = reader.initialOffset()
    send(cluster.namesrv, topic, 10)
    assert reader.initialOffset() == first


def test_trap_the_beginning_is_kept_at_the_broker_by_name(
    cluster: LocalCluster, topic: str, new_reader: NewReader, recwarn: pytest.WarningsRecorder
) -> None:
    named = {"startingOffsets": "latest", "queryName": f"q-{topic}"}
    first = new_reader(**named).initialOffset()
    send(cluster.namesrv, topic, 10)
    assert new_reader(**named).initialOffset() == first
    with pytest.warns(UserWarning, match="queryName"):
        unnamed = new_reader(startingOffsets="latest").initialOffset()
    assert rows_between(first, unnamed) == 10
    assert len(recwarn) == 0, "one that is named has nothing to warn of"


def test_trap_a_start_beyond_the_end_is_an_error(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    """The write-ahead log says end 105, and the source, asked again, says start 110: Spark would read on from 105."""
    send(cluster.namesrv, topic, 20)
    reader = new_reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    beyond = document_of({key: offset + 1 for key, offset in offsets_of(end).items()})
    with pytest.raises(OffsetsBackwards, match="queryName"):
        reader.partitions(beyond, end)


def test_trap_readers_travel_after_they_were_used(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    bodies = send(cluster.namesrv, topic, 30)
    stream = new_reader()
    start = stream.initialOffset()
    partitions = stream.partitions(start, stream.latestOffset(start, ALL))
    batch = BatchReader(ReadOptions.parse({"namesrv": cluster.namesrv, "subscribe": topic}).for_batch())
    for reader, items in ((stream, partitions), (batch, batch.partitions())):
        there, ranges = pickle.loads(pickle.dumps((reader, items)))
        assert sorted(read_all(there, ranges)) == bodies
        assert sorted(read_all(there, ranges)) == bodies, "trap: a range is read twice where a task is tried again"


def test_trap_tasks_of_one_process_share_a_connection(cluster: LocalCluster) -> None:
    with connection(cluster.namesrv, "") as first:
        PipelineCalls(first).queries()
    with connection(cluster.namesrv, first.remoting.cluster_id) as second:
        assert first is second


def test_limits(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    send(cluster.namesrv, topic, 100, body_bytes=1000)
    for options, limit in (
        ({}, ALL),
        ({"maxOffsetsPerTrigger": 20}, ReadMaxRows(20)),
        ({"maxBytesPerTrigger": "24k"}, ReadMaxBytes(24 << 10)),
        ({"minOffsetsPerTrigger": 101}, ReadMinRows(101)),
    ):
        reader = new_reader(**options)
        assert reader.getDefaultReadLimit() == limit
        start = reader.initialOffset()
        rows = rows_between(start, reader.latestOffset(start, limit))
        assert rows == {"ReadAllAvailable": 100, "ReadMaxRows": 20, "ReadMinRows": 0}.get(type(limit).__name__, rows)
        assert rows <= 24 or isinstance(limit, ReadAllAvailable)
        assert rows_between(start, reader.latestOffset(start, ALL)) == 100, "a trigger that takes all has no limits"


def test_a_minimum_is_not_waited_for_longer_than_told(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    send(cluster.namesrv, topic, 5)
    reader = new_reader(minOffsetsPerTrigger=100, maxTriggerDelay="1ms")
    start = reader.initialOffset()
    begun_ms = now_ms()
    while now_ms() <= begun_ms + 1:
        pass
    assert rows_between(start, reader.latestOffset(start, ReadMinRows(100))) == 5


def test_a_run_that_ends_stops_at_what_was_there(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    send(cluster.namesrv, topic, 50)
    reader = new_reader(maxOffsetsPerTrigger=20, minOffsetsPerTrigger=15)
    reader.prepareForTriggerAvailableNow()
    send(cluster.namesrv, topic, 50, first=50)
    at, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(at, ReadMaxRows(20))) != at:
        sizes.append(rows_between(at, end))
        at = end
    assert sizes == [20, 20, 10]


def test_new_queues_are_picked_up_from_their_first_message(
    cluster: LocalCluster, topic: str, new_reader: NewReader
) -> None:
    reader = new_reader(startingOffsets="latest", queryName=f"new-{topic}")
    start = reader.initialOffset()
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(topic, queues=8)
    bodies = send(cluster.namesrv, topic, 160)
    end = reader.latestOffset(start, ALL)
    assert {key.queue_id for key in offsets_of(end)} == set(range(8))
    assert sorted(read_all(reader, reader.partitions(start, end))) == bodies


def test_new_topics_of_a_pattern_are_picked_up(cluster: LocalCluster, topic: str) -> None:
    options = {"namesrv": cluster.namesrv, "subscribepattern": f"{topic}.*", "startingoffsets": "earliest"}
    reader = StreamReader(ReadOptions.parse(options).for_stream())
    start = reader.initialOffset()
    bodies = send(cluster.namesrv, cluster.create_topic(f"{topic}-more"), 20)
    end = reader.latestOffset(start, ALL)
    assert sorted(read_all(reader, reader.partitions(start, end))) == bodies


def test_a_queue_that_is_not_read_any_more_stays_where_it_is(
    cluster: LocalCluster, topic: str, new_reader: NewReader
) -> None:
    send(cluster.namesrv, topic, 20)
    first = new_reader().latestOffset({}, ALL)
    send(cluster.namesrv, topic, 20, first=20)
    fewer = new_reader(assign=json.dumps({topic: {cluster.brokers[0]: [0]}}), subscribe=None)
    end = offsets_of(fewer.latestOffset(first, ALL))
    assert {key.queue_id for key, offset in end.items() if offset != offsets_of(first)[key]} == {0}


def held(reader: StreamReader, minimum: Offsets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes it look as if rows had expired."""
    look = reader._positions.look

    def looked(known: Any = ()) -> Any:
        found = look(known)
        return type(found)(found.minimum | minimum, found.end)

    monkeypatch.setattr(reader._positions, "look", looked)


def test_rows_that_expired_are_an_error_or_counted(
    cluster: LocalCluster,
    topic: str,
    new_reader: NewReader,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    send(cluster.namesrv, topic, 100)
    for fail in ("true", "false"):
        reader = new_reader(failOnDataLoss=fail)
        start, end = reader.initialOffset(), reader.latestOffset(reader.initialOffset(), ALL)
        key = next(iter(offsets_of(end)))
        held(reader, {key: 3}, monkeypatch)
        if fail == "true":
            with pytest.raises(DataLost, match="failOnDataLoss"):
                reader.partitions(start, end)
            continue
        with caplog.at_level(logging.WARNING):
            ranges = [item.value for item in reader.partitions(start, end)]
        assert sum(item.rows for item in ranges) == 97
        assert f"queue={key} rows=3" in caplog.text


def test_a_queue_that_was_made_anew_is_a_loss(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    send(cluster.namesrv, topic, 20)
    end = new_reader().latestOffset({}, ALL)
    beyond = document_of({key: offset + 5 for key, offset in offsets_of(end).items()})
    with pytest.raises(DataLost):
        new_reader().latestOffset(beyond, ALL)
    waiting = new_reader(failOnDataLoss="false").latestOffset(beyond, ALL)
    assert offsets_of(waiting) == offsets_of(beyond), "never below the start"


@pytest.mark.parametrize("count", [5, 60])
def test_a_topic_that_was_made_anew_is_never_taken_for_the_old_one(
    cluster: LocalCluster, topic: str, new_reader: NewReader, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """Whether it is shorter than what was read of the old one, or longer."""
    send(cluster.namesrv, topic, 20)
    start = new_reader().latestOffset(new_reader().initialOffset(), ALL)
    with Admin(cluster.namesrv) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=4)
    bodies = send(cluster.namesrv, topic, count)
    with pytest.raises(TopicReplaced, match="failOnDataLoss=false"):
        new_reader().latestOffset(start, ALL)
    reader = new_reader(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        end = reader.latestOffset(start, ALL)
    assert f"topic={topic}" in caplog.text
    assert sorted(read_all(reader, reader.partitions(start, end))) == bodies
    assert reader.latestOffset(end, ALL) == end
    assert new_reader().latestOffset(end, ALL) == end, "from here on nothing is lost"


def test_a_batch_that_was_planned_before_its_topic_was_made_anew_reads_nothing_of_the_new_one(
    cluster: LocalCluster, topic: str, new_reader: NewReader
) -> None:
    send(cluster.namesrv, topic, 20)
    start = new_reader().initialOffset()
    end = new_reader().latestOffset(start, ALL)
    with Admin(cluster.namesrv) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=4)
    send(cluster.namesrv, topic, 60)
    with pytest.raises(TopicReplaced):
        new_reader().partitions(start, end)
    reader = new_reader(failOnDataLoss="false")
    assert reader.partitions(start, end) == []
    after = reader.latestOffset(end, ALL)
    assert len(read_all(reader, reader.partitions(end, after))) == 60


def test_a_topic_that_is_not_there(cluster: LocalCluster, new_reader: NewReader) -> None:
    with pytest.raises(TopicNotFound, match="nobody"):
        new_reader(subscribe="nobody").initialOffset()


def test_nobody_is_waited_for_longer_than_told(new_reader: NewReader) -> None:
    begun_ms = now_ms()
    with pytest.raises((ConnectionLost, RequestTimeout)):
        new_reader(namesrv="127.0.0.1:1", requestTimeoutMs=300).initialOffset()
    assert now_ms() - begun_ms < 5000


def test_commits_are_for_show(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    send(cluster.namesrv, topic, 20)
    reader = new_reader(group=f"g-{topic}", commitOffsets="true")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.commit(end)
    with Admin(cluster.namesrv) as admin:
        assert set(admin.lag(f"g-{topic}").values()) == {0}
    quiet = new_reader(group=f"h-{topic}")
    quiet.commit(end)
    with Admin(cluster.namesrv) as admin, pytest.raises(ZenitError):
        admin.lag(f"h-{topic}")
    reader.stop()


def test_a_batch_holds_what_it_is_to_read_for_a_while(cluster: LocalCluster, topic: str) -> None:
    send(cluster.namesrv, topic, 20)
    options = {"namesrv": cluster.namesrv, "subscribe": topic, "group": f"g-{topic}"}
    reader = BatchReader(ReadOptions.parse(options).for_batch())
    partitions = reader.partitions()
    assert len(read_all(reader, partitions)) == 20
    with Admin(cluster.namesrv) as admin:
        (hold,) = [item for item in admin.broker_statistics()["retention_holds"] if item["topics"] == [topic]]
    assert hold["owner"] == f"spark:g-{topic}"
    assert 0 < hold["ends_in_seconds"] <= 600


def test_an_assigned_queue_has_to_exist(cluster: LocalCluster, topic: str, new_reader: NewReader) -> None:
    assigned = json.dumps({topic: {cluster.brokers[0]: [1, 99]}})
    with pytest.raises(OffsetsIncomplete, match="99 does not exist"):
        new_reader(subscribe=None, assign=assigned).initialOffset()


def test_a_broker_that_is_away_is_waited_for_or_passed_by(new_reader: NewReader) -> None:
    """An error, or its queues stay where they are; also once no name server tells of it any more."""
    with LocalCluster() as cluster:
        topic = cluster.create_topic("orders")
        send(cluster.namesrv, topic, 20)
        options = {"namesrv": cluster.namesrv, "subscribe": topic, "requestTimeoutMs": "400"}
        strict, lenient = new_reader(**options), new_reader(**options, tolerateUnavailable="true")
        start = lenient.latestOffset({}, ALL)
        assert strict.latestOffset({}, ALL) == start
        gone = document_of({QueueKey(topic, "broker-z", 0): 5})
        with pytest.raises(NoRoute, match="broker-z"):
            strict.latestOffset(gone, ALL)
        assert lenient.latestOffset(gone, ALL)[topic]["broker-z"] == {"0": 5}
        cluster.kill(cluster.brokers[0])
        with pytest.raises(ZenitError) as raised:
            strict.latestOffset(start, ALL)
        assert raised.value.retriable
        assert lenient.latestOffset(start, ALL) == start
        cluster.restart()
        later = send(cluster.namesrv, topic, 20, first=20)
        end = lenient.latestOffset(start, ALL)
        assert sorted(read_all(lenient, lenient.partitions(start, end))) == later


def test_the_format_s_name_is_known_without_an_instance() -> None:
    """Trap: Spark's write path asks the class."""
    assert ZenitDataSource.name() == "zenit"
