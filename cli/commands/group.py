"""`zenit group list | describe | clients | create | update | reset-offset | skip-backlog | clone-offsets | delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...model.queue import MessageQueue
from ..options import Json, Namesrv, complete_groups, complete_topics, parse_pairs, parse_time_ms
from ..output import print_facts, print_table, readable_time, show
from ..watch import watched
from .lite import group_lite

Name = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attr",
        metavar="NAME=JSON",
        help='A setting, such as retryMaxTimes=5 or \'groupRetryPolicy={"type": "EXPONENTIAL"}\'; repeatable.',
    ),
]
Topic = Annotated[str, typer.Option("--topic", metavar="T", autocompletion=complete_topics)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]

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
LEASE_COLUMNS = (
    "topic",
    "broker_name",
    "queue_id",
    "next_offset",
    "first_unacknowledged",
    "leased",
    "available",
    "oldest_lease_seconds",
    "attempts_max",
)
CLIENT_COLUMNS = (
    "client_id",
    "language",
    "version",
    "host",
    "pid",
    "started_at",
    "silent_seconds",
    "model",
    "allocation",
    "topics",
)


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    group_app = typer.Typer()
    group_app.command("list")(list_groups)
    group_app.command("describe")(describe)
    group_app.command("clients")(clients)
    group_app.command("lite")(group_lite)
    group_app.command("create")(create)
    group_app.command("update")(update)
    group_app.command("reset-offset")(reset_offset)
    group_app.command("skip-backlog")(skip_backlog)
    group_app.command("clone-offsets")(clone_offsets)
    group_app.command("delete")(delete)
    app.add_typer(group_app, name="group")


@watched
def list_groups(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List groups, their members and topics."""
    from ...client.admin import Admin

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


