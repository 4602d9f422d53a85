"""Connections of clients, whatever they speak, and the sockets that they come by: bounds, TLS, reading, writing.

What a client sends is read as long as it reads what it is sent: else it is not read from either, and cut off once what it has
not read is too much. Parts of requests have a bound for all connections together (request_room).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from ..model.clock import monotonic_ms, monotonic_ns
from ..model.errors import ConfigError
from ..model.ids import HostAddress
from ..model.repeated_news import RepeatedNews
from .config import ProxyConfig
from .request_room import HeldBytes, RequestRoom

log = logging.getLogger(__name__)

IDLE_MS: Final = 120_000
"""A connection over which nothing goes for so long is closed."""
REQUEST_MS: Final = 30_000
"""A request that has begun to come has come as a whole by then: its client no longer waits for an answer."""
FIRST_BYTE_S: Final = 10.0
LINK_BACKLOG_BYTES: Final = 64 * 1024 * 1024
"""A client that has not read so much is cut off: small requests can have large answers."""
TLS_PIECE_BYTES: Final = 64 * 1024
"""So much is given to TLS at once, which takes any amount and does not say so: what its client does not read is kept here."""
TOGETHER_BYTES: Final = 64 * 1024
"""Answers of one turn of the loop are put together up to so much."""
TURN_NS: Final = 5_000_000
"""So long what came of one connection is taken before others have their turn: the event loop reads 2 MB of one at once."""
PIECE_BYTES: Final = 32 * 1024
"""So much is taken between two looks at the clock."""
LAST_BYTES_MS: Final = 1_000
"""So long the last answers of a drain may take to go out."""
DRAIN_LOOK_S: Final = 0.01
BACKLOG: Final = 1024
ACCEPT_AGAIN_S: Final = 1.0
"""So long nobody is accepted where the process has no descriptor or memory left: each try would fail at once."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
TLS_FIRST_BYTE: Final = 0x16


