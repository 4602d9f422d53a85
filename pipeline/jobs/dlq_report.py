"""The job `dlq-report`: counts dead letters by group, by original topic, by tag and by kind of failure.

A kind of failure is a letter's reason without the numbers and ids in it: "order 17: timeout after 3000 ms" and "order 18:
timeout after 3001 ms" are one kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from ...client.admin import Admin
from ...client.administration.letter_selection import LetterSelection
from ...model.config import check_settings, setting
from ...model.names import DEAD_LETTER_PREFIX
from ...model.properties import DEAD_LETTER_REASON, DEAD_LETTER_TOPIC, RETRY_TOPIC
from ...model.redelivery import dead_letter_topic
from ..reports.report_pages import dead_letter_parts
from .archives.report_files import check_page, write_page
from .job import Document, Job, Report, Session, moment_ms
from .letters import groups_with_letters, selection_of
from .tables import between, topic_table

CLASSES_MAX: Final = 200
HOURS_MAX: Final = 2_000
HOUR_MS: Final = 3_600_000
BODY_CHARACTERS: Final = 160
NUMBERS_AND_IDS: Final = "[0-9A-Fa-f]{8}[0-9A-Fa-f-]*|[0-9]+"
CLASS: Final = ("group", "origin_topic", "tag", "reason_kind")
COLUMNS: Final = (
    "topic",
    "messageId",
    "keys",
    "tags",
    "properties",
    "body",
    "storeTimestamp",
    "reconsumeTimes",
    "queueOffset",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterReportOptions:
    """Which letters."""

    groups: tuple[str, ...] = setting((), "Only of these groups; else of all that have any.")
    origins: tuple[str, ...] = setting((), "Only letters that came from these topics.")
    tags: tuple[str, ...] = setting((), "Only letters with one of these tags.")
    reason: str = setting("", "Only letters whose reason holds this text.")
    since: str = setting("", "Given up at or after this time.")
    until: str = setting("", "Given up at or before this time.")
    samples: int = setting(3, "Letters shown of each kind, the newest.", minimum=0, maximum=20)
    html: str = setting("", "File to write the report to, as a page.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")

    def __post_init__(self) -> None:
        check_settings(self)
        check_page("html", self.html)
        moment_ms("since", self.since)
        moment_ms("until", self.until)


def plan(options: DeadLetterReportOptions, session: Session) -> Document:
    """Which groups have letters, of any kind. Starts no Spark."""
    del session
    with Admin(options.namesrv or None) as admin:
        groups = groups_with_letters(admin, options.groups)
    return {"rows": sum(row["letters"] for row in groups), "groups": [row["group"] for row in groups]}


def run(options: DeadLetterReportOptions, session: Session, report: Report) -> Document:
    """Counts; if no group has letters, without starting Spark."""
    del report
    with Admin(options.namesrv or None) as admin:
        groups = [row["group"] for row in groups_with_letters(admin, options.groups)]
    summary: Document = {"rows": 0, "groups": groups, "classes": [], "classes_left_out": 0, "samples": [], "hours": []}
    if groups:
        summary |= count_letters(letters(session(), groups, options), options.samples)
    return summary | write_page(options.html, "Dead letters", dead_letter_parts(summary))


JOB = Job("dlq-report", DeadLetterReportOptions, plan, run)


def letters(spark: SparkSession, groups: list[str], options: DeadLetterReportOptions) -> DataFrame:
    """The selected letters, with the columns that determine their kind."""
    stored = topic_table(spark, [dead_letter_topic(group) for group in groups], COLUMNS, options.namesrv)
    rows = between(stored, moment_ms("since", options.since), moment_ms("until", options.until))
    reason = _property(DEAD_LETTER_REASON)
    return rows.select(
        F.substring("topic", len(DEAD_LETTER_PREFIX) + 1, 255).alias("group"),
        F.coalesce(_property_or_null(DEAD_LETTER_TOPIC), _property(RETRY_TOPIC)).alias("origin_topic"),
        F.coalesce("tags", F.lit("")).alias("tag"),
        reason.alias("reason"),
        F.regexp_replace(reason, NUMBERS_AND_IDS, "#").alias("reason_kind"),
        F.unix_millis("storeTimestamp").alias("at_ms"),
        F.col("reconsumeTimes").alias("attempts"),
        F.col("messageId").alias("message_id"),
        F.col("queueOffset").alias("offset"),
        "keys",
        F.substring(F.col("body").cast("string"), 1, BODY_CHARACTERS).alias("body"),
    ).where(_selected(selection_of(options)))


def _property_or_null(name: str) -> Column:
    return F.col("properties").getItem(name)


def _property(name: str) -> Column:
    return F.coalesce(_property_or_null(name), F.lit(""))


def _selected(selection: LetterSelection) -> Column:
    """The condition of `LetterSelection.matches` as a column."""
    condition = F.contains(F.lower("reason"), F.lit(selection.reason.lower()))
    for column, wanted in (("origin_topic", selection.topics), ("tag", selection.tags)):
        if wanted:
            condition = condition & F.col(column).isin(sorted(wanted))
    return condition


def count_letters(rows: DataFrame, samples: int) -> Document:
    """{rows, classes, classes_left_out, samples, hours} of these letters, the largest classes first."""
    kept = rows.persist()
    try:
        counted = kept.groupBy(*CLASS).agg(
            F.count("*").alias("letters"),
            F.min("at_ms").alias("first_at_ms"),
            F.max("at_ms").alias("last_at_ms"),
            F.max("attempts").alias("attempts_max"),
        )
        total = counted.agg(F.sum("letters"), F.count("*")).collect()[0]
        found = counted.orderBy(F.desc("letters"), *CLASS).limit(CLASSES_MAX).collect()
        hour = (F.floor(F.col("at_ms") / HOUR_MS) * HOUR_MS).alias("at_ms")
        hours = kept.groupBy("group", hour).agg(F.count("*").alias("letters")).orderBy(F.desc("at_ms")).limit(HOURS_MAX)
        return {
            "rows": int(total[0] or 0),
            "classes": [_class(number, row) for number, row in enumerate(found)],
            "classes_left_out": int(total[1]) - len(found),
            "samples": _samples(kept, found, samples) if found and samples else [],
            "hours": [row.asDict() for row in hours.collect()],
        }
    finally:
        kept.unpersist()


def _class(number: int, row: Row) -> Document:
    return {
        "class": number,
        "group": row["group"],
        "origin_topic": row["origin_topic"],
        "tag": row["tag"],
        "reason": row["reason_kind"],
        "letters": row["letters"],
        "first_at_ms": row["first_at_ms"],
        "last_at_ms": row["last_at_ms"],
        "attempts_max": row["attempts_max"],
    }


def _samples(letters: DataFrame, classes: list[Row], count: int) -> list[Document]:
    """The newest letters of each of these classes, with the classes' numbers."""
    numbered = [(number, *(row[name] for name in CLASS)) for number, row in enumerate(classes)]
    top = F.broadcast(letters.sparkSession.createDataFrame(numbered, ["class", *CLASS]))
    rank = F.row_number().over(Window.partitionBy("class").orderBy(F.desc("at_ms"), F.desc("offset"), "message_id"))
    found = letters.join(top, list(CLASS)).withColumn("rank", rank).where(F.col("rank") <= count)
    ordered = found.orderBy("class", "rank")
    return [row.asDict() for row in ordered.select("class", "at_ms", "message_id", "keys", "reason", "body").collect()]
