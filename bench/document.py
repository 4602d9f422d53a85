"""The result of a run as the document that `--json` prints (api.md section 2, `bench`), and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .measure import Measured
from .options import BenchOptions
from .percentiles import latency_us, percentile_curve
from .plot import Panel, render, short


def result_document(
    options: BenchOptions,
    measured: Measured,
    *,
    batch: int,
    limit: Mapping[str, Any] | None,
    cpu_seconds: float | None,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything about one run. `batch`: messages per request, as sent; `limit`: of the raw path, None = not measured."""
    rate = measured.messages_per_second
    ceiling = limit["messages_per_second"] if limit and options.work != "e2e" else 0  # e2e follows its own schedule
    million = measured.messages / 1e6
    return {
        "work": options.work,
        "api": _api(options),
        "size": options.size,
        "batch": batch,
        "producers": options.producers,
        "consumers": options.consumers,
        "seconds": round(measured.seconds, 3),
        "messages": measured.messages,
        "messages_per_second": round(rate, 1),
        "bytes_per_second": round(measured.bytes_per_second, 1),
        "latency_us": latency_us(measured.latencies),
        "limit": limit,
        "share_of_limit": round(rate / ceiling, 4) if ceiling else None,
        "broker_cpu_seconds_per_million": round(cpu_seconds / million, 4)
        if cpu_seconds is not None and million
        else None,
        **extra,
    }


def _api(options: BenchOptions) -> str | None:
    if options.prebuilt:
        return "prebuilt"
    if options.asyncio:
        return "asyncio"
    return options.api if options.work == "produce" else None


def picture(document: Mapping[str, Any], measured: Measured) -> str:
    """The SVG for `--plot`: throughput over time with the raw path's, and latency by percentile."""
    limit = document.get("limit")
    panels: Sequence[Panel] = (
        Panel(
            title="throughput",
            x_label="seconds",
            y_label="messages/s",
            points=measured.timeline,
            limit=limit["messages_per_second"] if limit else None,
        ),
        Panel(
            title="latency",
            x_label="percentile",
            y_label="us",
            points=percentile_curve(measured.latencies),
            logarithmic=True,
            tail=True,
        ),
    )
    share = document.get("share_of_limit")
    title = f"zenit bench {document['work']}, {document['size']} B: {short(document['messages_per_second'])} messages/s"
    return render(title + (f", {share:.0%} of the raw path" if share else ""), panels)
