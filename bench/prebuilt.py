"""Ready batches straight to the broker: no producer, no encoding, so what is left is the broker's own ceiling.

With batches of one and 64 in flight on one socket it measures single-message requests without auto-batching.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

import numpy as np

from ..model.clock import monotonic_ns
from ..model.errors import RequestTimeout, ZenitError
from ..remoting.client import RemotingClient
from ..remoting.commands import Reply, SendMessages
from .frames import ready_batches
from .percentiles import Samples
from .processes import Channel

_SAMPLES: Final = 4_000_000
_TIMEOUT_MS: Final = 30_000
_CLOCK_EVERY: Final = 16
BATCHES_IN_A_ROW: Final = 4  # to one queue, before the next queue's turn: they lie side by side in the log


@dataclass(frozen=True, slots=True, kw_only=True)
class PrebuiltJob:
    """`queues`: (broker address, queue id), taken in turn. `in_flight`: requests of `batch` messages not yet answered."""

    topic: str
    queues: list[tuple[str, int]]
    size: int
    batch: int
    in_flight: int
    seconds: float
    samples_path: str
    messages_max: int = 0  # stop there at the latest; 0 = by time alone
    keys: int = 0
    tags: bool = False
    prepared: int = 0  # how many different batches; 0 = as many as memory allows


class Window:
    """At most `size` requests unanswered. `enter` blocks; `leave` runs in whichever thread took the reply."""

    def __init__(self, size: int, samples: Samples) -> None:
        self._room: SimpleQueue[None] = SimpleQueue()  # a place each; a semaphore costs as much as a send
        self._size = size
        for _ in range(size):
            self._room.put(None)
        self.samples = samples
        self.failures: list[ZenitError] = []

    def enter(self) -> None:
        """Waits for room. Raises RequestTimeout, or the error that a request ended with."""
        try:
            self._room.get(timeout=_TIMEOUT_MS / 1000)
        except Empty:
            raise RequestTimeout("bench prebuilt send", _TIMEOUT_MS) from None
        if self.failures:
            raise self.failures[0]

    def leave(self, sent_ns: int, error: ZenitError | None) -> None:
        """A request is over."""
        if error is not None:
            self.failures.append(error)
        self.samples.record(monotonic_ns() - sent_ns)
        self._room.put(None)

    def drain(self) -> None:
        """Waits until nothing is in flight."""
        for _ in range(self._size):
            self.enter()


def send_prebuilt(job: PrebuiltJob, channel: Channel) -> None:
    """One measurement: {messages, bytes, seconds, send_ns}; latencies of requests to `samples_path`."""
    batches = ready_batches(job.topic, size=job.size, batch=job.batch, keys=job.keys, tags=job.tags, count=job.prepared)
    requests = [
        (address, SendMessages(topic=job.topic, queue_id=queue_id, count=job.batch, producer_group="bench-producers"))
        for address, queue_id in job.queues
    ]
    random.shuffle(requests)
    window = Window(job.in_flight, Samples(_SAMPLES))
    with RemotingClient() as client:
        for address, request in requests:  # connects, and makes each queue
            client.call(address, request, batches[0], timeout_ms=_TIMEOUT_MS)
        if not channel.ready({}):
            return
        begin_ns = monotonic_ns()
        sent, calling_ns = _pump(job, channel, client, requests, batches, window)
        window.drain()
        seconds = (monotonic_ns() - begin_ns) / 1e9
    np.save(job.samples_path, window.samples.values)
    messages = sent * job.batch
    channel.result(
        {
            "messages": messages,
            "bytes": messages * job.size,
            "seconds": seconds,
            "send_ns": calling_ns / max(messages, 1),
        }
    )


def _pump(
    job: PrebuiltJob,
    channel: Channel,
    client: RemotingClient,
    requests: list[tuple[str, SendMessages]],
    batches: list[bytes],
    window: Window,
) -> tuple[int, int]:
    """(requests sent, nanoseconds spent in the calls)."""
    now_ns = monotonic_ns()
    end_ns = now_ns + int(job.seconds * 1e9)
    requests_max = job.messages_max // job.batch if job.messages_max else 1 << 62
    sent = calling_ns = 0
    leave = window.leave
    while now_ns < end_ns and sent < requests_max:
        window.enter()
        address, request = requests[(sent // BATCHES_IN_A_ROW) % len(requests)]
        begin_ns = monotonic_ns()

        def on_reply(_: Reply | None, __: bytes, error: ZenitError | None, sent_ns: int = begin_ns) -> None:
            leave(sent_ns, error)

        client.send_nowait(address, request, batches[sent % len(batches)], timeout_ms=_TIMEOUT_MS, on_reply=on_reply)
        now_ns = monotonic_ns()
        calling_ns += now_ns - begin_ns
        sent += 1
        if sent % _CLOCK_EVERY == 0:
            channel.progress(now_ns, sent * job.batch, sent * job.batch * job.size)
    return sent, calling_ns
