"""`zenit topic create | update | list | describe | compact | delete`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from ...model.route import CLEANUP_ATTRIBUTE, QUEUE_TYPE_ATTRIBUTE, TYPE_ATTRIBUTE
from ...model.topics.lite_settings import EXPIRATION, NEVER
from ..options import Json, Namesrv, complete_topics, pairs_text, parse_duration, parse_pairs
from ..output import counted, print_table, readable_time, show
from ..watch import watched
from .lite import register_topics

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_topics)]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    topic_app = typer.Typer()
    topic_app.command("create")(create)
    topic_app.command("update")(update)
    topic_app.command("list")(list_topics)
    topic_app.command("describe")(describe)
    topic_app.command("compact")(compact)
    topic_app.command("delete")(delete)
    register_topics(topic_app)
    app.add_typer(topic_app, name="topic")


def create(
    name: Name,
    queues: Annotated[
        int | None,
        typer.Option(
            min=1, help="Queues at each replica group; else as many as it has, 8 if it is new.", show_default=False
        ),
    ] = None,
    order: Annotated[
        bool, typer.Option("--order", help="Ordered: its queues stay at their brokers while one is down.")
    ] = False,
    attr: Annotated[list[str] | None, typer.Option("--attr", metavar="K=V", help="An attribute; repeatable.")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="What its messages are: lite, priority, ...")
    ] = None,
    lite_expiry: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Collect its lite topics after such an idle time: 15m, 1d, ...; or never."),
    ] = None,
    batch_queue: Annotated[
        bool, typer.Option("--batch-queue", help="Store each batch of a producer as one record; cannot be changed.")
    ] = False,
    is_compacted: Annotated[
        bool, typer.Option("--compact", help="Keep the newest message of each key for ever; cannot be changed.")
    ] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Create a topic at every broker; an existing one gets these settings, and its queues stay."""
    attributes = {**parse_pairs(attr, "--attr"), **_typed(kind, lite_expiry)}
    if batch_queue:
        attributes[QUEUE_TYPE_ATTRIBUTE] = "BatchCQ"
    if is_compacted:
        attributes[CLEANUP_ATTRIBUTE] = "COMPACTION"
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        admin.create_topic(name, queues=queues, order=order, attributes=attributes)
        count = queues or max(data.write_queues for data in admin.route(name).queues)
    document = {"topic": name, "queues": count, "order": order, "attributes": attributes}
    show(document, as_json, lambda: typer.echo(f"topic {name} has {counted(count, 'queue')} at each replica group"))


def update(
    name: Name,
    queues: Annotated[
        int | None, typer.Option(min=1, help="Queues at each replica group; never fewer than now.")
    ] = None,
    order: Annotated[
        bool | None,
        typer.Option("--order/--no-order", help="Whether its queues stay at their brokers while one is down."),
    ] = None,
    attr: Annotated[list[str] | None, typer.Option("--attr", metavar="K=V", help="An attribute; repeatable.")] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Change settings of an existing topic, at each broker that has it; the other settings stay.

    Queues are added at once. They are never removed, since they may hold messages. A new number of queues changes which queue a
    sharding key goes to.
    """
    attributes = parse_pairs(attr, "--attr")
    if queues is None and order is None and not attributes:
        raise typer.BadParameter("nothing to change", param_hint="--queues, --order, --attr")
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.update_topic(name, queues=queues, order=order, attributes=attributes)
    rows = [list(row.values()) for row in document["brokers"]]
    show(
        document,
        as_json,
        lambda: print_table(tuple(document["brokers"][0]), [[*row[:-1], pairs_text(row[-1])] for row in rows]),
    )


@watched
def list_topics(
    system: Annotated[bool, typer.Option("--all", help="Also the topics of the system.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """List topics and their settings."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        topics = [topic for topic in admin.topic_configs() if system or not topic["system"]]
    columns = ("name", "read_queues", "write_queues", "permission", "order")
    show(topics, as_json, lambda: print_table(columns, [[topic[column] for column in columns] for topic in topics]))


@watched
def describe(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Show the offsets of each queue of a topic."""
    from ...client.admin import Admin

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


def _typed(kind: str | None, lite_expiry: str | None) -> dict[str, str]:
    """The attributes that these options stand for. Raises typer.BadParameter."""
    attributes = {} if kind is None else {TYPE_ATTRIBUTE: kind.upper()}
    if lite_expiry is not None:
        idle = None if lite_expiry == "never" else parse_duration(lite_expiry, "--lite-expiry")
        if idle is not None and (idle % timedelta(minutes=1) or not idle):
            told = f"{lite_expiry!r}: it counts in minutes, so 1m, 90m, 2h, 1d, ...; or never"
            raise typer.BadParameter(told, param_hint="--lite-expiry")
        attributes[EXPIRATION] = str(NEVER if idle is None else idle // timedelta(minutes=1))
    return attributes


def compact(
    name: Name,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait; it goes on if they are over.")] = 600.0,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Compact a compacted topic now, at each master, whatever that frees; slaves follow their own schedule."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.compact_topic(name, timeout=timeout)
    columns = ("broker_name", "queue_id", "covered", "messages", "bytes", "tombstones", "lost", "waits_for")
    rows = [["" if row[column] is None else row[column] for column in columns] for row in document["queues"]]
    show(document, as_json, lambda: print_table(columns, rows))


def delete(name: Name, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Delete a topic, its messages and the offsets of its groups."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        admin.delete_topic(name)
    show({"topic": name, "deleted": True}, as_json, lambda: typer.echo(f"topic {name} is deleted"))
