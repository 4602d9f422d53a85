"""The picture of a campaign, from its document, as an SVG: three charts over the same minutes. Pure.

Top: messages acknowledged a second. Middle: the pause after each fault, with a line at 4 s. Bottom: one row per deed, with
a stroke at each time it was done. Legs are the bands behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from math import log10
from typing import Any, Final

from ..catalogue import Deed
from .campaign_pauses import LONG_MS

_WIDTH, _LEFT, _RIGHT = 1200, 176, 48
_RATES_TOP, _RATES_BOTTOM = 72, 192
_PAUSES_TOP, _PAUSES_BOTTOM = 236, 400
_DEEDS_TOP, _ROW = 440, 17
_INK, _GRID, _BAND, _RATE, _PAUSE, _WRONG = "#4a5568", "#cbd5e0", "#f1f5f9", "#2b6cb0", "#dd6b20", "#c53030"
_BUCKET_S: Final = 10
_TICKS_MAX: Final = 12
_PAUSE_MS_LEAST: Final = 10.0
_DECADES: Final = (10, 100, 1_000, 10_000, 100_000)
_DECADES_SHOWN: Final = ("10 ms", "100 ms", "1 s", "10 s", "100 s")
_SHORT: Final = {
    Deed.CUT_IN: "hears nobody",
    Deed.CUT_OUT: "is heard by nobody",
    Deed.CUT_LINKS: "cut off from replicas",
    Deed.EMPTY: "ZooKeeper emptied",
    Deed.SET_BACK: "ZooKeeper set back",
    Deed.EMPTY_WIPED_FIRST: "emptied, wiped first",
}

Across = Callable[[float], float]


def picture(account: Mapping[str, Any]) -> str:
    """The whole picture."""
    legs: Sequence[Mapping[str, Any]] = account["legs"]
    span_ms = float(max([1, *(leg["ended_ms"] for leg in legs)]))
    across = partial(_across, span_ms)
    deeds_bottom = _DEEDS_TOP + _ROW * len(Deed)
    height = deeds_bottom + 44
    figures = ", ".join(f"{account[name]:,} {name}" for name in ("acknowledged", "lost", "changed", "reordered"))
    title = f"campaign of seed {account['campaign']}, {span_ms / 60_000:,.0f} minutes: {figures}"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<g font-family="sans-serif" font-size="11" fill="{_INK}">',
            f'<text x="16" y="24" font-size="16">{escape(title)}</text>',
            *_drawn_legs(legs, across, deeds_bottom),
            *_drawn_rates(list(_rates(legs)), across),
            *_drawn_pauses(account, across),
            *_drawn_deeds(legs, across),
            *_drawn_minutes(span_ms / 60_000, across, deeds_bottom),
            "</g></svg>\n",
        )
    )


def _across(span_ms: float, ms: float) -> float:
    return _LEFT + min(max(ms / span_ms, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)


def _drawn_legs(legs: Sequence[Mapping[str, Any]], across: Across, bottom: float) -> Iterator[str]:
    """A band per leg, every other one white, with the kind of its cluster; red if a promise was broken."""
    for number, leg in enumerate(legs):
        x, right = across(leg["began_ms"]), across(leg["ended_ms"])
        if number % 2 == 0:
            size = f'width="{right - x:.1f}" height="{bottom - _RATES_TOP:.1f}"'
            yield f'<rect class="leg" x="{x:.1f}" y="{_RATES_TOP}" {size} fill="{_BAND}"/>'
        ink = _INK if leg["passed"] else _WRONG
        y = _RATES_TOP - 4 - 11 * (number % 2)  # adjacent names would overlap
        yield f'<text x="{x:.1f}" y="{y}" font-size="9" fill="{ink}">{escape(leg["kind"]["name"])}</text>'


def _drawn_rates(rates: Sequence[tuple[float, float]], across: Across) -> Iterator[str]:
    top = _round_up(max([1.0, *(rate for _, rate in rates)]))
    bars = "".join(_bar(across, at_ms, rate / top) for at_ms, rate in rates)
    yield f'<text x="16" y="{_RATES_TOP + 18}">acknowledged a second,</text>'
    yield f'<text x="16" y="{_RATES_TOP + 32}">by {_BUCKET_S} s</text>'
    for share in (0, 0.5, 1):
        yield _line(_RATES_BOTTOM - share * (_RATES_BOTTOM - _RATES_TOP), f"{share * top:,.0f}")
    yield f'<path class="acknowledged" d="{bars}" fill="{_RATE}"/>'


def _bar(across: Across, at_ms: float, share: float) -> str:
    top = _RATES_BOTTOM - share * (_RATES_BOTTOM - _RATES_TOP)
    return f"M{across(at_ms):.1f} {_RATES_BOTTOM}V{top:.1f}H{across(at_ms + 1000 * _BUCKET_S):.1f}V{_RATES_BOTTOM}z"


def _drawn_pauses(account: Mapping[str, Any], across: Across) -> Iterator[str]:
    too_long = {(pause["leg"], pause["at_ms"]) for pause in account["pauses"]["long"] if not pause["by_design"]}
    yield f'<text x="16" y="{_PAUSES_TOP + 4}">pause of each fault</text>'
    for decade, shown in zip(_DECADES, _DECADES_SHOWN, strict=True):
        yield _line(_pause_y(decade), shown)
    y = _pause_y(LONG_MS)
    yield f'<path class="bound" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{_WRONG}" stroke-dasharray="6 4"/>'
    yield f'<text x="{_WIDTH - _RIGHT + 4}" y="{y + 4:.1f}" fill="{_WRONG}">{LONG_MS / 1000:g} s</text>'
    yield (
        f'<text x="{_LEFT}" y="{_PAUSES_TOP - 10}">each point a fault; hollow: writes wait by design '
        f"(a static master, all brokers killed, an operator); red: too long</text>"
    )
    for leg, at_ms, fault in faults_over_time(account["legs"]):
        told = f"<title>{escape(fault['fault'])}: {fault['pause_ms']:,.0f} ms</title>"
        place = f'cx="{across(at_ms):.1f}" cy="{_pause_y(fault["pause_ms"]):.1f}"'
        ink = _WRONG if (leg["number"], fault["at_ms"]) in too_long else _PAUSE
        fill = "#ffffff" if fault["kind"] in leg["waits_by_design"] else ink
        yield f'<circle class="fault" {place} r="3" fill="{fill}" stroke="{ink}">{told}</circle>'


def _drawn_deeds(legs: Iterable[Mapping[str, Any]], across: Across) -> Iterator[str]:
    """A row per deed, with its count at the end."""
    rows = {deed.value: _DEEDS_TOP + _ROW * number + _ROW / 2 for number, deed in enumerate(Deed)}
    times = Counter[str]()
    for _, at_ms, fault in faults_over_time(legs):
        deed = fault["kind"].partition(": ")[0]
        times[deed] += 1
        x, y = across(at_ms), rows[deed]
        length = max(1.5, across(at_ms + fault["mended_at_ms"] - fault["at_ms"]) - x)
        place = f'x="{x:.1f}" y="{y - 5:.1f}" width="{length:.1f}" height="10"'
        yield f'<rect class="deed" {place} fill="{_PAUSE}"><title>{escape(fault["fault"])}</title></rect>'
    yield f'<text x="{_WIDTH - _RIGHT + 4}" y="{_DEEDS_TOP - 4}">times</text>'
    yield f'<text x="{_LEFT}" y="{_DEEDS_TOP - 8}">what was done, from its begin until it was mended</text>'
    for deed in Deed:
        y = rows[deed.value]
        ink = _INK if times[deed.value] else _WRONG
        name = escape(_SHORT.get(deed, deed.value))
        yield f'<path d="M{_LEFT} {y + _ROW / 2:.1f}H{_WIDTH - _RIGHT}" stroke="{_GRID}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{ink}">{name}</text>'
        yield f'<text x="{_WIDTH - _RIGHT + 4}" y="{y + 4:.1f}" fill="{ink}">{times[deed.value]}</text>'


def _drawn_minutes(minutes: float, across: Across, bottom: float) -> Iterator[str]:
    step = next((step for step in (1, 2, 5, 10, 15, 30, 60, 120, 240) if minutes / step <= _TICKS_MAX), 480)
    for tick in range(0, int(minutes) + 1, step):
        yield f'<text x="{across(tick * 60_000):.1f}" y="{bottom + 16}" text-anchor="middle">{tick}</text>'
    middle = (_WIDTH + _LEFT - _RIGHT) / 2
    yield f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">minutes since the campaign began</text>'


def _line(y: float, shown: str) -> str:
    line = f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_GRID}"/>'
    return f'{line}<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>'


def _pause_y(pause_ms: float) -> float:
    """The position of a pause on a log scale from 10 ms to 100 s."""
    digits = len(_DECADES) - 1
    share = min(max(log10(max(pause_ms, _PAUSE_MS_LEAST)) - 1, 0), digits) / digits
    return _PAUSES_BOTTOM - (_PAUSES_BOTTOM - _PAUSES_TOP) * share


def _round_up(value: float) -> float:
    """1, 2, 5 or 10 times a power of ten, at least `value`."""
    power = 10.0 ** int(log10(value))
    return next(step * power for step in (1, 2, 5, 10) if value <= step * power)


def _rates(legs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    """(time, messages a second), by `_BUCKET_S`."""
    for leg, run in runs(legs):
        counts: Sequence[int] = run["acknowledged_per_second"]
        for begin in range(0, len(counts), _BUCKET_S):
            part = counts[begin : begin + _BUCKET_S]
            yield _load_begins_ms(leg, run) + 1000 * begin, sum(part) / len(part)


def faults_over_time(
    legs: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], float, Mapping[str, Any]]]:
    """(leg, time in the campaign, fault)."""
    for leg, run in runs(legs):
        for fault in run["faults"]:
            yield leg, _load_begins_ms(leg, run) + fault["at_ms"], fault


def runs(legs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each leg that has a report, with its run."""
    for leg in legs:
        if leg["drill"] is not None:
            yield leg, leg["drill"]["runs"][0]


def _load_begins_ms(leg: Mapping[str, Any], run: Mapping[str, Any]) -> float:
    """The start of the load in a leg, computed from its end: the check after the load is short, the start of the cluster is
    not.
    """
    return max(float(leg["began_ms"]), float(leg["ended_ms"]) - 1000.0 * float(run["seconds"]))
