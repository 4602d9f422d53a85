"""A report as one HTML file: facts, tables and charts, without external files, in light and dark mode. Pure.

All text is escaped; characters that cannot be shown (control characters, unpaired surrogates) become blanks. The page is
also valid XML. It has no script and loads nothing; if there is too much for a page, the rest is left out, and the page says
so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

ROWS_MAX: Final = 1000
BARS_MAX: Final = 40
SERIES_MAX: Final = 8
CELL_CHARACTERS: Final = 200
LABEL_CHARACTERS: Final = 40

_WIDTH, _LINES_HEIGHT, _BAR_HEIGHT, _LABEL_WIDTH, _VALUE_WIDTH = 860, 260, 24, 260, 90
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 14, 34
_COLOURS: Final = ("#2b6cb0", "#c05621", "#2f855a", "#b83280", "#6b46c1", "#b7791f", "#2c7a7b", "#718096")
_DAY_MS: Final = 86_400_000
_STEPS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1000 * seconds for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(3_600_000 * hours for hours in (1, 2, 3, 6, 12, 24)),
)
"""Between two ticks of a time axis."""

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1a202c; --soft: #4a5568; --line: #cbd5e0; --ground: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #a0aec0; --line: #4a5568; --ground: #171923; } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; font: 15px/1.5 sans-serif; color: var(--ink);
  background: var(--ground); }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.made, p.note { color: var(--soft); margin: .2rem 0; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; }
td.long { min-width: 18rem; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; font: 12px sans-serif; } svg text { fill: var(--soft); }
svg .grid { stroke: var(--line); } span.key { display: inline-block; margin-right: 1rem; }
span.key i { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values, one per line."""

    title: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the names of their columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Bars:
    """Named amounts, none negative, the first on top. `unit`: of the amounts, for the title."""

    title: str
    unit: str
    bars: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Lines:
    """Amounts over time, none negative: {name: [(ms since the epoch, amount), ...] in order of time}."""

    title: str
    unit: str
    series: Mapping[str, Sequence[tuple[int, float]]]


Part = Facts | Table | Bars | Lines


def render(title: str, parts: Iterable[Part], *, made_at_ms: int) -> str:
    """The whole page. `made_at_ms`: the time of its data."""
    made = datetime.fromtimestamp(made_at_ms // 1000, tz=UTC).isoformat(sep=" ")
    parts = list(parts)
    colours = line_colours(part.series for part in parts if isinstance(part, Lines))
    body = "\n".join(text for part in parts for text in _part(part, colours))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{shown(title)}</title><style>{_STYLE}</style></head><body>\n"
        f'<h1>{shown(title)}</h1>\n<p class="made">{made}</p>\n{body}\n</body></html>\n'
    )


def shown(value: object, characters_max: int = CELL_CHARACTERS) -> str:
    """A value as text of a page: escaped, cut, readable."""
    match value:
        case None:
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case int():
            text = f"{value:,}"
        case float():
            text = f"{value:,.6g}"
        case list() | tuple() | set() | frozenset():
            text = ", ".join(str(part) for part in value) or "-"
        case _:
            text = str(value)
    if len(text) > characters_max:
        text = text[: characters_max - 1] + "…"
    return escape("".join(character if character.isprintable() else " " for character in text))


def line_colours(charts: Iterable[Mapping[str, Sequence[object]]]) -> dict[str, str]:
    """The colour of each line by its name, in all charts of a page; colours repeat if there are more lines than colours."""
    names = dict.fromkeys(name for series in charts for name, points in series.items() if points)
    return dict(zip(names, itertools.cycle(_COLOURS), strict=False))


def _part(part: Part, colours: Mapping[str, str]) -> list[str]:
    match part:
        case Facts():
            pairs = "".join(
                f"<tr><th>{shown(name)}</th><td>{shown(value)}</td></tr>" for name, value in part.values.items()
            )
            return [_heading(part.title), f"<table>{pairs}</table>"] if pairs else []
        case Table():
            return [_heading(part.title), *_table(part)]
        case Bars():
            return [_heading(f"{part.title} ({part.unit})"), *_bars(part)]
        case Lines():
            return [_heading(f"{part.title} ({part.unit})"), *_lines(part, colours)]


def _heading(title: str) -> str:
    return f"<h2>{shown(title)}</h2>"


def _note(text: str) -> str:
    return f'<p class="note">{shown(text)}</p>'


