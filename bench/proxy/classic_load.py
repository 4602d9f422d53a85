"""A producer of the classic protocol as a load: single sends or batches, many in flight, and one after the other."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from ...model.clock import monotonic_ns
from ...model.errors import ConnectionLost, RequestTimeout, SystemFault
from ...proxy.event_loop import run_on_loop
from ..percentiles import Samples
from ..processes import WorkerChannel

SEND_V2: Final = 310
SEND_BATCH: Final = 320
VERSION: Final = 509
ID_LENGTH: Final = 32
_MESSAGE: Final = struct.Struct(">IIIII")
_SAMPLES: Final = 2_000_000
_LOOK_S: Final = 0.02
_LAST_S: Final = 30.0
_SUCCEEDED: Final = b'"code":0,'


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSendJob:
    """`batch` 1: single sends. `in_flight`: requests, over all `connections`."""

    address: str
    topic: str
    broker_name: str
    size: int
    batch: int
    connections: int
    in_flight: int
    queues: int
    seconds: float
    samples_path: str


class ClassicSender(asyncio.Protocol):
    """A client's connection. On the event loop. `on_answer(opaque, frame)`."""

    def __init__(self, on_answer: Callable[[int, bytes], None]) -> None:
        self._on_answer = on_answer
        self._buffer = bytearray()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        self.error = self.error or exc or ConnectionLost("the proxy")

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._buffer += data
        buffer, at = bytes(self._buffer), 0
        while len(buffer) - at >= 4:
            end = at + 4 + int.from_bytes(buffer[at : at + 4], "big")
            if end > len(buffer):
                break
            found = buffer.find(b'"opaque":', at, end)
            opaque = buffer[found + 9 : found + 20].partition(b",")[0] if found >= 0 else b""
            if opaque.isdigit():
                self._on_answer(int(opaque), buffer[at:end])
            at = end
        del self._buffer[:at]

    def send(self, data: bytes) -> None:
        """Goes out with what else is sent in this turn of the loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.abort()


class ClassicTemplate:
    """Requests that differ in their number and their messages' ids. Pure."""

    def __init__(self, job: ClassicSendJob, prefix: str) -> None:
        self._batch = job.batch
        self._queues = job.queues
        self._prefix = prefix
        self._count = 0
        self._body = os.urandom(job.size)
        self._crc = zlib.crc32(self._body)
        fields = {"a": "bench-producer", "b": job.topic, "c": "TBW102", "d": "4", "e": "%queue", "f": "0"}
        fields |= {"g": "1767225600000", "h": "0", "i": "%id", "j": "0", "k": "false", "l": "0"}
        fields |= {"m": "true" if job.batch > 1 else "false", "n": job.broker_name}
        document = {
            "code": SEND_BATCH if job.batch > 1 else SEND_V2,
            "extFields": fields,
            "flag": 0,
            "language": "JAVA",
            "opaque": "%opaque",
            "serializeTypeCurrentRPC": "JSON",
            "version": VERSION,
        }
        text = json.dumps(document, separators=(",", ":")).replace('"%opaque"', "%(opaque)d")
        self._header = text.replace("%queue", "%(queue)d").replace("%id", "%(id)s")

    def request(self, opaque: int) -> bytes:
        """The frame of the next one."""
        if self._batch > 1:
            body, properties = b"".join(self._message() for _ in range(self._batch)), ""
        else:
            body, properties = self._body, f"UNIQ_KEY\\u0001{self._next_id()}\\u0002"
        text = self._header % {"opaque": opaque, "queue": opaque % self._queues, "id": properties}
        header = text.encode()
        return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body

    def _next_id(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:020X}"

    def _message(self) -> bytes:
        """One of a batch: length, magic, checksum, flag, body, properties."""
        properties = b"UNIQ_KEY\x01%s\x02" % self._next_id().encode()
        size = _MESSAGE.size + len(self._body) + 2 + len(properties)
        begin: bytes = _MESSAGE.pack(size, 0, self._crc, 0, len(self._body))
        return begin + self._body + len(properties).to_bytes(2, "big") + properties


def send(job: ClassicSendJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}."""
    run_on_loop(_send_all(job, channel))


async def _send_all(job: ClassicSendJob, channel: WorkerChannel) -> None:
    samples = Samples(_SAMPLES)
    template = ClassicTemplate(job, f"{os.getpid():012X}")
    begun: dict[int, int] = {}
    links: list[ClassicSender] = []
    opaque = messages = 0
    until_ns = begin_ns = end_ns = 0
    error: Exception | None = None

    def send_next() -> None:
        nonlocal opaque
        opaque += 1
        begun[opaque] = monotonic_ns()
        links[opaque % len(links)].send(template.request(opaque))

    def on_answer(answered: int, frame: bytes) -> None:
        nonlocal messages, end_ns, error
        begun_ns = begun.pop(answered, 0)
        if not begun_ns or frame.find(_SUCCEEDED) < 0:
            error = SystemFault(f"a send was answered {frame[8:400]!r}")
            return
        end_ns = monotonic_ns()
        samples.record(end_ns - begun_ns)
        messages += job.batch
        if end_ns < until_ns:
            send_next()

    host, _, port = job.address.rpartition(":")
    loop = asyncio.get_running_loop()
    for _ in range(job.connections):
        _, link = await loop.create_connection(lambda: ClassicSender(on_answer), host.strip("[]"), int(port))
        links.append(link)
    if not await asyncio.to_thread(channel.ready, {}):
        return
    begin_ns = monotonic_ns()
    until_ns = begin_ns + int(job.seconds * 1e9)
    for _ in range(job.in_flight):
        send_next()
    while begun:
        channel.progress(monotonic_ns(), messages, messages * job.size)
        await asyncio.sleep(_LOOK_S)
        error = error or next((link.error for link in links if link.error is not None), None)
        if error is not None:
            raise error
        if monotonic_ns() > until_ns + int(_LAST_S * 1e9):
            raise RequestTimeout("the last answers of a proxy", int(_LAST_S * 1000))
    np.save(job.samples_path, samples.values)
    facts: dict[str, Any] = {"messages": messages, "bytes": messages * job.size}
    channel.result(facts | {"seconds": max(end_ns - begin_ns, 1) / 1e9})
    for link in links:
        link.close()
