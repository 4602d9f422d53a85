"""The job `trace-report`: statistics of the traces of producers and consumers with `trace=True`.

A journey is one message on its way to one group, in hops, all in ms:

    produce       the send, as its producer measured it
    wait          from the end of the send to the first delivery
    handle        a delivery, as its consumer measured it
    end to end    from the creation of the message to the end of its first successful delivery

`wait` and `end to end` compare clocks of different machines; negative results count as 0. A retry storm is a minute with
many deliveries of a group that are retries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from ...client.tracing.trace_format import Consumed, Delivered, Published, TransactionEnded
from ...model.config import check_settings, setting
from ...model.names import TRACE_TOPIC
from ..reports.report_pages import trace_parts
from ..reports.trace_rows import DAMAGED, TRACE_TYPE, trace_rows
from .archives.report_files import check_page, write_page
from .job import Document, Job, Report, Session, moment_ms
from .tables import between, messages_in, topic_table

MINUTE_MS: Final = 60_000
MINUTES_MAX: Final = 2_000
HOPS_MAX: Final = 500
ACCURACY: Final = 10_000
HOP_NAMES: Final = {"produce_ms": "produce", "wait_ms": "wait", "handle_ms": "handle", "end_to_end_ms": "end to end"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceReportOptions:
    """Which traces."""

    topics: tuple[str, ...] = setting((), "Only messages of these topics.")
    since: str = setting("", "Told at or after this time.")
    until: str = setting("", "Told at or before this time.")
    storm: int = setting(100, "Retries of a group in a minute that make a storm.", minimum=1)
    slowest: int = setting(20, "Journeys shown, the slowest.", minimum=0, maximum=1_000)
    trace_topic: str = setting(TRACE_TOPIC, "Topic that the traces are in.")
    html: str = setting("", "File to write the report to, as a page.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")

    def __post_init__(self) -> None:
        check_settings(self)
        check_page("html", self.html)
        moment_ms("since", self.since)
        moment_ms("until", self.until)


def plan(options: TraceReportOptions, session: Session) -> Document:
    """How many trace messages there are, of any time. Starts no Spark."""
    del session
    return {"rows": messages_in(options.namesrv, [options.trace_topic]), "trace_topic": options.trace_topic}


def run(options: TraceReportOptions, session: Session, report: Report) -> Document:
    """Counts. `rows`: trace records, of which a trace message has many."""
    del report
    messages_in(options.namesrv, [options.trace_topic])
    stored = topic_table(session(), [options.trace_topic], ("body", "storeTimestamp"), options.namesrv)
    wanted = between(stored, moment_ms("since", options.since), moment_ms("until", options.until))
    told = records(wanted)
    if options.topics:
        told = of_topics(told, options.topics)
    kept = told.persist()
    try:
        summary = count_traces(kept, storm=options.storm, slowest=options.slowest)
    finally:
        kept.unpersist()
    return summary | write_page(options.html, "Traces", trace_parts(summary))


JOB = Job("trace-report", TraceReportOptions, plan, run)


def records(messages: DataFrame) -> DataFrame:
    """One row per trace record in messages of a trace topic."""
    decode = F.udf(trace_rows, TRACE_TYPE, useArrow=False)  # with Arrow it would need pandas
    return messages.select(F.explode(decode("body")).alias("record")).select("record.*")


def of_topics(told: DataFrame, topics: tuple[str, ...]) -> DataFrame:
    """The records of messages that were sent to these topics; records of deliveries have no topic."""
    sent = told.where((F.col("kind") == Published.kind) & F.col("topic").isin(list(topics)))
    return told.join(sent.select("message_id").distinct(), "message_id", "left_semi")


def count_traces(told: DataFrame, *, storm: int, slowest: int) -> Document:
    """The report's content, from records as `records` returns them."""
    travelled = journeys(told)
    retries = retries_a_minute(told)
    return {
        **_totals(told),
        "hops": hops(told, travelled),
        "storms": _rows(
            retries.where(F.col("retries") >= storm).orderBy(F.desc("retries"), "group", "at_ms").limit(100)
        ),
        "retries": _rows(retries.where(F.col("retries") > 0).orderBy(F.desc("at_ms")).limit(MINUTES_MAX)),
        "most_tried": _rows(most_tried(told)),
        "failures": _rows(failures(told)),
        "transactions": _rows(transactions(told)),
        "journeys": _rows(
            travelled.where(F.col("end_to_end_ms").isNotNull())
            .orderBy(F.desc("end_to_end_ms"), "message_id")
            .limit(slowest)
        ),
    }


