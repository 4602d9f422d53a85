"""The tables of `zenit top` as lines of text, as many as fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..commands.events import event_text
from ..output import counted, readable_bytes, readable_time, short_text, shortened, table

EVENTS_MAX: Final = 5
LEAST_ROWS: Final = 2
KEYS: Final = "keys: i, o, l sort by in, out, lag; q quits"


class Line(NamedTuple):
    """`mark`: "head" of a table, "bad" news, or "" for the rest."""

    text: str
    mark: str = ""


class Section(NamedTuple):
    """A table: its columns, and for each row the cells and whether it is bad news."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    bad: Sequence[bool]
    more: int
    """Rows left out of the document."""


def lines_of(document: dict[str, Any], *, keys: str = "", lines: int | None = None) -> list[Line]:
    """The tables of a document; `lines`: how many fit, None = all. `keys`: what to press."""
    head = [Line(_summary(document), "head"), *([Line(keys)] if keys else [])]
    head += [Line(f"{what}: {why_not}", "bad") for what, why_not in document["unseen"].items()]
    sections = [_brokers(document), _topics(document), _groups(document)]
    events = [Line(event_text(event), _mark(event)) for event in document["events"][-EVENTS_MAX:]]
    counts = [len(section.rows) for section in sections]
    if lines is not None:
        counts = shares(counts, lines - len(head) - 3 * len(sections) - (len(events) + 2 if events else 0))
    body: list[Line] = []
    for section, count in zip(sections, counts, strict=True):
        body += [Line(""), *_section_lines(section, count)]
    return head + body + ([Line(""), Line("newest events", "head"), *events] if events else [])


def shares(wanted: Sequence[int], lines: int) -> list[int]:
    """How many rows each table gets of so many lines: what it wants, else a line less of the longest, but at least two."""
    got = list(wanted)
    while sum(got) > lines:
        longest = max(range(len(got)), key=lambda place: got[place])
        if got[longest] <= LEAST_ROWS:
            break
        got[longest] -= 1
    return got


def _summary(document: dict[str, Any]) -> str:
    rates = f"{_rate(document['in_per_second'])} in/s, {_rate(document['out_per_second'])} out/s"
    waits = [counted(count, f"{what} not asked yet", f"{what}s not asked yet") for what, count in _not_asked(document)]
    facts = [f"{document['cluster'] or 'no cluster'} at {readable_time(document['at_ms'])}", rates, *waits]
    return "; ".join([*facts, f"sorted by {document['order']}"])


def _not_asked(document: dict[str, Any]) -> list[tuple[str, int]]:
    return [(name.removesuffix("s"), count) for name, count in document["not_asked_yet"].items() if count]


def _section_lines(section: Section, count: int) -> list[Line]:
    head, *rows = table(section.columns, section.rows[:count]).splitlines()
    left = len(section.rows) - count + section.more
    found = [Line(head, "head")]
    found += [Line(row, "bad" if bad else "") for row, bad in zip(rows, section.bad, strict=False)]
    return [*found, Line(f"... {left} more")] if left else found


def _brokers(document: dict[str, Any]) -> Section:
    rows = document["brokers"]
    columns = ("broker", "address", "role", "epoch", "sync", "behind", "in/s", "out/s", "in", "out", "log", "disk", "")
    cells = [
        (
            row["broker_name"] if row["replica"] is None else f"{row['broker_name']}/{row['replica']}",
            row["address"],
            row["role"],
            row["epoch"],
            row["in_sync"],
            _size(row["lag_bytes"]),
            _rate(row["in_per_second"]),
            _rate(row["out_per_second"]),
            _size(row["in_bytes_per_second"], "/s"),
            _size(row["out_bytes_per_second"], "/s"),
            _size(row["log_bytes"]),
            None if row["disk_use"] is None else f"{row['disk_use']:.0%}",
            short_text(row["why"] or row["refuses_writes"] or row["deletes_early"] or ""),
        )
        for row in rows
    ]
    bad = [
        bool(row["why"] or row["refuses_writes"] or row["role"] == "halted" or row["in_sync"] is False) for row in rows
    ]
    return Section(columns, cells, bad, document["left_out"]["brokers"])


def _topics(document: dict[str, Any]) -> Section:
    rows = document["topics"]
    cells = [
        (
            shortened(row["topic"], 40),
            _rate(row["in_per_second"]),
            _rate(row["out_per_second"]),
            row["lag"],
            _span(row["span_seconds"]),
            short_text(row["why"] or ""),
        )
        for row in rows
    ]
    columns = ("topic", "in/s", "out/s", "lag", "over", "")
    return Section(columns, cells, [bool(row["why"]) for row in rows], document["left_out"]["topics"])


def _groups(document: dict[str, Any]) -> Section:
    rows = document["groups"]
    cells = [
        (
            shortened(row["group"], 40),
            row["members"],
            _rate(row["in_per_second"]),
            _rate(row["out_per_second"]),
            row["lag"],
            _span(row["lag_seconds"]),
            _trend(row["lag_per_second"]),
            _span(row["span_seconds"]),
            short_text(row["why"] or ""),
        )
        for row in rows
    ]
    columns = ("group", "members", "in/s", "out/s", "lag", "oldest", "trend", "over", "")
    return Section(columns, cells, [bool(row["why"]) for row in rows], document["left_out"]["groups"])


def _mark(event: dict[str, Any]) -> str:
    return "bad" if event["level"] in ("error", "critical") else ""


def _rate(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _trend(rate: float | None) -> str:
    """How the lag changes, in messages a second."""
    return "-" if rate is None else "steady" if rate == 0 else f"{rate:+,.1f}/s"


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.1f} s"


def _size(count: float | None, unit: str = "") -> str:
    return "-" if count is None else readable_bytes(count) + unit
