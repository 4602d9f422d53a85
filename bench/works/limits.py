"""`zenit bench limits`: this machine without a broker, warm and cold, batched and single, and its disk's flush."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ..measure import Measured
from ..options import BenchOptions, BenchProgress, Report
from ..percentiles import latency_us
from ..raw.raw_path import RawPath, RawShape, default_in_flight, fdatasync_latencies, raw_shape

_SINGLES_IN_FLIGHT = 64
_FLUSH_SECONDS = 2.0  # enough flushes for a p99


def measure_limits(options: BenchOptions, directory: str, report: Report) -> tuple[Measured, dict[str, Any]]:
    """The run of the options, and the table of all runs: {name: figures}. Each takes `seconds`."""
    shape = raw_shape(options)
    singles = replace(shape, batch=1, in_flight=_SINGLES_IN_FLIGHT)
    turns = replace(shape, batch=1, in_flight=1, clients=1)
    pages = replace(shape, batch=1, in_flight=2, reads=True)
    table: dict[str, Any] = {}
    chosen: Measured | None = None
    for kind in ("cold", "warm"):
        with ExitStack() as running:
            report(BenchProgress(phase=f"{kind} files", elapsed_seconds=0.0, total_seconds=0.0))
            raw = running.enter_context(
                RawPath(directory, warm=kind == "warm", sync=options.flush == "sync", seconds=options.seconds)
            )
            shapes: dict[str, RawShape] = {f"write_{kind}": shape}
            if kind == "warm":
                shapes |= {"singles_warm": singles, "round_trip_warm": turns, "read_warm": pages}
            for name, one in shapes.items():
                found = raw.measure(one, seconds=options.seconds, phase=name, report=report)
                table[name] = _figures(one, found) | {"fresh_pages_ran_out": raw.ran_out}
                if name == f"write_{'warm' if options.warm else 'cold'}":
                    chosen = found
    assert chosen is not None
    seconds = min(options.seconds, _FLUSH_SECONDS)
    report(BenchProgress(phase="fdatasync", elapsed_seconds=0.0, total_seconds=seconds))
    flushes = fdatasync_latencies(directory, seconds=seconds)
    table["fdatasync_64_kib"] = {"count": flushes.count, "latency_us": latency_us(flushes.values)}
    return chosen, {"limits": table, "in_flight": default_in_flight(options)}


def _figures(shape: RawShape, found: Measured) -> dict[str, Any]:
    return {
        "batch": shape.batch,
        "in_flight": shape.in_flight,
        "clients": shape.clients,
        "messages_per_second": round(found.messages_per_second, 1),
        "bytes_per_second": round(found.bytes_per_second, 1),
        "latency_us": latency_us(found.latencies),
    }
