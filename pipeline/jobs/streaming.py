"""The common parts of stateful jobs: a topic read as a stream, a watched query, a sink.

State is stored in RocksDB, so it is not limited by the heap. The number of its partitions is the session's number of
shuffle partitions when a checkpoint is first used, and stays that of the checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...model.clock import monotonic_ms
from ...model.config import check_settings, setting
from ..lag import LagListener
from ..options.durations import duration_ms
from .job import Report, moment_ms, required
from .stream_counts import StreamCounts
from .summary import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LOOK_S: Final = 1
ID_WAIT_S: Final = 60.0

WriteBatch = Callable[["DataFrame", int, str], None]
"""Called with (batch, its number, the query's id, which is that of its checkpoint). A batch may come again after a crash."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamOptions:
    """The options of all jobs with state."""

    checkpoint: str = setting("", "Directory where the job keeps how far it is (needed).")
    start: str = setting("earliest", "Where a new checkpoint begins: earliest, latest or a time.")
    continuous: bool = setting(False, "Go on until stopped (Ctrl-C); else end when all that there is now is read.")
    every: str = setting("5s", "continuous: a batch every so often.")
    lag_json: str = setting("", "File to append a line of lag to after each batch.")
    prometheus: str = setting("", "File to tell Prometheus' node exporter of lag.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")

    def check(self) -> None:
        """For `__post_init__`. Raises ConfigError."""
        check_settings(self)
        required("checkpoint", self.checkpoint, "a directory")
        duration_ms("every", self.every)
        start_at(self.start)

    def every_ms(self) -> int | None:
        """The interval of batches; None: as often as there are rows, until all present ones are read."""
        return duration_ms("every", self.every) if self.continuous else None

    def source(self) -> dict[str, str]:
        """Options of the source, besides what is read.

        If the start is not the earliest, the brokers store where the query began, under a name made from the checkpoint's
        path.
        """
        options = start_at(self.start) | _at(self.namesrv)
        if self.start != "earliest":
            place = self.checkpoint if "://" in self.checkpoint else os.path.abspath(self.checkpoint)
            options["queryName"] = f"job-{hashlib.sha256(place.encode()).hexdigest()[:24]}"
        return options

    def sink(self, topic: str) -> dict[str, str]:
        """Options of the sink, besides the name of the query and the number of the batch."""
        return {"topic": topic, "delivery": "dedup"} | _at(self.namesrv)

    def lag(self) -> LagListener:
        """The listener that reports lag."""
        return LagListener(
            namesrv=self.namesrv or None, json_path=self.lag_json or None, prometheus_path=self.prometheus or None
        )


def start_at(text: str) -> dict[str, str]:
    """The source's options for `start`. Raises ConfigError."""
    if text in ("earliest", "latest"):
        return {"startingOffsets": text}
    return {"startingTimestamp": str(moment_ms("start", text)), "startingOffsetsByTimestampStrategy": "latest"}


def _at(namesrv: str) -> dict[str, str]:
    return {"namesrv": namesrv} if namesrv else {}


def topic_stream(
    spark: SparkSession, topics: Sequence[str], columns: Sequence[str], options: dict[str, str]
) -> DataFrame:
    """The topics' messages as a stream. `options`: more options of the source."""
    reader = spark.readStream.format("zenit").option("subscribe", ",".join(topics)).option("columns", ",".join(columns))
    return reader.options(**options).load()


def run_query(
    spark: SparkSession,
    frame: DataFrame,
    write: WriteBatch,
    report: Report,
    *,
    name: str,
    options: StreamOptions,
) -> StreamCounts:
    """Runs the query until all present messages are read, or (`continuous`) until Ctrl-C; returns its totals.

    Raises the query's error.
    """
    known = threading.Event()
    identity: list[str] = []

    def write_batch(batch: DataFrame, number: int) -> None:
        if not known.wait(ID_WAIT_S):
            raise TimeoutError("the query did not start")
        write(batch, number, identity[0])

    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    lag = options.lag()
    spark.streams.addListener(lag)
    try:
        writer = (
            frame.writeStream.foreachBatch(write_batch).queryName(name).option("checkpointLocation", options.checkpoint)
        )
        query = _triggered(writer, options.every_ms()).start()
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
        with contextlib.suppress(KeyboardInterrupt):  # the way to end a continuous one
            while not query.awaitTermination(LOOK_S):
                counts.on_progress(_recent(query))
                report(JobProgress(counts.rows, (monotonic_ms() - begin_ms) / 1000, counts.rows_behind))
    finally:
        query.stop()
    counts.on_progress(_recent(query))
    return counts


def _recent(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(progress.json) for progress in query.recentProgress]
