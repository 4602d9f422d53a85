"""What the jobs that keep state have in common: a topic to read as a stream, a query to watch, a sink to write to.

State is kept in RocksDB, so that its size is not the heap's. The number of partitions that the state has is the session's
number of shuffle partitions when a checkpoint is first used, and stays that of the checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...model.clock import monotonic_ms
from ..lag import LagListener
from .job import Report, moment_ms
from .stream_counts import StreamCounts
from .summary import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LOOK_S: Final = 1
ID_WAIT_S: Final = 60.0

WriteBatch = Callable[["DataFrame", int, str], None]
"""Told of (batch, its number, the query's id, which is that of its checkpoint). Told again of a batch after a crash."""


def start_at(text: str) -> dict[str, str]:
    """What `start` means to the source. Raises ConfigError."""
    if text in ("earliest", "latest"):
        return {"startingOffsets": text}
    return {"startingTimestamp": str(moment_ms("start", text)), "startingOffsetsByTimestampStrategy": "latest"}


def source_options(start: str, checkpoint: str, namesrv: str) -> dict[str, str]:
    """Of the source, beside what is read. Where one that does not start at the earliest began, the brokers keep under a
    name made of the checkpoint's place."""
    options = start_at(start) | _at(namesrv)
    if start != "earliest":
        place = checkpoint if "://" in checkpoint else os.path.abspath(checkpoint)
        options["queryName"] = f"job-{hashlib.sha256(place.encode()).hexdigest()[:24]}"
    return options


def sink_options(topic: str, namesrv: str) -> dict[str, str]:
    """Of the sink, beside the name of the query and the number of the batch."""
    return {"topic": topic, "delivery": "dedup"} | _at(namesrv)


def _at(namesrv: str) -> dict[str, str]:
    return {"namesrv": namesrv} if namesrv else {}


def topic_stream(
    spark: SparkSession, topics: Sequence[str], columns: Sequence[str], options: dict[str, str]
) -> DataFrame:
    """The topics' messages as they come. `options`: more of the source's."""
    reader = spark.readStream.format("zenit").option("subscribe", ",".join(topics)).option("columns", ",".join(columns))
    return reader.options(**options).load()


def run_query(
    spark: SparkSession,
    frame: DataFrame,
    write: WriteBatch,
    report: Report,
    *,
    name: str,
    checkpoint: str,
    every_ms: int | None,
    lag: LagListener,
) -> StreamCounts:
    """Runs the query to the end of what there is now, or (`every_ms` given) until Ctrl-C; returns what was counted.

    Raises what the query ended with.
    """
    known = threading.Event()
    identity: list[str] = []

    def write_batch(batch: DataFrame, number: int) -> None:
        if not known.wait(ID_WAIT_S):
            raise TimeoutError("the query did not start")
        write(batch, number, identity[0])

    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    spark.streams.addListener(lag)
    try:
        writer = frame.writeStream.foreachBatch(write_batch).queryName(name).option("checkpointLocation", checkpoint)
        query = _triggered(writer, every_ms).start()
        identity.append(str(query.id))
        known.set()
        return _watched(query, report)
    finally:
        spark.streams.removeListener(lag)


def _triggered(writer: DataStreamWriter, every_ms: int | None) -> DataStreamWriter:
    if every_ms is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{every_ms} milliseconds")


def _watched(query: StreamingQuery, report: Report) -> StreamCounts:
    counts = StreamCounts()
    begin_ms = monotonic_ms()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # how one that goes on is ended
            while not query.awaitTermination(LOOK_S):
                counts.on_progress(_recent(query))
                report(Progress(counts.rows, (monotonic_ms() - begin_ms) / 1000, counts.rows_behind))
    finally:
        query.stop()
    counts.on_progress(_recent(query))
    return counts


def _recent(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(progress.json) for progress in query.recentProgress]


def lag_listener(namesrv: str, lag_json: str, prometheus: str) -> LagListener:
    """Of the settings of those names."""
    return LagListener(namesrv=namesrv or None, json_path=lag_json or None, prometheus_path=prometheus or None)
