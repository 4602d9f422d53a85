"""`zenit topic lite list`, `zenit topic light-queues` and `zenit group lite`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Json, Namesrv, complete_topics
from ..output import counted, print_table, readable_time, show

Parent = Annotated[str, typer.Argument(metavar="PARENT", autocompletion=complete_topics)]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="Show at most so many.")]


def register_topics(topic_app: typer.Typer) -> None:
    """Adds `topic lite` and `topic light-queues`."""
    lite_app = typer.Typer(help="Lite topics of a parent topic.", no_args_is_help=True)
    lite_app.command("list")(list_lite_topics)
    topic_app.add_typer(lite_app, name="lite")
    topic_app.command("light-queues")(list_light_queues)


def list_lite_topics(parent: Parent, limit: Limit = 1000, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List the lite topics of a parent: their offsets, last message and subscribers."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.lite_topics(parent, limit=limit)
    columns = ("lite_topic", "broker_name", "min_offset", "max_offset", "last_stored_at", "subscribers")
    rows = [
        [
            *(row[column] for column in columns[:4]),
            readable_time(row["last_stored_at_ms"]),
            row["subscribers"],
        ]
        for row in document["lite_topics"]
    ]

    def tell() -> None:
        print_table(columns, rows)
        typer.echo(counted(document["count"], "lite topic"))

    show(document, as_json, tell)


def list_light_queues(
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Only those whose names begin so, with or without %LMQ% in front.")
    ] = "",
    limit: Limit = 1000,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """List light queues: their offsets, their newest message and its topic."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.light_queues(prefix, limit=limit)
    columns = ("light_queue", "broker_name", "topic", "min_offset", "max_offset", "last_stored_at")
    rows = [
        [*(row[column] for column in columns[:5]), readable_time(row["last_stored_at_ms"])]
        for row in document["light_queues"]
    ]

    def tell() -> None:
        print_table(columns, rows)
        typer.echo(f"{document['count']} light queues")

    show(document, as_json, tell)


def group_lite(
    name: Annotated[str, typer.Argument(metavar="GROUP")],
    limit: Limit = 1000,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Show what a group has left to receive or to acknowledge of lite topics, and how many its members subscribe to."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.lite_group(name, limit=limit)
    columns = ("topic", "lite_topic", "broker_name", "next_offset", "max_offset", "lag", "leased", "available")
    member_columns = ("client_id", "topic", "broker_name", "lite_topics", "ready")

    def tell() -> None:
        print_table(member_columns, [[row[column] for column in member_columns] for row in document["members"]])
        typer.echo("")
        print_table(columns, [[row[column] for column in columns] for row in document["lite_topics"]])

    show(document, as_json, tell)
