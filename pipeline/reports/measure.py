"""Measures how fast Spark reads and writes topics here, compared with the same rows in Parquet.

Each figure is one job over all rows: the rows are counted while they are read and thrown away (`noop`). The first read and
the first write of a session start Python workers and make Java compile its code, so they have figures of their own. So have
a job that reads almost nothing, and the time and driver memory for ten times the rows. The job `archive` writes the
archive, and its files are read.
"""

from __future__ import annotations

import json
import os
import random
import resource
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

from ...client.admin import Admin
from ...client.producer import Producer
from ...model.clock import monotonic_ns
from ...model.errors import SystemFault
from ...model.queue import MessageQueue
from ..jobs import archive
from ..jobs.archived_rows import archive_frame

FOUR_COLUMNS: Final = "topic,queueId,queueOffset,body"
STREAM_ROWS: Final = 200_000  # rows of a micro-batch of the measured stream
_SEND_BATCH: Final = 500
_BODIES: Final = 4_000  # distinct ones

Tell = Callable[[str], None]
"""Called with the name of the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLoad:
    """The load: `messages` of `size` body bytes in a topic of `queues`. Files go to `directory`, which is empty."""

    namesrv: str
    topic: str
    queues: int
    messages: int
    size: int
    directory: str
    floor_batches: int = 20  # micro-batches with almost no rows
    floor_jobs: int = 5  # reads of almost no rows


def measure(spark: SparkSession, load: SparkLoad, tell: Tell) -> dict[str, Any]:
    """Fills the topic and measures; {name: {rows, seconds, rows_per_second}, ..., growth, job_ms, micro_batch_ms}.

    Raises SystemFault if rows are missing or too many, and errors of broker or Spark.
    """
    tell("fill")
    filled = _rate(load.messages, lambda: _fill(load, load.topic, load.messages))
    archived = os.path.join(load.directory, "archive")
    batches: list[dict[str, Any]] = []  # of the stream
    works: dict[str, Callable[[], int]] = {
        "first_read": lambda: _seen(_topic(spark, load)),
        "every_column": lambda: _seen(_topic(spark, load)),
        "four_columns": lambda: _seen(_topic(spark, load, columns=FOUR_COLUMNS)),
        "without_body": lambda: _seen(_topic(spark, load, includeBody="false")),
        "stream": lambda: _streamed(spark, load, batches),
        "archive": lambda: _archived(spark, load, archived),
        "parquet_every_column": lambda: _seen(archive_frame(spark, archived)),
        "parquet_without_body": lambda: _seen(archive_frame(spark, archived).drop("body")),
        "first_sink": lambda: _sunk(spark, load, archived),
        "sink": lambda: _sunk(spark, load, archived),
    }
    found: dict[str, Any] = {"fill": filled}
    for name, work in works.items():
        tell(name)
        found[name] = checked_rate(name, load.messages, work)
    found["stream"]["batch_rows_per_second"] = round(float(median(map(_batch_rate, batches))), 1)
    for name, more in (("growth", _growth), ("job_ms", _job_ms), ("micro_batch_ms", _floor_ms)):
        tell(name)
        found[name] = more(spark, load)
    return found


def _rate(rows: int, work: Callable[[], object]) -> dict[str, Any]:
    begin_ns = monotonic_ns()
    work()
    seconds = (monotonic_ns() - begin_ns) / 1e9
    return {"rows": rows, "seconds": round(seconds, 3), "rows_per_second": round(rows / seconds, 1)}


def checked_rate(name: str, rows: int, work: Callable[[], int]) -> dict[str, Any]:
    """The rate of `work`, which returns its number of rows. Raises SystemFault if that is not `rows`."""
    seen: list[int] = []
    rate = _rate(rows, lambda: seen.append(work()))
    if seen != [rows]:
        raise SystemFault(f"bench spark {name}: {seen[0]} rows instead of {rows}")
    return rate


def _fill(load: SparkLoad, topic: str, messages: int) -> None:
    content = [random.randbytes(load.size) for _ in range(_BODIES)]
    with Producer("bench-spark", namesrv=load.namesrv, compression=None) as producer:
        for at in range(0, messages, _SEND_BATCH):
            first = at % _BODIES
            producer.send_bodies(topic, content[first : first + min(_SEND_BATCH, messages - at)])


def _topic(spark: SparkSession, load: SparkLoad, **options: str) -> DataFrame:
    return spark.read.format("zenit").options(namesrv=load.namesrv, subscribe=load.topic, **options).load()


def _seen(frame: DataFrame) -> int:
    """Reads every row and column; returns the number of rows."""
    seen = Observation()
    frame.observe(seen, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


def _streamed(spark: SparkSession, load: SparkLoad, batches: list[dict[str, Any]]) -> int:
    """Adds the progress of each micro-batch to `batches`."""
    checkpoint = os.path.join(load.directory, "checkpoint")
    batches += _stream(spark, load, load.topic, checkpoint, rows_max=STREAM_ROWS)
    return sum(int(batch["numInputRows"]) for batch in batches)


def _batch_rate(batch: dict[str, Any]) -> float:
    """Rows a second of one micro-batch, with all of Spark's work for it."""
    return float(batch["numInputRows"]) * 1000 / float(batch["durationMs"]["triggerExecution"])


