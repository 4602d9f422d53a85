"""The picture of a run, as SVG text: messages acknowledged in each 50 ms, and the faults. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np

from .check import Mark
from .ledger import Numbers

BUCKET_MS: Final = 50
BUCKETS_MAX: Final = 4_000
"""A longer run has fewer, wider ones, to keep the picture small."""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 280, 64, 16, 52, 40
_INK, _GRID, _BAR, _FAULT = "#4a5568", "#cbd5e0", "#2b6cb0", "#c05621"


def bucket_ms_of(duration_ns: int) -> int:
    """The width of a bucket: 50 ms, or a multiple that keeps a long run's picture small."""
    return BUCKET_MS * max(1, -(-duration_ns // (BUCKET_MS * 1_000_000 * BUCKETS_MAX)))


def counts_of(times_ns: Numbers, begin_ns: int, end_ns: int, bucket_ms: int) -> list[int]:
    """How many of `times_ns` are in each bucket from `begin_ns` on; the last one may extend past `end_ns`."""
    width_ns = bucket_ms * 1_000_000
    count = max(1, -(-(end_ns - begin_ns) // width_ns))
    inside = times_ns[(times_ns >= np.uint64(begin_ns)) & (times_ns < np.uint64(end_ns))]
    numbers = (inside - np.uint64(begin_ns)) // np.uint64(width_ns)
    return [int(number) for number in np.bincount(numbers.astype(np.int64), minlength=count)]


def render(title: str, times_ns: Numbers, begin_ns: int, end_ns: int, marks: Sequence[Mark]) -> str:
    """The picture of [begin_ns, end_ns): one bar per bucket, one band per fault."""
    bucket_ms = bucket_ms_of(end_ns - begin_ns)
    counts = counts_of(times_ns, begin_ns, end_ns, bucket_ms)
    span_s = len(counts) * bucket_ms / 1000
    top = _round_up(max(counts))
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(seconds: float) -> float:
        return _LEFT + min(max(seconds / span_s, 0.0), 1.0) * inner_width

    def down(count: float) -> float:
        return _TOP + (1 - count / top) * inner_height

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f'<g font-family="sans-serif" font-size="11" fill="{_INK}">',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="20" text-anchor="end">acknowledged per {bucket_ms} ms</text>',
    ]
    for mark in marks:
        left, right = across((mark.begin_ns - begin_ns) / 1e9), across((mark.end_ns - begin_ns) / 1e9)
        parts.append(
            f'<rect class="fault" x="{left:.1f}" y="{_TOP}" width="{max(right - left, 1.5):.1f}" '
            f'height="{inner_height}" fill="{_FAULT}" fill-opacity="0.15"/>'
            f'<line x1="{left:.1f}" y1="{_TOP}" x2="{left:.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="{_FAULT}"/>'
        )
        if len(marks) <= 6:
            parts.append(f'<text x="{left + 3:.1f}" y="{_TOP - 6}" fill="{_FAULT}">{escape(mark.name)}</text>')
    for tick in (0, top / 2, top):
        y = down(tick)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_GRID}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts += [
        f'<text x="{across(tick):.1f}" y="{_HEIGHT - 20}" text-anchor="middle">{tick:g}</text>'
        for tick in _seconds_ticks(span_s)
    ]
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">seconds</text>')
    bars = [
        f"M{across(k * bucket_ms / 1000):.1f} {down(0):.1f}V{down(count):.1f}H{across((k + 1) * bucket_ms / 1000):.1f}"
        f"V{down(0):.1f}z"
        for k, count in enumerate(counts)
        if count
    ]
    parts.append(f'<path class="acknowledged" d="{"".join(bars)}" fill="{_BAR}"/>')
    parts.append("</g></svg>")
    return "\n".join(parts) + "\n"


def _round_up(count: int) -> float:
    """A round number that is at least `count`."""
    power = 1
    while True:
        for step in (1, 2, 5):
            if count <= step * power:
                return step * power
        power *= 10


def _seconds_ticks(span_s: float) -> list[float]:
    step = _round_up(max(1, int(span_s / 10)))
    return [k * step for k in range(int(span_s / step) + 1)]
