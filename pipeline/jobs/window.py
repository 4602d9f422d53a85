"""The job `window`: counts, sums and similar by key over windows of time, to a topic or to Parquet files.

A small TOML file (window_spec) says what to count. A window is written once, when the watermark has passed its end: the
newest windows wait until newer messages come. Each is written once, whatever is killed: Spark repeats a batch with the same
windows. A topic recognizes them by their numbers; in files, the batch has a directory of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from ...model.config import setting
from ...model.errors import BatchChanged, BatchOutdated, ConfigError
from ..options.durations import spark_interval
from ..options.window_spec import WINDOW_COLUMNS, WindowSpec, parse_window_spec
from .archives.archive_tree import local_path
from .archives.durable_files import sync_directory
from .job import Document, Job, Report, Session, required
from .streaming import StreamOptions, WriteBatch, run_query, topic_stream
from .tables import messages_in


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowOptions(StreamOptions):
    """What to count, and where to write it."""

    spec: str = setting("", "TOML file that says what to count (needed).")
    to: str = setting("", "Topic to send to; it must be there. This or --parquet is needed.")
    parquet: str = setting("", "Directory of this machine to write Parquet files to.")

    def __post_init__(self) -> None:
        self.check()
        required("spec", self.spec, "a TOML file")
        if bool(self.to) == bool(self.parquet):
            raise ConfigError("to", self.to, "a topic or a directory for Parquet files, one of them")
        if self.parquet:
            local_path("parquet", self.parquet)
        if self.to in self.window_spec().topics:
            raise ConfigError("to", self.to, "another topic than those that are read")

    def window_spec(self) -> WindowSpec:
        """The specification in the file. Raises ConfigError."""
        try:
            with open(self.spec, encoding="utf-8") as file:
                return parse_window_spec(file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("spec", self.spec, f"a readable text file ({error})") from error


def plan(options: WindowOptions, session: Session) -> Document:
    """How much there is to read, whatever a checkpoint says. Starts no Spark."""
    del session
    spec = options.window_spec()
    if options.to:
        messages_in(options.namesrv, [options.to])
    rows = messages_in(options.namesrv, spec.topics)
    return {"rows": rows, "topics": list(spec.topics), "columns": list(spec.columns)}


def run(options: WindowOptions, session: Session, report: Report) -> Document:
    """Counts, and writes the finished windows."""
    spec = options.window_spec()
    messages_in(options.namesrv, [*spec.topics, *([options.to] if options.to else [])])
    spark = session()
    columns = ("topic", "tags", "keys", "messageGroup", "body", "bornTimestamp", "storeTimestamp")
    counts = run_query(
        spark,
        windows(topic_stream(spark, spec.topics, columns, options.source()), spec),
        _to_topic(options, spec) if options.to else _to_files(local_path("parquet", options.parquet), spec),
        report,
        name=f"zenit window {options.to or options.parquet}",
        options=options,
    )
    return {
        "rows": counts.rows,
        "windows": counts.state_rows_ended,
        "late_rows": counts.late_rows,
        "batches": counts.batches,
        "to": options.to or options.parquet,
    }


JOB = Job("window", WindowOptions, plan, run)


def windows(frame: DataFrame, spec: WindowSpec) -> DataFrame:
    """The result of a spec over the messages of its topics: the columns that it names."""
    span = F.window(spec.time_column, spark_interval(spec.window_ms), spark_interval(spec.slide_ms))
    keys = [F.expr(column.expression).alias(column.name) for column in spec.keys]
    counted = [F.expr(column.expression).alias(column.name) for column in spec.aggregates]
    grouped = (
        frame.withWatermark(spec.time_column, spark_interval(spec.watermark_ms)).groupBy(span, *keys).agg(*counted)
    )
    begin, end = (
        F.col(f"window.{side}").alias(name) for side, name in zip(("start", "end"), WINDOW_COLUMNS, strict=True)
    )
    return grouped.select(begin, end, *spec.columns[len(WINDOW_COLUMNS) :])


def _in_order(batch: DataFrame, spec: WindowSpec) -> DataFrame:
    """Two attempts at a batch have the same rows in each partition; this also gives them the same order."""
    return batch.sortWithinPartitions(WINDOW_COLUMNS[0], *(column.name for column in spec.keys))


def _to_topic(options: WindowOptions, spec: WindowSpec) -> WriteBatch:
    times = [F.unix_millis(name).alias(f"{name}_ms") for name in WINDOW_COLUMNS]
    body = F.to_json(F.struct(*times, *spec.columns[len(WINDOW_COLUMNS) :]), {"ignoreNullFields": "false"})
    names = [F.coalesce(F.col(column.name), F.lit("")) for column in spec.keys]
    key = F.translate(F.concat_ws("|", *names), " ", "_") if names else F.lit(None).cast("string")
    sink = options.sink(options.to)

    def write(batch: DataFrame, number: int, query: str) -> None:
        rows = _in_order(batch, spec).select(body.alias("body"), key.alias("keys"), key.alias("messageGroup"))
        rows.write.format("zenit").mode("append").options(**sink, queryName=query, batchId=str(number)).save()

    return write


def _to_files(target: str, spec: WindowSpec) -> WriteBatch:
    """The files of a batch become visible at once, by one rename of their directory."""

    def write(batch: DataFrame, number: int, query: str) -> None:
        name = f"batch={query[:8]}-{number}"
        known = last_batch(target, query)
        if number < known:
            raise BatchOutdated(query, number, known)
        whole, staged = os.path.join(target, name), os.path.join(target, "_staging", name)
        _in_order(batch, spec).write.mode("overwrite").parquet(f"file://{staged}")
        files = _parquet_files(staged)
        if os.path.exists(whole):  # of an attempt whose end Spark did not learn: its state was made nevertheless
            is_same = _told_windows(files, spec) == _told_windows(_parquet_files(whole), spec)
            shutil.rmtree(staged)
            if not is_same:
                raise BatchChanged(query, number, f"{whole} tells of others")
        elif any(pq.read_metadata(file).num_rows for file in files):
            for file in files:
                _sync_file(file)
            sync_directory(staged)
            os.rename(staged, whole)
            sync_directory(target)
        else:
            shutil.rmtree(staged)

    return write


def last_batch(target: str, query: str) -> int:
    """The highest number of a query's batches in the directory; -1: there is none."""
    prefix = f"batch={query[:8]}-"
    names = os.listdir(target) if os.path.isdir(target) else []
    numbers = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1)


def _parquet_files(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".parquet")]


def _told_windows(files: Iterable[str], spec: WindowSpec) -> set[tuple[Any, ...]]:
    """The windows and keys in some files; the other columns follow from them."""
    names = [WINDOW_COLUMNS[0], *(column.name for column in spec.keys)]
    tables = (pq.read_table(file, columns=names, partitioning=None) for file in files)
    return {row for table in tables for row in zip(*(table.column(name).to_pylist() for name in names), strict=True)}


def _sync_file(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
