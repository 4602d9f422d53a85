"""Connections that do nothing, and others that send rubbish: what a proxy bears beside its clients."""

from __future__ import annotations

import asyncio
import os
import random
import resource
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...model.clock import monotonic_ns
from ...proxy.event_loop import run_on_loop
from ..processes import WorkerChannel

AT_A_TIME: Final = 64
_CLOSED_S: Final = 1.0
_RUBBISH_MAX: Final = 4096
_SPARE_FILES: Final = 200
_CONNECT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileJob:
    """`addresses`: of the proxy's ports, taken in turn. `connections`: that stay and send nothing. `per_second`: others, that
    send random bytes."""

    addresses: tuple[str, ...]
    connections: int
    per_second: int
    seconds: float
    samples_path: str


def annoy(job: HostileJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}: connections with rubbish, and `refused`: how many of those that stay the
    proxy has closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = job.connections + _SPARE_FILES
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    run_on_loop(_annoy(job, channel))


async def _annoy(job: HostileJob, channel: WorkerChannel) -> None:
    silent: list[asyncio.StreamWriter] = []
    readers: list[asyncio.StreamReader] = []
    async with asyncio.timeout(_CONNECT_S):
        for begin in range(0, job.connections, AT_A_TIME):
            numbers = range(begin, min(begin + AT_A_TIME, job.connections))
            for reader, writer in await asyncio.gather(*(_connect(job, number) for number in numbers)):
                readers.append(reader)
                silent.append(writer)
    if not await asyncio.to_thread(channel.ready, {}):
        return
    begin_ns = now_ns = monotonic_ns()
    tries = size_bytes = 0
    tasks: set[asyncio.Task[int]] = set()
    while now_ns - begin_ns < job.seconds * 1e9:
        while tries < job.per_second * (now_ns - begin_ns) / 1e9 and len(tasks) < AT_A_TIME:
            task = asyncio.create_task(_send_rubbish(job, tries))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            tries += 1
        channel.progress(now_ns, tries, size_bytes)
        await asyncio.sleep(0.005)
        now_ns = monotonic_ns()
    if tasks:
        await asyncio.wait(tasks, timeout=2 * _CLOSED_S)
    np.save(job.samples_path, np.zeros(0, dtype=np.int64))
    refused = sum(reader.at_eof() for reader in readers)
    seconds = (monotonic_ns() - begin_ns) / 1e9
    channel.result({"messages": tries, "bytes": size_bytes, "seconds": seconds, "refused": refused})
    for writer in silent:
        writer.transport.abort()


async def _connect(job: HostileJob, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = job.addresses[number % len(job.addresses)].rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port))


async def _send_rubbish(job: HostileJob, number: int) -> int:
    """Until the proxy closes, or for a second."""
    rubbish = os.urandom(random.randrange(1, _RUBBISH_MAX))  # a length
    with suppress(OSError, TimeoutError):
        reader, writer = await _connect(job, number)
        writer.write(rubbish)
        try:
            async with asyncio.timeout(_CLOSED_S):
                while await reader.read(1 << 16):
                    pass
        finally:
            writer.transport.abort()
    return len(rubbish)
