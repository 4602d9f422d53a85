"""The HTML page of a campaign, from its document: checks, faults, costs, leg by leg. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from .campaign import COUNTS, folder
from .campaign_pauses import LONG_MS

_LONG: Final = f"{LONG_MS / 1000:g}"
_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;color:#1a202c;max-width:1240px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .8em;border-bottom:1px solid #e2e8f0;text-align:right}"
    "th:first-child,td:first-child{text-align:left}.wrong{color:#c53030;font-weight:bold}"
)


@dataclass(frozen=True, slots=True)
class _Link:
    """A cell with a link to a file in the campaign's directory."""

    text: str
    path: str


def page(account: Mapping[str, Any], picture_svg: str) -> str:
    """The whole page, which loads nothing from elsewhere."""
    verdict = "passed" if account["passed"] else "FAILED"
    title = f"Campaign of seed {account['campaign']}: {verdict}{', interrupted' if account['interrupted'] else ''}"
    pauses = account["pauses"]
    facts = {
        **{name: account[name] for name in COUNTS},
        "faults": sum(fault["times"] for fault in account["faults"].values()),
        "pauses: median, ms": pauses["median_ms"],
        "pauses: longest, ms": pauses["worst_ms"],
        f"pauses: over {_LONG} s, not by design": pauses["too_long"],
        "pauses: stalls": pauses["stalled"],
    }
    faults = [(name, *fault.values()) for name, fault in account["faults"].items()]
    legs = [
        (
            _leg_link(leg),
            leg["kind"]["name"],
            leg["seed"],
            *_leg_figures(leg),
            "passed" if leg["passed"] else leg["failure"] or "FAILED",
        )
        for leg in account["legs"]
    ]
    longest = [
        (p["leg"] + 1, p["kind"], p["fault"], p["pause_ms"], "yes" if p["by_design"] else "no") for p in pauses["long"]
    ]
    examples = [(leg["number"] + 1, text, leg["evidence"]) for leg in account["legs"] for text in _examples(leg)]
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f"<pre>{escape(account['command'])}</pre>",
            *_table("Figures", ("figure", "value"), facts.items()),
            "<h2>Writes, pauses and faults over time</h2>",
            picture_svg,
            *_table("Faults", ("fault", "times", "median pause, ms", "longest pause, ms"), faults),
            *_table("Never drawn", ("fault",), ((name,) for name in account["never_drawn"])),
            *_table("Wrong", ("leg", "what", "evidence"), examples),
            *_table(f"Pauses over {_LONG} s", ("leg", "cluster", "fault", "ms", "by design"), longest),
            *_table(
                "Legs",
                ("leg", "cluster", "seed", "acknowledged", "lost", "faults", "longest pause, ms", "verdict"),
                legs,
            ),
            "</body></html>\n",
        )
    )


def _leg_link(leg: Mapping[str, Any]) -> _Link | int:
    """The number of a leg, from 1 for people; in folders and the account it counts from 0.

    A leg that broke off has no report.
    """
    shown: int = leg["number"] + 1
    return shown if leg["drill"] is None else _Link(str(shown), f"{folder(leg['number'])}/random.json")


def _leg_figures(leg: Mapping[str, Any]) -> tuple[object, ...]:
    if leg["drill"] is None:
        return (None,) * 4
    run = leg["drill"]["runs"][0]
    return (
        run["acknowledged"],
        run["lost"],
        len(run["faults"]),
        max((f["pause_ms"] for f in run["faults"]), default=None),
    )


def _examples(leg: Mapping[str, Any]) -> Sequence[str]:
    if leg["drill"] is None:
        return [leg["failure"]]
    return [*leg["drill"]["runs"][0]["examples"], *leg["stalls"]] if not leg["passed"] else []


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    listed = [list(row) for row in rows]
    if not listed:
        return []
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_shown(cell)}</td>' for cell in row)}</tr>" for row in listed)
    return [f"<h2>{escape(title)}</h2>", f"<table><tr>{head}</tr>{body}</table>"]


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, _Link):
        return f'<a href="{escape(value.path)}">{escape(value.text)}</a>'
    if isinstance(value, int | float):
        return f"{value:,}"
    return f'<span class="wrong">{escape(str(value))}</span>' if str(value) == "FAILED" else escape(str(value))
