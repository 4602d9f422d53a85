"""The replication port of one life: one connection a session, as `broker/replication/port` keeps them, without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from zenitmq.broker.replication.chunk_payload import unseal
from zenitmq.broker.replication.frames import Accepted, Chunk, Frame, Opening
from zenitmq.model.errors import RemoteProtocolError

if TYPE_CHECKING:
    from .broker import Broker, World


class Connection:
    """From a slave's life to a master's. `gone`: the master's end knows that it is closed."""

    __slots__ = ("gone", "host", "master", "session", "slave")

    def __init__(self, slave: Broker, session: int, master: Broker) -> None:
        self.slave = slave
        self.session = session
        self.master = master
        self.gone = False


class SimulatedPort:
    """What `Replica` asks of its port, and what arrives for it."""

    def __init__(self, world: World, broker: Broker) -> None:
        self._world = world
        self._broker = broker
        self._dealer: Connection | None = None
        self._connections: dict[tuple[str, int], Connection] = {}
        self._peers: dict[Connection, tuple[str, int]] = {}
        self._asking: tuple[tuple[str, int], Connection] | None = None
        self.accepted: dict[Connection, None] = {}  # connections that reached this life; their slaves see it die

    # ---- as a master

    def send_to_slave(self, peer: str, frame: Frame, payload: tuple[bytes | memoryview, ...] = ()) -> bool:
        """False where the slave's connection is gone."""
        key = (peer, frame.session)
        if self._asking is not None and self._asking[0] == key:
            connection = self._asking[1]
            if isinstance(frame, Accepted):
                before = self._peers.pop(connection, None)
                if before is not None:
                    self._connections.pop(before, None)
                self._connections[key] = connection
                self._peers[connection] = key
        else:
            known = self._connections.get(key)
            if known is None or known.gone:
                return False
            connection = known
        slave = connection.slave
        data = bytes(payload[0]) if payload else b""
        weather_rate = self._world.damage_rate
        if data and weather_rate and self._world.schedule.rng.random() < weather_rate:
            data = bytes([data[0] ^ 1]) + data[1:]

        def arrive() -> None:
            slave.port.on_master_frame(connection, frame, data)

        self._world.network.send(self._broker.name, slave.name, slave, arrive, frame)
        return True

    def shared(self, data: bytes | memoryview) -> bytes | memoryview:
        """As it is."""
        return data

    def forget(self, peer: str, session: int) -> None:
        """The session is closed: what still comes from it is dropped."""
        connection = self._connections.pop((peer, session), None)
        if connection is not None:
            self._peers.pop(connection, None)

    def forget_all(self) -> None:
        """We lead no more."""
        self._connections.clear()
        self._peers.clear()

    def on_slave_frame(self, connection: Connection, frame: Frame) -> None:
        """A frame has arrived on a slave's connection."""
        self.accepted[connection] = None
        peer = self._peers.get(connection)
        replica = self._broker.replica
        if isinstance(frame, Opening):
            self._asking = ((frame.name, frame.session), connection)
            replica.on_slave_frame(frame.name, frame)
            self._asking = None
        elif peer is not None and peer[1] == frame.session:
            replica.on_slave_frame(peer[0], frame)

    # ---- as a slave

    def open_dealer(self, address: str, session: int) -> None:
        """A fresh connection; refused where the machine lives and nobody listens."""
        self.close_dealer()
        world, broker = self._world, self._broker
        target = world.living(address)
        if target is None:
            if world.is_reachable(broker.name, address):
                world.network.send(address, broker.name, broker, lambda: self._on_refused(session), "refused")
            return
        self._dealer = Connection(broker, session, target)

    def _on_refused(self, session: int) -> None:
        self._broker.replica.on_master_lost(session)

    def send_to_master(self, frame: Frame) -> None:
        """What cannot be sent shows as silence."""
        connection = self._dealer
        if connection is None:
            return
        master = connection.master

        def arrive() -> None:
            master.port.on_slave_frame(connection, frame)

        self._world.network.send(self._broker.name, master.name, master, arrive, frame)

    def close_dealer(self) -> None:
        """The master's end learns of it, if the network lets it."""
        connection, self._dealer = self._dealer, None
        if connection is not None:
            tell_gone(self._world, connection)

    def on_master_frame(self, connection: Connection, frame: Frame, data: bytes) -> None:
        """A frame has arrived, alone; of a connection that was closed, nobody hears."""
        if connection is self._dealer:
            self._take(connection, frame, data)
            self._broker.replica.on_master_drained()

    def _take(self, connection: Connection, frame: Frame, data: bytes) -> None:
        replica = self._broker.replica
        if not isinstance(frame, Chunk):
            replica.on_master_frame(cast(Frame, frame), b"")
            return
        try:
            plain = unseal(frame, data)
        except RemoteProtocolError:
            replica.on_bad_master_frame(connection.session)
            return
        replica.on_master_frame(frame, plain)

    # ---- the process has ended

    def on_killed(self) -> None:
        """The kernel closes the sockets of a process that was killed: both sides' peers see it."""
        world = self._world
        if self._dealer is not None:
            tell_gone(world, self._dealer)
        for connection in self.accepted:
            slave = connection.slave
            world.network.send(self._broker.name, slave.name, slave, lost_by(connection), "closed")


def lost_by(connection: Connection) -> Callable[[], None]:
    """What a slave does when its connection's other end is gone."""

    def lose() -> None:
        port = connection.slave.port
        if port._dealer is connection:
            connection.slave.replica.on_master_lost(connection.session)

    return lose


def tell_gone(world: World, connection: Connection) -> None:
    """The slave's end was closed."""

    def close() -> None:
        connection.gone = True

    world.network.send(connection.slave.name, connection.master.name, connection.master, close, "closed")
