"""The page of a campaign, from its document: what was promised and held, faults and pauses over time, leg by leg. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from math import log10
from typing import Any, Final

from .campaign import COUNTS, INTERESTING_MS

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 1200, 420, 64, 16, 56, 44
_SPLIT: Final = 210  # where the upper part, throughput, ends and the lower one, pauses, begins
_INK, _GRID, _RATE, _PAUSE, _WRONG = "#4a5568", "#cbd5e0", "#2b6cb0", "#c05621", "#c53030"
_BUCKET_S: Final = 10
_TICKS_MAX: Final = 12
_PAUSE_MS_LEAST: Final = 10.0
_DECADES: Final = (10, 100, 1_000, 10_000, 100_000)
_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;color:#1a202c;max-width:1240px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .8em;border-bottom:1px solid #e2e8f0;text-align:right}"
    "th:first-child,td:first-child{text-align:left}.wrong{color:#c53030;font-weight:bold}"
)

Across = Callable[[float], float]


def page(account: Mapping[str, Any], picture_svg: str) -> str:
    """The whole page, with nothing to be loaded from elsewhere."""
    title = f"Campaign of seed {account['campaign']}: {'passed' if account['passed'] else 'FAILED'}"
    pauses = account["pauses"]
    facts = {
        **{name: account[name] for name in COUNTS},
        "faults": sum(account["faults"].values()),
        "median pause, ms": pauses["median_ms"],
        "longest pause, ms": pauses["worst_ms"],
    }
    legs = [
        (
            leg["number"] + 1,
            leg["kind"]["name"],
            leg["seed"],
            *_leg_figures(leg),
            "passed" if leg["passed"] else leg["failure"] or "FAILED",
        )
        for leg in account["legs"]
    ]
    longest = [(p["leg"] + 1, p["kind"], p["fault"], p["pause_ms"]) for p in pauses["interesting"]]
    examples = [(leg["number"] + 1, text, leg["evidence"]) for leg in account["legs"] for text in _examples(leg)]
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *_table("Figures", ("figure", "value"), facts.items()),
            "<h2>Faults and pauses over time</h2>",
            picture_svg,
            *_table("Faults", ("deed", "times"), account["faults"].items()),
            *_table("Wrong", ("leg", "what", "evidence"), examples),
            *_table(f"Pauses over {INTERESTING_MS / 1000:g} s", ("leg", "kind", "fault", "ms"), longest),
            *_table(
                "Legs", ("leg", "kind", "seed", "acknowledged", "lost", "faults", "longest pause, ms", "verdict"), legs
            ),
            "</body></html>\n",
        )
    )


def picture(account: Mapping[str, Any]) -> str:
    """An SVG: above, messages acknowledged a second; below, each fault at its time with the pause it cost, log scale."""
    span_ms = float(max([1, *(leg["ended_ms"] for leg in account["legs"])]))
    across = partial(_across, span_ms)
    title = f"campaign of seed {account['campaign']}, {span_ms / 3_600_000:.2f} h: {account['acknowledged']:,} acknowledged, "
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
            f'<g font-family="sans-serif" font-size="11" fill="{_INK}">',
            f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}{account["lost"]:,} lost</text>',
            *_drawn_legs(account["legs"], across),
            *_drawn_rates(list(_rates(account["legs"])), across),
            *_drawn_pauses(account["legs"], across),
            *_drawn_minutes(span_ms / 60_000, across),
            "</g></svg>\n",
        )
    )


def _across(span_ms: float, ms: float) -> float:
    return _LEFT + min(max(ms / span_ms, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)


def _drawn_legs(legs: Iterable[Mapping[str, Any]], across: Across) -> Iterator[str]:
    """A line where each begins, and its kind; in red where a promise was broken."""
    for leg in legs:
        x, ink = across(leg["began_ms"]), _INK if leg["passed"] else _WRONG
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="{_GRID}"/>'
        name = escape(leg["kind"]["name"])
        yield f'<text x="{x + 2:.1f}" y="{_HEIGHT - _BOTTOM + 12}" font-size="8" fill="{ink}">{name}</text>'


def _drawn_rates(rates: Sequence[tuple[float, float]], across: Across) -> Iterator[str]:
    top = max([1.0, *(rate for _, rate in rates)])
    bars = "".join(_bar(across, at_ms, rate / top) for at_ms, rate in rates)
    yield f'<text x="{_LEFT}" y="{_TOP - 8}">acknowledged a second, by {_BUCKET_S} s; each leg begins at a line</text>'
    yield f'<text x="{_LEFT - 6}" y="{_TOP + 4}" text-anchor="end">{top:,.0f}</text>'
    yield f'<path class="acknowledged" d="{bars}" fill="{_RATE}"/>'


def _drawn_pauses(legs: Iterable[Mapping[str, Any]], across: Across) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="{_SPLIT + 20}">pause of each fault, ms</text>'
    for decade in _DECADES:
        y = _pause_y(decade)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_GRID}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{decade:,}</text>'
    for at_ms, fault in _faults(legs):
        told = f"<title>{escape(fault['fault'])}: {fault['pause_ms']:,.0f} ms</title>"
        place = f'cx="{across(at_ms):.1f}" cy="{_pause_y(fault["pause_ms"]):.1f}"'
        yield f'<circle class="fault" {place} r="2.5" fill="{_PAUSE}">{told}</circle>'


def _drawn_minutes(minutes: float, across: Across) -> Iterator[str]:
    step = next((step for step in (1, 2, 5, 10, 15, 30, 60, 120, 240) if minutes / step <= _TICKS_MAX), 480)
    for tick in range(0, int(minutes) + 1, step):
        yield f'<text x="{across(tick * 60_000):.1f}" y="{_HEIGHT - 16}" text-anchor="middle">{tick}</text>'
    yield f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 2}" text-anchor="end">minutes</text>'


def _bar(across: Across, at_ms: float, share: float) -> str:
    bottom = _SPLIT - 4
    height = share * (bottom - _TOP)
    return f"M{across(at_ms):.1f} {bottom}V{bottom - height:.1f}H{across(at_ms + 1000 * _BUCKET_S):.1f}V{bottom}z"


def _pause_y(pause_ms: float) -> float:
    """Pauses on a log scale from 10 ms to 100 s."""
    bottom, top = _HEIGHT - _BOTTOM, _SPLIT + 28
    digits = len(_DECADES) - 1
    return bottom - (bottom - top) * min(max(log10(max(pause_ms, _PAUSE_MS_LEAST)) - 1, 0), digits) / digits


def _rates(legs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    """(when, messages a second), by `_BUCKET_S`."""
    for leg, run in _runs(legs):
        counts: Sequence[int] = run["acknowledged_per_second"]
        for begin in range(0, len(counts), _BUCKET_S):
            part = counts[begin : begin + _BUCKET_S]
            yield leg["ended_ms"] - _load_ms(leg, run) + 1000 * begin, sum(part) / len(part)


def _faults(legs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[float, Mapping[str, Any]]]:
    for leg, run in _runs(legs):
        for fault in run["faults"]:
            yield leg["ended_ms"] - _load_ms(leg, run) + fault["at_ms"], fault


def _runs(legs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for leg in legs:
        if leg["drill"] is not None:
            yield leg, leg["drill"]["runs"][0]


def _load_ms(leg: Mapping[str, Any], run: Mapping[str, Any]) -> float:
    """From the begin of the load to the end of the leg; what comes before the load is the cluster's start, mostly."""
    return min(1000.0 * float(run["seconds"]), float(leg["ended_ms"] - leg["began_ms"]))


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
    examples: Sequence[str] = leg["drill"]["runs"][0]["examples"]
    return examples if not leg["passed"] else []


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
    if isinstance(value, int | float):
        return f"{value:,}"
    return f'<span class="wrong">{escape(str(value))}</span>' if str(value) == "FAILED" else escape(str(value))
