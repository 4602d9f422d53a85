"""`zenit message get | query | trace`: single messages by id or key, and the trace of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ....model.clock import monotonic_ms, ms_of_datetime
from ....model.errors import ZenitError
from ....model.names import TRACE_TOPIC
from ...journey_text import journey_row
from ...message_text import message_document
from ...options import Json, Namesrv, complete_topics, parse_moment, usage_of_values
from ...output import note, print_facts, print_table, readable_time, short_text, show
from ...progress import search_progress
from ..group import queue_of

if TYPE_CHECKING:
    from ....client.administration.message_query import QueryPage
    from ....record.kernel import StoredMessage

PAGE_MESSAGES: Final = 1000
PAGE_SECONDS: Final = 1.0  # between two reports of the progress
PATIENCE_MS: Final = 10_000  # without an answer


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
    topic: Annotated[str, typer.Option("--topic", metavar="T", autocompletion=complete_topics)],
    key: Annotated[str | None, typer.Option("--key", metavar="K", help="That have this key.")] = None,
    message_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="With this message id: each copy of it, if it was sent again."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="TEXT", help="With this in their bodies; needs --since or --from-offset, or a key."
        ),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Stored at or after.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stored at or before.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="BROKER:ID", help="Only of this queue.")] = None,
    from_offset: Annotated[
        int | None, typer.Option("--from-offset", metavar="N", min=0, help="Queue offset N and behind; needs --queue.")
    ] = None,
    until_offset: Annotated[
        int | None, typer.Option("--until-offset", metavar="N", min=0, help="Before queue offset N; needs --queue.")
    ] = None,
    maximum: Annotated[int, typer.Option("--max", metavar="N", min=1, help="At most N, the newest.")] = 64,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="C", help="Continue where a query of the same conditions ended.")
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print messages of a topic, newest first: all, or those that meet every condition given.

    If there are more, a cursor for them is printed on stderr (--json: the last object has it as `cursor`); it may be used at
    any later time. No group is needed, and none is changed.
    """
    if text is not None and key is None and message_id is None and since is None and from_offset is None:
        raise typer.BadParameter("say how far back it reads: --since or --from-offset", param_hint="--text")
    if queue is None and (from_offset is not None or until_offset is not None):
        raise typer.BadParameter("say of which queue: --queue", param_hint="--from-offset, --until-offset")
    begin, end = parse_moment(since, "--since"), parse_moment(until, "--until")
    wanted = None if queue is None else queue_of(topic, queue)
    from ....client.admin import Admin

    with Admin(namesrv) as admin, search_progress() as report, usage_of_values():

        def ask(count: int, start: str | None) -> QueryPage:
            return admin.query(
                topic, key=key, message_id=message_id, text=text, since=begin, until=end, queue=wanted,
                from_offset=from_offset, until_offset=until_offset, max_messages=count, cursor=start, timeout=PAGE_SECONDS,
            )  # fmt: skip

        found, rest = _all_pages(ask, maximum, cursor, report)
    documents = [message_document(message) for message in found]
    if rest is not None and documents:
        documents[-1]["cursor"] = rest
    columns = ("stored_at", "queue", "queue_offset", "message_id", "body")
    show(documents, as_json, lambda: print_table(columns, [_row(document) for document in documents]))
    if rest is not None and not as_json:
        note(f"zenit: there may be more: --cursor {rest}")


def _all_pages(
    ask: Callable[[int, str | None], QueryPage], maximum: int, cursor: str | None, report: Callable[[int, str], None]
) -> tuple[list[StoredMessage], str | None]:
    """At most so many messages, however long it takes, and the cursor for the rest. Raises the reason if no broker answers."""
    found: list[StoredMessage] = []
    examined, heard_ms = 0, monotonic_ms()
    try:
        while len(found) < maximum:
            try:
                page = ask(min(maximum - len(found), PAGE_MESSAGES), cursor)
            except ZenitError as error:
                if error.retriable and monotonic_ms() - heard_ms < PATIENCE_MS:
                    continue
                raise
            heard_ms = monotonic_ms()
            found += page.messages
            examined += page.examined
            cursor = page.cursor
            if cursor is None:
                break
            report(examined, "" if page.reached is None else readable_time(ms_of_datetime(page.reached)))
    except KeyboardInterrupt:
        if cursor is not None:
            note(f"zenit: interrupted after {examined:,} messages; to continue: --cursor {cursor}")
        raise
    return found, cursor


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
