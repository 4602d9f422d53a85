"""`zenit message get | query | trace`: single messages by id or key, and the trace of one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ....model.names import TRACE_TOPIC
from ...journey_text import journey_row
from ...message_text import message_document
from ...options import Json, Namesrv, parse_moment
from ...output import print_facts, print_table, readable_time, short_text, show


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    message_app = typer.Typer()
    message_app.command("get")(get)
    message_app.command("query")(query)
    message_app.command("trace")(trace)
    app.add_typer(message_app, name="message")


def get(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="A message id, or an offset message id.")],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="T", help="Topic of the message; else every topic is searched.")
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print one message."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        document = message_document(admin.view_message(message_id, topic=topic))
    show(document, as_json, lambda: print_facts(_readable(document)))


def query(
    topic: Annotated[str, typer.Option("--topic", metavar="T")],
    key: Annotated[str, typer.Option("--key", metavar="K")],
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Stored at or after.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stored at or before.")] = None,
    maximum: Annotated[int, typer.Option("--max", metavar="N", min=1, help="At most N, the newest.")] = 64,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print the messages of a topic that have a key, newest first."""
    begin, end = parse_moment(since, "--since"), parse_moment(until, "--until")
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        found = admin.query_by_key(topic, key, since=begin, until=end, max_messages=maximum)
    documents = [message_document(message) for message in found]
    columns = ("stored_at", "queue", "queue_offset", "message_id", "body")
    show(documents, as_json, lambda: print_table(columns, [_row(document) for document in documents]))


def trace(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="A message id, or an offset message id.")],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="T", help="Topic of the message; else every topic is searched.")
    ] = None,
    trace_topic: Annotated[
        str, typer.Option("--trace-topic", metavar="T", help="Topic to which the clients write their traces.")
    ] = TRACE_TOPIC,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print what happened to a message: sent, stored, each delivery and its result, retries.

    Clients that were made with trace=True write traces. Without traces only what the log holds is shown.
    """
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.trace(message_id, topic=topic, trace_topic=trace_topic)

    def print_journey() -> None:
        rows = [(readable_time(event["at_ms"]), *journey_row(event)) for event in document["events"]]
        print_facts({"message_id": document["message_id"], "topic": document["topic"]})
        print_table(("at", "event", "who", "what"), rows)

    show(document, as_json, print_journey)


def _row(document: dict[str, Any]) -> list[object]:
    body = document.get("body") or document.get("body_base64", "")
    queue = f"{document['broker_name']}:{document['queue_id']}"
    stored_at = readable_time(document["stored_at_ms"])
    return [stored_at, queue, document["queue_offset"], document["message_id"], short_text(body)]


def _readable(document: dict[str, Any]) -> dict[str, object]:
    """The fields for a person: readable times, one property per line, the body last."""
    facts = {name: value for name, value in document.items() if name not in ("properties", "body", "body_base64")}
    facts["born_at_ms"], facts["stored_at_ms"] = map(readable_time, (document["born_at_ms"], document["stored_at_ms"]))
    facts |= {f"property {name}": value for name, value in document["properties"].items()}
    return facts | {name: document[name] for name in ("body", "body_base64") if name in document}
