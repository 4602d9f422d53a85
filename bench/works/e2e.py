"""Measures from the time at which a message should have been sent to its arrival at the consumer: open loop.

The schedule continues whatever the broker does: message i is due at i / rate, carries that time in its first eight bytes,
and its latency counts from there. So a stall delays every message that was due in it, and shows (no coordinated omission).
Producer and consumer read the same monotonic clock of one machine.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from ...client.consuming.broker_pulls import SUSPEND_MS
from ...client.producer import Producer
from ...client.pull_consumer import PullConsumer
from ...client.push_consumer import PushConsumer
from ...model.clock import monotonic_ns, process_cpu_ns, sleep_ms
from ...model.errors import RequestTimeout
from ...model.message import FailedSend
from ...model.queue import MessageQueue
from ...record.kernel import StoredMessage
from ..percentiles import Samples
from ..processes import WorkerChannel
from .frames import bodies

STAMP: Final = struct.Struct(">q")  # when the message was due, monotonic ns
_SAMPLES: Final = 8_000_000
_LEAD_NS: Final = 200_000_000  # the schedule begins this much after the start
_BURST: Final = 4096
_DRY_S: Final = 5.0
_LOOK_S: Final = 0.5  # between two looks at whether the run goes on
_TIMEOUT_S: Final = 30.0
_IDLE_MS: Final = 3000  # how long a push consumer is measured before anything is sent
_MANY_QUEUES: Final = 100  # with more queues it is also measured while each long poll is sent again


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleJob:
    """Sends `rate` messages a second, evenly."""

    namesrv: str
    topic: str
    size: int
    rate: float
    seconds: float
    samples_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveJob:
    """Receives the scheduled messages until `messages` have come; if not `alone`: until no more come."""

    namesrv: str
    group: str
    topic: str
    queues: list[tuple[str, int, int]]  # broker name, queue id, first offset
    messages: int
    alone: bool
    push: bool
    samples_path: str


def due_count(elapsed_ns: int, rate: float) -> int:
    """How many messages of a schedule are due `elapsed_ns` after its start; message 0 is due at 0."""
    return 0 if elapsed_ns < 0 else int(elapsed_ns * rate / 1e9) + 1


def due_ns(start_ns: int, index: int, rate: float) -> int:
    """When message `index` is due."""
    return start_ns + int(index * 1e9 / rate)


def send_on_schedule(job: ScheduleJob, channel: WorkerChannel) -> None:
    """One schedule: {messages, bytes, seconds, late_us}; how late each burst left, to `samples_path`."""
    padding = bodies(1024, max(0, job.size - STAMP.size))
    failed: list[FailedSend] = []
    late = Samples(_SAMPLES)
    total = int(job.rate * job.seconds)
    with Producer("bench-producers", namesrv=job.namesrv, compression=None, on_error=failed.extend) as producer:
        if not channel.ready({}):
            return
        start_ns = monotonic_ns() + _LEAD_NS
        sent = 0
        while sent < total:
            now_ns = monotonic_ns()
            due = min(due_count(now_ns - start_ns, job.rate), total, sent + _BURST)
            if due <= sent:
                sleep_ms(min(max(due_ns(start_ns, sent, job.rate) - now_ns, 0) / 1e6, 50.0))
                continue
            late.record(now_ns - due_ns(start_ns, sent, job.rate))
            for index in range(sent, due):
                producer.post(job.topic, STAMP.pack(due_ns(start_ns, index, job.rate)) + padding[index % 1024])
            sent = due
            channel.progress(now_ns, sent, sent * job.size)
        producer.flush(timeout=_TIMEOUT_S)
        seconds = (monotonic_ns() - start_ns) / 1e9
    np.save(job.samples_path, late.values)
    channel.result({"messages": sent, "bytes": sent * job.size, "seconds": seconds, "failed": len(failed)})


def receive(job: ReceiveJob, channel: WorkerChannel) -> None:
    """One consumer: {messages, bytes, seconds}; each message's latency since it was due, to `samples_path`."""
    if job.push:
        _receive_pushed(job, channel)
        return
    samples = Samples(max(job.messages, 1))
    size_bytes = 0
    with PullConsumer(job.group, namesrv=job.namesrv) as consumer:
        queues = {MessageQueue(job.topic, broker, queue_id): offset for broker, queue_id, offset in job.queues}
        consumer.assign(list(queues))
        for queue, offset in queues.items():
            consumer.seek(queue, offset)
        if not channel.ready({}):
            return
        begin_ns = now_ns = last_ns = monotonic_ns()
        while samples.count < job.messages:
            batch = consumer.poll(max_messages=1024, timeout=_LOOK_S)
            if batch:
                last_ns = monotonic_ns()
            elif monotonic_ns() - last_ns < _DRY_S * 1e9:
                channel.progress(monotonic_ns(), samples.count, size_bytes)
                continue
            elif samples.count and not job.alone:
                break
            else:
                raise RequestTimeout(
                    f"bench e2e: {job.messages - samples.count} messages did not come", int(_DRY_S * 1000)
                )
            for message in cast(Iterable[StoredMessage], batch):
                body = message.body
                now_ns = monotonic_ns()
                samples.record(now_ns - STAMP.unpack_from(body)[0])
                size_bytes += len(body)
            channel.progress(now_ns, samples.count, size_bytes)
        seconds = (now_ns - begin_ns) / 1e9
    np.save(job.samples_path, samples.values)
    channel.result({"messages": samples.count, "bytes": size_bytes, "seconds": seconds})


