"""The kinds of work on a cluster: their processes, their queues, and the meaning of their figures."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ...client.producer import Producer
from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import RequestTimeout, SystemFault
from ...store.log.spare_files import SPARE_INDEX_FOLDER, SPARE_QUEUE_FOLDER
from ..measure import Load, Measured, measure
from ..options import BenchOptions, Report
from ..own_cluster import LogFiles, OwnCluster, cache_spares, spare_files, store_settings
from ..percentiles import joined, latency_us
from ..processes import BenchWorker
from ..raw.raw_path import backlog_batch, default_in_flight, record_bytes, send_header
from ..target import BrokerUse, Target
from ..trips.thread_times import Times
from .consume import ConsumeJob
from .e2e import STAMP, ReceiveJob, ScheduleJob
from .frames import bodies
from .latency import LatencyJob
from .latency_stages import ServerTimes, stages_document, taken_stamps
from .pop import PopJob
from .prebuilt import PrebuiltJob
from .produce import ProduceJob
from .thread_worker import ThreadWorker
from .transactions import TransactionsJob

BACKLOG_BYTES_MAX: Final = 2 << 30
ENGINE_BACKLOG_BYTES_MAX: Final = 512 << 20
"""Of `memory://`, which lets the oldest messages go over a GiB of log: a consumer would wait for them in vain."""
_BACKLOG_RATE: Final = 3_000_000  # messages a second that a consumer may reach, which determines the size of a backlog
_STALL_EDGE_S: Final = 0.5  # the point of the timeline around the stop belongs to neither half
_POP_RATE: Final = 200_000  # the same of a group that pops
_FILL_SECONDS: Final = 600.0
_RECYCLE_MS: Final = 60_000
_FILL_BODY_BYTES: Final = 1024  # smaller ones take longer, larger ones fill no queue files
_FILL_KEYS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOutcome:
    """A work's figures: the measurement, the brokers' use before and after it, and more facts for the document."""

    measured: Measured
    before: BrokerUse
    after: BrokerUse
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Bench:
    """What every work needs."""

    options: BenchOptions
    target: Target
    directory: str
    report: Report
    raw_address: str = ""  # of the raw path's server, if there is one
    raw_stamps_path: str = ""  # where that saves its stamps
    take_raw_stamps: Callable[[], Times] = dict

    @property
    def is_stamped(self) -> bool:
        """Whether the processes of the run note the times of their stages."""
        return bool(self.raw_stamps_path) and self.target.cluster is not None

    def stamps(self) -> tuple[Times, Times]:
        """Has broker and raw server save their stamps; returns what their threads have used, in this order."""
        if not self.is_stamped:
            return {}, {}
        assert self.target.cluster is not None
        return self.target.cluster.usage()["threads"], self.take_raw_stamps()

    @property
    def new_worker(self) -> Callable[[str, object], BenchWorker]:
        """What runs its loads."""
        return ThreadWorker if self.target.is_engine else BenchWorker

    def path(self, name: str) -> str:
        """The path of a file for latencies."""
        return os.path.join(self.directory, name + ".npy")

    def measured(
        self, loads: list[Load], *, phase: str, seconds: float, on_started: Callable[[], None] | None = None
    ) -> WorkOutcome:
        """Measures the loads, with the brokers' use just before and after. `on_started`: called before they start."""
        started: list[BrokerUse] = []

        def start() -> None:
            started.append(self.target.use())
            if on_started is not None:
                on_started()

        found = measure(
            loads,
            phase=phase,
            seconds=seconds,
            report=self.report,
            on_started=start,
            new_worker=self.new_worker,
        )
        return WorkOutcome(measured=found, before=started[0], after=self.target.use())


def produce(bench: Bench) -> WorkOutcome:
    """Producers at full speed, with a send method of `Producer` or with ready batches."""
    options = bench.options
    loads = []
    for index in range(options.producers):
        path = bench.path(f"producer-{index}")
        if options.prebuilt:
            loads.append(Load(role="prebuilt", job=prebuilt_job(bench, path), samples_path=path))
            continue
        job = ProduceJob(
            namesrv=bench.target.namesrv,
            topic=bench.target.topic,
            api=options.api,
            size=options.size,
            batch=options.batch,
            in_flight=default_in_flight(options),
            seconds=options.seconds,
            samples_path=path,
            keys=options.keys,
            tags=options.tags,
        )
        loads.append(Load(role="produce", job=job, samples_path=path))
    return bench.measured(loads, phase="produce", seconds=options.seconds)


