"""Topics as tables that a job reads up to their present ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from ...client.admin import Admin


def topic_table(spark: SparkSession, topics: Iterable[str], columns: Iterable[str], namesrv: str) -> DataFrame:
    """The messages in the topics. The brokers evaluate conditions on time, queue and tags."""
    options = {"subscribe": ",".join(topics), "columns": ",".join(columns), "pushdown": "true"}
    if namesrv:
        options["namesrv"] = namesrv
    return spark.read.format("zenit").options(**options).load()


def between(rows: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """The rows stored within; None = no such bound."""
    if since_ms is not None:
        rows = rows.where(F.col("storeTimestamp") >= F.timestamp_millis(F.lit(since_ms)))
    if until_ms is not None:
        rows = rows.where(F.col("storeTimestamp") <= F.timestamp_millis(F.lit(until_ms)))
    return rows


def messages_in(namesrv: str, topics: Sequence[str]) -> int:
    """How many messages the topics have now. Raises TopicNotFound, before Spark is started in vain."""
    with Admin(namesrv or None) as admin:
        queues = [queue for topic in topics for queue in admin.describe_topic(topic)["queues"]]
    return sum(queue["max_offset"] - queue["min_offset"] for queue in queues)