def journeys(told: DataFrame) -> DataFrame:
    """One row per message and group: the time of each hop; null if it was not traced."""
    sent = (
        _of(told, Published.kind)
        .where("ok")
        .groupBy("message_id")
        .agg(
            F.first("topic").alias("topic"),
            F.min("at_ms").alias("produced_at_ms"),
            F.max("cost_ms").alias("produce_ms"),
        )
    )
    handed = _of(told, Delivered.kind).select(
        "message_id",
        "request_id",
        F.col("producer_or_group").alias("group"),
        F.col("at_ms").alias("handed_at_ms"),
        "attempt",
    )
    done = _of(told, Consumed.kind).select(
        "message_id", "request_id", "ok", "cost_ms", F.col("at_ms").alias("done_at_ms")
    )
    deliveries = handed.join(done, ["message_id", "request_id"], "left").withColumn(
        "done_at_ms", F.coalesce("done_at_ms", F.col("handed_at_ms") + F.col("cost_ms"))
    )
    arrived = deliveries.groupBy("message_id", "group").agg(
        F.min("handed_at_ms").alias("first_at_ms"),
        F.min(F.when(F.col("ok"), F.col("done_at_ms"))).alias("ended_at_ms"),
        F.min_by("cost_ms", "handed_at_ms").alias("handle_ms"),
        (F.max("attempt") + 1).alias("attempts"),
    )
    waited = F.col("first_at_ms") - F.col("produced_at_ms") - F.col("produce_ms")
    return sent.join(arrived, "message_id").select(
        "message_id",
        "topic",
        "group",
        "produced_at_ms",
        "produce_ms",
        _not_below_0(waited).alias("wait_ms"),
        "handle_ms",
        _not_below_0(F.col("ended_at_ms") - F.col("produced_at_ms")).alias("end_to_end_ms"),
        "attempts",
    )


def hops(told: DataFrame, travelled: DataFrame) -> list[Document]:
    """[{hop, topic, group, count, p50_ms, p99_ms, max_ms}]; the group of `produce` is the producer's."""
    produced = (
        _of(told, Published.kind)
        .where("ok")
        .select(
            F.lit(HOP_NAMES["produce_ms"]).alias("hop"),
            "topic",
            F.col("producer_or_group").alias("group"),
            F.col("cost_ms").alias("ms"),
        )
    )
    for column in ("wait_ms", "handle_ms", "end_to_end_ms"):
        hop = F.lit(HOP_NAMES[column]).alias("hop")
        produced = produced.unionAll(travelled.select(hop, "topic", "group", F.col(column).alias("ms")))
    shares = F.percentile_approx("ms", [0.5, 0.99], ACCURACY)
    counted = (
        produced.where(F.col("ms").isNotNull())
        .groupBy("hop", "topic", "group")
        .agg(F.count("*").alias("count"), shares.alias("shares"), F.max("ms").alias("max_ms"))
        .select(
            "hop",
            "topic",
            "group",
            "count",
            F.col("shares")[0].alias("p50_ms"),
            F.col("shares")[1].alias("p99_ms"),
            "max_ms",
        )
    )
    order = list(HOP_NAMES.values())
    found = _rows(counted.orderBy(F.desc("p99_ms"), "hop", "topic", "group").limit(HOPS_MAX))
    return sorted(found, key=lambda row: (order.index(row["hop"]), row["topic"] or "", row["group"] or ""))


