"""A consumer's process: reads a backlog to its end, each message's body or whole polls without touching any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...client.pull_consumer import PullConsumer
from ...model.clock import monotonic_ns
from ...model.errors import RequestTimeout
from ...model.queue import MessageQueue
from ..percentiles import Samples
from ..processes import WorkerChannel

_SAMPLES: Final = 2_000_000
_POLL_S: Final = 10.0
_POLL_MESSAGES: Final = 1 << 16
_CHUNK: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeJob:
    """`queues`: (broker name, queue id, first offset). Ends after `messages`."""

    namesrv: str
    group: str
    topic: str
    queues: list[tuple[str, int, int]]
    messages: int
    untouched: bool
    samples_path: str


def consume(job: ConsumeJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}; the times between the ends of polls to `samples_path` (untouched only)."""
    samples = Samples(_SAMPLES)
    queues = {MessageQueue(job.topic, broker, queue_id): offset for broker, queue_id, offset in job.queues}
    with PullConsumer(job.group, namesrv=job.namesrv) as consumer:
        if not channel.ready({}):
            return
        begin_ns = monotonic_ns()
        consumer.assign(list(queues))
        for queue, offset in queues.items():
            consumer.seek(queue, offset)
        messages, size_bytes = (
            _untouched(job, channel, consumer, samples) if job.untouched else _iterate(job, channel, consumer)
        )
        seconds = (monotonic_ns() - begin_ns) / 1e9
    np.save(job.samples_path, samples.values)
    channel.result({"messages": messages, "bytes": size_bytes, "seconds": seconds})


def _iterate(job: ConsumeJob, channel: WorkerChannel, consumer: PullConsumer) -> tuple[int, int]:
    """A loop over messages that reads each body, as a user writes it."""
    count = size_bytes = 0
    for message in consumer:
        size_bytes += len(message.body)
        count += 1
        if count % _CHUNK == 0:
            channel.progress(monotonic_ns(), count, size_bytes)
        if count >= job.messages:
            break
    return count, size_bytes


def _untouched(job: ConsumeJob, channel: WorkerChannel, consumer: PullConsumer, samples: Samples) -> tuple[int, int]:
    """Whole polls: counted, not read. Bytes are those of the records. Raises RequestTimeout if no more messages come."""
    count = size_bytes = 0
    before_ns = monotonic_ns()
    while count < job.messages:
        batch = consumer.poll(max_messages=_POLL_MESSAGES, timeout=_POLL_S)
        if not batch:
            raise RequestTimeout("bench consume: the backlog ended early", int(_POLL_S * 1000))
        count += len(batch)
        now_ns = monotonic_ns()
        samples.record(now_ns - before_ns)
        before_ns = now_ns
        channel.progress(now_ns, count, size_bytes)
    return count, size_bytes
