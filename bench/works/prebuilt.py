"""Sends ready batches straight to the broker: no producer, no encoding, so only the broker's own limit is measured.

One thread, one connection to each broker, a window of requests on it; each header is encoded and each reply decoded. With
batches of one and 64 in flight it measures single-message requests on one socket, without auto-batching.
"""

from __future__ import annotations

import random
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...model.clock import monotonic_ns
from ...model.errors import RequestTimeout, ZenitError
from ...record.kernel import wrap_batch
from ...remoting.client_socket import ClientContext, Dealer
from ...remoting.commands import SendMessages, SendReply
from ...remoting.header import decode_reply, encode_request
from ..percentiles import Samples
from ..processes import WorkerChannel
from .frames import ready_batches

_SAMPLES: Final = 4_000_000
_TIMEOUT_MS: Final = 30_000
_CLOCK_EVERY: Final = 16
BATCHES_IN_A_ROW: Final = 4  # to one queue before the next one's turn: they are contiguous in the log


@dataclass(frozen=True, slots=True, kw_only=True)
class PrebuiltJob:
    """`queues`: (broker address, queue id), used in turn. `in_flight`: unanswered requests of `batch` messages."""

    topic: str
    queues: list[tuple[str, int]]
    size: int
    batch: int
    in_flight: int
    seconds: float
    samples_path: str
    messages_max: int = 0  # stops there at the latest; 0 = by time alone
    keys: int = 0
    tags: bool = False
    prepared: int = 0  # number of distinct batches; 0 = as many as memory allows
    cluster_id: str = ""
    batch_queue: bool = False  # each batch is one record


class Pump:
    """A window of `in_flight` requests; waits for the oldest answer first. One thread."""

    def __init__(self, job: PrebuiltJob, dealers: dict[str, Dealer], batches: list[bytes], samples: Samples) -> None:
        self._job = job
        self._batches = batches
        self._requests = [
            (dealers[address], SendMessages(job.topic, queue_id, job.batch, "bench-producers"))
            for address, queue_id in job.queues
        ]
        random.shuffle(self._requests)
        self._samples = samples
        self._waiting: deque[tuple[Dealer, int]] = deque()
        self._sent_at: dict[int, int] = {}
        self.sent = 0
        self.send_ns = 0

    def make_queues(self) -> None:
        """Sends one batch to each queue, so that all exist before the clock starts."""
        for _ in range(len(self._requests) * BATCHES_IN_A_ROW):
            self.send(monotonic_ns())
        self.drain()
        self.sent = self.send_ns = 0
        self._samples.clear()

    def send(self, now_ns: int) -> None:
        """Sends the next request. Raises RequestTimeout if the socket takes no more."""
        sent = self.sent
        dealer, request = self._requests[(sent // BATCHES_IN_A_ROW) % len(self._requests)]
        self._sent_at[sent] = now_ns
        header = encode_request(request, sent, timeout_ms=_TIMEOUT_MS, cluster_id=self._job.cluster_id)
        if not dealer.send(header, self._batches[sent % len(self._batches)]):
            raise RequestTimeout("bench prebuilt send", 0)
        self._waiting.append((dealer, sent))
        self.sent = sent + 1

    def take_answers(self) -> None:
        """Waits for the oldest request's answer, then takes others that have come. Raises a request's error."""
        while self._waiting and self._waiting[0][1] not in self._sent_at:
            self._waiting.popleft()
        if not self._waiting:
            return
        dealer = self._waiting[0][0]
        received = dealer.receive(_TIMEOUT_MS)
        if received is None:
            raise RequestTimeout("bench prebuilt send", _TIMEOUT_MS)
        now_ns = monotonic_ns()
        while received is not None:
            opaque, reply = decode_reply(received[0], SendReply)
            if isinstance(reply, ZenitError):
                raise reply
            self._samples.record(now_ns - self._sent_at.pop(opaque))
            received = dealer.receive_nowait()

    def drain(self) -> None:
        """Waits until nothing is in flight."""
        while self._sent_at:
            self.take_answers()

    def run(self, channel: WorkerChannel) -> None:
        """Sends until the time is over, or the wanted number of messages is sent."""
        job = self._job
        now_ns = monotonic_ns()
        end_ns = now_ns + int(job.seconds * 1e9)
        requests_max = job.messages_max // job.batch if job.messages_max else 1 << 62
        while now_ns < end_ns and self.sent < requests_max:
            while len(self._sent_at) < job.in_flight and self.sent < requests_max:
                begin_ns = monotonic_ns()
                self.send(begin_ns)
                now_ns = monotonic_ns()
                self.send_ns += now_ns - begin_ns
                if self.sent % _CLOCK_EVERY == 0:
                    channel.progress(now_ns, self.sent * job.batch, self.sent * job.batch * job.size)
            self.take_answers()
        self.drain()


def send_prebuilt(job: PrebuiltJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds, send_ns}; latencies of requests to `samples_path`."""
    batches = ready_batches(job.topic, size=job.size, batch=job.batch, keys=job.keys, tags=job.tags, count=job.prepared)
    if job.batch_queue:
        batches = [wrap_batch(batch, len(batch), len(batch)) for batch in batches]
    samples = Samples(_SAMPLES)
    with ExitStack() as opened:
        context = ClientContext()
        opened.callback(context.close)
        dealers = {address: context.dealer(address) for address in {address for address, _ in job.queues}}
        for dealer in dealers.values():
            opened.callback(dealer.close)
        pump = Pump(job, dealers, batches, samples)
        pump.make_queues()
        if not channel.ready({}):
            return
        begin_ns = monotonic_ns()
        pump.run(channel)
        seconds = (monotonic_ns() - begin_ns) / 1e9
    np.save(job.samples_path, samples.values)
    messages = pump.sent * job.batch
    channel.result(
        {
            "messages": messages,
            "bytes": messages * job.size,
            "seconds": seconds,
            "send_ns": pump.send_ns / max(messages, 1),
        }
    )
