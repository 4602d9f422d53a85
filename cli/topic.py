"""`zenit topic create | list | describe | delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json, Namesrv, complete_topics, parse_pairs
from .output import print_table, readable_time, show

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_topics)]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    topic_app = typer.Typer(help="Create, list, describe and delete topics.")
    topic_app.command("create")(create)
    topic_app.command("list")(list_topics)
    topic_app.command("describe")(describe)
    topic_app.command("delete")(delete)
    app.add_typer(topic_app, name="topic")


def create(
    name: Name,
    queues: Annotated[int, typer.Option(min=1, help="Queues at each replica group.")] = 8,
    order: Annotated[
        bool, typer.Option("--order", help="Mark it as ordered: its queues do not move while a broker is away.")
    ] = False,
    attr: Annotated[list[str] | None, typer.Option("--attr", metavar="K=V", help="An attribute; repeatable.")] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Create a topic at every broker, or give an existing one these settings; queues never become fewer."""
    attributes = parse_pairs(attr, "--attr")
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        admin.create_topic(name, queues=queues, order=order, attributes=attributes)
    document = {"topic": name, "queues": queues, "order": order, "attributes": attributes}
    show(document, as_json, lambda: typer.echo(f"topic {name} has {queues} queues at each replica group"))


def list_topics(
    system: Annotated[bool, typer.Option("--all", help="The system's own topics too.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """List topics and their settings."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        topics = [topic for topic in admin.topic_configs() if system or not topic["system"]]
    columns = ("name", "read_queues", "write_queues", "permission", "order")
    show(topics, as_json, lambda: print_table(columns, [[topic[column] for column in columns] for topic in topics]))


def describe(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Tell what each queue of a topic holds."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.describe_topic(name)
    columns = ("broker_name", "queue_id", "min_offset", "max_offset", "last_stored_at")
    rows = [
        [
            row["broker_name"],
            row["queue_id"],
            row["min_offset"],
            row["max_offset"],
            readable_time(row["last_stored_at_ms"]),
        ]
        for row in document["queues"]
    ]
    show(document, as_json, lambda: print_table(columns, rows))


def delete(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Delete a topic, its messages and the offsets of its groups."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        admin.delete_topic(name)
    show({"topic": name, "deleted": True}, as_json, lambda: typer.echo(f"topic {name} is deleted"))
