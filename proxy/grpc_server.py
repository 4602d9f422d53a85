"""The gRPC server: connections, calls, deadlines, cancellation, on one event loop. What it calls decides.

A call that waits is a coroutine, not a thread. A client that ends a call, or its connection, ends what is done for it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from ..model.clock import monotonic_ms
from ..model.errors import ConnectionLost, ZenitError
from .back.backs import Backs
from .client_links import DRAIN_LOOK_S, IDLE_MS, TLS_FIRST_BYTE, ClientLink, DoorKind, LinkServer
from .config import NO_PORT, ProxyConfig
from .http2.connection import Http2Connection, Http2Stream
from .http2.frames import ConnectionFault
from .http2.grpc_messages import (
    ANSWER_HEADERS,
    CONTENT_TYPE,
    MESSAGE_BYTES_MAX,
    PREFIX,
    GrpcRefused,
    GrpcStatus,
    MessageReader,
    encode_message,
    no_grpc,
    only_trailers,
    timeout_s,
    trailers,
)
from .schema import SERVICE, Method
from .tls import tls_context
from .v2.calls import Answers
from .v2.methods import CallFacts, MessagingMethods
from .v2.status import CallRefused, Code, code_of

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
SILENT_MS: Final = 60_000
"""A client that is silent for so long is asked whether it is there; at IDLE_MS its connection is closed."""
CALLS_MAX: Final = 100_000
"""Of all connections at a time."""
CALLS_SHARED: Final = 75_000
"""Above so many, a connection has CALLS_SMALL at most: who asks for much leaves room for others."""
CALLS_SMALL: Final = 100
CALL_BYTES: Final = 1024
"""What a call takes beside its bytes."""
TAKEN_AT_A_TIME: Final = 64
"""Messages of the streams of one connection, until others have their turn."""
_STATUS: Final = {
    Code.UNAUTHORIZED: GrpcStatus.UNAUTHENTICATED,
    Code.FORBIDDEN: GrpcStatus.PERMISSION_DENIED,
    Code.TOO_MANY_REQUESTS: GrpcStatus.RESOURCE_EXHAUSTED,
    Code.CLIENT_ID_REQUIRED: GrpcStatus.INVALID_ARGUMENT,
    Code.BAD_REQUEST: GrpcStatus.INVALID_ARGUMENT,
}
_OK: Final = trailers(GrpcStatus.OK)
_FAULT: Final = "internal error: the proxy's log says more"


class GrpcMethods(Protocol):
    """What is served: see MessagingMethods."""

    def all(self) -> list[Method]:
        """The methods."""

    def decode(self, method: Method, encoded: bytes) -> Any:
        """A client's message. Raises CallRefused."""

    async def unary(self, method: Method, facts: CallFacts, encoded: bytes) -> Any:
        """The answer to one request; an error is in its status."""

    async def stream(self, method: Method, facts: CallFacts, encoded: bytes, answers: Answers) -> None:
        """The answers to one request. Raises CallRefused, ZenitError."""

    async def telemetry(self, facts: CallFacts, commands: AsyncIterator[Any], answers: Answers) -> None:
        """A client's stream. Raises CallRefused, ZenitError."""

    def drain(self) -> None:
        """Asks all clients to go to another proxy."""


class GrpcCall:
    """One call of a client. See Answers."""

    __slots__ = (
        "_link",
        "arrived",
        "begun_ms",
        "counted_bytes",
        "facts",
        "has_begun",
        "method",
        "reader",
        "stream",
        "task",
        "untaken_bytes",
    )

    def __init__(
        self, link: GrpcLink, stream: Http2Stream, method: Method, facts: CallFacts, reader: MessageReader
    ) -> None:
        self._link = link
        self.stream = stream
        self.method = method
        self.facts = facts
        self.reader = reader
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        """Its answer."""
        self.begun_ms = monotonic_ms()
        self.counted_bytes = 0
        """Of its requests, among the connection's."""
        self.untaken_bytes = 0
        """Of its stream, for which the client has no new room yet."""
        self.arrived: asyncio.Future[None] | None = None
        """Somebody waits for its next message."""

    async def write(self, message: Any) -> None:
        """See Answers: returns once the client has room for more. Raises ConnectionLost."""
        await self._link.write(self, message)


