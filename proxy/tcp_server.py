"""The server of RocketMQ's classic remoting protocol, on one event loop: connections, bounds, TLS, ports for brokers.

Clients get the shared port as their name server's. Each broker name has a port, of which routes tell, and one two below it,
where clients up to 4.2 go with sends. A connection's requests are answered as they are done, in any order. What is under way is
bounded for each connection and for all; a connection whose client does not read is not read from either, and is ended once what
it has not read is too much.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Final, cast

from ..model.clock import monotonic_ms
from ..model.errors import ConfigError, ConnectionLost, RemoteProtocolError, RequestTimeout, ZenitError
from ..model.ids import HostAddress
from .back.backs import Backs
from .classic.calls import BrokerPorts
from .classic.frames import LENGTH_BYTES, ClassicFrame, decode_frame, encode_frame, frame_bytes
from .classic.requests import LINK_POLLS_MAX, POLLS, ClassicRequests, busy, too_large, unknown
from .config import VIP_BELOW, ProxyConfig
from .request_room import HeldBytes, RequestRoom
from .tls import tls_context

log = logging.getLogger(__name__)

IDLE_MS: Final = 120_000
"""A connection over which nothing goes for so long is closed."""
REQUEST_MS: Final = 30_000
"""A request that has begun to come has come as a whole by then: its client no longer waits for an answer."""
FIRST_BYTE_S: Final = 10.0
LOOK_S: Final = 5.0
REQUESTS_MAX: Final = 4_096
"""Of one connection under way, but for those that wait for messages."""
POLLS_MAX: Final = 2 * LINK_POLLS_MAX
"""Those that may wait: above the half of it they are answered at once, so that there is always room soon."""
LINK_BYTES_MAX: Final = 64 * 1024 * 1024
PUSH_BACKLOG_BYTES: Final = 4 * 1024 * 1024
"""A client that has not read so much gets no pushes: it asks again by itself."""
LINK_BACKLOG_BYTES: Final = 64 * 1024 * 1024
"""A client that has not read so much is cut off: small requests can have large answers."""
TOGETHER_BYTES: Final = 64 * 1024
"""Answers of one turn of the loop are put together up to so much."""
QUESTIONS_MAX: Final = 256
MASTERS_MS: Final = 3_000
LAST_BYTES_MS: Final = 1_000
"""So long the last answers of a drain may take to go out."""
BACKLOG: Final = 1024
TRIES: Final = 20
TLS_FIRST_BYTE: Final = 0x16


class RemotingLink(asyncio.Protocol):
    """A client's connection. See ClassicLink."""

    def __init__(self, server: RemotingServer, broker_name: str) -> None:
        self._server = server
        self._broker_name = broker_name
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: dict[int, asyncio.Future[ClassicFrame]] = {}
        self._opaques = count(1)
        self._is_full = False
        self._is_unread = False
        self._backlog_bytes = 0
        self.requests = 0
        self.polls = 0
        self.held = HeldBytes()
        self.moved_ms = monotonic_ms()
        self.peer = HostAddress(bytes(4), 0)

    # ---- of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no class of asyncio
        address = transport.get_extra_info("peername")
        if address:
            self.peer = HostAddress.parse(address[0].partition("%")[0], address[1])
        self._server.links[self] = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """See asyncio.Protocol."""
        self._transport = None
        self._server.on_closed(self)
        for task in self._tasks:
            task.cancel()
        for question in self._questions.values():
            if not question.done():
                question.set_exception(ConnectionLost(str(self.peer)))
        self._drop_buffer()
        self._set_backlog(0)

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._is_unread = True
        self._set_reading()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._is_unread = False
        if self._transport is not None:
            self._set_backlog(self._transport.get_write_buffer_size())
        self._take_again()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self.moved_ms = monotonic_ms()
        if not self._buffer:
            self.held.begun_ms = self.moved_ms
        self._buffer += data
        self._server.room.buffer(self.held, len(data))
        self._take()
        if self._server.room.is_over():
            self._server.make_room()

    # ---- requests

    def _take(self) -> None:
        """Takes the whole frames that have come, as far as there is room for them."""
        buffer, at = self._buffer, 0
        try:
            while not (self._is_full or self._is_unread) and len(buffer) - at >= LENGTH_BYTES:
                size = frame_bytes(buffer, at)
                if len(buffer) - at < size:
                    break
                frame = decode_frame(bytes(buffer[at : at + size]))
                at += size
                self._on_frame(frame, size)
                self._is_full = (
                    self.requests >= REQUESTS_MAX or self.polls >= POLLS_MAX or self.held.handled >= LINK_BYTES_MAX
                )
        except RemoteProtocolError as error:
            self._refuse_bytes(error)
            return
        if at:
            del buffer[:at]
            self._server.room.buffer(self.held, -at)
            self.held.begun_ms = monotonic_ms()
        self._set_reading()

    def _take_again(self) -> None:
        """After a pause, in which the rest of a request could not come."""
        self.held.begun_ms = monotonic_ms()
        self._take()

    def _drop_buffer(self) -> None:
        self._server.room.buffer(self.held, -len(self._buffer))
        self._buffer.clear()

    def is_late(self, oldest_ms: int) -> bool:
        """Whether it awaits the end of a request that began before then."""
        return bool(self._buffer) and not (self._is_full or self._is_unread) and self.held.begun_ms < oldest_ms

    def shut_out(self, why: str) -> None:
        """Ends it at once; what has come of a request takes no more room."""
        log.warning(
            "closed a connection: %s client=%s bytes=%d begun_ms_ago=%d",
            why,
            self.peer,
            self.held.buffered,
            monotonic_ms() - self.held.begun_ms,
        )
        self._drop_buffer()
        self.abort()

    def prove(self) -> None:
        """See ClassicLink."""
        self._server.room.know(self.held)

    def _refuse_bytes(self, error: RemoteProtocolError) -> None:
        if self._buffer[:1] == bytes((TLS_FIRST_BYTE,)):
            log.warning(
                "TLS on a plain port client=%s: set tls_certificate and tls_key, or turn it off there", self.peer
            )
        else:
            log.warning("closed a connection client=%s error=%s", self.peer, error)
        self.close()

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._is_full or self._is_unread:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _on_frame(self, frame: ClassicFrame, size: int) -> None:
        if frame.is_reply:
            question = self._questions.get(frame.opaque)
            if question is not None and not question.done():
                question.set_result(frame)
            return
        requests = self._server.requests
        if not requests.knows(frame.code):
            self._answer(frame, requests.refused(frame, unknown(frame)))
        elif not self._server.room.take(self.held, size):
            full = busy(frame, "this proxy has as many bytes of requests under way as it may")
            self._answer(frame, requests.refused(frame, full))
        else:
            is_poll = frame.code in POLLS
            self._count(is_poll=is_poll, more=1)
            task = asyncio.get_running_loop().create_task(self._serve(frame, size, is_poll=is_poll))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, frame: ClassicFrame, size: int, *, is_poll: bool) -> None:
        try:
            answer = await self._server.requests.answer(frame, self, self._broker_name)
        finally:
            self._server.room.give_back(self.held, size)
            self._count(is_poll=is_poll, more=-1)
        self._answer(frame, answer)
        if (
            self._is_full
            and self.requests < REQUESTS_MAX // 2
            and self.polls < POLLS_MAX
            and self.held.handled < LINK_BYTES_MAX // 2
        ):
            self._is_full = False
            self._take_again()

    def _count(self, *, is_poll: bool, more: int) -> None:
        if is_poll:
            self.polls += more
        else:
            self.requests += more

    def _answer(self, request: ClassicFrame, answer: ClassicFrame) -> None:
        if request.is_one_way:
            return
        try:
            encoded = encode_frame(answer)
        except RemoteProtocolError:
            encoded = encode_frame(too_large(request, len(answer.body)))
        self._write(encoded)

    def _write(self, data: bytes) -> None:
        """Goes out together with what else is written in this turn of the loop, if that is little."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes >= TOGETHER_BYTES:
            self._flush()

    def _flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if unsent and self._transport is not None and not self._transport.is_closing():
            self.moved_ms = monotonic_ms()
            self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
            self._bound_backlog(self._transport)

    def _bound_backlog(self, transport: asyncio.Transport) -> None:
        """Cuts the client off if it leaves too much unread."""
        backlog_bytes = transport.get_write_buffer_size()
        self._set_backlog(backlog_bytes)
        if backlog_bytes > LINK_BACKLOG_BYTES or (
            backlog_bytes > PUSH_BACKLOG_BYTES and self._server.is_backlog_over()
        ):
            log.warning("cut a client off that does not read client=%s unread_bytes=%s", self.peer, backlog_bytes)
            transport.abort()

    def _set_backlog(self, size_bytes: int) -> None:
        self._server.backlog_bytes += size_bytes - self._backlog_bytes
        self._backlog_bytes = size_bytes

    # ---- for handlers

    def push(self, frame: ClassicFrame) -> bool:
        """See ClassicLink."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() > PUSH_BACKLOG_BYTES:
            return False
        frame.opaque = next(self._opaques)
        try:
            encoded = encode_frame(frame)
        except RemoteProtocolError as error:
            log.warning("what is pushed to a client is too large client=%s error=%s", self.peer, error)
            return False
        self._write(encoded)
        return True

    async def ask(self, frame: ClassicFrame, *, timeout_ms: int) -> ClassicFrame:
        """See ClassicLink."""
        if len(self._questions) >= QUESTIONS_MAX or not self.push(frame):
            raise ConnectionLost(str(self.peer))
        answered: asyncio.Future[ClassicFrame] = asyncio.get_running_loop().create_future()
        self._questions[frame.opaque] = answered
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1000):
                return await answered
        except TimeoutError:
            raise RequestTimeout(f"a question to client {self.peer}", timeout_ms) from None
        finally:
            del self._questions[frame.opaque]

    def close(self) -> None:
        """Ends the connection; what has been answered goes out."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends it at once."""
        if self._transport is not None:
            self._transport.abort()


