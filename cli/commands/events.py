"""`zenit events`: what happened to a cluster, of all its servers, in the order of time; `--follow` goes on with what comes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...model.clock import datetime_of_ms, now_ms, sleep_ms
from ...model.errors import ZenitError
from ...model.events.event import HEAD
from ..options import Json, Namesrv, parse_moment
from ..output import json_line, note, reader_is_gone

if TYPE_CHECKING:
    from ...client.admin import Admin

PAUSE_MS: Final = 1000
OVERLAP: Final = timedelta(seconds=30)
"""How much later than it happened an event may be answered: a controller writes it soon, clocks differ a little."""
SHOWN_MAX: Final = 20_000
"""Of the last lines, so that none is shown twice."""


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("events")(events)


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")] = False,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of this replica group only: its broker name.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: ISO 8601, or 10m for ten minutes ago.")
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Show what happened: elections, in-sync sets, settings, damage, messages held or lost, refused logins.

    docs/events.md explains each event. With --json a line each. A server that does not answer is named on stderr; one
    that refuses too, and then the exit code is 1.
    """
    from ...client.admin import Admin

    begin = parse_moment(since, "--since")
    with Admin(namesrv) as admin:
        lines = _Lines(as_json)
        lines.show(admin.events(group=group, since=begin))
        if follow:
            _follow(admin, lines, group, begin)
    if lines.has_refusals:
        raise typer.Exit(1)


def _follow(admin: Admin, lines: _Lines, group: str | None, begin: datetime | None) -> None:
    while not reader_is_gone():
        sleep_ms(PAUSE_MS)
        soon = datetime_of_ms(now_ms()) - OVERLAP
        try:
            lines.show(admin.events(group=group, since=soon if begin is None else max(begin, soon)))
        except ZenitError as error:  # it may come back
            lines.tell([str(error)])


class _Lines:
    """Prints each event once."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._shown: dict[str, None] = {}
        self._told: list[str] = []
        self.has_refusals = False
        """Whether a server refused to tell its events, the last time."""

    def show(self, document: dict[str, Any]) -> None:
        """Prints those of an answer that were not printed yet."""
        for event in document["events"]:
            text = event_text(event)
            if text in self._shown:
                continue
            self._shown[text] = None
            typer.echo(json_line(event) if self._as_json else text)
        while len(self._shown) > SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        self.has_refusals = bool(document["refused"])
        self.tell(missing_text(document))

    def tell(self, why: list[str]) -> None:
        """Prints on stderr what is missing, and why; the same not twice in turn."""
        for line in why if why != self._told else ():
            note(f"zenit: {line}")
        self._told = why


def missing_text(document: dict[str, Any]) -> list[str]:
    """Why events are missing, a line a reason."""
    refusals: dict[str, list[str]] = {}
    for address, why in document["refused"].items():
        refusals.setdefault(why, []).append(address)
    silent = [f"no answer from {', '.join(document['silent'])}: their events are missing"] if document["silent"] else []
    return silent + [f"the events of {', '.join(each)} are missing: {why}" for why, each in refusals.items()]


def event_text(event: dict[str, Any]) -> str:
    """An event as a line: when, how bad, who, what, and its facts."""
    facts = " ".join(f"{name}={value}" for name, value in event.items() if name not in HEAD)
    place = f"{event['role']} {event['node']}"
    return f"{event['ts']} {event['level']:<8} {place:<28} {event['event']} {facts}".rstrip()
