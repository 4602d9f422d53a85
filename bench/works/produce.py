"""A producer's process: one `Producer` in a closed loop at full speed, with the send method in the job.

Bodies are made beforehand, as a caller has them; a `Message` that a send method needs is built inside the clock. The time
runs from the first call to the last acknowledgement. A failed send fails the run: a figure counts only stored messages.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

import numpy as np

from ...client.connection.waiting import run_blocking
from ...client.producer import Producer
from ...client.sending.outgoing import posted_parts
from ...client.sending.send_future import SendFuture
from ...model.clock import monotonic_ns
from ...model.errors import ZenitError
from ...model.message import Message
from ..percentiles import Samples
from ..processes import WorkerChannel
from .frames import TAG, bodies

_CHUNK: Final = 4096  # calls between two reads of the clock
_SAMPLES: Final = 2_000_000
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceJob:
    """`in_flight`: threads of `send`, each with one synchronous call at a time; other send methods have their own window."""

    namesrv: str
    topic: str
    api: str
    size: int
    batch: int
    in_flight: int
    seconds: float
    samples_path: str
    keys: int = 0
    tags: bool = False


class _Load:
    """The counts of one measurement."""

    def __init__(self, job: ProduceJob, channel: WorkerChannel) -> None:
        self.job = job
        self.samples = Samples(_SAMPLES)
        self.messages = 0
        self._channel = channel
        self.begin_ns = monotonic_ns()
        self.end_ns = self.begin_ns + int(job.seconds * 1e9)

    def goes_on(self, messages: int) -> bool:
        """Counts the messages since the last call; False when the time is over."""
        self.messages += messages
        now_ns = monotonic_ns()
        self._channel.progress(now_ns, self.messages, self.messages * self.job.size)
        return now_ns < self.end_ns


def produce(job: ProduceJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}; latencies, if the send method gives them, to `samples_path`."""
    content = bodies(_CHUNK, job.size)
    keys = [[f"k{index}-{key}" for key in range(job.keys)] for index in range(_CHUNK)] if job.keys else None
    with _Watched("bench-producers", namesrv=job.namesrv, compression=None) as producer:
        producer.send_bodies(job.topic, content[: job.batch], timeout=_TIMEOUT_S)  # finds the route, connects
        if not channel.ready({}):
            return
        load = _Load(job, channel)
        _ROADS[job.api](load, producer, content, keys)
        producer.flush(timeout=_TIMEOUT_S)
        seconds = (monotonic_ns() - load.begin_ns) / 1e9
    np.save(job.samples_path, load.samples.values)
    channel.result({"messages": load.messages, "bytes": load.messages * job.size, "seconds": seconds})


Keys = list[list[str]] | None


class _Watched(Producer):
    """A producer that can report when a posted message is acknowledged."""

    def post_watched(
        self, topic: str, body: bytes, tags: str | None, keys: list[str] | None, latencies_ns: deque[int]
    ) -> None:
        """As `post`; its latency is appended to `latencies_ns`, in any thread."""
        posted_ns = monotonic_ns()

        def on_answered(_: ZenitError | None) -> None:
            latencies_ns.append(monotonic_ns() - posted_ns)

        parts = posted_parts(body, tags, keys, self._compress_over)
        run_blocking(self._background.post(topic, parts, None, self._timeout_ms, on_answered))


def _post(load: _Load, producer: _Watched, content: list[bytes], keys: Keys) -> None:
    """Measures the latency of the first message of every chunk."""
    topic, tags = load.job.topic, TAG if load.job.tags else None
    first, others = content[0], content[1:]
    latencies_ns: deque[int] = deque()
    going = True
    while going:
        producer.post_watched(topic, first, tags, keys[0] if keys else None, latencies_ns)
        if keys is None and tags is None:
            for body in others:
                producer.post(topic, body)
        else:
            for index, body in enumerate(others, 1):
                producer.post(topic, body, tags, keys[index] if keys else None)
        going = load.goes_on(len(content))
    producer.flush(timeout=_TIMEOUT_S)
    load.samples.record_all(np.array(latencies_ns, dtype=np.int64))


