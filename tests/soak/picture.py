"""The picture of a soak, from its document, as an SVG: a row a process, a column a metric. Pure.

Each cell has the series of all lives of the process, from 0 to its greatest value; blue is the first life, the others
alternate. The dashed line is the end of the warm-up; grey bands are brokers that were away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from zenitmq.bench.plot import short

from .process_samples import METRICS
from .slopes import block_means

_LEFT, _CELL, _GAP, _ROW, _TOP = 150, 210, 44, 44, 64
_POINTS = _CELL / 2  # of a series
_INK, _GRID, _BAND, _WRONG = "#4a5568", "#cbd5e0", "#edf2f7", "#c53030"
_LIVES: Final = ("#2b6cb0", "#dd6b20", "#2f855a")
COLUMNS: Final = {metric: shown for metric, shown in METRICS.items() if metric != "processes"}
VISITORS: Final = ("visitor-", "spark-worker-")
"""Processes that come and go all the time share a row."""


def picture(account: Mapping[str, Any]) -> str:
    """The whole of it."""
    rows = rows_of(account["lives"])
    width, height = _LEFT + len(COLUMNS) * (_CELL + _GAP), _TOP + _ROW * len(rows) + 32
    title = f"soak of seed {account['soak']}, {account['seconds'] / 60:,.0f} minutes"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            f'<g font-family="sans-serif" font-size="11" fill="{_INK}">',
            f'<text x="16" y="24" font-size="16">{escape(title)}</text>',
            *(f'<text x="{_x(number)}" y="48">{escape(name)}</text>' for number, name in enumerate(COLUMNS.values())),
            *(line for column in range(len(COLUMNS)) for line in _bands(account, _x(column), _ROW * len(rows))),
            *(line for number, (name, lives) in enumerate(rows) for line in _row(account, number, name, lives)),
            "</g></svg>\n",
        )
    )


def rows_of(lives: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """(name, lives) in the order in which the processes were first seen."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for life in lives:
        name = next((prefix + "*" for prefix in VISITORS if life["name"].startswith(prefix)), life["name"])
        rows.setdefault(name, []).append(life)
    return list(rows.items())


def _x(column: int) -> float:
    return _LEFT + column * (_CELL + _GAP)


def _across(account: Mapping[str, Any], x: float, at_s: float) -> float:
    """Where a time lies in a column that begins at `x`."""
    return x + min(1.0, max(0.0, at_s / max(1.0, account["seconds"]))) * _CELL


def _bands(account: Mapping[str, Any], x: float, height: float) -> Iterator[str]:
    for away in account["messages"]["away"]:
        begin, end = (
            _across(account, x, (away[name] - account["began_ms"]) / 1000) for name in ("begun_ms", "ended_ms")
        )
        size = f'width="{max(1.0, end - begin):.1f}" height="{height}"'
        yield f'<rect class="away" x="{begin:.1f}" y="{_TOP}" {size} fill="{_BAND}"/>'


def _row(account: Mapping[str, Any], number: int, name: str, lives: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    y = _TOP + number * _ROW
    yield f'<text x="16" y="{y + _ROW / 2:.0f}">{escape(name)}</text>'
    for column, metric in enumerate(COLUMNS):
        series = [(life, life["series"].get(metric, ())) for life in lives]
        top = max((value for _, samples in series for _, value in samples), default=0)
        if top:
            yield from _cell(account, _x(column), y, metric, series, top)


def _cell(
    account: Mapping[str, Any],
    x: float,
    y: float,
    metric: str,
    series: Sequence[tuple[Mapping[str, Any], Sequence[tuple[float, float]]]],
    top: float,
) -> Iterator[str]:
    height = _ROW - 12
    warm = _across(account, x, account["warm_up_s"])
    yield f'<path d="M{warm:.1f} {y}V{y + height}" stroke="{_GRID}" stroke-dasharray="3 3"/>'
    yield f'<path d="M{x} {y + height}h{_CELL}" stroke="{_GRID}"/>'
    yield f'<text x="{x + _CELL + 3}" y="{y + 8}" font-size="9">{short(top)}</text>'
    for number, (life, samples) in enumerate(series):
        means = block_means(samples, max(1.0, account["seconds"]) / _POINTS)
        points = " ".join(
            f"{_across(account, x, at_s):.1f},{y + height * (1 - value / top):.1f}" for at_s, value in means
        )
        grows = life["slopes"].get(metric, {}).get("verdict") == "grows"
        ink = _WRONG if grows else _LIVES[number % len(_LIVES)]
        yield f'<polyline points="{points}" fill="none" stroke="{ink}" stroke-width="1"/>'
