"""`zenit store inspect | verify | dump | join`: offline tools; they talk to nobody. Only `join` writes."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from .message_text import record_document
from .options import Json
from .output import json_line, note, print_facts, print_table, readable_bytes, show

StoreDirectory = Annotated[
    str, typer.Argument(metavar="DIR", help="A broker's store (store_dir in zenit status --json).")
]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    store_app = typer.Typer(help="Look at a store's files, without a broker.")
    store_app.command("inspect")(inspect)
    store_app.command("verify")(verify)
    store_app.command("dump")(dump)
    store_app.command("join")(join)
    app.add_typer(store_app, name="store")


def inspect(directory: StoreDirectory, as_json: Json = False) -> None:
    """Tell what a store holds: files, positions, topics and queues."""
    from ..store.offline import inspect_store

    document = inspect_store(directory)
    show(document, as_json, lambda: print_facts(document))


def verify(directory: StoreDirectory, as_json: Json = False) -> None:
    """Read every record and check it; exits 1 and names each damaged range."""
    from ..store.offline import verify_store

    document = verify_store(directory)
    show(document, as_json, lambda: _print_verdict(document))
    if document["damaged"]:
        note(f"zenit: {len(document['damaged'])} damaged ranges in {directory}")
        raise typer.Exit(1)


def dump(
    directory: StoreDirectory,
    begin: Annotated[
        int, typer.Option("--from", metavar="OFFSET", min=0, help="Byte of the commit log to begin at.")
    ] = 0,
    maximum: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="End after N records.")] = None,
) -> None:
    """Print the records of a store, one JSON object a line."""
    from ..store.offline import dump_store

    for count, message in enumerate(dump_store(directory, begin), 1):
        sys.stdout.write(json_line(record_document(message)) + "\n")
        if count == maximum:
            break


def join(
    directory: StoreDirectory,
    group_id: Annotated[
        str, typer.Option(metavar="ID", help="Of the group (zenit controller status); else a new one, after the store.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Say that a store's log is a copy of a group's, or becomes a group's first; its broker must be stopped.

    For a log that a broker alone or a static master has written. Nothing checks it: in a group whose log it is not, it would
    be read as if it were.
    """
    from ..broker.join_group import join_group

    document = join_group(directory, group_id)
    text = f"{directory}: of group {document['group_id']}, up to epoch {document['epoch']}"
    show(document, as_json, lambda: typer.echo(text))


def _print_verdict(document: dict[str, Any]) -> None:
    print_facts({"records": document["records"], "bytes": readable_bytes(document["bytes"])})
    if document["damaged"]:
        columns = ("begin", "end", "reason")
        print_table(columns, [[damage[column] for column in columns] for damage in document["damaged"]])
    else:
        typer.echo("nothing is damaged")