def _receive_pushed(job: ReceiveJob, channel: WorkerChannel) -> None:
    """The same with the handler of a push consumer, which has its share of the topic's queues.

    `idle_cpu`: its process's use of a core without messages, after it got its first queue. `settled_cpu`: the same later,
    if there are many queues; else None.
    """
    samples = Samples(max(job.messages, 1))
    size_bytes = 0
    lock = threading.Lock()

    def on_message(messages: list[StoredMessage]) -> None:
        nonlocal size_bytes
        for message in messages:
            body = message.body
            with lock:
                samples.record(monotonic_ns() - STAMP.unpack_from(body)[0])
                size_bytes += len(body)

    consumer = PushConsumer(job.group, namesrv=job.namesrv)
    consumer.subscribe(job.topic)
    consumer.on_message(on_message)
    with consumer:
        deadline_ns = monotonic_ns() + int(_TIMEOUT_S * 1e9)
        while not any(queue.topic == job.topic for queue in consumer.assignment()):
            if monotonic_ns() >= deadline_ns:
                raise RequestTimeout("bench e2e: no queues for the push consumer", int(_TIMEOUT_S * 1000))
            sleep_ms(20)
        idle_cpu = _cpu_share(_IDLE_MS)
        settled_cpu = _cpu_share(SUSPEND_MS) if len(job.queues) > _MANY_QUEUES else None
        if not channel.ready({}):
            return
        begin_ns = last_ns = monotonic_ns()
        count = 0
        while count < job.messages and monotonic_ns() - last_ns < _DRY_S * 1e9:
            sleep_ms(50)
            if samples.count > count:
                count, last_ns = samples.count, monotonic_ns()
            channel.progress(monotonic_ns(), count, size_bytes)
        seconds = (last_ns - begin_ns) / 1e9
    if job.alone and count < job.messages:
        raise RequestTimeout(f"bench e2e: {job.messages - count} messages did not come", int(_DRY_S * 1000))
    np.save(job.samples_path, samples.values)
    cpu = {"idle_cpu": idle_cpu, "settled_cpu": settled_cpu}
    channel.result({"messages": count, "bytes": size_bytes, "seconds": seconds, **cpu})


def _cpu_share(watched_ms: int) -> float:
    """This process's use of a core during that time."""
    begin_ns, used_ns = monotonic_ns(), process_cpu_ns()
    sleep_ms(watched_ms)
    return (process_cpu_ns() - used_ns) / (monotonic_ns() - begin_ns)
