"""The raw path's producer and consumer: a window of requests over one DEALER, nothing encoded, nothing decoded."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...model.clock import monotonic_ns
from ...model.errors import RequestTimeout
from ...remoting.raw_socket import RawDealer
from ..percentiles import Samples
from ..processes import WorkerChannel
from ..works.frames import ready_batches
from .raw_server import READ

_REPLY_MS: Final = 10_000
_SAMPLES: Final = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RawClientJob:
    """`batch` encoded messages of `size` bytes per request, `in_flight` requests at a time, for `seconds`.

    `header`: hex of a real request's header frame. `reads`: request pages instead, without touching the messages in them.
    """

    address: str
    header: str
    size: int
    batch: int
    in_flight: int
    seconds: float
    samples_path: str
    topic: str = "bench"
    keys: int = 0
    tags: bool = False
    reads: bool = False


def drive(job: RawClientJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds, requests}; latencies of requests to `samples_path`."""
    header = bytes.fromhex(job.header)
    record_bytes = 0
    payloads: list[bytes] = []
    if job.reads:
        header = READ + header
        record_bytes = len(ready_batches(job.topic, size=job.size, batch=1, keys=job.keys, tags=job.tags, count=1)[0])
    else:
        payloads = ready_batches(job.topic, size=job.size, batch=job.batch, keys=job.keys, tags=job.tags)
    samples = Samples(_SAMPLES)
    with RawDealer(job.address) as dealer:
        if not channel.ready({}):
            return
        begin_ns = monotonic_ns()
        requests, received = pump(job, channel, dealer, header, payloads, samples)
        seconds = (monotonic_ns() - begin_ns) / 1e9
    if job.reads:
        messages, size_bytes = received // record_bytes, received
    else:
        messages, size_bytes = requests * job.batch, requests * job.batch * job.size
    np.save(job.samples_path, samples.values)
    channel.result({"messages": messages, "bytes": size_bytes, "seconds": seconds, "requests": requests})


def pump(
    job: RawClientJob,
    channel: WorkerChannel,
    dealer: RawDealer,
    header: bytes,
    payloads: list[bytes],
    samples: Samples,
) -> tuple[int, int]:
    """Sends for the job's time: (requests answered, payload bytes received). Raises RequestTimeout."""
    sent_at: deque[int] = deque()
    answered = received = turn = 0
    now_ns = monotonic_ns()
    end_ns = now_ns + int(job.seconds * 1e9)
    while sent_at or now_ns < end_ns:
        while now_ns < end_ns and len(sent_at) < job.in_flight:
            now_ns = monotonic_ns()
            sent_at.append(now_ns)
            dealer.send(header, payloads[turn % len(payloads)] if payloads else None)
            turn += 1
        frames = dealer.receive(_REPLY_MS)
        if frames is None:
            raise RequestTimeout("raw path", _REPLY_MS)
        while frames is not None:
            now_ns = monotonic_ns()
            samples.record(now_ns - sent_at.popleft())
            answered += 1
            received += sum(map(len, frames[1:]))
            frames = dealer.receive_nowait() if sent_at else None
        channel.progress(now_ns, answered * job.batch, answered * job.batch * job.size)
    return answered, received
