"""`zenit transaction list | show | commit | rollback`: transactions that no producer has decided."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...message_text import message_document
from ...options import Json, Namesrv
from ...output import print_facts, print_table, short_text, show

TransactionName = Annotated[
    str, typer.Argument(metavar="ID", help="The transaction id, of a receipt or of `zenit transaction list`.")
]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    transaction_app = typer.Typer()
    transaction_app.command("list")(list_transactions)
    transaction_app.command("show")(show_transaction)
    transaction_app.command("commit")(commit)
    transaction_app.command("rollback")(rollback)
    app.add_typer(transaction_app, name="transaction")


def list_transactions(
    topic: Annotated[str | None, typer.Option("--topic", metavar="T", help="Only those of this topic.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="G", help="Only those of this producer group.")
    ] = None,
    maximum: Annotated[int, typer.Option("--max", metavar="N", min=1, help="At most N.")] = 1000,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """List transactions that are not decided.

    pending: the broker still asks its producers. parked: the broker has stopped asking; `commit` or `rollback` decides it.
    """
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        found = admin.transactions(topic=topic, group=group, max_transactions=maximum)
    columns = ("topic", "group", "state", "age_s", "checks", "transaction_id")
    rows = [
        [*(row[name] for name in columns[:3]), row["age_ms"] // 1000, *(row[n] for n in columns[4:])] for row in found
    ]
    show(found, as_json, lambda: print_table(columns, rows))


def show_transaction(transaction_id: TransactionName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Print a transaction that is not decided, and its message."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        facts, message = admin.transaction(transaction_id)
    document = {**facts, "message": message_document(message)}

    def text() -> None:
        print_facts({**facts, "body": short_text(document["message"].get("body") or "(not UTF-8; see --json)")})

    show(document, as_json, text)


def commit(transaction_id: TransactionName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Decide that consumers get the message."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        _tell(admin.commit_transaction(transaction_id), as_json)


def rollback(transaction_id: TransactionName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Decide that nobody gets the message."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        _tell(admin.rollback_transaction(transaction_id), as_json)


def _tell(outcome: dict[str, Any], as_json: bool) -> None:
    where = f", queue {outcome['queue_id']} offset {outcome['queue_offset']}" if outcome["queue_offset"] >= 0 else ""
    show(outcome, as_json, lambda: typer.echo(f"{outcome['state']}{where}"))
