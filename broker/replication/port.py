"""The replication port's sockets: a ROUTER for our slaves while we lead, a DEALER a session while we follow.

It moves frames between the sockets and the replica, which decides. It decodes them and drops everything else. A slave's
session is one connection, known from its acceptance until it is closed: a stranger that opens under another's name
gets nothing of what is sent to that replica. All of this belongs to the loop's thread; the loop watches these sockets beside
its own.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from ...model.errors import RemoteProtocolError, ZenitError
from ...remoting.server import RequestLoop
from ...remoting.server_socket import Payload
from .chunk_payload import unseal
from .frame_codec import decode, encode
from .frames import Accepted, Chunk, Frame, Opening, Side
from .sockets import MasterSocket, ReplicationSockets

log = logging.getLogger(__name__)

FRAMES_PER_TURN: Final = 64  # then requests get their turn
Peer = tuple[str, int]
"""A replica's name and the number of its session."""


class PortListener(Protocol):
    """The one who decides: the replica."""

    def on_slave_frame(self, peer: str, frame: Frame) -> None:
        """A frame from a slave; `peer`: the name that opened this connection."""

    def on_bad_slave_frame(self, peer: str, session: int) -> None:
        """Bytes on a slave's connection are not a valid frame."""

    def on_master_frame(self, frame: Frame, data: bytes | memoryview) -> None:
        """A frame from our master; `data`: the payload of a chunk."""

    def on_master_drained(self) -> None:
        """All received frames were passed on."""

    def on_bad_master_frame(self, session: int) -> None:
        """Bytes from our master are not a valid frame, or damaged."""

    def on_master_lost(self, session: int) -> None:
        """The connection of this session has ended."""


class ReplicationPort:
    """A context manager; bound at construction."""

    def __init__(
        self,
        bind: str,
        loop: RequestLoop,
        listener: PortListener,
        *,
        sockets: ReplicationSockets,
    ) -> None:
        """`bind`: "host:port". Raises ConfigError if the address cannot be bound. Closes `sockets` at its own end."""
        self._loop = loop
        self._listener = listener
        self._sockets = sockets
        self._router = sockets.bind(bind)
        self.address = self._router.address
        self._dealer: MasterSocket | None = None
        self._session = 0
        self._connections: dict[Peer, bytes] = {}  # of accepted sessions that are not closed
        self._peers: dict[bytes, Peer] = {}
        self._asking: tuple[Peer, bytes] | None = None  # whose opening is being handled
        loop.watch(self._router.pollable, self._on_slaves)

    def close(self) -> None:
        """Called before the loop's own sockets are closed."""
        self.close_dealer()
        self._loop.unwatch(self._router.pollable)
        self._router.close()
        self._sockets.close()

    # ---- as a master

    def send_to_slave(self, peer: str, frame: Frame, payload: tuple[Payload, ...] = ()) -> bool:
        """False if the slave's connection is gone, or reads nothing."""
        key = (peer, frame.session)
        if self._asking is not None and self._asking[0] == key:
            identity = self._asking[1]
            if isinstance(frame, Accepted):
                self._learn(identity, key)
        else:
            known = self._connections.get(key)
            if known is None:
                return False
            identity = known
        return self._router.send(identity, encode(frame), payload)

    def shared(self, data: bytes | memoryview) -> Payload:
        """The same bytes as a payload of `send_to_slave`: copied now, and not again for each slave."""
        return self._sockets.shared(data)

    def forget(self, peer: str, session: int) -> None:
        """The session is closed: further frames of it are dropped."""
        identity = self._connections.pop((peer, session), None)
        if identity is not None:
            self._peers.pop(identity, None)

    def forget_all(self) -> None:
        """We are no longer master."""
        self._connections.clear()
        self._peers.clear()

    def _on_slaves(self) -> None:
        for _ in range(FRAMES_PER_TURN):
            # The socket is asked first: mostly one frame has come, and an exception that says "no more" costs several
            # times as much.
            received = self._router.receive_nowait() if self._router.has_more() else None
            if received is None:
                return
            identity, data, more = received
            if more:
                self._router.skip_payload()
            self._on_slave_data(identity, data, more=more)

    def _on_slave_data(self, identity: bytes, data: bytes, *, more: bool) -> None:
        peer = self._peers.get(identity)
        try:
            if more:
                raise RemoteProtocolError("a frame with a payload, from a slave")
            frame = decode(data, Side.MASTER)
        except RemoteProtocolError as error:
            if peer is not None:
                log.warning("a malformed frame replica=%s error=%s", peer[0], error)
                self._listener.on_bad_slave_frame(*peer)
            return
        if isinstance(frame, Opening):
            if not self._sockets.admits(self._router.peer_key, frame.name):
                log.warning("an opening under another's name is dropped replica=%s", frame.name)
                return
            self._asking = ((frame.name, frame.session), identity)
            self._listener.on_slave_frame(frame.name, frame)
            self._asking = None
        elif peer is not None and peer[1] == frame.session:
            self._listener.on_slave_frame(peer[0], frame)

    def _learn(self, identity: bytes, peer: Peer) -> None:
        """The session was accepted. One connection is one session: its former session is forgotten."""
        before = self._peers.pop(identity, None)
        if before is not None:
            self._connections.pop(before, None)
        self._connections[peer] = identity
        self._peers[identity] = peer

    # ---- as a slave

    def open_dealer(self, address: str, session: int) -> None:
        """Opens a fresh connection to the master at `address`; if even that fails, it is lost at once."""
        self.close_dealer()
        try:
            dealer = self._sockets.connect(address)
        except ZenitError as error:
            log.warning("cannot connect to the master address=%s error=%s", address, error)
            return
        self._dealer, self._session = dealer, session
        socket, monitor = dealer.pollables
        self._loop.watch(socket, self._on_master)
        self._loop.watch(monitor, self._on_monitor)

    def send_to_master(self, frame: Frame) -> None:
        """A frame that cannot be sent shows at the master as silence."""
        if self._dealer is not None:
            self._dealer.send(encode(frame), None)

    def close_dealer(self) -> None:
        """Closes the connection to the master, if there is one."""
        dealer, self._dealer = self._dealer, None
        if dealer is not None:
            for socket in dealer.pollables:
                self._loop.unwatch(socket)
            dealer.close()

    def _on_master(self) -> None:
        for _ in range(FRAMES_PER_TURN):
            if not self._take_from_master():
                break
        self._listener.on_master_drained()

    def _take_from_master(self) -> bool:
        """Handles one frame; False if none has come."""
        dealer, session = self._dealer, self._session
        if dealer is None:
            return False
        try:
            received = dealer.receive_view_nowait() if dealer.has_more() else None
            if received is None:
                return False
            frame = decode(received[0], Side.SLAVE)
            data = unseal(frame, received[1]) if isinstance(frame, Chunk) else b""
        except RemoteProtocolError as error:
            log.warning("a malformed frame of the master address=%s error=%s", dealer.address, error)
            self._listener.on_bad_master_frame(session)
        else:
            self._listener.on_master_frame(frame, data)
        return True

    def _on_monitor(self) -> None:
        dealer, session = self._dealer, self._session
        if dealer is not None and dealer.is_lost():
            self._listener.on_master_lost(session)
