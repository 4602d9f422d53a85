"""`zenit bench restart`: how long a broker takes to serve again after `kill -9`, by the size of its log.

The log is filled, with every message acknowledged; the broker is killed before it has flushed all of it. The time runs from
starting the process until it answers, and then it must have everything that was acknowledged (the page cache outlives a
process, so even async flush may lose nothing).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ...model.clock import monotonic_ns
from ...model.errors import InvalidParameter, SystemFault
from ..measure import Load, Measured, measure
from ..options import BenchOptions, BenchProgress
from ..own_cluster import OwnCluster, store_settings
from ..raw.raw_path import record_bytes
from .works import Bench, prebuilt_job

_FILL_SECONDS: Final = 3600.0
_READY_SECONDS: Final = 600.0
_BATCH_BYTES: Final = 256 << 10


def restart(bench: Bench) -> tuple[Measured, dict[str, Any]]:
    """The filling, and {ready_seconds, log_bytes, messages}. Raises SystemFault if a message is lost."""
    options, cluster = bench.options, bench.target.cluster
    if cluster is None:
        raise InvalidParameter("work", "restart", "no running cluster: it kills the broker, so it starts its own")
    filled = _fill(bench)
    before = sum(offset for _, _, offset in bench.target.end_offsets())
    cluster.kill_broker()
    bench.report(BenchProgress(phase="restart", elapsed_seconds=0.0, total_seconds=0.0))
    seconds = _start(cluster, options)
    after = sum(offset for _, _, offset in bench.target.end_offsets())
    if after != before:
        raise SystemFault(f"bench restart: {before} messages were acknowledged and {after} are there")
    facts = {"ready_seconds": round(seconds, 3), "log_bytes": filled.messages * record_bytes(options), "kept": after}
    return filled, facts


def _fill(bench: Bench) -> Measured:
    options = bench.options
    size = record_bytes(options)
    path = bench.path("fill")
    job = replace(
        prebuilt_job(bench, path),
        batch=max(1, _BATCH_BYTES // size),
        in_flight=8,
        seconds=_FILL_SECONDS,
        messages_max=int(options.log_gib * (1 << 30)) // size,
    )
    load = Load(role="prebuilt", job=job, samples_path=path)
    return measure([load], phase="fill", seconds=_FILL_SECONDS, report=bench.report)


def _start(cluster: OwnCluster, options: BenchOptions) -> float:
    """Starts the broker; returns the seconds until it answers."""
    begin_ns = monotonic_ns()
    settings = store_settings(
        cluster.files, flush=options.flush, index=options.index, engine=options.consume_queue, pages="fresh"
    )
    cluster.start_broker(settings, seconds=_READY_SECONDS)
    return (monotonic_ns() - begin_ns) / 1e9
