"""`zenit query-offsets list | show | drop`: the offsets of streaming queries that brokers store."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..options import Json, Namesrv
from ..output import print_json, print_table, readable_time, show

TIMEOUT_MS = 10_000  # for a person, not for a query that must survive an outage

Query = Annotated[str, typer.Argument(metavar="QUERY", help="The name that the query was given (option queryName).")]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    query_app = typer.Typer()
    query_app.command("list")(list_queries)
    query_app.command("show")(show_query)
    query_app.command("drop")(drop)
    app.add_typer(query_app, name="query-offsets")


def list_queries(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List the queries whose offsets are stored, since when and where."""
    from ...client.administration.pipeline_calls import pipeline_calls

    with pipeline_calls(namesrv, timeout_ms=TIMEOUT_MS) as calls:
        queries = calls.queries()
    rows = [[row["query"], readable_time(row["kept_at_ms"]), row["size_bytes"], row["brokers"]] for row in queries]
    show(queries, as_json, lambda: print_table(("query", "kept_at", "size_bytes", "brokers"), rows))


def show_query(query: Query, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Print the stored offsets of a query as a line of JSON; with --json, those of each replica group."""
    from ...client.administration.pipeline_calls import pipeline_calls
    from ...client.administration.query_copies import agreed
    from ...model.errors import QueryOffsetsNotFound

    with pipeline_calls(namesrv, timeout_ms=TIMEOUT_MS) as calls:
        copies = {name: text for name, text in calls.copies(query).items() if text is not None}
    if not copies:
        raise QueryOffsetsNotFound(query)
    kept = {name: json.loads(text) for name, text in copies.items()}
    if as_json:
        print_json({"query": query, "kept": kept})
        return
    agreed(query, copies)
    print_json(next(iter(kept.values())))


def drop(query: Query, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Delete the stored offsets of a query; a query of that name then starts from its beginning."""
    from ...client.administration.pipeline_calls import pipeline_calls

    with pipeline_calls(namesrv, timeout_ms=TIMEOUT_MS) as calls:
        calls.drop_query_offsets(query)
    show({"query": query, "dropped": True}, as_json, lambda: typer.echo(f"offsets of query {query} are dropped"))
