"""A transaction producer's process: threads, or tasks of an event loop, that each have one transaction at a time.

Every transaction is awaited: a figure counts only committed messages. The time of a local database is not included.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...client.aio.transaction_producer import TransactionProducer as TaskProducer
from ...client.sending.transactions.transaction_receipt import TransactionReceipt
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
    """`in_flight`: threads, or tasks, each with one transaction at a time."""

    namesrv: str
    topic: str
    size: int
    in_flight: int
    uses_tasks: bool
    seconds: float
    samples_path: str


def commit_all(job: TransactionsJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}; latencies of whole transactions."""
    load = asyncio.run(_by_tasks(job, channel)) if job.uses_tasks else _by_threads(job, channel)
    if load is None:
        return
    seconds = (monotonic_ns() - load.begin_ns) / 1e9
    np.save(job.samples_path, load.samples.values)
    channel.result({"messages": load.messages, "bytes": load.messages * job.size, "seconds": seconds})


def _by_threads(job: TransactionsJob, channel: WorkerChannel) -> _Committing | None:
    """None: there is nothing to measure any more."""
    with TransactionProducer("bench-producers", _unasked, namesrv=job.namesrv, compression=None) as producer:

        def one(message: Message) -> None:
            _check(producer.send(message, _commit, timeout=_TIMEOUT_S))

        one(Message(job.topic, b""))  # finds the route, connects
        if not channel.ready({}):
            return None
        load = _Committing(job, channel)
        threads = [threading.Thread(target=load.guarded, args=(one, first)) for first in range(job.in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(job.seconds + 2 * _TIMEOUT_S)
    if load.failures:
        raise load.failures[0]
    return load


async def _by_tasks(job: TransactionsJob, channel: WorkerChannel) -> _Committing | None:
    """The same in one event loop."""
    async with TaskProducer("bench-producers", _unasked, namesrv=job.namesrv, compression=None) as producer:

        async def one(message: Message) -> None:
            _check(await producer.send(message, _commit, timeout=_TIMEOUT_S))

        await one(Message(job.topic, b""))
        if not channel.ready({}):
            return None
        load = _Committing(job, channel)

        async def work(first: int) -> None:
            for messages in load.rounds(first):
                latencies = []
                for message in messages:
                    begun_ns = monotonic_ns()
                    await one(message)
                    latencies.append(monotonic_ns() - begun_ns)
                load.count(latencies)

        await asyncio.gather(*map(work, range(job.in_flight)))
    return load


def _unasked(_: StoredMessage) -> Resolution:
    return Resolution.UNKNOWN


def _commit(_: Message) -> Resolution:
    return Resolution.COMMIT


def _check(receipt: TransactionReceipt) -> None:
    if receipt.state is not TransactionState.COMMITTED:
        raise SystemFault(f"bench transactions: {receipt.transaction_id} was not committed")


class _Committing:
    """The counts of one measurement. Any thread."""

    def __init__(self, job: TransactionsJob, channel: WorkerChannel) -> None:
        self.job = job
        self.samples = Samples(_SAMPLES)
        self.messages = 0
        self.failures: list[Exception] = []
        self._content = bodies(1024, job.size)
        self._channel = channel
        self._lock = threading.Lock()
        self.begin_ns = monotonic_ns()
        self._end_ns = self.begin_ns + int(job.seconds * 1e9)

    def rounds(self, first: int) -> Iterator[list[Message]]:
        """The messages of one that has a transaction at a time, until the time is over or another one failed."""
        index = first
        while monotonic_ns() < self._end_ns and not self.failures:
            indexes = [(index + number * self.job.in_flight) % len(self._content) for number in range(_LOOK)]
            index = indexes[-1] + self.job.in_flight
            yield [Message(self.job.topic, self._content[each]) for each in indexes]

    def guarded(self, one: Callable[[Message], None], first: int) -> None:
        """The work of one thread."""
        try:
            for messages in self.rounds(first):
                latencies = []
                for message in messages:
                    begun_ns = monotonic_ns()
                    one(message)
                    latencies.append(monotonic_ns() - begun_ns)
                self.count(latencies)
        except Exception as error:  # noqa: BLE001  # reported by the joining thread
            self.failures.append(error)

    def count(self, latencies: list[int]) -> None:
        """Adds latencies."""
        with self._lock:
            self.messages += len(latencies)
            self.samples.record_all(np.array(latencies, dtype=np.int64))
            self._channel.progress(monotonic_ns(), self.messages, self.messages * self.job.size)