def _stream(
    spark: SparkSession, load: SparkLoad, topic: str, checkpoint: str, *, rows_max: int
) -> list[dict[str, Any]]:
    """Streams a topic's messages to nowhere; returns the progress of each micro-batch."""
    query = (
        spark.readStream.format("zenit")
        .options(namesrv=load.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(rows_max))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [dict(batch) if isinstance(batch, dict) else batch.jsonValue for batch in query.recentProgress]


def _archived(spark: SparkSession, load: SparkLoad, directory: str) -> int:
    options = archive.ArchiveOptions(topics=(load.topic,), target=directory, namesrv=load.namesrv)
    return int(archive.run(options, lambda: spark, lambda _progress: None)["rows"])


def _sunk(spark: SparkSession, load: SparkLoad, archived: str) -> int:
    """Writes the archived bodies to another topic; returns how many messages that has then."""
    with _own_topic(load) as topic:
        rows = archive_frame(spark, archived).select("body")
        rows.write.format("zenit").options(namesrv=load.namesrv, topic=topic).mode("append").save()
        with Admin(load.namesrv) as admin:
            return sum(int(admin.max_offset(queue)) for queue in admin.queues(topic))


def _growth(spark: SparkSession, load: SparkLoad) -> dict[str, Any]:
    """Reads a tenth of the topic, then all of it, every column: the rates, the ratio of the times, and the driver's memory
    afterwards: Java's heap without garbage, and the maximum of this process.
    """
    ends = _ends(load)
    tenths = {queue: end // 10 for queue, end in ends.items()}
    part = checked_rate("growth", sum(tenths.values()), lambda: _seen(_until(spark, load, tenths)))
    before = _memory_bytes(spark)
    whole = checked_rate("growth", load.messages, lambda: _seen(_until(spark, load, ends)))
    after = _memory_bytes(spark)
    return {
        "tenth": part | before,
        "whole": whole | after,
        "times_rows": round(whole["rows"] / part["rows"], 2),
        "times_seconds": round(whole["seconds"] / part["seconds"], 2),
    }


def _memory_bytes(spark: SparkSession) -> dict[str, int]:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # the only way to reach Java
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return {
        "java_heap_bytes": int(runtime.totalMemory() - runtime.freeMemory()),
        "python_bytes_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _job_ms(spark: SparkSession, load: SparkLoad) -> float:
    """The median time of a read of one row per queue: planning, and one task per queue."""
    ones = {queue: min(1, end) for queue, end in _ends(load).items()}
    rates = [
        checked_rate("job", sum(ones.values()), lambda: _seen(_until(spark, load, ones)))
        for _ in range(load.floor_jobs)
    ]
    return round(float(median(rate["seconds"] for rate in rates)) * 1000, 1)


def _ends(load: SparkLoad) -> dict[MessageQueue, int]:
    """The ends of the topic's queues."""
    with Admin(load.namesrv) as admin:
        return {queue: int(admin.max_offset(queue)) for queue in admin.queues(load.topic)}


def _until(spark: SparkSession, load: SparkLoad, ends: Mapping[MessageQueue, int]) -> DataFrame:
    """Every column, up to one offset per queue."""
    by_broker: dict[str, dict[str, int]] = {}
    for queue, end in ends.items():
        by_broker.setdefault(queue.broker_name, {})[str(queue.queue_id)] = end
    return _topic(spark, load, endingOffsets=json.dumps({load.topic: by_broker}))


def _floor_ms(spark: SparkSession, load: SparkLoad) -> float:
    """The median time of a micro-batch of one row per queue."""
    with _own_topic(load) as topic:
        with Producer("bench-spark", namesrv=load.namesrv) as producer:
            for _ in range(load.floor_batches):
                for _ in range(load.queues):
                    producer.send_bodies(topic, [bytes(load.size)])
        progress = _stream(spark, load, topic, os.path.join(load.directory, "floor"), rows_max=load.queues)
    return float(median(batch["durationMs"]["triggerExecution"] for batch in progress[1:]))


@contextmanager
def _own_topic(load: SparkLoad) -> Iterator[str]:
    """A topic that is deleted afterwards."""
    topic = f"{load.topic}-{secrets.token_hex(4)}"
    with Admin(load.namesrv) as admin:
        admin.create_topic(topic, queues=load.queues)
        try:
            yield topic
        finally:
            admin.delete_topic(topic)
