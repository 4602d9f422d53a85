"""A transaction producer's process: threads that each begin a transaction and commit it, one after the other.

Every transaction is awaited: a figure counts only committed messages. The time of a local database is not included.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...client.transaction_producer import TransactionProducer
from ...model.clock import monotonic_ns
from ...model.errors import SystemFault
from ...model.handles.transaction import Resolution, TransactionState
from ...model.message import Message
from ...record.kernel import StoredMessage
from ..percentiles import Samples
from ..processes import WorkerChannel
from .frames import bodies

_SAMPLES: Final = 2_000_000
_TIMEOUT_S: Final = 30.0
_LOOK: Final = 16  # transactions of a thread between two reads of the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsJob:
    """`in_flight`: threads, each with one transaction at a time."""

    namesrv: str
    topic: str
    size: int
    in_flight: int
    seconds: float
    samples_path: str


def commit_all(job: TransactionsJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}; latencies of whole transactions."""
    content = bodies(1024, job.size)
    with TransactionProducer("bench-producers", _check, namesrv=job.namesrv, compression=None) as producer:
        _one(producer, job.topic, content[0])  # finds the route, connects
        if not channel.ready({}):
            return
        load = _Committing(job, channel)
        threads = [
            threading.Thread(target=load.work, args=(producer, content, first)) for first in range(job.in_flight)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(job.seconds + 2 * _TIMEOUT_S)
        if load.failures:
            raise load.failures[0]
        seconds = (monotonic_ns() - load.begin_ns) / 1e9
    np.save(job.samples_path, load.samples.values)
    channel.result({"messages": load.messages, "bytes": load.messages * job.size, "seconds": seconds})


def _check(_: StoredMessage) -> Resolution:
    return Resolution.UNKNOWN


def _one(producer: TransactionProducer, topic: str, body: bytes) -> None:
    receipt = producer.send(Message(topic, body), _commit, timeout=_TIMEOUT_S)
    if receipt.state is not TransactionState.COMMITTED:
        raise SystemFault(f"bench transactions: {receipt.transaction_id} was not committed")


def _commit(_: Message) -> Resolution:
    return Resolution.COMMIT


class _Committing:
    """The counts of one measurement. Any thread."""

    def __init__(self, job: TransactionsJob, channel: WorkerChannel) -> None:
        self.job = job
        self.samples = Samples(_SAMPLES)
        self.messages = 0
        self.failures: list[Exception] = []
        self._channel = channel
        self._lock = threading.Lock()
        self.begin_ns = monotonic_ns()
        self._end_ns = self.begin_ns + int(job.seconds * 1e9)

    def work(self, producer: TransactionProducer, content: list[bytes], first: int) -> None:
        """The work of one thread."""
        index, going = first, True
        try:
            while going and not self.failures:
                latencies = []
                for _ in range(_LOOK):
                    index = (index + self.job.in_flight) % len(content)
                    begun_ns = monotonic_ns()
                    _one(producer, self.job.topic, content[index])
                    latencies.append(monotonic_ns() - begun_ns)
                going = self._count(latencies)
        except Exception as error:  # noqa: BLE001  # reported by the joining thread
            self.failures.append(error)

    def _count(self, latencies: list[int]) -> bool:
        """Adds latencies; False when the time is over."""
        with self._lock:
            self.messages += len(latencies)
            self.samples.record_all(np.array(latencies, dtype=np.int64))
            now_ns = monotonic_ns()
            self._channel.progress(now_ns, self.messages, self.messages * self.job.size)
            return now_ns < self._end_ns