def _send_async(load: _Load, producer: Producer, content: list[bytes], keys: Keys) -> None:
    """Building each message counts. Measures the latency of one future per chunk, and waits for all receipts."""
    topic, tags = load.job.topic, TAG if load.job.tags else None
    futures: list[SendFuture] = []
    going = True
    while going:
        sent_ns = monotonic_ns()
        before, futures = futures, []
        for index, body in enumerate(content):
            message = Message(topic, body, tags, keys[index] if keys else ())
            futures.append(producer.send_async(message))
        futures[0].add_done_callback(_sampler(load.samples, sent_ns))
        _await(before)
        going = load.goes_on(len(content))
    _await(futures)


def _sampler(samples: Samples, sent_ns: int) -> Callable[[SendFuture], None]:
    return lambda _: samples.record(monotonic_ns() - sent_ns)


def _await(futures: list[SendFuture]) -> None:
    """Raises the error of any of them."""
    for future in futures:
        error = future.exception(timeout=_TIMEOUT_S)
        if error is not None:
            raise error


def _send_batch(load: _Load, producer: Producer, content: list[bytes], keys: Keys) -> None:
    """Ready messages: built before the clock starts."""
    job = load.job
    tags = TAG if job.tags else None
    messages = [Message(job.topic, body, tags, keys[i] if keys else ()) for i, body in enumerate(content)]
    batches = [messages[at : at + job.batch] for at in range(0, len(messages) - job.batch + 1, job.batch)]
    if not batches:
        batches = [list(islice(cycle(messages), job.batch))]
    going = True
    while going:
        for batch in batches:
            sent_ns = monotonic_ns()
            producer.send_batch(batch, timeout=_TIMEOUT_S)
            load.samples.record(monotonic_ns() - sent_ns)
        going = load.goes_on(len(batches) * job.batch)


def _send_bodies(load: _Load, producer: Producer, content: list[bytes], keys: Keys) -> None:
    job = load.job
    tags = TAG if job.tags else None
    batch = content[: job.batch] if job.batch <= len(content) else list(islice(cycle(content), job.batch))
    own = [keys[index % len(keys)] for index in range(job.batch)] if keys else None
    going = True
    while going:
        for _ in range(max(1, _CHUNK // job.batch)):
            sent_ns = monotonic_ns()
            producer.send_bodies(job.topic, batch, tags=tags, keys=own, timeout=_TIMEOUT_S)
            load.samples.record(monotonic_ns() - sent_ns)
        going = load.goes_on(max(1, _CHUNK // job.batch) * job.batch)


def _send(load: _Load, producer: Producer, content: list[bytes], keys: Keys) -> None:
    """Synchronous sends by `in_flight` threads."""
    job = load.job
    lock = threading.Lock()
    failures: list[BaseException] = []

    def one_sender(first: int) -> None:
        index = first
        tags = TAG if job.tags else None
        going = True
        try:
            while going and not failures:
                latencies = []
                for _ in range(32):
                    index = (index + 1) % len(content)
                    sent_ns = monotonic_ns()
                    message = Message(job.topic, content[index], tags, keys[index] if keys else ())
                    producer.send(message, timeout=_TIMEOUT_S)
                    latencies.append(monotonic_ns() - sent_ns)
                with lock:
                    load.samples.record_all(np.array(latencies, dtype=np.int64))
                    going = load.goes_on(len(latencies))
        except Exception as error:  # noqa: BLE001 (top of a thread: told to the parent by the one who joins)
            failures.append(error)

    threads = [threading.Thread(target=one_sender, args=(at * 61,)) for at in range(max(1, job.in_flight))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(job.seconds + 2 * _TIMEOUT_S)
    if failures:
        raise failures[0]


_ROADS: Final[dict[str, Callable[[_Load, _Watched, list[bytes], Keys], None]]] = {
    "post": _post,
    "send": _send,
    "send_async": _send_async,
    "send_batch": _send_batch,
    "send_bodies": _send_bodies,
}
