"""The job `dedup`: copies the messages of topics to another topic, each once by its key, its id or a property.

A message is left out if another one with the same key came within the watermark before it. Of those that are read together
the one with the first place is kept, by topic, broker, queue and offset. The state is bounded by the watermark, so this
does not hold for ever. Messages without a key are all copied. Order is not kept: messages are spread over partitions by
their keys.

Each message is written once, whatever is killed: Spark repeats a batch with the same messages, keeps the same one of each
key, in the same partition, and each partition is sent in the order of its keys. So a second attempt sends exactly what a
first one stored, row by row. Rows are routed by their number, so that the rows of a partition share requests.

Spark keeps the first message of a key that it meets, so the partitions are sorted before. It refuses a sort in a stream,
because it could not sort the whole stream; sorting within a batch is enough here, and SORT_CHECK allows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from ...model.config import setting
from ...model.errors import ConfigError
from ..options.durations import duration_ms, spark_interval
from .job import Document, Job, Report, Session, required
from .streaming import StreamOptions, run_query, topic_stream
from .tables import messages_in

KEYED_BY: Final = ("messageId", "keys", "messageGroup")
PROPERTY: Final = "property:"
PASSED_ON: Final = ("body", "keys", "tags", "messageGroup", "properties", "flag")
KEY: Final = "dedup_key"
PLACE: Final = ("topic", "broker", "queueId", "queueOffset")
SORT_CHECK: Final = "spark.sql.streaming.unsupportedOperationCheck"


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupOptions(StreamOptions):
    """What to read, which messages are the same, where to send them."""

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
    """Reads, filters, sends. `passed` is False if rows came later than the watermark allows: they were left out."""
    messages_in(options.namesrv, [*options.topics, options.to])
    spark = session()
    columns = (*PASSED_ON, *PLACE, "messageId", "storeTimestamp")
    frame = topic_stream(spark, options.topics, columns, options.source()).withColumn(KEY, key_column(options.by))
    ordered = frame.repartition(KEY).sortWithinPartitions(KEY, *PLACE)
    unique = ordered.withWatermark(
        "storeTimestamp", spark_interval(duration_ms("watermark", options.watermark))
    ).dropDuplicatesWithinWatermark([KEY])
    sink = options.sink(options.to)

    def write(batch: DataFrame, number: int, query: str) -> None:
        rows = batch.sortWithinPartitions(KEY).select(*PASSED_ON)
        rows.write.format("zenit").mode("append").options(
            **sink, queryName=query, batchId=str(number), routeBy="row"
        ).save()

    is_checked = spark.conf.get(SORT_CHECK)
    spark.conf.set(SORT_CHECK, "false")
    try:
        counts = run_query(spark, unique, write, report, name=f"zenit dedup {options.to}", options=options)
    finally:
        spark.conf.set(SORT_CHECK, is_checked or "true")
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
    """The text that distinguishes messages: the key, or for a message without one its place, which is unique."""
    key = F.element_at("properties", by.removeprefix(PROPERTY)) if by.startswith(PROPERTY) else F.col(by)
    place = F.concat_ws("/", *PLACE)
    return F.when(key.isNotNull(), F.concat(F.lit("k"), key)).otherwise(F.concat(F.lit("p"), place))


JOB = Job("dedup", DedupOptions, plan, run)