def retries_a_minute(told: DataFrame) -> DataFrame:
    """(group, at_ms, retries, deliveries) of each minute in which a group had a delivery."""
    minute = (F.floor(F.col("at_ms") / MINUTE_MS) * MINUTE_MS).alias("at_ms")
    again = F.count(F.when(F.col("attempt") > 0, 1)).alias("retries")
    handed = _of(told, Delivered.kind)
    return handed.groupBy(F.col("producer_or_group").alias("group"), minute).agg(
        again, F.count("*").alias("deliveries")
    )


def most_tried(told: DataFrame) -> DataFrame:
    """(message_id, group, attempts) of the messages with the most attempts, if more than one."""
    handed = _of(told, Delivered.kind).where(F.col("attempt") > 0)
    attempts = (F.max("attempt") + 1).alias("attempts")
    counted = handed.groupBy("message_id", F.col("producer_or_group").alias("group")).agg(attempts)
    return counted.orderBy(F.desc("attempts"), "message_id").limit(20)


def failures(told: DataFrame) -> DataFrame:
    """(where, name, what, count): failed sends by topic, failed deliveries by group and result."""
    failed = told.where(~F.col("ok"))
    sends = F.col("kind") == Published.kind
    return (
        failed.select(
            F.when(sends, "produce").otherwise("consume").alias("where"),
            F.when(sends, F.col("topic")).otherwise(F.col("producer_or_group")).alias("name"),
            F.when(sends, "failed").otherwise(F.col("code")).alias("what"),
        )
        .groupBy("where", "name", "what")
        .agg(F.count("*").alias("count"))
        .orderBy(F.desc("count"), "where", "name", "what")
        .limit(200)
    )


def transactions(told: DataFrame) -> DataFrame:
    """(topic, group, committed, rolled_back, unknown, checked): messages of a producer group, by how their transactions ended.

    One that was decided in the end counts by its decision, however often its producer could not tell before; `checked`: how
    many of them were decided by the answer to a broker's question."""
    known = F.col("code") != "unknown"
    ended = (
        _of(told, TransactionEnded.kind)
        .groupBy("topic", F.col("producer_or_group").alias("group"), "message_id")
        .agg(
            F.coalesce(F.max(F.when(known, F.col("code"))), F.lit("unknown")).alias("code"),
            F.min(F.when(known, F.col("from_check"))).alias("checked"),
        )
    )

    def counted(condition: Column, name: str) -> Column:
        return F.count(F.when(condition, 1)).alias(name)

    return (
        ended.groupBy("topic", "group")
        .agg(
            counted(F.col("code") == "commit", "committed"),
            counted(F.col("code") == "rollback", "rolled_back"),
            counted(F.col("code") == "unknown", "unknown"),
            counted(F.col("checked"), "checked"),
        )
        .orderBy(F.desc("committed"), "topic", "group")
        .limit(HOPS_MAX)
    )


def _totals(told: DataFrame) -> Document:
    def counted(condition: Column, name: str) -> Column:
        return F.count(F.when(condition, 1)).alias(name)

    kind, ok = F.col("kind"), F.col("ok")
    found = told.agg(
        F.count("*").alias("rows"),
        counted((kind == Published.kind) & ok, "produced"),
        counted((kind == Published.kind) & ~ok, "produce_failures"),
        counted(kind == Delivered.kind, "delivered"),
        counted((kind == Consumed.kind) & ok, "consumed"),
        counted((kind == Consumed.kind) & ~ok, "consume_failures"),
        counted(kind == DAMAGED, "damaged"),
    )
    return _rows(found)[0]


def _of(told: DataFrame, kind: str) -> DataFrame:
    return told.where(F.col("kind") == kind)


def _not_below_0(column: Column) -> Column:
    return F.when(column.isNotNull(), F.greatest(column, F.lit(0)))


def _rows(frame: DataFrame) -> list[Document]:
    return [row.asDict() for row in frame.collect()]
