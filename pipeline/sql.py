"""SQL over topics and archives: each name in a query is a table of that name while the query runs.

A topic has the columns of the source (schema.COLUMNS); those that the query does not name are not read. The brokers
evaluate conditions on time, queue and tags. Names that are not plain words need back-quotes: `%DLQ%group`.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame

from ..client.admin import Admin
from ..model.errors import InvalidParameter, QueryFailed, ZenitError
from .column_names import COLUMN_NAMES
from .jobs.archived_rows import archive_frame
from .jobs.job import Document, Job, Report, Session
from .jobs.tables import topic_table
from .reports.sql_values import plain
from .reports.sql_words import columns_named, quoted, sql_reason, sql_words, tables_named, unique_names


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """A query, and its possible tables. `archives`: {name: directory}; `rows_max`: the most rows wanted."""

    query: str
    namesrv: str | None = None
    archives: Mapping[str, str] = field(default_factory=dict)
    rows_max: int = 1000


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows as plain values, with the names of their columns. `is_cut`: there were more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Named:
    """The tables that a query names: topics with the columns that it needs, and archives."""

    topics: dict[str, tuple[str, ...]]
    archives: dict[str, str]
    known: tuple[str, ...]


def run_sql(options: SqlOptions, session: Session) -> SqlResult:
    """Runs one query. `session`: starts Spark; called after the tables are found.

    Raises InvalidParameter if the text is not a query, QueryFailed with Spark's error about it in one line, and Spark's
    exception if a task fails.
    """
    named = _named(options)
    spark = session()
    try:
        for name, columns in named.topics.items():
            topic_table(spark, [name], columns, options.namesrv or "").createOrReplaceTempView(quoted(name))
        for name, directory in named.archives.items():
            archive_frame(spark, directory).createOrReplaceTempView(quoted(name))
        return _result(spark.sql(options.query.strip().rstrip(";")), options.rows_max)
    except PySparkException as error:
        if "Traceback (most recent call last)" in str(error):
            raise  # of a worker, not of the query
        raise _failure(error, named.known) from error
    finally:
        for name in (*named.topics, *named.archives):
            spark.catalog.dropTempView(name)


def _plan(options: SqlOptions, session: Session) -> Document:
    """What would be read. Starts no Spark."""
    del session
    named = _named(options)
    tables = [{"table": name, "columns": list(columns)} for name, columns in named.topics.items()]
    return {"rows": 0, "tables": tables + [{"table": name, "columns": ["*"]} for name in named.archives]}


def _run(options: SqlOptions, session: Session, report: Report) -> Document:
    del report
    result = run_sql(options, session)
    return {"rows": len(result.rows), "result": result}


SQL_JOB: Final = Job("sql", SqlOptions, _plan, _run)
"""For the runner of jobs, which starts Spark and captures its output; `result` in the summary is the SqlResult."""


def hush_spark() -> None:
    """Suppresses Spark's own reports of wrong queries: JSON of thousands of characters on stderr, besides the exception.

    For programs of ours; in a user's program the loggers are the user's.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _named(options: SqlOptions) -> _Named:
    words = sql_words(options.query)
    topics = _topics(options.namesrv, has_others=bool(options.archives))
    for name in options.archives:
        if name in topics:
            raise InvalidParameter("archive", name, "a name that no topic has")
    known = (*topics, *options.archives)
    tables = tables_named(words, known)
    columns = columns_named(words, COLUMN_NAMES)
    return _Named(
        {name: columns for name in tables if name not in options.archives},
        {name: options.archives[name] for name in tables if name in options.archives},
        known,
    )


def _topics(namesrv: str | None, *, has_others: bool) -> list[str]:
    """The cluster's topics; empty if there is no cluster and the query has other tables to read."""
    try:
        with Admin(namesrv) as admin:
            return admin.topics()
    except ZenitError:
        if has_others:
            return []
        raise


def _result(frame: DataFrame, rows_max: int) -> SqlResult:
    """The rows; requests one more than wanted, to know whether there are more."""
    names = unique_names(frame.columns)
    renamed = frame.toDF(*names)
    for name, kind in renamed.dtypes:
        if kind == "timestamp_ntz":  # Python would take it for local time
            renamed = renamed.withColumn(name, renamed[quoted(name)].cast("string"))
    rows = renamed.limit(rows_max + 1).collect()
    return SqlResult(
        tuple(names), tuple(tuple(plain(value) for value in row) for row in rows[:rows_max]), len(rows) > rows_max
    )


def _failure(error: PySparkException, tables: Iterable[str]) -> QueryFailed:
    reason = sql_reason(str(error))
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return QueryFailed(reason)
    wanted = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
    nearest = difflib.get_close_matches(wanted, list(tables), 1, 0.5)
    hint = f"; did you mean {quoted(nearest[0])}?" if nearest else ""
    _, found, place = reason.rpartition(" (line ")
    return QueryFailed(f"no topic or archive {wanted!r}{hint}" + (f" (line {place}" if found else ""))
