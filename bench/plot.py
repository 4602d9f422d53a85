"""The picture of a run, as SVG text: messages a second over time, and latency by percentile.

Pure: values in, text out. No library: two panels of lines, ticks and labels, readable on light and dark backgrounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 260, 84, 24, 40, 44
PERCENTILES: Final = (0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999)
_INK, _GRID, _MARK, _LIMIT = "#4a5568", "#cbd5e0", "#2b6cb0", "#c05621"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart. `points`: (x, y), x ascending. `limit`: a horizontal line, the raw path's. Logarithmic y needs y > 0."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[tuple[float, float]]
    limit: float | None = None
    logarithmic: bool = False
    tail: bool = False  # x is a percentile, stretched towards 100


def render(title: str, panels: Sequence[Panel]) -> str:
    """The whole picture; panels without points are left out."""
    drawn = [panel for panel in panels if panel.points]
    height = 40 + len(drawn) * _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">',
        f'<g font-family="sans-serif" font-size="12" fill="{_INK}">',
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
    ]
    for row, panel in enumerate(drawn):
        parts.append(f'<g transform="translate(0 {40 + row * _HEIGHT})">')
        parts.extend(_panel(panel))
        parts.append("</g>")
    parts.append("</g></svg>")
    return "\n".join(parts) + "\n"


def _panel(panel: Panel) -> list[str]:
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    xs = [_stretched(x, panel.tail) for x, _ in panel.points]
    levels = [y for _, y in panel.points] + ([panel.limit] if panel.limit else [])
    y_low, y_high, y_ticks = _scale(levels, logarithmic=panel.logarithmic)
    x_low, x_high = min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1.0

    def across(x: float) -> float:
        return _LEFT + (x - x_low) / (x_high - x_low) * inner_width

    def down(y: float) -> float:
        value = math.log10(max(y, 1e-9)) if panel.logarithmic else y
        return _TOP + (1 - (value - y_low) / (y_high - y_low)) * inner_height

    parts = [f'<text x="{_LEFT}" y="{_TOP - 12}">{escape(panel.title)}</text>']
    for tick in y_ticks:
        y = down(tick)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_GRID}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    for value, label in _x_ticks(x_low, x_high, tail=panel.tail):
        parts.append(
            f'<text x="{across(value):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{escape(label)}</text>'
        )
    path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, (_, y) in zip(xs, panel.points, strict=True))
    parts.append(f'<polyline points="{path}" fill="none" stroke="{_MARK}" stroke-width="1.8"/>')
    if panel.limit:
        y = down(panel.limit)
        label_y = y - 5 if y > _TOP + 12 else y + 15  # the axis's name is above the top
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_LIMIT}" '
            f'stroke-dasharray="6 4"/><text x="{_WIDTH - _RIGHT}" y="{label_y:.1f}" text-anchor="end" '
            f'fill="{_LIMIT}">raw path {short(panel.limit)}</text>'
        )
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 10}" text-anchor="end">{escape(panel.x_label)}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_TOP - 12}" text-anchor="end">{escape(panel.y_label)}</text>')
    return parts


def _stretched(x: float, tail: bool) -> float:
    """A percentile as its number of nines, to stretch the tail; at most seven."""
    return -math.log10(max(1 - x / 100, 1e-7)) if tail else x


def _scale(levels: Sequence[float], *, logarithmic: bool) -> tuple[float, float, list[float]]:
    """(low, high) of the axis, as drawn, and the ticks in units of the data."""
    if logarithmic:
        low = math.floor(math.log10(max(min(levels), 1e-9)))
        high = math.ceil(math.log10(max(max(levels), 1e-9)))
        high = max(high, low + 1)
        return low, high, [10.0**power for power in range(low, high + 1)]
    top = max(levels) or 1.0
    step = _step(top)
    count = math.ceil(top / step)
    return 0.0, count * step, [index * step for index in range(count + 1)]


def _step(span: float) -> float:
    """The distance of ticks: 1, 2 or 5 times a power of ten, at most six times in `span`, which is above 0."""
    power = 10.0 ** math.floor(math.log10(span))
    return next(power * part for part in (0.2, 0.5, 1.0, 2.0) if span / (power * part) <= 6)


def _x_ticks(low: float, high: float, *, tail: bool) -> list[tuple[float, str]]:
    if tail:
        ticks = [(_stretched(x, True), f"p{x:g}") for x in PERCENTILES]
        return [*((x, name) for x, name in ticks if low <= x < high), (high, "max")]
    step = _step(high - low)
    return [(step * index, short(step * index)) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def short(value: float) -> str:
    """A number in about five characters: 0.5, 12, 3.4 k, 2 M, 1.5 G."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"