def prebuilt_job(bench: Bench, path: str) -> PrebuiltJob:
    """The job of ready batches from the options."""
    options = bench.options
    return PrebuiltJob(
        topic=bench.target.topic,
        queues=bench.target.write_queues(),
        size=options.size,
        batch=options.batch,
        in_flight=default_in_flight(options),
        seconds=options.seconds,
        samples_path=path,
        keys=options.keys,
        tags=options.tags,
        cluster_id=bench.target.cluster_id(),
        batch_queue=options.batch_queue,
    )


def consume(bench: Bench) -> WorkOutcome:
    """Makes a backlog; then consumers read all of it."""
    options, target = bench.options, bench.target
    first = {(name, queue): offset for name, queue, offset in target.end_offsets()}
    _make_backlog(bench, _BACKLOG_RATE * options.consumers)
    ends = {(name, queue): offset for name, queue, offset in target.end_offsets()}
    queues = [(name, queue, offset) for (name, queue), offset in first.items() if ends[name, queue] > offset]
    loads = []
    for index in range(min(options.consumers, len(queues))):
        share = queues[index :: options.consumers]
        path = bench.path(f"consumer-{index}")
        job = ConsumeJob(
            namesrv=target.namesrv,
            group=f"{target.topic[:100]}-readers",
            topic=target.topic,
            queues=share,
            messages=sum(ends[name, queue] - offset for name, queue, offset in share),
            untouched=options.untouched,
            samples_path=path,
        )
        loads.append(Load(role="consume", job=job, samples_path=path))
    outcome = bench.measured(loads, phase="consume", seconds=options.seconds)
    if options.untouched:  # the messages were not read, so the bytes follow from their number
        whole = replace(outcome.measured, bytes=outcome.measured.messages * options.size)
        return replace(outcome, measured=whole)
    return outcome


def pop(bench: Bench) -> WorkOutcome:
    """Makes a backlog; then simple consumers of one group receive it, and acknowledge in the background."""
    options = bench.options
    _make_backlog(bench, _POP_RATE)
    loads = []
    for index in range(options.consumers):
        path = bench.path(f"consumer-{index}")
        job = PopJob(
            namesrv=bench.target.namesrv,
            group=f"{bench.target.topic[:100]}-poppers",
            topic=bench.target.topic,
            at_a_time=options.at_a_time,
            stalls=index < options.stalled,
            seconds=options.seconds,
            samples_path=path,
        )
        loads.append(Load(role="pop", job=job, samples_path=path))
    outcome = bench.measured(loads, phase="pop", seconds=options.seconds)
    if not options.stalled:
        return outcome
    return replace(outcome, extra={"stall": _stall(options.stalled, options.seconds / 2, outcome.measured.timeline)})


