"""`zenit group list | describe | reset-offset | delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .options import Json, Namesrv, parse_time_ms
from .output import print_facts, print_table, show

Name = Annotated[str, typer.Argument(metavar="GROUP")]

QUEUE_COLUMNS = (
    "topic",
    "broker_name",
    "queue_id",
    "broker_queue_offset",
    "consumer_queue_offset",
    "lag",
    "lag_seconds",
    "owner",
)


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    group_app = typer.Typer(help="List, describe, move and delete consumer groups.")
    group_app.command("list")(list_groups)
    group_app.command("describe")(describe)
    group_app.command("reset-offset")(reset_offset)
    group_app.command("delete")(delete)
    app.add_typer(group_app, name="group")


def list_groups(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List groups, their members and topics."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        groups = admin.groups()
    columns = ("name", "members", "topics")
    show(
        groups,
        as_json,
        lambda: print_table(
            columns, [[len(g["members"]) if c == "members" else g[c] for c in columns] for g in groups]
        ),
    )


def describe(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Tell how far a group is behind, in messages and in seconds, queue by queue."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.describe_group(name)
    show(document, as_json, lambda: _print_group(document))


def reset_offset(
    name: Name,
    topic: Annotated[str, typer.Option("--topic", metavar="T")],
    to: Annotated[str, typer.Option("--to", metavar="TIME|OFFSET|earliest|latest", help="Where each queue goes on.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Move a group within a topic, for all queues; running members go on from there."""
    kind, value = reset_target(to)
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        queues = admin.reset_offset(name, topic, kind, value, dry_run=dry_run)
    document = {"group": name, "topic": topic, "dry_run": dry_run, "queues": queues}
    columns = ("topic", "broker_name", "queue_id", "from", "to")
    show(document, as_json, lambda: print_table(columns, [[row[column] for column in columns] for row in queues]))


def delete(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Delete a group that has no members, with its offsets."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        admin.delete_group(name)
    show({"group": name, "deleted": True}, as_json, lambda: typer.echo(f"group {name} is deleted"))


def reset_target(text: str) -> tuple[str, int]:
    """What `--to` means: ("earliest" | "latest", 0), ("offset", n) or ("time", ms). Raises typer.BadParameter."""
    if text in ("earliest", "latest"):
        return text, 0
    if text.isdecimal() and len(text) < 12:
        return "offset", int(text)
    return "time", parse_time_ms(text, "--to")


def _print_group(document: dict[str, Any]) -> None:
    print_facts({"group": document["group"], "members": document["members"], "lag": document["lag"]})
    print_table(QUEUE_COLUMNS, [[row[column] for column in QUEUE_COLUMNS] for row in document["queues"]])
