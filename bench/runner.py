"""Runs one benchmark: a cluster, the raw path before, the work itself, the raw path after, one result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ..model.errors import InvalidParameter
from .document import picture, result_document
from .environment import environment, kernel_kind
from .measure import Load, Measured, measure
from .options import GROUP_WORKS, PROXY_WORKS, SPARK_WORKS, BenchOptions, BenchResult, GivenCluster, Report
from .own_cluster import LogFiles
from .percentiles import Nanoseconds, joined, latency_us
from .processes import BenchWorker
from .raw.raw_path import RawPath, default_in_flight, fdatasync_latencies, limit_document, raw_shape, slice_bytes
from .stages import EncodeJob, broker_stages, client_stages
from .target import Target, opened_target
from .works.limits import measure_limits
from .works.restart import restart
from .works.works import WORKS, Bench, WorkOutcome, prebuilt_job, warm_up, write_log

__all__ = ["BenchOptions", "BenchResult", "Report", "run"]

_RAW_OF: Final = {
    "produce": "the same frames over the same sockets and the same pwritev, without a broker",
    "consume": "pages of a mapped file over the same sockets, without a broker; messages not touched",
    "latency": "bare round trips with the same frames and a pwritev, interleaved with the sends",
    "transactions": "single requests with the same frames and a pwritev, without a broker; a transaction takes two",
    "pop": "requests with as many messages and a pwritev, one in flight a consumer, without a broker; a receive takes two",
    "e2e": "bare round trips with the same frames and a pwritev, one at a time",
}
USUAL_FILES: Final = LogFiles()
UNKNOWN: Final = GivenCluster()
_SEND_PROBE_SECONDS: Final = 0.5
_SETUP_SECONDS: Final = 60.0


def run(
    options: BenchOptions,
    report: Report,
    *,
    files: LogFiles = USUAL_FILES,
    given: GivenCluster = UNKNOWN,
) -> BenchResult:
    """Measures the work in `options` and reports progress through `report` (called in this thread).

    `files`: sizes of a log that is started for the run; figures are comparable only with the usual ones. `given`: facts
    about the cluster of `options.namesrv`.

    Raises ZenitError if the cluster cannot be reached or started, or if a message got lost; everything that it started is
    stopped on the way out.
    """
    if options.work in (*GROUP_WORKS, *PROXY_WORKS, *SPARK_WORKS):
        raise InvalidParameter("work", options.work, f"one broker's: {', '.join(WORKS)}")
    with _directory(options) as directory:
        if options.work == "limits":
            found, extra = measure_limits(options, directory, report)
            return _result(options, found, directory, batch=options.batch, limit=None, cpu_seconds=None, extra=extra)
        if options.work == "restart" or (options.work == "latency" and options.stages and options.namesrv is None):
            options = replace(options, own_cluster=True)  # in which it has a say
        with opened_target(options, directory, files, report) as target:
            result = _run_on(options, target, directory, report, given)
            return replace(result, document={**result.document, "cluster": dict(target.facts)})


@contextmanager
def _directory(options: BenchOptions) -> Iterator[str]:
    """The directory for the run's files: a new one, removed afterwards, below the one in the options."""
    if options.directory is not None:
        os.makedirs(options.directory, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="zenit-bench-", dir=options.directory) as directory:
        yield directory


def _run_on(options: BenchOptions, target: Target, directory: str, report: Report, given: GivenCluster) -> BenchResult:
    options = replace(options, queues=len(target.write_queues()))  # of the existing topic
    bench = Bench(options=options, target=target, directory=directory, report=report)
    if options.work == "restart":
        found, facts = restart(bench)
        return _result(options, found, directory, batch=1, limit=None, cpu_seconds=None, extra=facts)
    raw_directory = os.path.join(directory, "raw")
    os.mkdir(raw_directory)
    reads = options.work == "consume"
    warm, sync = options.warm or given.warm_up is not None or reads, options.flush == "sync" and not reads
    is_stamped = options.stages and options.work == "latency" and target.cluster is not None
    raw_stamps_path = os.path.join(raw_directory, "stamps.npy") if is_stamped else ""
    with RawPath(
        raw_directory,
        warm=warm,
        sync=sync,
        seconds=options.limit_seconds,
        slice_bytes=slice_bytes(options),
        copies=given.replicas - 1,
        stamps_path=raw_stamps_path,
    ) as raw:
        bench.raw_address, bench.raw_stamps_path, bench.take_raw_stamps = raw.address, raw_stamps_path, raw.take_stamps
        extra: dict[str, Any] = {
            "pages": _pages(options, given),
            "flush": options.flush,
            "in_flight": default_in_flight(options),
        }
        if options.warm and target.cluster is not None:
            extra["warm_up"] = warm_up(bench, target.cluster)
        if given.warm_up is not None:
            given.warm_up(partial(write_log, bench))
        limits, flushes = [_limit(bench, raw, "limit before")], [_flushes(bench)]
        outcome = WORKS[options.work](bench)
        limits.append(_limit(bench, raw, "limit after"))
        flushes.append(_flushes(bench))
        extra |= outcome.extra | {"broker_memory_bytes": outcome.after.memory_bytes}
        if options.flush == "sync":
            extra["fdatasync_us"] = latency_us(joined(flushes))
        if options.stages and "stages" not in extra:
            extra["stages"] = _stages(bench, outcome)
        known = [limit for limit in limits if limit is not None]
        return _result(
            options,
            outcome.measured,
            directory,
            batch=_sent_batch(options),
            limit=limit_document(known, of=_raw_of(options, given), ran_out=raw.ran_out) if known else None,
            cpu_seconds=outcome.after.cpu_seconds - outcome.before.cpu_seconds,
            extra=extra,
        )