def _stall(stalled: int, middle: float, timeline: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """How fast all consumers were before some stood still, and the others after that."""
    before = [rate for second, rate in timeline if second <= middle]
    after = [rate for second, rate in timeline if middle + _STALL_EDGE_S <= second <= 2 * middle]
    rates = [round(sum(part) / len(part), 1) if part else 0.0 for part in (before, after)]
    return {
        "stalled": stalled,
        "messages_per_second_before": rates[0],
        "messages_per_second_of_the_others": rates[1],
        "share": round(rates[1] / rates[0], 4) if rates[0] else None,
    }


def backlog_messages(options: BenchOptions, rate: int, *, is_engine: bool) -> int:
    """How many messages are sent before they are read: for the wanted time at so many a second, as far as they are kept."""
    bytes_max = ENGINE_BACKLOG_BYTES_MAX if is_engine else BACKLOG_BYTES_MAX
    return max(256, min(options.messages or int(options.seconds * rate), bytes_max // record_bytes(options)))


def _make_backlog(bench: Bench, rate: int) -> None:
    """Sends ready batches of 256 until there is enough to read for the wanted time at so many messages a second."""
    options = bench.options
    wanted = backlog_messages(options, rate, is_engine=bench.target.is_engine)
    if bench.target.is_engine:
        _fill_engine(bench, wanted)
        return
    path = bench.path("backlog")
    job = replace(
        prebuilt_job(bench, path),
        batch=backlog_batch(options),
        in_flight=8,
        seconds=_FILL_SECONDS,
        messages_max=wanted,
    )
    measure([Load(role="prebuilt", job=job, samples_path=path)], phase="backlog", seconds=0.0, report=bench.report)


def _fill_engine(bench: Bench, wanted: int) -> None:
    options = bench.options
    batch = backlog_batch(options)
    content = bodies(batch, options.size)
    with Producer("bench-producers", namesrv=bench.target.namesrv, compression=None) as producer:
        for _ in range(math.ceil(wanted / batch)):
            producer.send_bodies(bench.target.topic, content, timeout=_FILL_SECONDS)


def latency(bench: Bench) -> WorkOutcome:
    """One thread, one synchronous send at a time, with a bare round trip between."""
    options = bench.options
    path, raw_path = bench.path("sends"), bench.path("trips")
    job = LatencyJob(
        namesrv=bench.target.namesrv,
        topic=bench.target.topic,
        size=options.size,
        seconds=options.seconds,
        raw_address=bench.raw_address,
        raw_header=send_header(1).hex(),
        samples_path=path,
        raw_samples_path=raw_path,
        keys=options.keys,
        tags=options.tags,
        in_flight=default_in_flight(options),
        queues=bench.target.write_queues(),
        cluster_id=bench.target.cluster_id(),
        stamps_path=bench.path("client-stamps").replace(".npy", ".npz") if bench.is_stamped else "",
    )
    marks: list[tuple[Times, Times]] = []
    outcome = bench.measured(
        [Load(role="latency", job=job, samples_path=path)],
        phase="latency",
        seconds=options.seconds,
        on_started=lambda: marks.append(bench.stamps()),
    )
    raw = latency_us(np.load(raw_path))
    os.unlink(raw_path)
    mine = latency_us(outcome.measured.latencies)
    ratio = {name: round(mine[name] / raw[name], 3) for name in ("p50", "p99")} if mine and raw else None
    extra: dict[str, Any] = {"raw_latency_us": raw, "ratio_to_raw": ratio}
    facts = outcome.measured.parts[0].facts
    if job.in_flight > 1:
        seconds = outcome.measured.seconds / max(outcome.measured.messages, 1)
        raw_seconds = facts["raw_seconds"] / max(facts["raw_messages"], 1)
        extra["share_of_raw"] = round(raw_seconds / seconds, 4) if seconds else None
    if bench.is_stamped:
        extra["stages"] = _latency_stages(bench, job, facts, marks[0])
    return replace(outcome, extra=extra)


def _latency_stages(
    bench: Bench, job: LatencyJob, facts: dict[str, Any], before: tuple[Times, Times]
) -> dict[str, Any]:
    after = bench.stamps()
    assert bench.target.cluster is not None
    broker, raw = (
        ServerTimes(before=earlier, after=later, stamps=taken_stamps(path))
        for earlier, later, path in zip(
            before, after, (bench.target.cluster.stamps_path, bench.raw_stamps_path), strict=True
        )
    )
    return stages_document(facts, taken_stamps(job.stamps_path), broker, raw, job.in_flight)


def end_to_end(bench: Bench) -> WorkOutcome:
    """Producers on a schedule; the consumers' latencies count from when each message was due."""
    options = replace(bench.options, size=max(bench.options.size, STAMP.size))
    target = bench.target
    queues = target.end_offsets()
    consumers = min(options.consumers, len(queues))
    total = options.producers * int(options.rate / options.producers * options.seconds)
    loads = []
    for index in range(consumers):
        path = bench.path(f"receiver-{index}")
        job = ReceiveJob(
            namesrv=target.namesrv,
            group=f"{target.topic[:100]}-readers",
            topic=target.topic,
            queues=queues[index::consumers],
            messages=total,
            alone=consumers == 1,
            push=options.push,
            samples_path=path,
        )
        loads.append(Load(role="receive", job=job, samples_path=path))
    for index in range(options.producers):
        path = bench.path(f"schedule-{index}")
        schedule = ScheduleJob(
            namesrv=target.namesrv,
            topic=target.topic,
            size=options.size,
            rate=options.rate / options.producers,
            seconds=options.seconds,
            samples_path=path,
        )
        loads.append(Load(role="schedule", job=schedule, samples_path=path, counts=False))
    outcome = bench.measured(loads, phase="e2e", seconds=options.seconds)
    receivers, late = outcome.measured.parts[:consumers], outcome.measured.parts[consumers:]
    received = sum(part.messages for part in receivers)
    if received != total:
        raise SystemFault(f"bench e2e: {total} messages were sent and {received} came")
    measured = replace(
        outcome.measured,
        messages=total,
        bytes=sum(part.bytes for part in receivers),
        latencies=joined([part.latencies for part in receivers]),
    )
    # the lateness of the producers' processes: part of the latency, but not caused by the broker
    extra: dict[str, Any] = {"late_us": latency_us(joined([part.latencies for part in late]))}
    if options.push:
        extra["consumer_idle_cpu"] = round(sum(part.facts["idle_cpu"] for part in receivers), 4)
        settled = [part.facts["settled_cpu"] for part in receivers]
        if None not in settled:
            extra["consumer_settled_cpu"] = round(sum(settled), 4)
    return replace(outcome, measured=measured, extra=extra)


def transactions(bench: Bench) -> WorkOutcome:
    """Transaction producers, each with several transactions at a time."""
    options = bench.options
    loads = []
    for index in range(options.producers):
        path = bench.path(f"producer-{index}")
        job = TransactionsJob(
            namesrv=bench.target.namesrv,
            topic=bench.target.topic,
            size=options.size,
            in_flight=default_in_flight(options),
            uses_tasks=options.asyncio,
            seconds=options.seconds,
            samples_path=path,
        )
        loads.append(Load(role="transactions", job=job, samples_path=path))
    return bench.measured(loads, phase="transactions", seconds=options.seconds)


def warm_up(bench: Bench, cluster: OwnCluster) -> dict[str, Any]:
    """Fills pools of recycled files, so that the measured work overwrites cached pages.

    The log is filled first, then the broker restarted with a retention that expires most of it. During further writes
    queues and index change to recycled files. Returns what was done, for the document. Raises RequestTimeout if the pool of
    segments does not fill.
    """
    options, files = bench.options, cluster.files
    write_log(bench, files, files.fill_bytes, size_min=_FILL_BODY_BYTES)
    cluster.stop_broker()
    cluster.start_broker(
        store_settings(files, flush=options.flush, index=options.index, engine=options.consume_queue, pages="recycled")
    )
    bench.target.wait_route()
    write_log(bench, files, files.settle_bytes)
    deadline = monotonic_ms() + _RECYCLE_MS
    enough = range(files.pool_segments * 3 // 4, files.pool_segments + 1)  # above this some are about to be deleted
    while (pool := len(spare_files(cluster.store_directory))) not in enough:
        if monotonic_ms() >= deadline:
            raise RequestTimeout(f"recycled segments: {pool} of {files.pool_segments}", _RECYCLE_MS)
        sleep_ms(100)
    cache_spares(cluster.store_directory)
    return {
        "filled_bytes": files.fill_bytes,
        "settled_bytes": files.settle_bytes,
        "recycled_segments": pool,
        "recycled_queue_files": len(spare_files(cluster.store_directory, SPARE_QUEUE_FOLDER)),
        "recycled_index_files": len(spare_files(cluster.store_directory, SPARE_INDEX_FOLDER)),
        "segment_bytes": files.segment_bytes,
        "index_entries": files.index_entries,
    }


def write_log(bench: Bench, files: LogFiles, log_bytes: int, *, size_min: int = 0) -> None:
    """Writes this much log, with enough keys per message to fill two index files before the log has settled."""
    options = replace(bench.options, size=max(bench.options.size, size_min))
    # Index entries per message: its unique id and its keys.
    entries = math.ceil(2 * files.index_entries * record_bytes(options) / files.settle_bytes)
    options = replace(options, keys=max(options.keys, min(entries - 1, _FILL_KEYS_MAX)))
    job = replace(
        prebuilt_job(bench, bench.path("fill")),
        size=options.size,
        keys=options.keys,
        batch=backlog_batch(options),
        in_flight=8,
        seconds=_FILL_SECONDS,
        messages_max=log_bytes // record_bytes(options),
        prepared=64,
    )
    load = Load(role="prebuilt", job=job, samples_path=job.samples_path)
    measure([load], phase="warm", seconds=0.0, report=bench.report)


WORKS: Final[dict[str, Callable[[Bench], WorkOutcome]]] = {
    "produce": produce,
    "consume": consume,
    "latency": latency,
    "e2e": end_to_end,
    "transactions": transactions,
    "pop": pop,
}
