"""Single synchronous sends, each followed by one bare round trip of the same frames: both see the same machine.

The round trip goes to a raw process that receives, writes and answers; the difference is the cost of client and broker. One
thread, one message at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...client.producer import Producer
from ...model.clock import monotonic_ns
from ...model.errors import RequestTimeout
from ...model.message import Message
from ...remoting.raw_socket import RawDealer
from ..percentiles import Samples
from ..processes import WorkerChannel
from .frames import TAG, bodies, ready_batches

_SAMPLES: Final = 4_000_000
_TIMEOUT_MS: Final = 10_000
_WARM_UP: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyJob:
    """`raw_address`, `raw_header` (hex): the raw path's server and a real request's header frame."""

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


def send_one_by_one(job: LatencyJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}; latencies of sends and of round trips to the two paths."""
    content = bodies(1024, job.size)
    payload = ready_batches(job.topic, size=job.size, batch=1, keys=job.keys, tags=job.tags, count=2)[0]
    header = bytes.fromhex(job.raw_header)
    tags = TAG if job.tags else None
    sends, trips = Samples(_SAMPLES), Samples(_SAMPLES)
    with (
        Producer("bench-producers", namesrv=job.namesrv, compression=None) as producer,
        RawDealer(job.raw_address) as dealer,
    ):

        def pair(index: int) -> tuple[int, int, int]:
            keys = [f"k{index}-{key}" for key in range(job.keys)]
            begin_ns = monotonic_ns()
            producer.send(Message(job.topic, content[index % len(content)], tags, keys), timeout=_TIMEOUT_MS / 1000)
            sent_ns = monotonic_ns()
            dealer.send(header, payload)
            if dealer.receive(_TIMEOUT_MS) is None:
                raise RequestTimeout("raw round trip", _TIMEOUT_MS)
            return begin_ns, sent_ns, monotonic_ns()

        for index in range(_WARM_UP):
            pair(index)
        if not channel.ready({}):
            return
        now_ns = start_ns = monotonic_ns()
        end_ns = start_ns + int(job.seconds * 1e9)
        while now_ns < end_ns:
            begin_ns, sent_ns, now_ns = pair(sends.count)
            sends.record(sent_ns - begin_ns)
            trips.record(now_ns - sent_ns)
            channel.progress(now_ns, sends.count, sends.count * job.size)
    np.save(job.samples_path, sends.values)
    np.save(job.raw_samples_path, trips.values)
    spent = float(sends.values.sum()) / 1e9  # the sends' own time, without the round trips between them
    channel.result({"messages": sends.count, "bytes": sends.count * job.size, "seconds": spent})
