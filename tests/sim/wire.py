"""Requests between simulated processes: the loop and the client that the shipped shells stand on, without sockets.

A connection goes from one client to one life of the process that listens at an address. A process that is killed closes
its connections, and the other ends see it where the network lets them; one whose machine went dark is only silent.
Requests and replies are handed over as they are: the header's codec has tests of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from zenitmq.model.errors import ConnectionLost, RequestTimeout, ZenitError
from zenitmq.remoting.commands import Reply, Request

from .network import Network
from .schedule import Host, Schedule, SimulatedTimer

LOST_AFTER_MS: Final = 1
OnReply = Callable[[Reply | None, bytes, ZenitError | None], None]


class Machines(Protocol):
    """Who listens where."""

    schedule: Schedule
    network: Network

    def listener(self, address: str) -> SimulatedLoop | None:
        """The life that listens there now."""

    def is_reachable(self, src: str, dst: str) -> bool:
        """Whether the machine of an address answers at all, if only to refuse."""

    def next_number(self) -> int:
        """Unlike all before."""


@dataclass(eq=False, slots=True)
class Connection:
    """`gone`: the server knows that the client's end is closed. `lost`: the client knows that the server's is."""

    identity: bytes
    client: SimulatedClient
    server: SimulatedLoop
    gone: bool = False
    lost: bool = False


@dataclass(eq=False, slots=True)
class Call:
    """A request that waits for its answer; `deadline_ms` by the clock of whoever answers."""

    identity: bytes
    request: Request
    deadline_ms: int
    answer: Callable[[Reply | None, bytes, ZenitError | None], None]
    payload: bytes = b""
    answered: bool = field(default=False)
    user: str = ""


class SimulatedLoop:
    """`RequestLoop` of one life of a process that listens at `address`. `on_turn_end`: each event is a turn of its own."""

    def __init__(self, machines: Machines, host: Host, address: str) -> None:
        self.address = address
        self.host = host
        self.on_turn_end: Callable[[], None] = bool
        self._machines = machines
        self._handlers: dict[type[Request], Callable[[Any], Reply | None]] = {}
        self._connections: dict[bytes, Connection] = {}
        self._watched: dict[object, Callable[[], None]] = {}

    # ---- what services call

    def handle(self, request_class: type[Request], handler: Callable[[Any], Reply | None]) -> None:
        """`handler` answers requests of this class."""
        self._handlers[request_class] = handler

    def post(self, callback: Callable[[], None]) -> None:
        """Soon."""
        self.host.schedule.after_us(0, partial(self._turn, callback), self.host)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> SimulatedTimer:
        """Once."""
        return self.host.later(delay_ms, partial(self._turn, callback))

    def every(self, interval_ms: int, callback: Callable[[], None]) -> SimulatedTimer:
        """Each interval."""
        return self.host.every(interval_ms, partial(self._turn, callback))

    def _turn(self, callback: Callable[[], None]) -> None:
        callback()
        self.on_turn_end()

    def watch(self, socket: object, on_readable: Callable[[], None]) -> None:
        """`on_readable` where something has come on that socket."""
        self._watched[socket] = on_readable

    def unwatch(self, socket: object) -> None:
        """No more."""
        self._watched.pop(socket, None)

    def reply(self, call: Call, reply: Reply, payload: Iterable[bytes] = ()) -> None:
        """Answers a call."""
        self._settle(call, reply, b"".join(payload), None)

    def fail(self, call: Call, error: ZenitError) -> None:
        """Answers a call with an error."""
        self._settle(call, None, b"", error)

    def send_to(self, identity: bytes, request: Request, payload: Iterable[bytes] = ()) -> bool:
        """Pushes to a connection; False where it is gone."""
        connection = self._connections.get(identity)
        if connection is None or connection.gone:
            return False
        client = connection.client

        def arrive() -> None:
            if not connection.lost:
                client.on_pushed(self.address, request)

        self._machines.network.send(self.host.name, client.host.name, client.host, arrive, request)
        return True

    # ---- what arrives

    def on_readable(self, socket: object) -> None:
        """Something has come on a socket."""
        callback = self._watched.get(socket)
        if callback is not None:
            self._turn(callback)

    def on_request(self, call: Call, connection: Connection | None = None) -> None:
        """A request; of an operator, where there is no connection."""
        if connection is not None:
            self._connections[connection.identity] = connection
        handler = self._handlers.get(type(call.request))
        assert handler is not None, f"{self.address} does not serve {type(call.request).__name__}"
        try:
            reply = handler(call)
        except ZenitError as error:
            self.fail(call, error)
            return
        if reply is not None:
            self.reply(call, reply)

    def _settle(self, call: Call, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        if not call.answered:
            call.answered = True
            call.answer(reply, payload, error)

    def on_killed(self) -> None:
        """The kernel closes the sockets of a process that ends."""
        for connection in self._connections.values():
            client = connection.client
            lose = partial(client.on_lost, connection)
            self._machines.network.send(self.host.name, client.host.name, client.host, lose, "closed")


class SimulatedClient:
    """`RemotingClient` of one life of a process."""

    def __init__(self, machines: Machines, host: Host) -> None:
        self.host = host
        self._machines = machines
        self._connections: dict[str, Connection] = {}
        self._on_request: dict[type[Request], Callable[[str, Any, bytes], None]] = {}
        self._waiting: dict[int, tuple[Connection | None, OnReply]] = {}
        self._serial = 0

    def on_request(self, request_class: type[Request], callback: Callable[[str, Any, bytes], None]) -> None:
        """`callback(address, request, payload)` for what a server sends by itself."""
        self._on_request[request_class] = callback

    def send_nowait(
        self, address: str, request: Request, payload: bytes | None, *, timeout_ms: int, on_reply: OnReply
    ) -> None:
        """`on_reply` is called once, unless this process ends before."""
        self._serial += 1
        number, host = self._serial, self.host
        connection = self._connection(address)
        self._waiting[number] = (connection, on_reply)
        timed_out = RequestTimeout(type(request).__name__, timeout_ms)
        host.after_ms(timeout_ms, partial(self._settle, number, None, b"", timed_out))
        if connection is None:
            if self._machines.is_reachable(host.name, address):
                host.after_ms(LOST_AFTER_MS, partial(self._settle, number, None, b"", ConnectionLost(address)))
            return
        server, network = connection.server, self._machines.network

        def answer(reply: Reply | None, data: bytes, error: ZenitError | None) -> None:
            settle = partial(self._settle, number, reply, data, error)
            network.send(server.host.name, host.name, host, settle, error or reply)

        def arrive() -> None:
            deadline_ms = server.host.monotonic_ms() + timeout_ms
            server.on_request(Call(connection.identity, request, deadline_ms, answer), connection)

        network.send(host.name, server.host.name, server.host, arrive, request)

    def _connection(self, address: str) -> Connection | None:
        known = self._connections.get(address)
        if known is not None and not known.lost:
            if known.server.host.alive or not self._machines.is_reachable(self.host.name, address):
                return known
            self.on_lost(known)  # the machine is there again, and knows nothing of it
        server = self._machines.listener(address)
        if server is None:
            return None
        identity = f"{self.host.name}/{self._machines.next_number()}".encode()
        made = self._connections[address] = Connection(identity, self, server)
        return made

    def _settle(self, number: int, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting[1](reply, payload, error)

    def on_pushed(self, address: str, request: Request) -> None:
        """A server has sent something by itself."""
        callback = self._on_request.get(type(request))
        if callback is not None:
            callback(address, request, b"")

    def on_lost(self, connection: Connection) -> None:
        """The server's end is closed."""
        connection.lost = True
        numbers = [number for number, (asked, _) in self._waiting.items() if asked is connection]
        for number in numbers:
            self._settle(number, None, b"", ConnectionLost(connection.server.address))

    def on_killed(self) -> None:
        """This process has ended: its servers learn of it, where the network lets them."""
        for connection in self._connections.values():
            server = connection.server
            self._machines.network.send(
                self.host.name, server.host.name, server.host, partial(_forget, connection), "closed"
            )


def _forget(connection: Connection) -> None:
    connection.gone = True