@watched
def describe(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Show how far a group is behind in each queue, in messages and in seconds; of a pop group also what it holds."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.describe_group(name) | {"leases": admin.leases(name)}
    show(document, as_json, lambda: _print_group(document))


@watched
def clients(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Show the members of a group: process, host, version, how they share queues, what they subscribe to."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.group_clients(name)
    show(document, as_json, lambda: _print_clients(document))


def reset_offset(
    name: Name,
    topic: Topic,
    to: Annotated[str, typer.Option("--to", metavar="TIME|OFFSET|earliest|latest", help="New offset of each queue.")],
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="BROKER:ID", help="Only this queue; else all.")
    ] = None,
    dry_run: DryRun = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Set the offsets of a group in a topic; running members continue from there."""
    kind, value = reset_target(to)
    wanted = None if queue is None else queue_of(topic, queue)
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        queues = admin.reset_offset(name, topic, kind, value, queue=wanted, dry_run=dry_run)
    _show_moved({"group": name, "topic": topic, "dry_run": dry_run, "queues": queues}, as_json)


def skip_backlog(
    name: Name, topic: Topic, dry_run: DryRun = False, namesrv: Namesrv = None, as_json: Json = False
) -> None:
    """Set the offsets of a group to the end of a topic; it never gets the messages before."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        queues = admin.reset_offset(name, topic, "latest", dry_run=dry_run)
    document = {"group": name, "topic": topic, "dry_run": dry_run, "queues": queues}
    skipped = sum(max(0, row["to"] - row["from"]) for row in queues if row["from"] is not None)
    _show_moved(document | {"skipped": skipped}, as_json)


def clone_offsets(
    source: Annotated[str, typer.Argument(metavar="FROM")],
    name: Annotated[str, typer.Argument(metavar="TO")],
    topic: Annotated[str | None, typer.Option("--topic", metavar="T", help="Only this topic; else all.")] = None,
    dry_run: DryRun = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Copy the offsets of group FROM to group TO; TO is created if it does not exist."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        queues = admin.clone_offsets(source, name, topic=topic, dry_run=dry_run)
    _show_moved({"source": source, "group": name, "topic": topic, "dry_run": dry_run, "queues": queues}, as_json)


def create(name: Name, attr: Attributes = None, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Create a group with settings; an existing one gets these settings."""
    _set(name, attr, namesrv, as_json, told="is created")


def update(name: Name, attr: Attributes = None, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Change settings of an existing group; the other settings stay."""
    from ...client.admin import Admin
    from ...model.errors import GroupNotFound

    if not attr:
        raise typer.BadParameter("nothing to change", param_hint="--attr")
    with Admin(namesrv) as admin:
        if name not in {group["name"] for group in admin.groups()}:
            raise GroupNotFound(name)
    _set(name, attr, namesrv, as_json, told="is changed")


def delete(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Delete a group without members, its offsets and its pending retries; its dead letters stay."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        admin.delete_group(name)
    show({"group": name, "deleted": True}, as_json, lambda: typer.echo(f"group {name} is deleted"))


def reset_target(text: str) -> tuple[str, int]:
    """Parses `--to`: ("earliest" | "latest", 0), ("offset", n) or ("time", ms). Raises typer.BadParameter."""
    if text in ("earliest", "latest"):
        return text, 0
    if text.isdecimal() and len(text) < 12:
        return "offset", int(text)
    return "time", parse_time_ms(text, "--to")


def _print_clients(document: dict[str, Any]) -> None:
    rows = [
        {
            **client,
            "started_at": readable_time(client["started_at_ms"]),
            "silent_seconds": client["silent_ms"] / 1000,
            "topics": sorted({subscription[0] for subscription in client["subscriptions"]}),
        }
        for client in document["clients"]
    ]
    print_table(CLIENT_COLUMNS, [[row[column] for column in CLIENT_COLUMNS] for row in rows])


def queue_of(topic: str, text: str) -> MessageQueue:
    """Parses `--queue`. Raises typer.BadParameter."""
    broker_name, _, number = text.rpartition(":")
    if not broker_name or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise typer.BadParameter(f"{text!r} is not a queue such as broker-a:0", param_hint="--queue")
    return MessageQueue(topic, broker_name, int(number))


def _set(name: str, attr: list[str] | None, namesrv: str | None, as_json: bool, *, told: str) -> None:
    attributes = parse_pairs(attr, "--attr")
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        admin.create_group(name, attributes)
        (settings,) = (group["attributes"] for group in admin.groups() if group["name"] == name)
    show({"group": name, "attributes": settings}, as_json, lambda: typer.echo(f"group {name} {told}"))


def _show_moved(document: dict[str, Any], as_json: bool) -> None:
    columns = ("topic", "broker_name", "queue_id", "from", "to")
    rows = [[known(row[column]) for column in columns] for row in document["queues"]]
    show(document, as_json, lambda: print_table(columns, rows))


def conflict_lines(conflicts: list[dict[str, Any]]) -> list[str]:
    """Lines about members with different subscriptions."""
    lines = []
    for conflict in conflicts:
        lines.append(
            f"members subscribe differently to topic {conflict['topic']}; which messages they get is left to chance:"
        )
        lines += [
            f"  {want['kind']} {want['expression']}: {', '.join(want['members'])}" for want in conflict["subscriptions"]
        ]
    return lines


def _print_group(document: dict[str, Any]) -> None:
    print_facts({"group": document["group"], "members": document["members"], "lag": known(document["lag"])})
    for line in conflict_lines(document["conflicts"]):
        typer.echo(line)
    print_table(
        QUEUE_COLUMNS,
        [
            [row[column] if column == "owner" else known(row[column]) for column in QUEUE_COLUMNS]
            for row in document["queues"]
        ],
    )
    if document["leases"]:
        _print_leases(document["leases"])


def _print_leases(leases: list[dict[str, Any]]) -> None:
    rows = []
    for row in leases:
        oldest_ms = row["oldest_lease_ms"]
        shown = {**row, "oldest_lease_seconds": None if oldest_ms is None else oldest_ms / 1000}
        rows.append([shown[column] for column in LEASE_COLUMNS])
    print_table(LEASE_COLUMNS, rows)


def known(number: object) -> object:
    """A number, or "unknown"."""
    return "unknown" if number is None else number
