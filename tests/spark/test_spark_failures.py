"""A broker that dies while topics are read: in the end each row is there once. What else may die: tests/spark/matrix."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import DataFrame, SparkSession
from spark.spark_kit import place, send, stored

from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetBrokerStatistics
from zenitmq.testing import LocalCluster


def pulls_at(address: str) -> int:
    """How many pulls a broker has had."""
    with RemotingClient() as client:
        _, payload = client.call(address, GetBrokerStatistics(), timeout_ms=5_000)
    return int(json.loads(payload)["pulls"]["requests"])


@pytest.mark.timeout(600)
def test_a_master_that_is_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    """What was acknowledged by three replicas before and after is read, each once, from slaves too where that is told."""
    rows: list[tuple] = []
    bodies: list[bytes] = []
    with LocalCluster(replicas=3) as cluster:
        topic = cluster.create_topic("orders")
        bodies += send(cluster.namesrv, topic, 60)
        pulled = pulls_at(cluster.process(cluster.master).address)
        options = {"namesrv": cluster.namesrv, "subscribe": topic}
        frame = spark.read.format("zenit").options(**options, readFrom="replica").load()
        assert {bytes(row.body) for row in frame.collect()} == set(bodies)
        assert pulls_at(cluster.process(cluster.master).address) == pulled, "its slaves were asked"

        def take(batch: DataFrame, number: int) -> None:
            rows.extend((place(row), bytes(row.body)) for row in batch.collect())
            if number == 0:
                cluster.kill(cluster.master)
                bodies.extend(send(cluster.namesrv, topic, 60, first=60, timeout=60))

        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
        frame = spark.readStream.format("zenit").options(**options).load()
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            for _ in range(2000):
                if query.exception() is not None or ({body for _, body in rows} >= set(bodies) and len(bodies) == 120):
                    break
                Event().wait(0.1)
            query.processAllAvailable()
        finally:
            query.stop()
        truth = stored(cluster.namesrv, topic, len(rows))
    assert sorted(rows) == sorted((where, message.body) for where, message in truth.items())
    assert {body for _, body in rows} == set(bodies)
