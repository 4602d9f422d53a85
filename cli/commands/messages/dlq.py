"""`zenit dlq list | show | redrive`: the messages that groups gave up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ....model.errors import GroupNotFound
from ...message_text import message_document
from ...options import Json, Namesrv, complete_groups, parse_moment
from ...output import note, print_table, readable_time, short_text, show
from ...progress import count_progress
from ...watch import watched

if TYPE_CHECKING:
    from ....client.admin import Admin
    from ....client.administration.dead_letters import DeadLetter

Group = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    dlq_app = typer.Typer()
    dlq_app.command("list")(list_groups)
    dlq_app.command("show")(show_letters)
    dlq_app.command("redrive")(redrive)
    app.add_typer(dlq_app, name="dlq")


@watched
def list_groups(
    group: Annotated[str | None, typer.Option("--group", metavar="G", help="Only this group.")] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """List the groups that have dead letters, how many, and how many of them were sent again."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        rows = admin.dead_letter_groups(group)
        if group is not None and not any(row["letters"] for row in rows):
            _check_exists(admin, group)
    columns = ("group", "letters", "redriven", "oldest", "newest")
    show(
        rows,
        as_json,
        lambda: print_table(
            columns,
            [
                [
                    row["group"],
                    row["letters"],
                    row["redriven"],
                    readable_time(row["oldest_at_ms"]),
                    readable_time(row["newest_at_ms"]),
                ]
                for row in rows
            ],
        ),
    )


def show_letters(
    group: Group,
    maximum: Annotated[int, typer.Option("--max", metavar="N", min=1, help="At most N, the newest.")] = 20,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print a group's dead letters, newest first: where each came from, and why it was given up."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        letters = admin.dead_letters(group, maximum)
        if not letters:
            _check_exists(admin, group)
    documents = [letter_document(letter) for letter in letters]
    columns = ("stored_at", "origin_topic", "message_id", "attempts", "reason", "body")
    show(documents, as_json, lambda: print_table(columns, [_row(document) for document in documents]))


def redrive(
    group: Group,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="Topic to send to; else the topic that each came from.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Given up at or after.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Given up at or before.")] = None,
    maximum: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="At most N, the oldest.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent, and where to.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also those that were sent again before.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Send a group's dead letters again, oldest first; exits 1 at the first that cannot be sent.

    What was sent is remembered: the next run continues after it. All groups of the topic get the messages; with
    --to '%RETRY%GROUP' only that group does.
    """
    begin, end = parse_moment(since, "--since"), parse_moment(until, "--until")
    from ....client.admin import Admin

    with Admin(namesrv) as admin, count_progress("letters") as progress:
        summary = admin.redrive_dead_letters(
            group,
            to=to,
            since=begin,
            until=end,
            max_messages=maximum,
            dry_run=dry_run,
            again=again,
            on_progress=progress,
        )
        if not summary["letters"]:
            _check_exists(admin, group)
    show(summary, as_json, lambda: typer.echo(sentence(summary)))
    if summary["failed"]:
        note(f"zenit: stopped at {summary['error']}")
        raise typer.Exit(1)


def _check_exists(admin: Admin, group: str) -> None:
    """Raises GroupNotFound. Called only if there are no letters, because a deleted group may have left some."""
    if group not in {row["name"] for row in admin.groups()}:
        raise GroupNotFound(group)


def letter_document(letter: DeadLetter) -> dict[str, Any]:
    """The JSON object of a dead letter: that of its message, with the facts of its failure."""
    return message_document(letter.message) | {
        "origin_topic": letter.origin_topic or None,
        "origin_message_id": letter.origin_message_id,
        "attempts": letter.attempts,
        "reason": letter.reason or None,
    }


def sentence(summary: dict[str, Any]) -> str:
    """The result of a redrive as a sentence."""
    topics = ", ".join(f"{count} to {topic}" for topic, count in summary["topics"].items())
    if summary["dry_run"]:
        told = f"{summary['letters']} letters would be sent again"
    else:
        told = f"{summary['redriven']} of {summary['letters']} letters sent again"
    over = summary["passed_over"]
    passed = f"; {over} before --since count as done from now on (--again brings them back)" if over else ""
    return told + (f": {topics}" if topics else "") + passed


def _row(document: dict[str, Any]) -> list[object]:
    body = document.get("body") or document.get("body_base64", "")
    return [
        readable_time(document["stored_at_ms"]),
        document["origin_topic"],
        document["message_id"],
        document["attempts"],
        short_text(document["reason"] or "-"),
        short_text(body),
    ]
