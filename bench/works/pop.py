"""A simple consumer's process: receives a backlog and acknowledges each message in the background.

A figure counts messages whose acknowledgement the broker has confirmed; a single one that is refused fails the run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...client.simple_consumer import SimpleConsumer
from ...model.clock import monotonic_ns
from ...model.errors import SystemFault
from ..percentiles import Samples
from ..processes import WorkerChannel

_SAMPLES: Final = 2_000_000
_INVISIBLE_S: Final = 600.0
_WAIT_S: Final = 1.0
_CLOSE_S: Final = 30.0
_WAKER_S: Final = 30.0
_WAKER: Final = (
    "import os, signal, sys, time; time.sleep(float(sys.argv[2])); os.kill(int(sys.argv[1]), signal.SIGCONT)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopJob:
    """`at_a_time`: messages of one receive. Ends after `seconds`, or where nothing comes any more. `stalls`: the process is
    stopped from the middle to the end, with what it has."""

    namesrv: str
    group: str
    topic: str
    at_a_time: int
    stalls: bool
    seconds: float
    samples_path: str


def pop(job: PopJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}; the time that each `receive` took to `samples_path`."""
    samples = Samples(_SAMPLES)
    with SimpleConsumer(job.group, namesrv=job.namesrv, invisible=_INVISIBLE_S) as consumer:
        consumer.subscribe(job.topic)
        if not channel.ready({}):
            return
        begin_ns = end_ns = monotonic_ns()
        count = size_bytes = 0
        is_to_stall = job.stalls
        while end_ns - begin_ns < job.seconds * 1e9:
            asked_ns = monotonic_ns()
            messages = consumer.receive(job.at_a_time, wait=_WAIT_S)
            if not messages:
                break
            end_ns = monotonic_ns()
            if is_to_stall and end_ns - begin_ns >= job.seconds * 5e8:
                is_to_stall = False
                _stand_still(job.seconds / 2)
            samples.record(end_ns - asked_ns)
            for message in messages:
                size_bytes += len(message.body)
            consumer.ack_batch(messages)
            count += len(messages)
            channel.progress(end_ns, count, size_bytes)
        acks_ns = monotonic_ns()
        consumer.close(_CLOSE_S)
        end_ns += monotonic_ns() - acks_ns  # the last of them were not confirmed before
        found = consumer.statistics()
    if found.refused or found.acknowledged != count:
        raise SystemFault(f"bench pop: {count} messages were received and {found.acknowledged} acknowledged")
    np.save(job.samples_path, samples.values)
    channel.result({"messages": count, "bytes": size_bytes, "seconds": max(end_ns - begin_ns, 1) / 1e9})


def _stand_still(seconds: float) -> None:
    """All threads of this process."""
    waker = subprocess.Popen([sys.executable, "-c", _WAKER, str(os.getpid()), str(seconds)])  # noqa: S603  # our own words
    os.kill(os.getpid(), signal.SIGSTOP)
    waker.wait(_WAKER_S)
