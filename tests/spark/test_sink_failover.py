"""A master is killed under a write: with delivery=dedup each row is in the topic once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from spark.sink_kit import count_of, messages_of, twice

from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(300)

ROWS = 6000
STORED = 200  # when it is killed
WAIT_MS = 120_000


def waits_for(flag: str) -> Callable[[str], str]:
    """Passes bodies on; in the middle of each task it waits until the master is gone, so that the rest goes to another."""

    def pass_on(body: str) -> str:
        if int(body) % (ROWS // 2) == ROWS // 4:
            deadline_ms = monotonic_ms() + WAIT_MS
            while not Path(flag).exists() and monotonic_ms() < deadline_ms:
                sleep_ms(10)
        return body

    return pass_on


def test_a_killed_master_costs_no_row_and_doubles_none(spark: SparkSession, tmp_path: Path) -> None:
    """Three replicas, two tasks; and the same batch once more, as a driver would send it that had died behind it."""
    flag = tmp_path / "killed"
    with LocalCluster(replicas=3) as cluster:
        topic = cluster.create_topic("once", queues=4)

        def kill() -> None:
            deadline_ms = monotonic_ms() + WAIT_MS
            while count_of(cluster.namesrv, topic) < STORED and monotonic_ms() < deadline_ms:
                sleep_ms(10)
            cluster.kill(cluster.master)
            flag.touch()

        def write() -> None:
            wait = udf(waits_for(str(flag)), "string", useArrow=False)
            rows = spark.range(0, ROWS, 1, 2).selectExpr("lpad(cast(id AS STRING), 1000, '0') AS body")
            options = {
                "namesrv": cluster.namesrv,
                "topic": topic,
                "delivery": "dedup",
                "queryName": "q",
                "batchId": "1",
            }
            frame = rows.select(wait("body").alias("body"))
            frame.write.format("zenit").options(**options, requestTimeoutMs=str(WAIT_MS)).mode("append").save()

        before = cluster.master
        killer = threading.Thread(target=kill)
        killer.start()
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        try:
            write()
            killer.join()
            assert cluster.master != before
            assert sorted(int(message.body) for message in messages_of(cluster.namesrv, topic)) == list(range(ROWS))
            write()
        finally:
            killer.join()
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        bodies = [message.body for message in messages_of(cluster.namesrv, topic)]
    assert len(bodies) == ROWS
    assert not twice(bodies)
