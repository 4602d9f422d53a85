"""`zenit store export`: a store's messages as a file of JSON lines or as a Parquet table, without its broker."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from ..options import Json, parse_time_ms
from ..output import counted, note, readable_bytes, show
from ..progress import count_progress

if TYPE_CHECKING:
    from ...store.offline.export import ExportWriter

LINES: Final = ".jsonl"
TABLE: Final = ".parquet"


def export(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A broker's store (store_dir in zenit status --json).")
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="FILE", help="A file that does not exist yet: ….jsonl or ….parquet.")
    ],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable.")
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only messages stored at this time or later.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only messages stored before this time.")
    ] = None,
    with_system: Annotated[bool, typer.Option("--system", help="The topics of the system too.")] = False,
    as_json: Json = False,
) -> None:
    """Write a store's messages to a file; exits 1 if there is damage between them, and names each range.

    Reads only. Beside a running broker it exports the log as it was when it began.
    """
    from ...broker.repair.stored_state import topic_settings
    from ...store.offline.export import Selection, export_store
    from ...store.offline.export_file import partial_file

    if not to.endswith((LINES, TABLE)):
        raise typer.BadParameter(f"{to!r}: expected a name that ends with {LINES} or {TABLE}", param_hint="--to")
    if topic and with_system:
        raise typer.BadParameter("a topic that is named is exported, the system's too", param_hint="--system")
    times: dict[str, int] = {}
    if begin is not None:
        times["begin_ms"] = parse_time_ms(begin, "--from")
    if end is not None:
        times["end_ms"] = parse_time_ms(end, "--until")
    selection = Selection(topics=frozenset(topic or ()), with_system=with_system, **times)

    def on_damage(low: int, high: int, reason: str) -> None:
        note(f"zenit: damaged: bytes [{low}, {high}) of the log: {reason}")

    note_broker_beside(directory)
    settings = {name: entry for name, entry in topic_settings(directory).items() if selection.has_topic(name)}
    with partial_file(to) as file, count_progress("bytes") as report:
        counts = export_store(directory, _writer(to, file, settings), selection, on_damage=on_damage, report=report)
    document = {"file": to, **counts}
    show(document, as_json, lambda: typer.echo(export_text(document)))
    if counts["damaged_ranges"] or counts["unreadable_bodies"]:
        raise typer.Exit(1)


def note_broker_beside(directory: str) -> None:
    """Tells the user that what is read of the store ends where its log is whole now, if a broker runs on it."""
    from ...store.opening.store_files import is_in_use

    if is_in_use(directory):
        note(f"zenit: a broker runs on {directory}: its log is read up to where it is known to be whole now")


def export_text(document: Mapping[str, Any]) -> str:
    """What was exported, and what was not."""
    parts = [f"{document['file']}: {counted(document['messages'], 'message')}, {readable_bytes(document['bytes'])}"]
    if document["damaged_ranges"]:
        size = readable_bytes(document["damaged_bytes"])
        parts.append(f"{counted(document['damaged_ranges'], 'damaged range')} of {size} left out")
    if document["unreadable_bodies"]:
        parts.append(f"{counted(document['unreadable_bodies'], 'message')} with an unreadable body left out")
    if document["in_no_queue"]:
        parts.append(f"{counted(document['in_no_queue'], 'record')} in no queue any more left out")
    return "; ".join(parts)


def tables() -> ModuleType:
    """The module `export_table`. Raises RequirementMissing where pyarrow is not installed."""
    from ...model.errors import RequirementMissing

    try:
        from ...pipeline import export_table
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise RequirementMissing(
            str(error.name), "Parquet needs it: pip install 'zenitmq[spark]', in a clone '.[spark]'"
        ) from None
    return export_table


def _writer(path: str, file: BinaryIO, topics: Mapping[str, Any]) -> ExportWriter:
    from ...store.offline.export_file import LineWriter

    if path.endswith(LINES):
        return LineWriter(file, topics)
    writer: ExportWriter = tables().TableWriter(file, topics)
    return writer
