"""Half messages are no rows: whatever reads topics through Spark sees what was committed, and nothing of what was not."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zenitmq import Admin, Message, Resolution, TransactionProducer
from zenitmq.model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamReader

    from zenitmq.pipeline.jobs.summary import JobProgress

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

COMMITTED = [b"committed", b"large " * 2000]
SETTINGS = ("transaction_timeout_ms=200", "transaction_check_interval_ms=200", "transaction_checks_max=1")


def ignore(_progress: JobProgress) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One that parks what is not decided after half a second."""
    with LocalCluster(settings=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """Its messages in every state: committed, rolled back, not decided, parked."""
    name = cluster.create_topic(f"t-{secrets.token_hex(5)}")
    with (
        TransactionProducer("g", lambda _: Resolution.UNKNOWN, namesrv=cluster.namesrv) as producer,
        Admin(cluster.namesrv) as admin,
    ):
        for body in COMMITTED:
            producer.send(Message(name, body, keys=("k",)), lambda _: Resolution.COMMIT)
        producer.send(Message(name, b"rolled back", keys=("k2",)), lambda _: Resolution.ROLLBACK)
        producer.begin(Message(name, b"parked", keys=("k3",)))
        while [row["state"] for row in admin.transactions(topic=name)] != ["parked"]:
            pass
        producer.begin(Message(name, b"not decided", keys=("k4",)), check_after=1000)
    return name


def test_a_batch_and_a_pattern_read_what_was_committed(read: Callable[..., DataFrame], topic: str) -> None:
    for options in ({}, {"subscribePattern": ".*"}):
        rows = [row for row in read(**options).collect() if row.topic == topic]
        assert sorted(bytes(row.body) for row in rows) == COMMITTED
        assert not {HALF_TOPIC, HALF_OP_TOPIC, UNDECIDED_TOPIC} & {row.topic for row in read(**options).collect()}
        own = {"REAL_TOPIC", "REAL_QID", "TRAN_MSG", "HALF_OFFSET", "HALF_SENDER", "TRANSACTION_CHECK_TIMES"}
        assert not any(own & set(row.properties) for row in rows)


def test_a_stream_reads_what_was_committed(
    read_stream: Callable[..., DataStreamReader], topic: str, tmp_path: Path
) -> None:
    frame: Any = read_stream()
    found: list[bytes] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: found.extend(bytes(row.body) for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert sorted(found) == COMMITTED


def test_sql_counts_what_was_committed(spark: SparkSession, cluster: LocalCluster, topic: str) -> None:
    loaded = spark.read.format("zenit").options(namesrv=cluster.namesrv, subscribe=topic).load()
    loaded.createOrReplaceTempView("sent")
    assert spark.sql("SELECT count(*) FROM sent").collect()[0][0] == len(COMMITTED)


def test_jobs_copy_what_was_committed(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> None:
    from zenitmq.pipeline.jobs import archive, dedup, verify
    from zenitmq.pipeline.jobs.archived_rows import archive_frame

    target = str(tmp_path / "archive")
    kept = archive.run(
        archive.ArchiveOptions(topics=(topic,), target=target, namesrv=cluster.namesrv), lambda: spark, ignore
    )
    assert kept["rows"] == len(COMMITTED)
    assert sorted(bytes(row.body) for row in archive_frame(spark, target).collect()) == COMMITTED
    assert verify.run(verify.VerifyOptions(target=target, namesrv=cluster.namesrv), lambda: spark, ignore)["passed"]
    to = cluster.create_topic(f"to-{secrets.token_hex(5)}", queues=2)
    chosen = {"topics": (topic,), "to": to, "by": "keys", "checkpoint": str(tmp_path / "state")}
    dedup.run(dedup.DedupOptions(**chosen, namesrv=cluster.namesrv), lambda: spark, ignore)
    copied = spark.read.format("zenit").options(namesrv=cluster.namesrv, subscribe=to).load().collect()
    assert [list(row.keys) for row in copied] == [["k"]]
