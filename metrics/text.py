"""The text of a scrape: Prometheus's format 0.0.4, or OpenMetrics 1.0. Pure.

    # HELP zenit_messages_in_total Messages that ...
    # TYPE zenit_messages_in_total counter
    zenit_messages_in_total{cluster="zenit",node_id="broker-a",topic="trades"} 17

It comes in slices of at most 1,000 lines, so that a server may let other threads run between two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from .family import Family, FamilyKind, Labels, Reading, Sample, Value
from .histogram import HistogramReading

SLICE_LINES: Final = 1_000
PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TOTAL: Final = "_total"


def escape_label(value: str) -> str:
    """A label's value as it stands between quotes."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def escape_help(text: str, *, open_metrics: bool) -> str:
    """A help text as it stands in its line; OpenMetrics escapes quotes too."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if open_metrics else text


def number(value: float) -> str:
    """A number as both formats take it."""
    if isinstance(value, int):
        return str(value)
    if value != value:  # NaN alone differs from itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def render(readings: Iterable[Reading], common: Labels, *, open_metrics: bool = False) -> Iterator[str]:
    """The text in slices. `common`: labels of every series, of the process. A family without series is left out."""
    prefix = ",".join(f'{name}="{escape_label(value)}"' for name, value in common)
    lines: list[str] = []
    for family, samples in readings:
        if not samples:
            continue
        lines += _head(family, open_metrics=open_metrics)
        for line in _lines(family, samples, prefix):
            lines.append(line)
            if len(lines) >= SLICE_LINES:
                yield "\n".join(lines) + "\n"
                lines = []
    if open_metrics:
        lines.append("# EOF")
    if lines:
        yield "\n".join(lines) + "\n"


def _head(family: Family, *, open_metrics: bool) -> list[str]:
    name, help_text = family.name, escape_help(family.help, open_metrics=open_metrics)
    if open_metrics:  # its families have no _total, their series have
        name = name.removesuffix(TOTAL)
    head = [f"# HELP {name} {help_text}", f"# TYPE {name} {family.kind.value}"]
    if open_metrics and family.unit and name.endswith(f"_{family.unit}"):
        head.append(f"# UNIT {name} {family.unit}")
    return head


def _lines(family: Family, samples: Iterable[Sample], prefix: str) -> Iterator[str]:
    if family.kind is FamilyKind.HISTOGRAM:
        for values, value in samples:
            yield from _histogram_lines(family.name, _labels(family.labels, values, prefix), value)
        return
    name, labels = family.name, family.labels
    start = f"{name}{{{prefix}," if prefix else f"{name}{{"
    if not labels:
        head = f"{name}{{{prefix}}}" if prefix else name
        for _, value in samples:
            yield f"{head} {_plain(value)}"
    elif len(labels) == 1:
        start += f'{labels[0]}="'
        for (only,), value in samples:
            yield f'{start}{escape_label(only)}"}} {_plain(value)}'
    else:
        for values, value in samples:
            told = ",".join([f'{label}="{escape_label(one)}"' for label, one in zip(labels, values, strict=True)])
            yield f"{start}{told}}} {_plain(value)}"


def _plain(value: Value) -> str:
    if type(value) is int:
        return str(value)
    assert not isinstance(value, HistogramReading)
    return number(value)


def _labels(names: tuple[str, ...], values: tuple[str, ...], prefix: str) -> str:
    told = [f'{name}="{escape_label(value)}"' for name, value in zip(names, values, strict=True)]
    return ",".join([prefix, *told] if prefix else told)


def _histogram_lines(name: str, labels: str, value: Value) -> Iterator[str]:
    assert isinstance(value, HistogramReading)
    before = f"{name}_bucket{{{labels}," if labels else f"{name}_bucket{{"
    behind = f"{{{labels}}}" if labels else ""
    count = 0
    for bound, here in zip(value.bounds, value.counts, strict=False):
        count += here
        yield f'{before}le="{number(float(bound))}"}} {count}'
    count += value.counts[-1]
    yield f'{before}le="+Inf"}} {count}'
    yield f"{name}_sum{behind} {number(value.total)}"
    yield f"{name}_count{behind} {count}"