class ClientLink(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, server: LinkServer) -> None:
        self._owner = server
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self.backlog_bytes = 0
        """Of answers that the client has not read, when it was counted last."""
        self._unread_ms = 0
        """Since when that is much; 0 = it is not."""
        self._later = bytearray()
        """What has come and waits for its turn."""
        self._has_turn = False
        self._left: list[memoryview] = []
        """What TLS does not take yet."""
        self._left_bytes = 0
        self._is_tls = False
        self._ends = False
        self._is_unread = False
        self.held = HeldBytes()
        self.moved_ms = self.held.begun_ms = monotonic_ms()
        self.read_ms = 0
        self.peer = HostAddress(bytes(4), 0)

    # ---- of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no class of asyncio
        address = transport.get_extra_info("peername")
        if address:
            self.peer = HostAddress.parse(address[0].partition("%")[0], address[1])
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._owner.links[self] = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """See asyncio.Protocol."""
        self._transport = None
        self._owner.links.pop(self, None)
        self._later.clear()
        self._forget()
        self._set_held(0)
        self._left.clear()
        self._set_backlog(0)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if len(data) <= PIECE_BYTES and not self._later:
            self._take_bytes(data)
            return
        self._later += data
        self._hold()
        if not self._has_turn:
            self._take_turn()

    def _take_turn(self) -> None:
        """Some of what has come, and more in the next turn of the loop."""
        self._has_turn = False
        later, end_ns = self._later, monotonic_ns() + TURN_NS
        while later and not (self._transport is None or self.is_closing or self._is_unread):
            data = bytes(later[:PIECE_BYTES])
            del later[:PIECE_BYTES]
            self._take_bytes(data)
            if later and monotonic_ns() >= end_ns:
                self._has_turn = True
                asyncio.get_running_loop().call_soon(self._take_turn)
                break
        self._set_reading()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._is_unread = True
        self._set_reading()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._is_unread = False
        self._write_left()
        self.count_backlog()
        if not (self._is_unread or self.is_closing):
            self._go_on()
            if self._later and not self._has_turn:
                self._take_turn()

    # ---- of each protocol

    @abstractmethod
    def _take_bytes(self, data: bytes) -> None:
        """Some bytes came."""

    @abstractmethod
    def _hold(self) -> None:
        """Counts what has come of requests that are not whole."""

    @abstractmethod
    def is_late(self, oldest_ms: int) -> bool:
        """Whether it awaits the end of a request that began before then."""

    @abstractmethod
    def _forget(self) -> None:
        """Lets go of what has come of requests."""

    @abstractmethod
    def _go_on(self) -> None:
        """The client reads again."""

    def _is_closed_to_requests(self) -> bool:
        """Whether it has as many requests under way as it may."""
        return False

    # ---- what comes

    def _set_held(self, size_bytes: int) -> None:
        """So much has come of requests that are not whole, beside what waits for its turn."""
        held = self.held
        size_bytes += len(self._later)
        if size_bytes != held.buffered:
            if not held.buffered:
                held.begun_ms = monotonic_ms()
            self._owner.room.buffer(held, size_bytes - held.buffered)

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or self.is_closing:
            return
        if self._is_unread or self._later or self._is_closed_to_requests():
            transport.pause_reading()
        else:
            transport.resume_reading()

    def prove(self) -> None:
        """It has signed a request."""
        self._owner.room.know(self.held)

    # ---- what goes

    def _write(self, data: bytes) -> None:
        """Goes out together with what else is written in this turn of the loop, if that is little."""
        if self._transport is None or self.is_closing:
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes >= TOGETHER_BYTES:
            self._flush()

    def _flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if unsent and self._transport is not None and not self.is_closing:
            self.moved_ms = monotonic_ms()
            data = unsent[0] if len(unsent) == 1 else b"".join(unsent)
            if self._is_tls:
                self._left.append(memoryview(data))
                self._left_bytes += len(data)
                self._write_left()
            else:
                self._transport.write(data)
            if self.count_backlog() > LINK_BACKLOG_BYTES:
                self.cut_off()
            self._owner.bound_backlog()

    def _write_left(self) -> None:
        transport, left = self._transport, self._left
        if transport is None:
            return
        while left and not self._is_unread:
            piece = left[0][:TLS_PIECE_BYTES]
            if len(piece) < len(left[0]):
                left[0] = left[0][TLS_PIECE_BYTES:]
            else:
                del left[0]
            self._left_bytes -= len(piece)
            transport.write(piece)
        if self._ends and not left:
            transport.close()

    def cut_off(self) -> None:
        """Ends it at once: it leaves too much unread."""
        self._warn(
            "unread", f"cut a client off that does not read client={self.peer} unread_bytes={self.backlog_bytes}"
        )
        self._set_backlog(0)
        self._owner.links.pop(self, None)  # it counts no more, though it ends only soon
        self.abort()

    def note_reading(self, now_ms: int) -> None:
        """Now and then: who reads much that it was sent, however slowly, is not idle; nothing is read of it meanwhile."""
        before = self.backlog_bytes
        if self._is_unread and self.count_backlog() < before:
            self.read_ms = now_ms

    def count_backlog(self) -> int:
        """What it has not read now."""
        transport = self._transport
        if transport is None:
            self._set_backlog(0)
        else:
            self._set_backlog(transport.get_write_buffer_size() + self._left_bytes + self._waiting_bytes())
        return self.backlog_bytes

    def unread(self, now_ms: int) -> int:
        """Bytes times the milliseconds since they are many."""
        return self.backlog_bytes * (now_ms - (self._unread_ms or now_ms) + 1)

    def _waiting_bytes(self) -> int:
        """Of answers for which the client has given no room yet."""
        return 0

    def _set_backlog(self, size_bytes: int) -> None:
        self._owner.backlog_bytes += size_bytes - self.backlog_bytes
        self.backlog_bytes = size_bytes
        if size_bytes <= TOGETHER_BYTES:
            self._unread_ms = 0
        elif not self._unread_ms:
            self._unread_ms = monotonic_ms()

    def _warn(self, kind: str, text: str) -> None:
        """Once a minute for what a client's machine does wrong."""
        self._owner.tell(f"{self.peer.ip.hex()} {kind}", text)

    # ---- its end

    def shut_out(self, why: str) -> None:
        """Ends it at once; what has come of a request takes no more room."""
        begun_ms_ago = monotonic_ms() - self.held.begun_ms
        told = f"client={self.peer} bytes={self.held.buffered} begun_ms_ago={begun_ms_ago}"
        self._warn(why, f"closed a connection: {why} {told}")
        self._later.clear()
        self._forget()
        self._set_held(0)
        self.abort()

    @property
    def is_closing(self) -> bool:
        """It ends once its client has read what it was answered."""
        return self._ends or (self._transport is not None and self._transport.is_closing())

    def close(self) -> None:
        """Ends the connection; what has been answered goes out."""
        self._flush()
        if self._transport is not None:
            self._ends = True
            if not self._left:
                self._transport.close()

    def abort(self) -> None:
        """Ends it at once."""
        if self._transport is not None:
            self._transport.abort()


@dataclass(frozen=True, slots=True)
class DoorKind:
    """Who comes by a socket that is listened on. `tls`: of all of them; with `is_mixed` of those whose first byte says so.
    `is_shared`: other processes listen there too."""

    make_link: Callable[[], ClientLink]
    tls: ssl.SSLContext | None
    is_mixed: bool = False
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class ClientDoor:
    """A socket that is listened on."""

    listening: socket.socket
    kind: DoorKind


