"""The job `dedup`: the messages of topics to another topic, each once by its key, its id or a property of it.

A message is left out where another of the same key came within the watermark before it (or after: of those that are read
together any may be the one that stays). State is bounded by the watermark, so this is not for ever. One without a key goes
through. Order is not kept: messages are spread over partitions by their keys.

What is written is written once, whatever is killed: Spark repeats a batch with the same keys in the same partitions, and
each partition is sent in the order of its keys, so what a first attempt stored is what a second one would send again. Of
equal messages another may be the one that stays then. It has the row number of the first, and rows are routed by their
number, not by their message group: so it goes the same way, and counts as stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from ...model.config import setting
from ...model.errors import ConfigError
from ..durations import duration_ms, spark_interval
from .job import Document, Job, Report, Session, required
from .streaming import StreamOptions, run_query, topic_stream
from .tables import messages_in

KEYED_BY: Final = ("messageId", "keys", "messageGroup")
PROPERTY: Final = "property:"
PASSED_ON: Final = ("body", "keys", "tags", "messageGroup", "properties", "flag")
KEY: Final = "dedup_key"
PLACE: Final = ("topic", "broker", "queueId", "queueOffset")


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupOptions(StreamOptions):
    """What to read, what makes two messages the same, where to send them."""

    topics: tuple[str, ...] = setting((), "Topics to read (needed).")
    to: str = setting("", "Topic to send to; it must be there (needed).")
    by: str = setting("messageId", "Same by: messageId, keys, messageGroup or property:NAME.")
    watermark: str = setting("10m", "Within this time; longer keeps more state.")

    def __post_init__(self) -> None:
        self.check()
        required("topics", self.topics, "topics")
        required("to", self.to, "a topic")
        if self.to in self.topics:
            raise ConfigError("to", self.to, "another topic than those that are read")
        if self.by not in KEYED_BY and not (self.by.startswith(PROPERTY) and len(self.by) > len(PROPERTY)):
            raise ConfigError("by", self.by, f"one of {', '.join(KEYED_BY)} or {PROPERTY}NAME")
        duration_ms("watermark", self.watermark)


def plan(options: DedupOptions, session: Session) -> Document:
    """How much there is to read, whatever a checkpoint says. Starts no Spark."""
    del session
    messages_in(options.namesrv, [options.to])
    rows = messages_in(options.namesrv, options.topics)
    return {"rows": rows, "topics": list(options.topics), "to": options.to, "by": options.by}


def run(options: DedupOptions, session: Session, report: Report) -> Document:
    """Reads, leaves out, sends. `passed` is False where rows came later than the watermark allows: they were left out."""
    messages_in(options.namesrv, [*options.topics, options.to])
    spark = session()
    frame = topic_stream(spark, options.topics, (*PASSED_ON, *PLACE, "messageId", "storeTimestamp"), options.source())
    unique = (
        frame.withColumn(KEY, key_column(options.by))
        .withWatermark("storeTimestamp", spark_interval(duration_ms("watermark", options.watermark)))
        .dropDuplicatesWithinWatermark([KEY])
    )
    sink = options.sink(options.to)

    def write(batch: DataFrame, number: int, query: str) -> None:
        rows = batch.sortWithinPartitions(KEY).select(*PASSED_ON)
        rows.write.format("zenit").mode("append").options(
            **sink, queryName=query, batchId=str(number), routeBy="row"
        ).save()

    counts = run_query(
        spark,
        unique,
        write,
        report,
        name=f"zenit dedup {options.to}",
        options=options,
    )
    return {
        "rows": counts.rows,
        "sent": counts.rows - counts.duplicates - counts.late_rows,
        "duplicates": counts.duplicates,
        "late_rows": counts.late_rows,
        "batches": counts.batches,
        "to": options.to,
        "passed": counts.late_rows == 0,
    }


def key_column(by: str) -> Column:
    """What tells messages apart, as text: the key, or for one without a key its place, which no other has."""
    key = F.element_at("properties", by.removeprefix(PROPERTY)) if by.startswith(PROPERTY) else F.col(by)
    place = F.concat_ws("/", *PLACE)
    return F.when(key.isNotNull(), F.concat(F.lit("k"), key)).otherwise(F.concat(F.lit("p"), place))


JOB = Job("dedup", DedupOptions, plan, run)
