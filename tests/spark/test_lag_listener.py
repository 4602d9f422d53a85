"""The lag of a query is told after each batch: to a function, as lines of JSON, to Prometheus."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from zenitmq import Producer
from zenitmq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

MESSAGES = 40


def test_lag_is_told_after_each_batch(
    spark: SparkSession, cluster: LocalCluster, topic: str, read_stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    from zenitmq.pipeline.lag import LagListener

    with Producer("p", namesrv=cluster.namesrv) as producer:
        for number in range(MESSAGES):
            producer.post(topic, b"%d" % number)
        producer.flush()
    told: list[dict[str, Any]] = []
    caught_up = threading.Event()

    def on_lag(lag: dict[str, Any]) -> None:
        told.append(lag)
        if lag["rows_behind"] == 0:
            caught_up.set()

    lines, metrics = tmp_path / "lag.jsonl", tmp_path / "zenit.prom"
    listener = LagListener(namesrv=cluster.namesrv, json_path=str(lines), prometheus_path=str(metrics), on_lag=on_lag)
    spark.streams.addListener(listener)
    try:
        writer = read_stream(maxOffsetsPerTrigger=MESSAGES // 2, columns="queueId").writeStream.format("noop")
        writer = writer.queryName("lagging").option("checkpointLocation", str(tmp_path / "state"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert caught_up.wait(30)
    finally:
        spark.streams.removeListener(listener)

    assert sum(lag["rows"] for lag in told) == MESSAGES
    assert told[0]["rows_behind"] == MESSAGES - told[0]["rows"] > 0
    behind = [queue for queue in told[0]["queues"] if queue["rows_behind"]]
    assert behind
    assert all(0 <= queue["seconds_behind"] < 600 for queue in behind)
    assert {queue["topic"] for queue in told[0]["queues"]} == {topic}
    assert (told[-1]["rows_behind"], told[-1]["seconds_behind"]) == (0, 0.0)
    assert lines.read_text().splitlines() == [json.dumps(lag) for lag in told]
    samples = [line for line in metrics.read_text().splitlines() if line.startswith("zenit_pipeline_rows_behind")]
    assert len(samples) == 4
    assert all(f'query="lagging",topic="{topic}"' in line and line.endswith(" 0") for line in samples)


def test_what_goes_wrong_with_telling_ends_no_query(
    spark: SparkSession, topic: str, cluster: LocalCluster, read_stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    from zenitmq.pipeline.lag import LagListener

    with Producer("p", namesrv=cluster.namesrv) as producer:
        producer.send_bodies(topic, [b"x"])
    tried = threading.Event()

    def fail(_lag: dict[str, Any]) -> None:
        tried.set()
        raise ValueError("no")

    listener = LagListener(namesrv=cluster.namesrv, on_lag=fail)
    spark.streams.addListener(listener)
    try:
        writer = read_stream(columns="queueId").writeStream.format("noop").queryName("told-in-vain")
        query = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        query.awaitTermination()
        assert tried.wait(30)
        assert query.exception() is None
    finally:
        spark.streams.removeListener(listener)
