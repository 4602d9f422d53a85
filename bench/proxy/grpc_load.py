"""Clients of the gRPC protocol as a load: sends, receives with acknowledgements, and clients that are only there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...model.clock import monotonic_ns
from ...model.errors import RequestTimeout, SystemFault
from ...proxy.event_loop import run_on_loop
from ...proxy.schema import SERVICE, enum_value, message_class
from ..percentiles import Samples
from ..processes import WorkerChannel
from .grpc_link import LoadLink, connect_links
from .http2_frames import messages_of

ID_LENGTH: Final = 34
RECEIVED_AT_A_TIME: Final = 32
INVISIBLE_S: Final = 600
POLL_S: Final = 2
HEARTBEAT_S: Final = 10.0
OK: Final = enum_value("Code", "OK")
NOTHING: Final = enum_value("Code", "MESSAGE_NOT_FOUND")
_SAMPLES: Final = 2_000_000
_LOOK_S: Final = 0.02
_SETUP_S: Final = 90.0
_LAST_S: Final = 30.0
_SEND, _RECEIVE, _ACK, _TELEMETRY, _BEAT = (
    f"/{SERVICE}/{name}" for name in ("SendMessage", "ReceiveMessage", "AckMessage", "Telemetry", "Heartbeat")
)
_SendRequest: Final = message_class("SendMessageRequest")
_SendResponse: Final = message_class("SendMessageResponse")
_ReceiveRequest: Final = message_class("ReceiveMessageRequest")
_ReceiveResponse: Final = message_class("ReceiveMessageResponse")
_AckRequest: Final = message_class("AckMessageRequest")
_AckResponse: Final = message_class("AckMessageResponse")
_Command: Final = message_class("TelemetryCommand")
_BeatRequest: Final = message_class("HeartbeatRequest")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSendJob:
    """`in_flight`: calls, over all `connections`."""

    address: str
    topic: str
    size: int
    connections: int
    in_flight: int
    seconds: float
    samples_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcReceiveJob:
    """`connections`: clients of the group; each receives, acknowledges each message by a call of its own, or all by one, and
    goes on."""

    address: str
    topic: str
    group: str
    connections: int
    is_acked_at_once: bool
    seconds: float
    samples_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcIdleJob:
    """Producers that are connected, have their telemetry stream, and send a heartbeat each 10 s."""

    address: str
    topic: str
    connections: int
    seconds: float
    samples_path: str


class _LoadRun:
    """What a load has done so far."""

    def __init__(self, channel: WorkerChannel, seconds: float) -> None:
        self._channel = channel
        self.samples = Samples(_SAMPLES)
        self.begin_ns = self.end_ns = monotonic_ns()
        self.until_ns = self.begin_ns + int(seconds * 1e9)
        self.messages = self.size_bytes = 0
        self.error: Exception | None = None

    @property
    def goes_on(self) -> bool:
        """Whether more is to be asked for."""
        return self.error is None and monotonic_ns() < self.until_ns

    def count(self, begun_ns: int, size_bytes: int) -> None:
        """A message was dealt with."""
        self.end_ns = monotonic_ns()
        self.samples.record(self.end_ns - begun_ns)
        self.messages += 1
        self.size_bytes += size_bytes

    async def watch(self, links: list[LoadLink], is_over: Callable[[], bool]) -> None:
        """Until it is over. Raises why it fails."""
        while not is_over():
            self._channel.progress(monotonic_ns(), self.messages, self.size_bytes)
            await asyncio.sleep(_LOOK_S)
            self.error = self.error or next((link.error for link in links if link.error is not None), None)
            if self.error is not None:
                raise self.error
            if monotonic_ns() > self.until_ns + int(_LAST_S * 1e9):
                raise RequestTimeout("the last answers of a proxy", int(_LAST_S * 1000))

    def facts(self, samples_path: str) -> dict[str, Any]:
        """{messages, bytes, seconds}; latencies to `samples_path`."""
        np.save(samples_path, self.samples.values)
        seconds = max(self.end_ns - self.begin_ns, 1) / 1e9
        return {"messages": self.messages, "bytes": self.size_bytes, "seconds": seconds}


def send(job: GrpcSendJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}."""
    _run(job.address, job.connections, channel, lambda links: _send_all(job, links, channel))


def receive(job: GrpcReceiveJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}, of messages whose acknowledgement succeeded. Ends where nothing comes."""
    _run(job.address, job.connections, channel, lambda links: _receive_all(job, links, channel))


def stay(job: GrpcIdleJob, channel: WorkerChannel) -> None:
    """One measurement: {messages, bytes, seconds}: heartbeats that were answered."""
    _run(
        job.address, job.connections, channel, lambda links: _stay_all(job, links, channel), greets=_settings(job.topic)
    )


def _run(
    address: str,
    connections: int,
    channel: WorkerChannel,
    work: Callable[[list[LoadLink]], Awaitable[dict[str, Any]]],
    *,
    greets: bytes = b"",
) -> None:
    """`greets`: the first command of each client's telemetry stream; b"" = it has none."""

    async def all_of_it() -> None:
        try:
            async with asyncio.timeout(_SETUP_S):
                links = await connect_links(address, [f"bench@{os.getpid()}@{n}" for n in range(connections)])
                if greets:
                    for begin in range(0, len(links), 256):
                        for link in links[begin : begin + 256]:
                            link.call(_TELEMETRY, greets, _ended, is_open=True)
                        await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise RequestTimeout("the connections of clients", int(_SETUP_S * 1000)) from None
        if await asyncio.to_thread(channel.ready, {}):
            channel.result(await work(links))
        for link in links:
            link.close()

    run_on_loop(all_of_it())