def _raw_of(options: BenchOptions, given: GivenCluster) -> str:
    """The description of a work's limit."""
    copies = f"; held by {given.replicas} processes before it is answered" if given.replicas > 1 else ""
    return _RAW_OF[options.work] + copies


def _limit(bench: Bench, raw: RawPath, phase: str) -> Measured | None:
    seconds = bench.options.limit_seconds
    if not seconds:
        return None
    return raw.measure(raw_shape(bench.options), seconds=seconds, phase=phase, report=bench.report)


def _flushes(bench: Bench) -> Nanoseconds:
    """Latencies of a bare `fdatasync` now; empty if the run does not wait for any."""
    if bench.options.flush != "sync":
        return joined([])
    return fdatasync_latencies(bench.directory, seconds=max(bench.options.limit_seconds / 2, 0.1)).values


def _sent_batch(options: BenchOptions) -> int:
    return 1 if options.work in ("consume", "latency", "e2e", "transactions") else raw_shape(options).batch


def _pages(options: BenchOptions, given: GivenCluster) -> str:
    """The kind of files that were measured."""
    if options.work == "consume":
        return "warm: the backlog was written just before and is in the page cache"
    if options.warm or given.warm_up is not None:
        return "warm: files recycled, their pages cached"
    return "cold: fresh preallocated files" if options.own_cluster else "cold, unless the cluster recycled segments"


def _stages(bench: Bench, outcome: WorkOutcome) -> dict[str, dict[str, float]]:
    """Nanoseconds per message, in one producer's process and in the broker."""
    options = bench.options
    broker = broker_stages(outcome.before.stages, outcome.after.stages, batch=raw_shape(options).batch)
    if options.work != "produce":
        return {"broker": broker}
    path = bench.path("send-probe")
    probe = replace(prebuilt_job(bench, path), batch=raw_shape(options).batch, in_flight=4, seconds=_SEND_PROBE_SECONDS)
    sent = measure(
        [Load(role="prebuilt", job=probe, samples_path=path)], phase="stages", seconds=0.0, report=bench.report
    )
    encoding = {"build_ns": 0.0, "encode_ns": 0.0}
    if not options.prebuilt:
        job = EncodeJob(
            topic=bench.target.topic, api=options.api, size=options.size, keys=options.keys, tags=options.tags
        )
        with BenchWorker("encode", job) as worker:
            worker.wait_ready(_SETUP_SECONDS)
            encoding = worker.ask("go", _SETUP_SECONDS)
    client = client_stages(
        build_ns=encoding["build_ns"],
        encode_ns=encoding["encode_ns"],
        send_ns=float(sent.parts[0].facts["send_ns"]),
        processes=options.producers,
        messages_per_second=outcome.measured.messages_per_second,
    )
    return {"client": client, "broker": broker}


def _result(
    options: BenchOptions,
    measured: Measured,
    directory: str,
    *,
    batch: int,
    limit: dict[str, Any] | None,
    cpu_seconds: float | None,
    extra: dict[str, Any],
) -> BenchResult:
    facts = {"kernel": kernel_kind(), **extra, "environment": environment(directory)}
    document = result_document(options, measured, batch=batch, limit=limit, cpu_seconds=cpu_seconds, extra=facts)
    return BenchResult(document=document, svg=picture(document, measured))
