"""The limit of this machine for a kind of load: the same frames through the same sockets and writes, without a broker.

Measured in the same run as the work, before and after it, because a shared machine changes from minute to minute.
`raw_shape` decides which raw load matches which work.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from ...client.sending.batching import BATCH_BYTES, WINDOW_BATCHES
from ...model.clock import monotonic_ns
from ...remoting.commands import PullMessages, SendMessages, SendReply
from ...remoting.header import encode_reply, encode_request
from ..measure import Load, Measured, measure
from ..options import BenchOptions, Report
from ..percentiles import Samples
from ..processes import BenchWorker
from ..works.frames import ready_batches
from ..works.prebuilt import BATCHES_IN_A_ROW
from .raw_client import RawClientJob
from .raw_copy import RawCopyJob
from .raw_server import STAMPS, RawServerJob

PULL_BYTES: Final = 1 << 20
BACKLOG_BATCH_BYTES: Final = 512 << 10
FLUSH_PROBE_BYTES: Final = 64 << 10
_WARM_SEGMENTS_MAX: Final = 32  # 4 GiB, so that few pages are written twice in a measurement
_COLD_SEGMENTS_MAX: Final = 64
_SEGMENTS_PER_SECOND: Final = 12  # of 128 MiB: more than can be written to fresh pages
_READY_SECONDS: Final = 120.0
_PROBE_FILE_BYTES: Final = 64 << 20
_TIMEOUT_MS: Final = 3000
_TOPIC: Final = "bench-0123456789abcdef"  # as long as the names of runs' own topics


@dataclass(frozen=True, slots=True, kw_only=True)
class RawShape:
    """The raw load that a work is compared with; `reads`: pages of the log instead of writes."""

    size: int
    batch: int
    in_flight: int
    clients: int = 1
    keys: int = 0
    tags: bool = False
    reads: bool = False


TRANSACTIONS_IN_FLIGHT: Final = 16


def default_in_flight(options: BenchOptions) -> int:
    """Requests in flight per process if the options do not say."""
    if options.in_flight:
        return options.in_flight
    if options.work == "limits" or options.prebuilt:
        return 64 if options.batch == 1 else 8
    return TRANSACTIONS_IN_FLIGHT if options.work == "transactions" else 1


def raw_shape(options: BenchOptions) -> RawShape:
    """The same messages per request and requests in flight as in the work."""
    shape = RawShape(
        size=options.size,
        batch=options.batch,
        in_flight=default_in_flight(options),
        clients=options.producers,
        keys=options.keys,
        tags=options.tags,
    )
    if options.work == "consume":
        queues = max(1, options.queues // options.consumers)  # a consumer keeps one pull per queue in flight
        return replace(shape, batch=1, in_flight=queues, clients=options.consumers, reads=True)
    if options.work in ("e2e", "latency"):
        return replace(shape, batch=1, clients=1)
    if options.work == "transactions":
        return replace(shape, batch=1)
    if options.work == "pop":
        return replace(shape, batch=options.at_a_time, in_flight=1, clients=options.consumers)
    if options.prebuilt or options.work == "limits":
        return shape
    if options.api in ("post", "send_async"):
        return replace(shape, batch=max(1, BATCH_BYTES // record_bytes(options)), in_flight=WINDOW_BATCHES)
    return replace(shape, batch=1) if options.api == "send" else shape


def backlog_batch(options: BenchOptions) -> int:
    """Messages per batch of a backlog."""
    return min(256, max(1, BACKLOG_BATCH_BYTES // record_bytes(options)))


def slice_bytes(options: BenchOptions) -> int:
    """How many contiguous bytes of one queue a backlog's log has: the size of a frame in a pull's reply."""
    if options.queues == 1:
        return PULL_BYTES
    return min(PULL_BYTES, BATCHES_IN_A_ROW * backlog_batch(options) * record_bytes(options))


def record_bytes(options: BenchOptions) -> int:
    """The size of one encoded message of a run."""
    return len(ready_batches(_TOPIC, size=options.size, batch=1, keys=options.keys, tags=options.tags, count=1)[0])


class RawPath:
    """The raw server of a run and its files. Context manager; each measurement starts from the files' beginning."""

    def __init__(
        self,
        directory: str,
        *,
        warm: bool,
        sync: bool,
        seconds: float,
        slice_bytes: int = PULL_BYTES,
        copies: int = 0,
        stamps_path: str = "",
    ) -> None:
        """Blocks until the files are created (warm: written once). `sync`: each write is followed by fdatasync.

        `seconds`: the length of measurements; cold ones need fresh pages for it. `slice_bytes`: the frames of a read page.
        `copies`: processes besides the server that store everything it writes, as slaves do. `stamps_path`: see
        RawServerJob.
        """
        self._directory = directory
        self.ran_out = False  # True: a cold measurement ran out of fresh pages
        reply = SendReply(
            queue_id=1, queue_offset=1 << 20, physical_offset=1 << 32, store_timestamp_ms=1 << 40, store_host=bytes(8)
        )
        segments = 2 + math.ceil(seconds * _SEGMENTS_PER_SECOND / (1 + copies))
        segments = min(_WARM_SEGMENTS_MAX if warm else _COLD_SEGMENTS_MAX, segments)
        job = RawServerJob(
            directory=directory,
            warm=warm,
            sync=sync,
            reply_header=encode_reply(reply, 1 << 16).hex(),
            slice_bytes=slice_bytes,
            segments=segments,
            copies=copies,
            stamps_path=stamps_path,
        )
        self._workers = [BenchWorker("raw-server", job)]
        try:
            addresses = self._workers[0].wait_ready(_READY_SECONDS)
            self.address = str(addresses["address"])
            for number in range(copies):
                place = os.path.join(directory, f"copy-{number}")
                os.mkdir(place)
                copy = RawCopyJob(
                    address=str(addresses["copies_address"]), directory=place, warm=warm, sync=sync, segments=segments
                )
                self._workers.append(BenchWorker("raw-copy", copy))
                self._workers[-1].wait_ready(_READY_SECONDS)
            for worker in self._workers:
                worker.go()
        except BaseException:
            self._stop()
            raise

    def measure(self, shape: RawShape, *, seconds: float, phase: str, report: Report) -> Measured:
        """One raw measurement."""
        self._ask("renew")
        loads = [self._load(shape, seconds, index) for index in range(shape.clients)]
        found = measure(loads, phase=phase, seconds=seconds, report=report)
        self.ran_out |= self._ask("state")
        return found

    def take_stamps(self) -> dict[str, list[int]]:
        """Has the server save its stamps; returns what each of its threads has used."""
        threads: dict[str, list[int]] = self._workers[0].ask(STAMPS, _READY_SECONDS)["threads"]
        return threads

    def _ask(self, word: str) -> bool:
        """Whether one of them ran out of fresh pages."""
        answers = [worker.ask(word, _READY_SECONDS) for worker in self._workers]
        return any(answer["ran_out"] for answer in answers)

    def _stop(self) -> None:
        for worker in reversed(self._workers):
            worker.stop()

    def _load(self, shape: RawShape, seconds: float, index: int) -> Load:
        path = os.path.join(self._directory, f"raw-client-{index}.npy")
        job = RawClientJob(
            address=self.address,
            header=(pull_header() if shape.reads else send_header(shape.batch)).hex(),
            size=shape.size,
            batch=shape.batch,
            in_flight=shape.in_flight,
            seconds=seconds,
            samples_path=path,
            topic=_TOPIC,
            keys=shape.keys,
            tags=shape.tags,
            reads=shape.reads,
        )
        return Load(role="raw-client", job=job, samples_path=path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()


def send_header(count: int) -> bytes:
    """The header frame of a real batch."""
    request = SendMessages(topic=_TOPIC, queue_id=1, count=count, producer_group="bench-producers")
    return encode_request(request, 1 << 16, timeout_ms=_TIMEOUT_MS)


def pull_header() -> bytes:
    """The header frame of a real pull."""
    request = PullMessages(
        group="bench-consumers",
        topic=_TOPIC,
        queue_id=1,
        queue_offset=1 << 20,
        max_messages=4096,
        max_bytes=PULL_BYTES,
        suspend_ms=15_000,
    )
    return encode_request(request, 1 << 16, timeout_ms=_TIMEOUT_MS)


def limit_document(runs: Sequence[Measured], *, of: str, ran_out: bool = False) -> dict[str, Any]:
    """The `limit` of a result: the mean of the measurements before and after, with both values.

    `ran_out`: the raw path used up its fresh pages, so the limit is too high.
    """
    return {
        "of": of,
        "messages_per_second": round(sum(run.messages_per_second for run in runs) / len(runs), 1),
        "bytes_per_second": round(sum(run.bytes_per_second for run in runs) / len(runs), 1),
        "fresh_pages_ran_out": ran_out,
        "runs_messages_per_second": [round(run.messages_per_second, 1) for run in runs],
    }


def fdatasync_latencies(directory: str, *, seconds: float) -> Samples:
    """Bare `fdatasync`, each after 64 KiB written to a preallocated file that was written once: the lower bound of any
    flush.
    """
    samples = Samples(100_000)
    data = os.urandom(FLUSH_PROBE_BYTES)
    path = os.path.join(directory, "raw-fdatasync")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(file, 0, _PROBE_FILE_BYTES)
        for at in range(0, _PROBE_FILE_BYTES, len(data)):
            os.pwrite(file, data, at)
        os.fsync(file)
        at = 0
        end_ns = monotonic_ns() + int(seconds * 1e9)
        while monotonic_ns() < end_ns:
            os.pwrite(file, data, at)
            begin_ns = monotonic_ns()
            os.fdatasync(file)
            samples.record(monotonic_ns() - begin_ns)
            at = (at + len(data)) % _PROBE_FILE_BYTES
    finally:
        os.close(file)
        os.unlink(path)
    return samples
