"""The page of a soak, from its document: what was promised and held, the slopes, the picture. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from .process_samples import METRICS
from .slopes import FLAT, GROWS, SETTLED, SHORT

_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;color:#1a202c;max-width:1460px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .8em;border-bottom:1px solid #e2e8f0;text-align:right}"
    "th:first-child,td:first-child{text-align:left}.wrong{color:#c53030;font-weight:bold}"
)
HOW_TO_READ: Final = (
    "Slopes are told from the end of the warm-up on, by least squares over means of a minute; in brackets the interval that "
    "holds the true slope in 95 of 100 cases, where neighbouring minutes may resemble each other. Allocators take memory in "
    "steps and keep it: a series that rose by a step and stood still in the second half of the window is "
    f"“{SETTLED}”; one that rises in both is “{GROWS}”. Python blocks count live objects, without the steps of the "
    "allocator: memory that grows while the blocks do not is the allocator's, or of C code. Of so many intervals one in "
    "twenty excludes 0 by chance."
)


def page(account: Mapping[str, Any], picture_svg: str) -> str:
    """The whole page, with nothing to be loaded from elsewhere."""
    title = f"Soak of seed {account['soak']}: {verdict(account)}"
    messages = account["messages"]
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1><pre>{escape(account['command'])}</pre>",
            *_table("Messages", ("figure", "value"), message_figures(messages)),
            *_table("Duplicates", ("group", "cause", "messages"), duplicate_rows(messages)),
            *_table("Wrong", ("what",), ((example,) for example in messages["examples"])),
            *_table("Growing", ("series",), ((series,) for series in account["growing"])),
            f"<h2>Slopes an hour</h2><p>{escape(HOW_TO_READ)}</p>",
            *_table("", ("process", "life", "minutes", *METRICS.values()), slope_rows(account["lives"])),
            "<h2>Series</h2>",
            picture_svg,
            *_table("Refused", ("call and error", "times"), messages["refused"].items()),
            "</body></html>\n",
        )
    )


def verdict(account: Mapping[str, Any]) -> str:
    """In a few words."""
    if not account["ended"]:
        return "under way"
    return ("passed" if account["passed"] else "FAILED") + (", interrupted" if account["interrupted"] else "")


def message_figures(messages: Mapping[str, Any]) -> list[tuple[str, object]]:
    """(figure, value) of what was sent, handled and asked."""
    delayed, requests = messages["delayed"], messages["requests"]
    return [
        ("acknowledged", messages["acknowledged"]),
        *((f"not acknowledged: {error}", count) for error, count in messages["not_acknowledged"].items()),
        *((f"handled by {group}", count) for group, count in messages["handled"].items()),
        ("lost", messages["lost"]),
        ("duplicates without a cause", messages["unexplained"]),
        ("out of order", messages["out_of_order"]),
        ("delayed messages early", delayed["early"]),
        ("delayed messages late, ms: median", delayed["late_ms_median"]),
        ("delayed messages late, ms: p99", delayed["late_ms_p99"]),
        ("recalled", delayed["recalled"]),
        ("delivered though recalled", delayed["delivered_though_recalled"]),
        *((f"requests: {outcome}", count) for outcome, count in requests["outcomes"].items()),
        ("brokers away, times", len(messages["away"])),
        ("machine stalled for over 1 s, times", messages["stalls"]),
        ("longest stall, ms", messages["stall_ms_max"]),
        *((f"members: {how}", count) for how, count in messages["members"].items()),
    ]


def duplicate_rows(messages: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """(group, cause, messages)."""
    return [
        (group, cause, count) for group, causes in messages["duplicates"].items() for cause, count in causes.items()
    ]


def slope_rows(lives: Iterable[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """(process, life, minutes, slope of each metric) of lives that are long enough for a slope."""
    rows = []
    for life in lives:
        if all(slope["verdict"] == SHORT for slope in life["slopes"].values()):
            continue
        samples = life["series"]["memory_kib"]
        minutes = round((samples[-1][0] - samples[0][0]) / 60)
        cells = (slope_text(life["slopes"].get(metric, {"verdict": SHORT})) for metric in METRICS)
        rows.append((life["name"], life["life"], minutes, *cells))
    return rows


def slope_text(slope: Mapping[str, Any]) -> str:
    """As in a table: the slope, its interval, what that means."""
    if slope["verdict"] == SHORT:
        return "-"
    if slope["low_per_h"] == slope["high_per_h"] == 0:
        return "0"
    told = "" if slope["verdict"] == FLAT else f" {slope['verdict']}"
    return f"{slope['per_h']:+,.1f} ({slope['low_per_h']:+,.1f} to {slope['high_per_h']:+,.1f}){told}"


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    listed = [list(row) for row in rows]
    if not listed:
        return []
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_shown(cell)}</td>' for cell in row)}</tr>" for row in listed)
    return [f"<h2>{escape(title)}</h2>" if title else "", f"<table><tr>{head}</tr>{body}</table>"]


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, int | float):
        return f"{value:,}"
    text = escape(str(value))
    return f'<span class="wrong">{text}</span>' if text.endswith(f" {GROWS}") else text