@dataclass(frozen=True, slots=True)
class _Door:
    """A socket that is listened on. `broker_name`: "" = the shared one."""

    listening: socket.socket
    broker_name: str


class RemotingServer:
    """Of one process; on the event loop."""

    def __init__(self, config: ProxyConfig, backs: Backs) -> None:
        """Raises ConfigError (a bad certificate, a host without an address)."""
        self._config = config
        self._backs = backs
        self._loop = asyncio.get_running_loop()
        self._tls = tls_context(config)
        self._doors: list[_Door] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self.links: dict[RemotingLink, None] = {}
        self.room = RequestRoom(config.limits.bytes_in_flight, is_secured=bool(config.key))
        self.backlog_bytes = 0
        """Of answers that clients have not read."""
        self.ports = BrokerPorts(config.host, _address_of(config.host), self._open_broker_port)
        self.requests = ClassicRequests(backs, self.ports, config.limits)
        self.port = self._open("remoting_port", config.remoting_port, "")

    def make_room(self) -> None:
        """Closes connections until parts of requests take no more memory than they may."""
        while self.room.is_over():
            links = {link.held: link for link in self.links}
            worst = links[self.room.worst(links, monotonic_ms())]
            worst.shut_out("parts of requests take too much memory, and this one the most for the longest time")

    def is_backlog_over(self) -> bool:
        """Whether answers that clients do not read take more memory than all requests may."""
        return self.backlog_bytes > self._config.limits.bytes_in_flight

    def on_closed(self, link: RemotingLink) -> None:
        """A connection has ended."""
        self.links.pop(link, None)
        task = self._loop.create_task(self.requests.clients.closed(link))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def learn_brokers(self) -> None:
        """Brokers that are new get a port."""
        backend = self._backs.own.backend
        try:
            self.ports.learn((await backend.masters(deadline_ms=backend.deadline_ms(MASTERS_MS))).keys())
        except ZenitError as error:
            log.info("the brokers of the cluster are not known now: %s", error)

    async def look(self) -> None:
        """Now and then: brokers that are new get a port, idle connections are closed."""
        while True:
            await self.learn_brokers()
            oldest_ms = monotonic_ms() - IDLE_MS
            for link in [link for link in self.links if link.moved_ms < oldest_ms]:
                link.close()
            oldest_ms = monotonic_ms() - REQUEST_MS
            for link in [link for link in self.links if link.is_late(oldest_ms)]:
                link.shut_out("a request has not come as a whole in time")
            await asyncio.sleep(LOOK_S)

    async def drain(self, *, drain_ms: int) -> None:
        """Takes no more connections, lets requests end but for those that wait for messages, and closes all."""
        for door in self._doors:
            self._loop.remove_reader(door.listening)
            door.listening.close()
        deadline_ms = monotonic_ms() + drain_ms
        while any(link.requests for link in self.links) and monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.01)
        for link in list(self.links):
            link.close()
        deadline_ms = monotonic_ms() + LAST_BYTES_MS
        while self.links and monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.01)
        for link in list(self.links):
            link.abort()
        for task in (*self._opening, *self._closing):
            task.cancel()

    # ---- ports

    def _open_broker_port(self, broker_name: str) -> int:
        """Raises OSError."""
        if not self._config.broker_port:
            return self._open_free_pair(broker_name)
        port = self._config.port_of(broker_name)
        self._listen(port, broker_name)
        with suppress(OSError):  # only clients up to 4.2 miss it
            self._listen(port - VIP_BELOW, broker_name)
        log.info("stands for a broker broker=%s port=%d", broker_name, port)
        return port

    def _open_free_pair(self, broker_name: str) -> int:
        """Any two free ports, so far apart."""
        for attempt in range(TRIES):
            door = self._listen(0, broker_name)
            port: int = door.getsockname()[1]
            try:
                self._listen(port - VIP_BELOW, broker_name)
            except OSError:
                if attempt == TRIES - 1:
                    return port
                self._loop.remove_reader(door)
                self._doors = [one for one in self._doors if one.listening is not door]
                door.close()
            else:
                return port
        raise AssertionError

    def _open(self, name: str, port: int, broker_name: str) -> int:
        """Raises ConfigError."""
        try:
            found: int = self._listen(port, broker_name).getsockname()[1]
            return found
        except OSError as error:
            raise ConfigError(
                name, port, f"a port of {self._config.bound_host} that is free ({error.strerror})"
            ) from None

    def _listen(self, port: int, broker_name: str) -> socket.socket:
        """Raises OSError."""
        host = self._config.bound_host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        listening.setblocking(False)
        door = _Door(listening, broker_name)
        self._doors.append(door)
        self._loop.add_reader(listening, self._on_connection, door)
        return listening

    def _on_connection(self, door: _Door) -> None:
        """Accepts one connection, and waits for its first byte, which says whether TLS comes."""
        try:
            connected, _ = door.listening.accept()
        except OSError as error:  # it has gone already, or there is no descriptor left
            log.debug("a connection was not accepted: %s", error)
            return
        if len(self.links) + len(self._opening) >= self._config.limits.connections:
            connected.close()
            return
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._adopt(connected, door.broker_name))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _adopt(self, connected: socket.socket, broker_name: str) -> None:
        context = None
        try:
            if self._tls is not None:
                async with asyncio.timeout(FIRST_BYTE_S):
                    first = await self._first_byte(connected)
                context = self._tls if first == TLS_FIRST_BYTE else None
            await self._loop.connect_accepted_socket(lambda: RemotingLink(self, broker_name), connected, ssl=context)
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            log.info("a connection did not come about: %s", error)
            connected.close()
        except asyncio.CancelledError:
            connected.close()
            raise

    async def _first_byte(self, connected: socket.socket) -> int:
        """-1 if the connection ended before one came. The byte stays."""
        readable: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(connected, _tell, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(connected)
        first = connected.recv(1, socket.MSG_PEEK)
        return first[0] if first else -1


def _tell(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


@asynccontextmanager
async def serve_remoting(config: ProxyConfig, backs: Backs) -> AsyncIterator[RemotingServer]:
    """Serves until it is left; requests then have `drain_ms` to end. Raises ConfigError."""
    server = RemotingServer(config, backs)
    await server.learn_brokers()
    looking = asyncio.create_task(server.look(), name="zenit-proxy-ports")
    log.info("serves the remoting protocol port=%d", server.port)
    try:
        yield server
    finally:
        looking.cancel()
        await server.drain(drain_ms=config.drain_ms)


def _address_of(host: str) -> bytes:
    """The host's address, packed. Raises ConfigError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError("host", host, f"a host that has an address ({error})") from None
    return socket.inet_pton(family, str(address[0]).partition("%")[0])
