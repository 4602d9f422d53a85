"""`zenit store import`: sends the messages of an exported file to a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...model.errors import TopicNotFound, ZenitError
from ...model.export_line import ExportedMessage
from ...model.names import COMMAND_GROUP
from ..options import Json, Namesrv
from ..output import counted, note, readable_bytes, show
from ..progress import count_progress
from .store_export import TABLE, tables

if TYPE_CHECKING:
    from ...client.admin import Admin
    from ...client.producer import Producer

WINDOW_LINES: Final = 2_000
WINDOW_BYTES: Final = 32 << 20


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Of zenit store export: ….jsonl or ….parquet.")],
    first: Annotated[
        int, typer.Option("--from-line", metavar="N", min=2, help="Go on from this line (a table's first row is 2).")
    ] = 2,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Send the messages of an exported file to a cluster; topics that it lacks are made.

    The whole file is checked first. Messages of one queue go to one queue, in their order. A repeated import sends again: if it
    stops, it says with which --from-line it goes on.
    """
    from ...client.admin import Admin
    from ...client.administration.import_plan import is_imported, queues_needed
    from ...client.producer import Producer

    topics, highest, total = _checked(file)
    needed = queues_needed(topics, highest)
    with Admin(namesrv) as admin:
        made = [topic for topic, queues in needed.items() if _made(admin, topic, queues, topics.get(topic, {}))]
        batched = {topic for topic in needed if admin.route(topic).is_batched}
    counts = {"sent": 0, "skipped": 0, "bytes": 0}
    reached = first
    messages = ((number, said) for number, said in _read(file) if number >= first)
    with (
        Producer(COMMAND_GROUP, namesrv=namesrv, idempotent=True) as once,
        Producer(COMMAND_GROUP, namesrv=namesrv) as batches,  # for batch topics, which take no idempotent messages
        count_progress("messages") as report,
    ):
        for window in _windows(messages):
            chosen = [said for _, said in window if is_imported(said.topic)]
            try:
                _send(lambda topic: batches if topic in batched else once, chosen)
            except (ZenitError, KeyboardInterrupt):
                note(
                    f"zenit: lines up to {reached - 1} are sent, some behind them perhaps; go on with --from-line {reached}"
                )
                raise
            reached = window[-1][0] + 1
            counts["sent"] += len(chosen)
            counts["skipped"] += len(window) - len(chosen)
            counts["bytes"] += sum(len(one.body) for one in chosen)
            report(reached - 2, total)
    document = {"file": file, **counts, "topics_made": made}
    show(document, as_json, lambda: typer.echo(import_text(document)))


def import_text(document: Mapping[str, Any]) -> str:
    """What was sent, and what was not."""
    sent = f"{document['file']}: {counted(document['sent'], 'message')} sent, {readable_bytes(document['bytes'])}"
    made = f"; made {', '.join(document['topics_made'])}" if document["topics_made"] else ""
    skipped = (
        f"; {counted(document['skipped'], 'message')} of topics that nobody sends to" if document["skipped"] else ""
    )
    return sent + made + skipped


def _checked(file: str) -> tuple[dict[str, Any], dict[str, int], int]:
    """(settings of the topics, {topic: its highest queue id}, messages) of a whole file. Raises StoreFormatError."""
    topics: dict[str, Any] = {}
    highest: dict[str, int] = {}
    total = 0
    with count_progress("bytes checked") as report:
        size = os.path.getsize(file)
        done = 0
        for _, said in _read(file):
            if isinstance(said, ExportedMessage):
                highest[said.topic] = max(highest.get(said.topic, 0), said.queue_id)
                total += 1
                done += len(said.body)
                report(min(done, size), size)
            else:
                topics = said
    return topics, highest, total


def _read(file: str) -> Iterator[tuple[int, ExportedMessage | dict[str, Any]]]:
    if not file.endswith(TABLE):
        from ...store.offline.export_file import read_export

        yield from read_export(file)
        return
    with open(file, "rb") as table:
        yield from tables().read_table(file, table)


def _made(admin: Admin, topic: str, queues: int, settings: Mapping[str, Any]) -> bool:
    """True if the cluster lacked the topic: it has it now."""
    try:
        admin.route(topic)
    except TopicNotFound:
        attributes = {str(name): str(value) for name, value in dict(settings.get("attributes") or {}).items()}
        admin.create_topic(topic, queues=queues, order=settings.get("order") is True, attributes=attributes)
        return True
    return False


def _windows(
    messages: Iterator[tuple[int, ExportedMessage | dict[str, Any]]],
) -> Iterator[list[tuple[int, ExportedMessage]]]:
    window: list[tuple[int, ExportedMessage]] = []
    size = 0
    for number, said in messages:
        if isinstance(said, ExportedMessage):
            window.append((number, said))
            size += len(said.body)
        if len(window) >= WINDOW_LINES or size >= WINDOW_BYTES:
            yield window
            window, size = [], 0
    if window:
        yield window


def _send(producer_of: Callable[[str], Producer], messages: list[ExportedMessage]) -> None:
    from ...client.administration.import_plan import lots

    for lot in lots(messages):
        producer_of(lot.messages[0].topic).send_batch(lot.messages, sharding_key=lot.sharding_key)
