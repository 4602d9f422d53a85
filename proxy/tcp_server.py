"""The server of RocketMQ's classic remoting protocol, on one event loop: connections, bounds, TLS, ports for brokers.

Clients get the shared port as their name server's. Each broker name has a port, of which routes tell, and one two below it,
where clients up to 4.2 go with sends. A connection's requests are answered as they are done, in any order. What is under way is
bounded for each connection and for all.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final

from ..model.clock import monotonic_ms
from ..model.errors import ConfigError, ConnectionLost, RemoteProtocolError, RequestTimeout, ZenitError
from .back.backs import Backs
from .classic.calls import BrokerPorts
from .classic.frames import LENGTH_BYTES, ClassicFrame, decode_frame, encode_frame, frame_bytes
from .classic.requests import LINK_POLLS_MAX, POLLS, ClassicRequests, busy, too_large, unknown
from .client_links import DRAIN_LOOK_S, TLS_FIRST_BYTE, ClientLink, DoorKind, LinkServer
from .config import VIP_BELOW, ProxyConfig
from .tls import tls_context

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
REQUESTS_MAX: Final = 4_096
"""Of one connection under way, but for those that wait for messages."""
POLLS_MAX: Final = 2 * LINK_POLLS_MAX
"""Those that may wait: above the half of it they are answered at once, so that there is always room soon."""
LINK_BYTES_MAX: Final = 64 * 1024 * 1024
PUSH_BACKLOG_BYTES: Final = 4 * 1024 * 1024
"""Who has not read so much is asked and told nothing more."""
QUESTIONS_MAX: Final = 256
MASTERS_MS: Final = 3_000
TRIES: Final = 20


class RemotingLink(ClientLink):
    """A client's connection. See ClassicLink."""

    def __init__(self, server: RemotingServer, broker_name: str) -> None:
        super().__init__(server)
        self._server = server
        self._broker_name = broker_name
        self._buffer = bytearray()
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: dict[int, asyncio.Future[ClassicFrame]] = {}
        self._opaques = count(1)
        self._is_full = False
        self.requests = 0
        self.polls = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        self._server.on_closed(self)
        for task in self._tasks:
            task.cancel()
        for question in self._questions.values():
            if not question.done():
                question.set_exception(ConnectionLost(str(self.peer)))

    def _take_bytes(self, data: bytes) -> None:
        """See ClientLink."""
        self.moved_ms = monotonic_ms()
        self._buffer += data
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
            self.held.begun_ms = monotonic_ms()
        self._hold()
        self._set_reading()

    def _hold(self) -> None:
        self._set_held(len(self._buffer))

    def _go_on(self) -> None:
        self.held.begun_ms = monotonic_ms()  # the rest of a request could not come meanwhile
        self._take()

    def _forget(self) -> None:
        self._buffer.clear()

    def _is_closed_to_requests(self) -> bool:
        return self._is_full

    def is_late(self, oldest_ms: int) -> bool:
        """See ClientLink."""
        return bool(self._buffer) and not (self._is_full or self._is_unread) and self.held.begun_ms < oldest_ms

    def _refuse_bytes(self, error: RemoteProtocolError) -> None:
        if self._buffer[:1] == bytes((TLS_FIRST_BYTE,)):
            remedy = "set tls_certificate and tls_key, or turn it off there"
            self._warn("tls", f"TLS on a plain port client={self.peer}: {remedy}")
        else:
            self._warn("bytes", f"closed a connection client={self.peer} error={error}")
        self.close()

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
            self._go_on()

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

    # ---- for handlers

    def push(self, frame: ClassicFrame) -> bool:
        """See ClassicLink."""
        if self._transport is None or self.is_closing or self.count_backlog() > PUSH_BACKLOG_BYTES:
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


class RemotingServer(LinkServer):
    """Of one process; on the event loop."""

    def __init__(self, config: ProxyConfig, backs: Backs) -> None:
        """Raises ConfigError (a bad certificate, a host without an address)."""
        super().__init__(config)
        self._backs = backs
        self._tls = tls_context(config)
        self._closing: set[asyncio.Task[None]] = set()
        self.ports = BrokerPorts(config.host, _address_of(config.host), self._open_broker_port)
        self.requests = ClassicRequests(backs, self.ports, config.limits)
        self.port = self._open("remoting_port", config.remoting_port, self._door_of(""))

    def _door_of(self, broker_name: str) -> DoorKind:
        return DoorKind(lambda: RemotingLink(self, broker_name), self._tls, is_mixed=True)

    def on_closed(self, link: RemotingLink) -> None:
        """A connection has ended."""
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
            self.end_idle()
            self._shut_out_late()
            await asyncio.sleep(LOOK_S)

    async def drain(self, *, drain_ms: int) -> None:
        """Takes no more connections, lets requests end but for those that wait for messages, and closes all."""
        self._shut(self.doors)
        deadline_ms = monotonic_ms() + drain_ms
        while any(isinstance(link, RemotingLink) and link.requests for link in self.links):
            if monotonic_ms() >= deadline_ms:
                break
            await asyncio.sleep(DRAIN_LOOK_S)
        await self._end_links()
        for task in self._closing:
            task.cancel()

    # ---- ports

    def _open_broker_port(self, broker_name: str) -> int:
        """Raises OSError."""
        if not self._config.broker_port:
            return self._open_free_pair(broker_name)
        port = self._config.port_of(broker_name)
        self._listen_for(broker_name, port)
        with suppress(OSError):  # only clients up to 4.2 miss it
            self._listen_for(broker_name, port - VIP_BELOW)
        log.info("stands for a broker broker=%s port=%d", broker_name, port)
        return port

    def _open_free_pair(self, broker_name: str) -> int:
        """Any two free ports, so far apart."""
        for attempt in range(TRIES):
            listening = self._listen_for(broker_name, 0)
            port: int = listening.getsockname()[1]
            try:
                self._listen_for(broker_name, port - VIP_BELOW)
            except OSError:
                if attempt == TRIES - 1:
                    return port
                self._shut([door for door in self.doors if door.listening is listening])
            else:
                return port
        raise AssertionError

    def _listen_for(self, broker_name: str, port: int) -> socket.socket:
        """Raises OSError."""
        return self._listen(port, self._door_of(broker_name))


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
