"""`zenit sql "SELECT ..."`: Spark SQL over topics and archives. pipeline/sql does the work; this module prints."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..endings import no_child_outlives
from ..options import Json, Namesrv, parse_pairs
from ..output import note, print_json, print_table, short_text, show

if TYPE_CHECKING:
    from ...pipeline.sql import SqlResult


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("sql")(sql)


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Spark SQL that reads: SELECT ..., WITH ...")],
    archive: Annotated[
        list[str] | None,
        typer.Option("--archive", metavar="NAME=DIR", help="An archive as a table of that name; repeatable."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1_000_000, help="Rows printed at most.")
    ] = 1000,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, ...")
    ] = "local[*]",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which tables and columns would be read.")
    ] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Query topics with SQL: each is a table of its name, with a row for each message.

    Columns: topic, broker, queueId, queueOffset, messageId, keys, tags, messageGroup, body, properties, bornTimestamp,
    storeTimestamp and more (docs/pipeline.md). Put a name with
    characters other than letters, digits and _ in back-quotes.
    """
    if as_csv and as_json:
        raise typer.BadParameter("--csv or --json, not both", param_hint="--csv")
    archives = parse_pairs(archive, "--archive")
    from ...model.errors import InvalidParameter, RequirementMissing

    try:
        from ...pipeline.jobs.runner import PreparedJob, run_job
        from ...pipeline.sql import SQL_JOB, SqlOptions, hush_spark
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow"):
            raise
        raise RequirementMissing(
            str(error.name), "the data pipeline needs it: pip install 'zenitmq[spark]', in a clone '.[spark]'"
        ) from None
    hush_spark()
    options = SqlOptions(query, namesrv, archives, limit)
    try:
        with no_child_outlives():
            document = run_job(PreparedJob(SQL_JOB, options, master), lambda _progress: None, dry_run=dry_run)
    except InvalidParameter as error:
        raise typer.BadParameter(str(error)) from None
    if dry_run:
        tables = document["tables"]
        show(tables, as_json, lambda: print_table(("table", "columns"), [list(table.values()) for table in tables]))
        return
    result = document["result"]
    print_result(result, as_csv=as_csv, as_json=as_json)
    if result.is_cut:
        note(f"zenit: only the first {limit} rows; --limit N prints more")


def print_result(result: SqlResult, *, as_csv: bool, as_json: bool) -> None:
    """As a table, unless another form is requested."""
    if as_json:
        print_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows([_flat(value) for value in row] for row in result.rows)
    else:
        rows = [
            [short_text(str(cell)) if isinstance(cell := _flat(value), str) else cell for value in row]
            for row in result.rows
        ]
        print_table(result.columns, rows)


def _flat(value: Any) -> Any:
    """A value for one cell: nested values as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
