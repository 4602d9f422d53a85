"""The sockets under the shipped replication port: one connection a session, frames as bytes, no kernel.

A process that is killed closes its connections, and the other ends see it where the network lets them; a machine that
goes dark is only silent, and nobody refuses a connection to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

from zenitmq.broker.replication.frames import Side

from .schedule import Host
from .wire import Machines, SimulatedLoop

REFUSED_AFTER_MS: Final = 1


class Harbour(Machines, Protocol):
    """Who listens for slaves where, and how often a payload is damaged on its way."""

    damage_rate: float

    def router(self, address: str) -> SimulatedRouter | None:
        """Of the life that listens there now."""


class Connection:
    """`gone`: the master's end knows that it is closed. `lost`: the slave's end does."""

    __slots__ = ("dealer", "gone", "identity", "lost", "router")

    def __init__(self, identity: bytes, dealer: SimulatedDealer, router: SimulatedRouter | None) -> None:
        self.identity = identity
        self.dealer = dealer
        self.router = router
        self.gone = self.lost = False


class SimulatedRouter:
    """`SlavesSocket` of one life."""

    def __init__(self, harbour: Harbour, host: Host, loop: SimulatedLoop, address: str) -> None:
        self.address = address
        self.host = host
        self._harbour = harbour
        self._loop = loop
        self._inbox: deque[tuple[bytes, bytes, bool]] = deque()
        self._connections: dict[bytes, Connection] = {}

    @property
    def pollable(self) -> Any:
        """See `SlavesSocket`."""
        return self

    def has_more(self) -> bool:
        """See `SlavesSocket`."""
        return bool(self._inbox)

    def receive_nowait(self) -> tuple[bytes, bytes, bool] | None:
        """See `SlavesSocket`."""
        return self._inbox.popleft() if self._inbox else None

    @property
    def peer_key(self) -> str:
        """See `SlavesSocket`."""
        return ""

    def skip_payload(self) -> None:
        """No slave sends one."""

    def send(self, identity: bytes, header: bytes, payload: Sequence[Any]) -> bool:
        """See `SlavesSocket`."""
        connection = self._connections.get(identity)
        if connection is None or connection.gone:
            return False
        harbour, dealer = self._harbour, connection.dealer
        data = bytes(payload[0]) if payload else b""
        if data and harbour.damage_rate and harbour.schedule.rng.random() < harbour.damage_rate:
            data = bytes([data[0] ^ 1]) + data[1:]
        arrive = partial(dealer.on_message, header, data)
        harbour.network.send(self.host.name, dealer.host.name, dealer.host, arrive, (Side.SLAVE, header))
        return True

    def close(self) -> None:
        """See `SlavesSocket`."""
        self.on_killed()

    # ---- the kernel's side

    def on_message(self, connection: Connection, header: bytes) -> None:
        """A frame has arrived."""
        self._connections[connection.identity] = connection
        self._inbox.append((connection.identity, header, False))
        self._loop.on_readable(self)

    def on_killed(self) -> None:
        """The process has ended, not its machine."""
        for connection in self._connections.values():
            dealer = connection.dealer
            self._harbour.network.send(self.host.name, dealer.host.name, dealer.host, dealer.on_lost, "closed")


class SimulatedDealer:
    """`MasterSocket` of one session."""

    def __init__(self, harbour: Harbour, host: Host, loop: SimulatedLoop, address: str) -> None:
        self.address = address
        self.host = host
        self._harbour = harbour
        self._loop = loop
        self._inbox: deque[tuple[bytes, bytes]] = deque()
        identity = f"{host.name}/{harbour.next_number()}".encode()
        self._monitor = object()
        self._is_closed = False
        self._connection = Connection(identity, self, harbour.router(address))
        if self._connection.router is None and harbour.is_reachable(host.name, address):
            host.after_ms(REFUSED_AFTER_MS, self.on_lost)

    @property
    def pollables(self) -> tuple[Any, Any]:
        """See `MasterSocket`."""
        return self, self._monitor

    def has_more(self) -> bool:
        """See `MasterSocket`."""
        return bool(self._inbox)

    def receive_view_nowait(self) -> tuple[bytes, bytes | memoryview] | None:
        """See `MasterSocket`."""
        return self._inbox.popleft() if self._inbox else None

    def send(self, header: bytes, payload: None) -> bool:
        """See `MasterSocket`."""
        connection, router = self._connection, self._connection.router
        if router is not None:
            arrive = partial(router.on_message, connection, header)
            self._harbour.network.send(self.host.name, router.host.name, router.host, arrive, (Side.MASTER, header))
        return True

    def is_lost(self) -> bool:
        """See `MasterSocket`."""
        return self._connection.lost

    def close(self) -> None:
        """The master's end learns of it, if the network lets it."""
        self._is_closed = True
        connection, router = self._connection, self._connection.router
        if router is not None:
            forget = partial(_forget, connection)
            self._harbour.network.send(self.host.name, router.host.name, router.host, forget, "closed")

    # ---- the kernel's side

    def on_message(self, header: bytes, data: bytes) -> None:
        """A frame has arrived; of a connection that was closed, nobody hears."""
        if not self._is_closed:
            self._inbox.append((header, data))
            self._loop.on_readable(self)

    def on_lost(self) -> None:
        """The master's end is closed, or refused the connection."""
        if not self._is_closed:
            self._connection.lost = True
            self._loop.on_readable(self._monitor)


class SimulatedSockets:
    """`ReplicationSockets` of one life; `replication_address` is where it listens."""

    def __init__(self, harbour: Harbour, host: Host, loop: SimulatedLoop) -> None:
        self._harbour = harbour
        self._host = host
        self._loop = loop
        self.bound: SimulatedRouter | None = None
        self._dealers: list[SimulatedDealer] = []

    def bind(self, address: str) -> SimulatedRouter:
        """See `ReplicationSockets`."""
        self.bound = SimulatedRouter(self._harbour, self._host, self._loop, address)
        return self.bound

    def connect(self, address: str) -> SimulatedDealer:
        """See `ReplicationSockets`."""
        dealer = SimulatedDealer(self._harbour, self._host, self._loop, address)
        self._dealers = [one for one in self._dealers if not one._is_closed] + [dealer]
        return dealer

    def admits(self, key: str, replica: str) -> bool:
        """See `ReplicationSockets`; nobody needs a key here."""
        return True

    def shared(self, data: bytes | memoryview) -> bytes | memoryview:
        """As it is."""
        return data

    def close(self) -> None:
        """Nothing is held."""

    def on_killed(self) -> None:
        """The kernel closes the sockets of a process that was killed: both sides' peers see it."""
        for dealer in self._dealers:
            if not dealer._is_closed:
                dealer.close()
        if self.bound is not None:
            self.bound.on_killed()


def _forget(connection: Connection) -> None:
    connection.gone = True