def _ended(_: bytes) -> None:
    """A stream's end says nothing: the link's does."""


# ---- sends


def send_template(topic: str, size: int) -> tuple[bytes, bytes]:
    """A SendMessageRequest of random bytes, in front of its message id and behind it."""
    request = _SendRequest()
    message = request.messages.add(body=os.urandom(size))
    message.topic.name = topic
    system = message.system_properties
    system.message_id = "#" * ID_LENGTH
    system.message_type = enum_value("MessageType", "NORMAL")
    system.body_encoding = enum_value("Encoding", "IDENTITY")
    system.born_host = "bench"
    system.born_timestamp.GetCurrentTime()
    before, _, behind = request.SerializeToString().partition(b"#" * ID_LENGTH)
    return before, behind


async def _send_all(job: GrpcSendJob, links: list[LoadLink], channel: WorkerChannel) -> dict[str, Any]:
    before, behind = send_template(job.topic, job.size)
    run = _LoadRun(channel, job.seconds)
    sent = 0
    prefix = f"01{os.getpid():012X}"

    def send_next(link: LoadLink) -> None:
        nonlocal sent
        sent += 1
        begun_ns = monotonic_ns()

        def on_end(data: bytes) -> None:
            status = next((_SendResponse.FromString(one).status for one in messages_of(data)), None)
            if status is None or status.code != OK:
                run.error = SystemFault(f"a send was answered {status}")
                return
            run.count(begun_ns, job.size)
            if run.goes_on:
                send_next(link)

        link.call(_SEND, before + f"{prefix}{sent:020X}".encode() + behind, on_end)

    for number in range(job.in_flight):
        send_next(links[number % len(links)])
    await run.watch(links, lambda: not any(link.open_calls for link in links))
    return run.facts(job.samples_path)


# ---- receives


async def _receive_all(job: GrpcReceiveJob, links: list[LoadLink], channel: WorkerChannel) -> dict[str, Any]:
    request = _ReceiveRequest(batch_size=RECEIVED_AT_A_TIME)
    request.group.name = job.group
    request.message_queue.topic.name = job.topic
    request.filter_expression.type = enum_value("FilterType", "TAG")
    request.filter_expression.expression = "*"
    request.invisible_duration.seconds = INVISIBLE_S
    request.long_polling_timeout.seconds = POLL_S
    asked = request.SerializeToString()
    run = _LoadRun(channel, job.seconds)

    def receive_next(link: LoadLink) -> None:
        begun_ns = monotonic_ns()

        def on_messages(data: bytes) -> None:
            answers = [_ReceiveResponse.FromString(one) for one in messages_of(data)]
            status = next((one.status for one in answers if one.HasField("status")), None)
            if status is None or status.code not in (OK, NOTHING):
                run.error = SystemFault(f"a receive was answered {status}")
                return
            messages = [one.message for one in answers if one.HasField("message")]
            if messages and job.is_acked_at_once:
                acknowledge(link, messages, begun_ns)
            else:
                for message in messages:
                    acknowledge(link, [message], begun_ns)
            if not messages:
                run.until_ns = 0  # the backlog is at its end

        link.call(_RECEIVE, asked, on_messages)

    def acknowledge(link: LoadLink, messages: list[Any], begun_ns: int) -> None:
        ack = _AckRequest()
        ack.group.name, ack.topic.name = job.group, job.topic
        for message in messages:
            system = message.system_properties
            ack.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
        sizes = [len(message.body) for message in messages]

        def on_end(data: bytes) -> None:
            status = next((_AckResponse.FromString(one).status for one in messages_of(data)), None)
            if status is None or status.code != OK:
                run.error = SystemFault(f"an acknowledgement was answered {status}")
                return
            for size_bytes in sizes:
                run.count(begun_ns, size_bytes)
            if not link.open_calls and run.goes_on:
                receive_next(link)

        link.call(_ACK, ack.SerializeToString(), on_end)

    for link in links:
        receive_next(link)
    await run.watch(links, lambda: not any(link.open_calls for link in links))
    return run.facts(job.samples_path)


# ---- clients that are only there


def _settings(topic: str) -> bytes:
    command = _Command()
    settings = command.settings
    settings.client_type = enum_value("ClientType", "PRODUCER")
    settings.publishing.topics.add(name=topic)
    settings.user_agent.language = enum_value("Language", "JAVA")
    settings.user_agent.version = "5.0.8"
    settings.user_agent.hostname = "bench"
    encoded: bytes = command.SerializeToString()
    return encoded


async def _stay_all(job: GrpcIdleJob, links: list[LoadLink], channel: WorkerChannel) -> dict[str, Any]:
    run = _LoadRun(channel, job.seconds)
    loop = asyncio.get_running_loop()
    beat = _BeatRequest(client_type=enum_value("ClientType", "PRODUCER")).SerializeToString()

    def heartbeat(link: LoadLink) -> None:
        if not run.goes_on:
            return
        begun_ns = monotonic_ns()
        link.call(_BEAT, beat, lambda _: run.count(begun_ns, 0))
        loop.call_later(HEARTBEAT_S, heartbeat, link)

    for number, link in enumerate(links):
        loop.call_later(HEARTBEAT_S * number / len(links), heartbeat, link)
    await run.watch(links, lambda: not run.goes_on)
    run.end_ns = max(run.end_ns, monotonic_ns())
    return run.facts(job.samples_path)