def _table(part: Table) -> list[str]:
    if not part.rows:
        return [_note("none")]
    rows = part.rows[:ROWS_MAX]
    numeric = [all(_is_number(row[index]) for row in rows) for index in range(len(part.columns))]
    marks = [' class="number"' if is_number else "" for is_number in numeric]
    head = "".join(f"<th{mark}>{shown(name)}</th>" for mark, name in zip(marks, part.columns, strict=True))
    is_long = [any(_is_long(row[index]) for row in rows) for index in range(len(part.columns))]
    marks = [' class="long"' if wraps else mark for mark, wraps in zip(marks, is_long, strict=True)]
    lines = ["".join(f"<td{m}>{shown(cell)}</td>" for m, cell in zip(marks, row, strict=True)) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    left_out = len(part.rows) - len(rows)
    told = [_note(f"and {left_out:,} more rows")] if left_out else []
    return [f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>', *told]


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > LABEL_CHARACTERS


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _bars(part: Bars) -> list[str]:
    if not part.bars:
        return [_note("none")]
    bars = part.bars[:BARS_MAX]
    longest = max(amount for _, amount in bars) or 1.0
    room = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    drawn = []
    for row, (name, amount) in enumerate(bars):
        y = row * _BAR_HEIGHT
        width = amount / longest * room
        drawn.append(
            f'<text x="{_LABEL_WIDTH - 8}" y="{y + 16}" text-anchor="end">{shown(name, LABEL_CHARACTERS)}</text>'
            f'<rect x="{_LABEL_WIDTH}" y="{y + 4}" width="{width:.1f}" height="{_BAR_HEIGHT - 8}" fill="{_COLOURS[0]}"/>'
            f'<text x="{_LABEL_WIDTH + width + 6:.1f}" y="{y + 16}">{short(amount)}</text>'
        )
    left_out = part.bars[BARS_MAX:]
    rest = sum(amount for _, amount in left_out)
    told = [_note(f"and {len(left_out):,} more with {short(rest)} together")] if left_out else []
    return [_svg(len(bars) * _BAR_HEIGHT, drawn), *told]


def _lines(part: Lines, colours: Mapping[str, str]) -> list[str]:
    series = {name: points for name, points in part.series.items() if points}
    if not series:
        return [_note("none")]
    kept = dict(list(series.items())[:SERIES_MAX])
    moments = [moment for points in kept.values() for moment, _ in points]
    first, last = min(moments), max(moments)
    levels = ticks(max(amount for points in kept.values() for _, amount in points))
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _LINES_HEIGHT - _TOP - _BOTTOM

    def across(moment: float) -> float:
        return _LEFT + (moment - first) / max(1, last - first) * inner_width

    def down(amount: float) -> float:
        return _TOP + (1 - amount / levels[-1]) * inner_height

    drawn = [
        f'<line class="grid" x1="{_LEFT}" y1="{down(level):.1f}" x2="{_WIDTH - _RIGHT}" y2="{down(level):.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{down(level) + 4:.1f}" text-anchor="end">{short(level)}</text>'
        for level in levels
    ]
    for moment, text in time_ticks(first, last):
        x, y = across(moment), _LINES_HEIGHT - _BOTTOM + 18
        drawn.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{text}</text>')
    keys = []
    for name, points in kept.items():
        colour = colours[name]
        path = " ".join(f"{across(moment):.1f},{down(amount):.1f}" for moment, amount in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        last_moment, last_amount = points[-1]
        drawn.append(f'<circle cx="{across(last_moment):.1f}" cy="{down(last_amount):.1f}" r="2.5" fill="{colour}"/>')
        keys.append(f'<span class="key"><i style="background:{colour}"></i>{shown(name, LABEL_CHARACTERS)}</span>')
    left_out = len(series) - len(kept)
    told = [_note(f"and {left_out:,} more lines")] if left_out else []
    return [_svg(_LINES_HEIGHT, drawn), f"<p>{''.join(keys)}</p>", *told]


def _svg(height: int, drawn: Sequence[str]) -> str:
    inside = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}">\n{inside}\n</svg>'
    )


def time_ticks(first_ms: int, last_ms: int) -> list[tuple[int, str]]:
    """Times on an axis with their texts (UTC), at most seven, at round times; no text twice."""
    span_ms = last_ms - first_ms
    step_ms = next((step for step in _STEPS_MS if span_ms // step < 6), 0) or _DAY_MS * math.ceil(span_ms / _DAY_MS / 6)
    form = "%H:%M:%S" if span_ms < _DAY_MS else "%m-%d %H:%M" if step_ms < _DAY_MS else "%Y-%m-%d"
    begin = -(-first_ms // step_ms) * step_ms
    moments = list(range(begin, last_ms + 1, step_ms)) if span_ms else [first_ms]
    return [(moment, _time_text(moment, form, with_ms=step_ms < 1000 and span_ms > 0)) for moment in moments]


def _time_text(moment_ms: int, form: str, *, with_ms: bool) -> str:
    text = datetime.fromtimestamp(moment_ms // 1000, tz=UTC).strftime(form)
    return f"{text}.{moment_ms % 1000:03}" if with_ms else text


def ticks(highest: float) -> list[float]:
    """Levels of an axis from 0 to `highest` or just above: three to six steps of 1, 2 or 5 times a power of ten."""
    if not highest > 1e-9:  # nor NaN
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(highest))
    step = next(part * power for part in (0.2, 0.5, 1.0, 2.0) if highest / (part * power) <= 5)
    return [step * index for index in range(math.ceil(round(highest / step, 9)) + 1)]


def short(value: float) -> str:
    """A number in a few characters: 0.5, 12, 3.4 k, 2 M, 1.5 G."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"
