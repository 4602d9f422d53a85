"""Single sends beside bare round trips of the same frames, by turns: both see the same machine.

The round trip goes to a raw process that receives, writes and answers; the difference is the cost of client and broker. One
thread. With one in flight each synchronous send of a producer is followed by one round trip; with more, rounds of ready
requests are followed by rounds of raw ones, with as many unanswered.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...client.producer import Producer
from ...model.clock import monotonic_ns, thread_cpu_ns
from ...model.errors import RequestTimeout
from ...model.message import Message
from ...remoting.client_socket import ClientContext
from ...remoting.direct.direct_dealer import DirectDealer
from ...remoting.raw_socket import RawDealer
from ..percentiles import Nanoseconds, Samples
from ..processes import WorkerChannel
from ..raw.raw_client import RawClientJob, pump
from ..trips.stamps import Stamps
from ..trips.thread_times import IO_THREAD, MAIN, thread_times, used
from .frames import TAG, bodies, ready_batches
from .prebuilt import PrebuiltJob, Pump

_SAMPLES: Final = 4_000_000
_TIMEOUT_MS: Final = 10_000
_WARM_UP: Final = 200
_ROUND_S: Final = 0.05
_DISTINCT: Final = 1024  # ready requests


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyJob:
    """`raw_address`, `raw_header` (hex): the raw path's server and a real request's header frame.

    `queues`, `cluster_id`: as in PrebuiltJob, where `in_flight` is more than 1. `stamps_path`: where the times of each stage
    are saved; "" = they are not noted.
    """

    namesrv: str
    topic: str
    size: int
    seconds: float
    raw_address: str
    raw_header: str
    samples_path: str
    raw_samples_path: str
    keys: int = 0
    tags: bool = False
    in_flight: int = 1
    queues: list[tuple[str, int]] = field(default_factory=list)
    cluster_id: str = ""
    stamps_path: str = ""


@dataclass(slots=True)
class _Seen:
    """What a run has seen: latencies; with stamps the trips and the CPU time of this thread for each kind."""

    sends: Samples
    raw: Samples
    trips: list[tuple[int, int]] = field(default_factory=list)
    raw_trips: list[tuple[int, int]] = field(default_factory=list)
    sends_ns: int = 0  # their own time, without the round trips between them
    raw_ns: int = 0
    sends_cpu_ns: int = 0
    raw_cpu_ns: int = 0


def send_one_by_one(job: LatencyJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}; latencies of sends and of round trips to the two paths. With
    `stamps_path`: {threads, raw_messages, begin_ns, end_ns, ...} too."""
    seen = _Seen(Samples(_SAMPLES), Samples(_SAMPLES))
    stamps, raw_stamps = Stamps(), Stamps()
    if job.stamps_path and job.in_flight == 1:
        stamps.watch_all(((DirectDealer, "send"), (DirectDealer, "receive")))
        raw_stamps.watch_all(((RawDealer, "send"), (RawDealer, "receive")))
    with ExitStack() as opened:
        others = thread_times(os.getpid())
        work = _OneByOne(job, opened) if job.in_flight == 1 else _InRounds(job, opened)
        before = thread_times(os.getpid())
        work.begin_raw(opened)
        raw_threads = set(thread_times(os.getpid())) - set(before)
        work.warm_up()
        if not channel.ready({}):
            return
        stamps.clear()
        raw_stamps.clear()
        before = thread_times(os.getpid())
        begin_ns = monotonic_ns()
        work.run(channel, seen)
        end_ns = monotonic_ns()
        after = thread_times(os.getpid())
    np.save(job.samples_path, seen.sends.values)
    np.save(job.raw_samples_path, seen.raw.values)
    facts: dict[str, Any] = {
        "messages": seen.sends.count,
        "bytes": seen.sends.count * job.size,
        "seconds": seen.sends_ns / 1e9,
        "raw_messages": seen.raw.count,
        "raw_seconds": seen.raw_ns / 1e9,
    }
    if job.stamps_path:
        np.savez(
            job.stamps_path,
            client=stamps.rows(),
            raw_client=raw_stamps.rows(),
            trips=_pairs(seen.trips),
            raw_trips=_pairs(seen.raw_trips),
        )
        main = used(before, after, name=MAIN)
        cpu = (seen.sends_cpu_ns, seen.raw_cpu_ns)
        facts |= {
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            "main": [[own, main[1] * own // max(sum(cpu), 1), main[2] * own // max(sum(cpu), 1)] for own in cpu],
            "io": used(before, after, name=IO_THREAD, besides=raw_threads | set(others)),
            "raw_io": used(before, {name: after[name] for name in raw_threads if name in after}, name=IO_THREAD),
        }
    channel.result(facts)


def _pairs(trips: list[tuple[int, int]]) -> Nanoseconds:
    return np.array(trips, dtype=np.int64).reshape(-1, 2)


class _OneByOne:
    """A producer's `send`, then a bare round trip."""

    def __init__(self, job: LatencyJob, opened: ExitStack) -> None:
        self._job = job
        self._content = bodies(_DISTINCT, job.size)
        self._tags = TAG if job.tags else None
        self._producer = opened.enter_context(Producer("bench-producers", namesrv=job.namesrv, compression=None))
        self._send(0)
        self._header = bytes.fromhex(job.raw_header)
        self._payload = ready_batches(job.topic, size=job.size, batch=1, keys=job.keys, tags=job.tags, count=2)[0]

    def begin_raw(self, opened: ExitStack) -> None:
        """Connects to the raw path."""
        self._dealer = opened.enter_context(RawDealer(self._job.raw_address))
        self._trip()

    def warm_up(self) -> None:
        """Some of both."""
        for index in range(_WARM_UP):
            self._send(index)
            self._trip()

    def _send(self, index: int) -> None:
        job = self._job
        keys = [f"k{index}-{key}" for key in range(job.keys)]
        body = self._content[index % len(self._content)]
        self._producer.send(Message(job.topic, body, self._tags, keys), timeout=_TIMEOUT_MS / 1000)

    def _trip(self) -> None:
        self._dealer.send(self._header, self._payload)
        if self._dealer.receive(_TIMEOUT_MS) is None:
            raise RequestTimeout("raw round trip", _TIMEOUT_MS)

    def run(self, channel: WorkerChannel, seen: _Seen) -> None:
        """Both by turns until the time is over."""
        job, sends, raw = self._job, seen.sends, seen.raw
        is_stamped = bool(job.stamps_path)
        now_ns = monotonic_ns()
        end_ns = now_ns + int(job.seconds * 1e9)
        while now_ns < end_ns:
            cpu_ns = thread_cpu_ns() if is_stamped else 0
            begin_ns = monotonic_ns()
            self._send(sends.count)
            sent_ns = monotonic_ns()
            if is_stamped:
                seen.trips.append((begin_ns, sent_ns))
                sent_cpu_ns = thread_cpu_ns()
                seen.sends_cpu_ns += sent_cpu_ns - cpu_ns
                cpu_ns = sent_cpu_ns
            raw_ns = monotonic_ns() if is_stamped else sent_ns
            self._trip()
            now_ns = monotonic_ns()
            sends.record(sent_ns - begin_ns)
            raw.record(now_ns - raw_ns)
            if is_stamped:
                seen.raw_trips.append((raw_ns, now_ns))
                seen.raw_cpu_ns += thread_cpu_ns() - cpu_ns
            channel.progress(now_ns, sends.count, sends.count * job.size)
        seen.sends_ns, seen.raw_ns = int(sends.values.sum()), int(raw.values.sum())


class _InRounds:
    """A round of ready single requests, then one of raw ones, with as many in flight."""

    def __init__(self, job: LatencyJob, opened: ExitStack) -> None:
        self._job = job
        self._batches = ready_batches(job.topic, size=job.size, batch=1, keys=job.keys, tags=job.tags, count=_DISTINCT)
        self._samples = Samples(_SAMPLES)
        load = PrebuiltJob(
            topic=job.topic,
            queues=job.queues,
            size=job.size,
            batch=1,
            in_flight=job.in_flight,
            seconds=_ROUND_S,
            samples_path=job.samples_path,
            cluster_id=job.cluster_id,
        )
        context = ClientContext()
        opened.callback(context.close)
        dealers = {address: context.dealer(address) for address in {address for address, _ in job.queues}}
        for dealer in dealers.values():
            opened.callback(dealer.close)
        self._pump = Pump(load, dealers, self._batches, self._samples)
        self._pump.make_queues()

    def begin_raw(self, opened: ExitStack) -> None:
        """Connects to the raw path."""
        self._dealer = opened.enter_context(RawDealer(self._job.raw_address))
        self._header = bytes.fromhex(self._job.raw_header)
        self._raw_samples = Samples(_SAMPLES)
        self._raw_job = RawClientJob(
            address=self._job.raw_address,
            header=self._job.raw_header,
            size=self._job.size,
            batch=1,
            in_flight=self._job.in_flight,
            seconds=_ROUND_S,
            samples_path=self._job.raw_samples_path,
        )

    def warm_up(self) -> None:
        """A round of each."""
        silent = _Silent()
        self._pump.run(silent)
        pump(self._raw_job, silent, self._dealer, self._header, self._batches, self._raw_samples)
        self._samples.clear()
        self._raw_samples.clear()

    def run(self, channel: WorkerChannel, seen: _Seen) -> None:
        """Both by turns until the time is over."""
        job, silent = self._job, _Silent()
        now_ns = monotonic_ns()
        end_ns = now_ns + int(job.seconds * 1e9)
        while now_ns < end_ns:
            cpu_ns, begin_ns = thread_cpu_ns(), monotonic_ns()
            self._pump.run(silent)
            sent_cpu_ns, sent_ns = thread_cpu_ns(), monotonic_ns()
            pump(self._raw_job, silent, self._dealer, self._header, self._batches, self._raw_samples)
            now_ns = monotonic_ns()
            seen.sends_ns += sent_ns - begin_ns
            seen.raw_ns += now_ns - sent_ns
            seen.sends_cpu_ns += sent_cpu_ns - cpu_ns
            seen.raw_cpu_ns += thread_cpu_ns() - sent_cpu_ns
            channel.progress(now_ns, self._samples.count, self._samples.count * job.size)
        seen.sends.record_all(self._samples.values)
        seen.raw.record_all(self._raw_samples.values)


class _Silent(WorkerChannel):
    """Tells nobody of the progress of one round."""

    def __init__(self) -> None:
        """Has no parent."""

    def progress(self, now_ns: int, messages: int, size_bytes: int) -> None:
        """See WorkerChannel."""