class LinkServer:
    """Of one process; on the event loop."""

    def __init__(self, config: ProxyConfig) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self.doors: list[ClientDoor] = []
        self._opening: dict[asyncio.Task[None], ClientLink] = {}
        self.links: dict[ClientLink, None] = {}
        self.room = RequestRoom(config.limits.bytes_in_flight, is_secured=bool(config.key))
        self._news = RepeatedNews()
        self.backlog_bytes = 0
        """Of answers that clients have not read."""

    def make_room(self) -> None:
        """Closes connections until parts of requests take no more memory than they may."""
        while self.room.is_over():
            links = {link.held: link for link in self.links}
            worst = links[self.room.worst(links, monotonic_ms())]
            worst.shut_out("parts of requests take too much memory, and this one the most for the longest time")

    def bound_backlog(self) -> None:
        """Cuts off who has not read the most for the longest time, until what clients do not read takes no more memory than it
        may."""
        while self.links and self.is_backlog_over():
            now_ms = monotonic_ms()
            max(self.links, key=lambda link: link.unread(now_ms)).cut_off()

    def is_backlog_over(self) -> bool:
        """Whether answers that clients do not read take more memory than all requests may."""
        if self.backlog_bytes > self._config.limits.bytes_in_flight:
            for link in self.links:  # most have read since what they had not when they were last answered
                link.count_backlog()
        return self.backlog_bytes > self._config.limits.bytes_in_flight

    def _shut_out_late(self) -> None:
        oldest_ms = monotonic_ms() - REQUEST_MS
        for link in [link for link in self.links if link.is_late(oldest_ms)]:
            link.shut_out("a request has not come as a whole in time")

    def end_idle(self) -> None:
        """Closes connections over which nothing goes. One that is closing already waits for a client that does not read."""
        now_ms = monotonic_ms()
        for link in list(self.links):
            link.note_reading(now_ms)
            if max(link.moved_ms, link.read_ms) >= now_ms - IDLE_MS:
                continue
            if link.is_closing:
                link.abort()
            else:
                link.close()

    # ---- sockets

    def _open(self, name: str, port: int, kind: DoorKind) -> int:
        """The port. Raises ConfigError, with the setting's name."""
        try:
            found: int = self._listen(port, kind).getsockname()[1]
            return found
        except OSError as error:
            raise ConfigError(
                name, port, f"a port of {self._config.bound_host} that is free ({error.strerror})"
            ) from None

    def _listen(self, port: int, kind: DoorKind) -> socket.socket:
        """Raises OSError."""
        host = self._config.bound_host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=kind.is_shared)
        listening.setblocking(False)
        door = ClientDoor(listening, kind)
        self.doors.append(door)
        self._loop.add_reader(listening, self.accept, door)
        return listening

    def _shut(self, doors: list[ClientDoor]) -> None:
        for door in doors:
            self._loop.remove_reader(door.listening)
            door.listening.close()
        self.doors = [door for door in self.doors if door not in doors]

    def accept(self, door: ClientDoor) -> None:
        """Accepts one connection."""
        try:
            connected, _ = door.listening.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self.tell(
                    "accept",
                    f"a connection is not taken: {error.strerror}: raise the limit of open files (ulimit -n, LimitNOFILE)",
                )
                self._loop.remove_reader(door.listening)
                self._loop.call_later(ACCEPT_AGAIN_S, self._accept_again, door)
            else:
                log.debug("a connection was not accepted: %s", error)  # it has gone already
            return
        connections_max = self._config.limits.connections
        if len(self.links) + len(self._opening) >= connections_max:
            self.tell(
                "limit", f"a connection is not taken: {connections_max} are open, which limits.connections allows"
            )
            connected.close()
            return
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = door.kind.make_link()
        task = self._loop.create_task(self._adopt(connected, door.kind, link))
        self._opening[task] = link
        task.add_done_callback(self._opening.pop)

    def _accept_again(self, door: ClientDoor) -> None:
        if door in self.doors:
            self._loop.add_reader(door.listening, self.accept, door)

    def tell(self, subject: str, text: str, level: int = logging.WARNING) -> None:
        """What is wrong, once a minute, and how often it was: who does it on purpose fills no log."""
        count = self._news.count_to_tell(subject, "", monotonic_ms())
        if count:
            log.log(level, "%s times=%d", text, count)

    async def _adopt(self, connected: socket.socket, kind: DoorKind, link: ClientLink) -> None:
        tls = kind.tls
        try:
            if tls is not None and kind.is_mixed:
                async with asyncio.timeout(FIRST_BYTE_S):
                    first = await self._first_byte(connected)
                tls = tls if first == TLS_FIRST_BYTE else None
            await self._loop.connect_accepted_socket(
                lambda: link, connected, ssl=tls, ssl_handshake_timeout=None if tls is None else FIRST_BYTE_S
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self.tell("opening", f"a connection did not come about: {error}", logging.INFO)
            connected.close()
        except asyncio.CancelledError:
            connected.close()
            raise

    async def _first_byte(self, connected: socket.socket) -> int:
        """-1 if the connection ended before one came. The byte stays."""
        readable: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(connected, _on_readable, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(connected)
        first = connected.recv(1, socket.MSG_PEEK)
        return first[0] if first else -1

    async def _end_links(self) -> None:
        """Closes all connections; what has been answered goes out, if their clients read it soon."""
        for task, link in self._opening.items():
            if link not in self.links:  # else it is there at once; cancelled, its transport would close and not say so
                task.cancel()
        for link in list(self.links):
            link.close()
        deadline_ms = monotonic_ms() + LAST_BYTES_MS
        while self.links and monotonic_ms() < deadline_ms:
            await asyncio.sleep(DRAIN_LOOK_S)
        for link in list(self.links):
            link.abort()


def _on_readable(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)