class GrpcLink(ClientLink):
    """A client's connection. See StreamEvents."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__(server)
        self._server = server
        self._connection = Http2Connection(self)
        self._coming: dict[int, GrpcCall] = {}
        """Those whose one request is not whole yet, the oldest first."""
        self._parts_bytes = 0
        self._taken = 0
        """Messages of streams, in this turn of the loop."""
        self._writing: dict[int, asyncio.Future[None]] = {}
        self._peer = ""
        self._part_ms = self.moved_ms
        """When the frame began to come whose end is awaited."""
        self.heard_ms = self.moved_ms
        self.calls: dict[int, GrpcCall] = {}

    # ---- of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._peer = f"{'ipv4' if len(self.peer.ip) == 4 else 'ipv6'}:{self.peer}"
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        for call in list(self.calls.values()):
            self._drop(call)

    def _take_bytes(self, data: bytes) -> None:
        """See ClientLink."""
        self.heard_ms = self.moved_ms = monotonic_ms()
        connection = self._connection
        try:
            connection.receive(data)
        except ConnectionFault as fault:
            self._fail(fault, data)
            return
        self._send()
        held_bytes = connection.held_bytes
        if not held_bytes or len(data) > held_bytes:
            self._part_ms = self.heard_ms
        self._hold()
        if self._writing:
            self._wake_writers()
        if self._server.room.is_over():
            self._server.make_room()

    def _go_on(self) -> None:
        self._part_ms = self.heard_ms = monotonic_ms()
        self._set_reading()
        self._wake_writers()

    def _fail(self, fault: ConnectionFault, data: bytes) -> None:
        if not self._connection.is_begun and data[:1] == bytes((TLS_FIRST_BYTE,)):
            self._warn("tls", f"TLS on the port without it client={self.peer}: tls_port is for that")
        else:
            self._warn(fault.code.name, f"closed a connection client={self.peer} error={fault}")
        self._connection.fail(fault)
        self._send()
        self.close()

    def _send(self) -> None:
        output = self._connection.output
        if output:
            self._write(output[0] if len(output) == 1 else b"".join(output))
            output.clear()

    def _waiting_bytes(self) -> int:
        return self._connection.waiting_bytes

    def _forget(self) -> None:
        for call in list(self._coming.values()):
            self._drop(call)

    def is_late(self, oldest_ms: int) -> bool:
        """See ClientLink."""
        if self._is_unread:
            return False
        if self._part_ms < oldest_ms and (not self._connection.is_begun or self._connection.held_bytes):
            return True
        oldest = next(iter(self._coming.values()), None)
        return oldest is not None and oldest.begun_ms < oldest_ms

    # ---- of its streams

    def on_request(self, stream: Http2Stream, fields: dict[str, str]) -> None:
        """See StreamEvents."""
        connection = self._connection
        if fields[":method"] != "POST" or not fields.get("content-type", "").startswith(CONTENT_TYPE):
            connection.end(stream, no_grpc())
            return
        try:
            call = self._call(stream, fields)
        except GrpcRefused as refused:
            connection.end(stream, only_trailers(refused.status, refused.message))
            return
        self.calls[stream.number] = call
        if call.method.asks_stream:
            call.has_begun = True  # some clients wait for it before they tell anything
            connection.send_headers(stream, ANSWER_HEADERS)
            self._start(call, self._telemetry(call))
        else:
            self._coming[stream.number] = call
            if stream.is_ended:
                self.on_data(stream, b"")
            else:
                self._count(call, stream.header_bytes + CALL_BYTES)

    def _call(self, stream: Http2Stream, fields: dict[str, str]) -> GrpcCall:
        """Raises GrpcRefused."""
        method = self._server.methods_by_path.get(fields[":path"])
        if method is None:
            raise GrpcRefused(GrpcStatus.UNIMPLEMENTED, f"there is no method {fields[':path'][:200]}")
        if self._server.is_full(len(self.calls)):
            raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED, "this proxy has as many calls under way as it may")
        reader = MessageReader(fields.get("grpc-encoding", ""))
        return GrpcCall(
            self, stream, method, CallFacts(fields, self._peer, timeout_s(fields.get("grpc-timeout", ""))), reader
        )

    def on_data(self, stream: Http2Stream, data: bytes) -> None:
        """See StreamEvents."""
        call = self.calls.get(stream.number)
        if call is None:  # it has its answer, which the client has no room for yet
            return
        reader = call.reader
        try:
            counted_bytes = 0
            reader.add(data)
            if call.method.asks_stream:
                self._on_command_data(call, len(data))
            elif stream.is_ended:
                message = reader.take()
                if message is None or reader.held_bytes:
                    raise GrpcRefused(GrpcStatus.INTERNAL, "one message is expected")
                del self._coming[stream.number]
                work = self._answers(call, message) if call.method.answers_stream else self._answer(call, message)
                self._start(call, work)
            elif reader.held_bytes > MESSAGE_BYTES_MAX + PREFIX.size:
                raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED, "one message is expected, and much more came")
            else:
                self._connection.give_room(stream, len(data))
                counted_bytes = stream.header_bytes + CALL_BYTES
        except GrpcRefused as refused:
            self._refuse(call, refused.status, refused.message)
        else:
            self._count(call, reader.held_bytes + counted_bytes)

    def _on_command_data(self, call: GrpcCall, size_bytes: int) -> None:
        """What is a part of a message yet has to have room for its rest; whole ones wait to be taken first."""
        call.untaken_bytes += size_bytes
        if not call.reader.has_message:
            self._give_room(call)
        if call.arrived is not None and not call.arrived.done():
            call.arrived.set_result(None)

    def _give_room(self, call: GrpcCall) -> None:
        self._connection.give_room(call.stream, call.untaken_bytes)
        call.untaken_bytes = 0

    def on_reset(self, stream: Http2Stream) -> None:
        """See StreamEvents."""
        call = self.calls.get(stream.number)
        if call is not None:
            self._drop(call)

    # ---- calls

    def _start(self, call: GrpcCall, work: Any) -> None:
        call.task = self._server.start(work)

    async def _answer(self, call: GrpcCall, message: bytes) -> None:
        try:
            answer = await self._server.methods.unary(call.method, call.facts, message)
            if not self.held.is_known and answer.status.code == Code.OK:
                self.prove()
            encoded = encode_message(answer.SerializeToString())
            stream = call.stream
            if self._is_open(call):
                del self.calls[stream.number]
                self._connection.send_headers(stream, ANSWER_HEADERS)
                self._connection.send_data(stream, encoded)
                self._connection.end(stream, _OK)
                self._send()
        except Exception:
            log.exception("a call failed method=%s", call.method.name)
        finally:  # who still waits is told, whatever ended the call
            if self._is_open(call):
                self._refuse(call, GrpcStatus.INTERNAL, _FAULT)

    async def _answers(self, call: GrpcCall, message: bytes) -> None:
        try:
            await self._server.methods.stream(call.method, call.facts, message, call)
        except (CallRefused, ZenitError) as error:  # within the answer
            self._refuse(call, _STATUS.get(code_of(error), GrpcStatus.UNAVAILABLE), str(error))
        except Exception:
            log.exception("a call failed method=%s", call.method.name)
            self._refuse(call, GrpcStatus.INTERNAL, _FAULT)
        else:
            self._refuse(call, GrpcStatus.OK, "")

    async def _telemetry(self, call: GrpcCall) -> None:
        try:
            await self._server.methods.telemetry(call.facts, self._commands(call), call)
        except GrpcRefused as refused:
            self._refuse(call, refused.status, refused.message)
        except (CallRefused, ZenitError) as error:
            self._refuse(call, _STATUS.get(code_of(error), GrpcStatus.UNAVAILABLE), str(error))
        except Exception:
            log.exception("a call failed method=%s", call.method.name)
            self._refuse(call, GrpcStatus.INTERNAL, _FAULT)
        else:
            self._refuse(call, GrpcStatus.OK, "")

    async def _commands(self, call: GrpcCall) -> AsyncIterator[Any]:
        """What the client tells, until it ends the stream. Raises GrpcRefused, CallRefused."""
        reader = call.reader
        while True:
            while self._taken >= TAKEN_AT_A_TIME:
                await asyncio.sleep(0)
            message = reader.take()
            if message is not None:
                if not self._taken:
                    asyncio.get_running_loop().call_soon(self._on_turn)
                self._taken += 1
                self._count(call, reader.held_bytes)
                self._hold()
                if not reader.has_message:
                    self._give_room(call)
                    self._send()
                yield self._server.methods.decode(call.method, message)
            elif call.stream.is_ended:
                if reader.held_bytes:
                    raise GrpcRefused(GrpcStatus.INTERNAL, "a message that is cut short")
                return
            else:
                call.arrived = asyncio.get_running_loop().create_future()
                await call.arrived

    def _on_turn(self) -> None:
        self._taken = 0

    async def write(self, call: GrpcCall, message: Any) -> None:
        """One message of a streamed answer; returns once the client has room for more. Raises ConnectionLost."""
        if not self._is_open(call):
            raise ConnectionLost(str(self.peer))
        stream = call.stream
        if not call.has_begun:
            call.has_begun = True
            self._connection.send_headers(stream, ANSWER_HEADERS)
        self._connection.send_data(stream, encode_message(message.SerializeToString()))
        self._send()
        while stream.unsent or self._is_unread:
            room = self._writing[stream.number] = asyncio.get_running_loop().create_future()
            try:
                await room
            finally:
                self._writing.pop(stream.number, None)

    def _wake_writers(self) -> None:
        if self._is_unread:
            return
        for number, room in list(self._writing.items()):
            call = self.calls.get(number)
            if (call is None or not call.stream.unsent) and not room.done():
                room.set_result(None)

    def _is_open(self, call: GrpcCall) -> bool:
        return self.calls.get(call.stream.number) is call

    def _refuse(self, call: GrpcCall, status: GrpcStatus, message: str) -> None:
        """Ends it with a status, behind what was answered."""
        if not self._is_open(call):
            return
        self._drop(call)
        told = trailers(status, message) if call.has_begun else only_trailers(status, message)
        self._connection.end(call.stream, told)
        self._send()

    def _drop(self, call: GrpcCall) -> None:
        """Nothing more is told of it, and nothing is done for it."""
        number = call.stream.number
        self.calls.pop(number, None)
        self._coming.pop(number, None)
        if call.counted_bytes:
            self._count(call, 0)
            self._hold()
        room = self._writing.pop(number, None)
        if room is not None and not room.done():
            room.set_exception(ConnectionLost(str(self.peer)))
        if call.task is not None and call.task is not asyncio.current_task():
            call.task.cancel()

    def _count(self, call: GrpcCall, size_bytes: int) -> None:
        """So much of its requests has come and was not taken."""
        self._parts_bytes += size_bytes - call.counted_bytes
        call.counted_bytes = size_bytes

    def _hold(self) -> None:
        """What has come and was not taken counts among that of all connections."""
        if self._transport is not None:
            self._set_held(self._connection.held_bytes + self._parts_bytes)

    # ---- its end

    def announce_end(self) -> None:
        """The client is to go to another proxy."""
        self._connection.announce_end()
        self._send()

    def close(self) -> None:
        """See ClientLink: calls that are served end, and no more begin."""
        for call in list(self.calls.values()):
            self._refuse(call, GrpcStatus.UNAVAILABLE, "this proxy ends: there may be another one")
        self._connection.refuse_new()
        self._send()
        super().close()

    def look(self, now_ms: int) -> None:
        """Asks a client that is silent whether it is there; ends it if it does not say so."""
        self._connection.forgive()
        self.note_reading(now_ms)
        heard_ms = max(self.heard_ms, self.read_ms)
        if heard_ms < now_ms - IDLE_MS:
            self.abort()
        elif heard_ms < now_ms - SILENT_MS:
            self._connection.ping()
            self._send()


class GrpcServer(LinkServer):
    """Of one process; on the event loop. `port`, `tls_port`: where it listens; -1 = not so."""

    def __init__(self, config: ProxyConfig, methods: GrpcMethods) -> None:
        """Raises ConfigError (a taken port, a bad certificate)."""
        super().__init__(config)
        self.methods = methods
        self.methods_by_path = {f"/{SERVICE}/{method.name}": method for method in methods.all()}
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = self._opened("port", config.port, None)
        self.tls_port = self._opened("tls_port", config.tls_port, _tls(config))

    def _opened(self, name: str, port: int, tls: ssl.SSLContext | None) -> int:
        if port == NO_PORT:
            return NO_PORT
        kind = DoorKind(lambda: GrpcLink(self), tls, is_shared=self._config.processes > 1)
        return self._open(name, port, kind)

    def start(self, work: Any) -> asyncio.Task[None]:
        """A call is served."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def is_full(self, own: int) -> bool:
        """Whether as many calls are served as may be, to a connection that has so many; those count that their clients gave
        up, until they have ended."""
        calls = len(self._tasks)
        return calls >= CALLS_MAX or (calls >= CALLS_SHARED and own >= CALLS_SMALL)

    def _grpc_links(self) -> list[GrpcLink]:
        return [link for link in self.links if isinstance(link, GrpcLink)]

    async def look(self) -> None:
        """Now and then: late requests and clients that are gone."""
        while True:
            self._shut_out_late()
            now_ms = monotonic_ms()
            for link in self._grpc_links():
                link.look(now_ms)
            await asyncio.sleep(LOOK_S)

    async def drain(self, *, drain_ms: int) -> None:
        """Sends its clients to another proxy, lets their calls end, and closes all."""
        self._shut(self.doors)
        self.methods.drain()
        for link in self._grpc_links():
            link.announce_end()
        deadline_ms = monotonic_ms() + drain_ms
        while any(link.calls for link in self._grpc_links()):
            await asyncio.sleep(DRAIN_LOOK_S)  # in which they are told at least
            if monotonic_ms() >= deadline_ms:
                break
        await self._end_links()


@asynccontextmanager
async def serve(config: ProxyConfig, backs: Backs) -> AsyncIterator[GrpcServer]:
    """Serves until it is left; calls then have the rest of `drain_ms` to end. Raises ConfigError (a taken port, a bad
    certificate)."""
    async with MessagingMethods(
        backs,
        polls_max=config.limits.polls,
        bytes_max=config.limits.bytes_in_flight,
        signed_within_ms=config.signed_within_ms,
    ) as methods:
        server = GrpcServer(config, methods)
        looking = asyncio.create_task(server.look(), name="zenit-proxy-grpc-look")
        log.info("serves gRPC port=%d tls_port=%d", server.port, server.tls_port)
        try:
            yield server
        finally:
            looking.cancel()
            await server.drain(drain_ms=config.drain_ms)


def _tls(config: ProxyConfig) -> ssl.SSLContext | None:
    context = tls_context(config)
    if context is not None:
        context.set_alpn_protocols(["h2"])
    return context
