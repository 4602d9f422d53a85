"""The sockets under the replication port: a ROUTER for slaves, a DEALER a session; real ZeroMQ or simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...remoting.client_socket import ClientContext
from ...remoting.server_socket import Payload, RouterSocket, shared_payload
from .frames import CHUNK_BYTES_MAX, FRAME_BYTES_MAX


class SlavesSocket(Protocol):
    """The master's end: receives [identity, header] and sends [identity, header, payload...]. No method waits."""

    address: str

    @property
    def pollable(self) -> Any:
        """The file descriptors that the loop watches."""

    def has_more(self) -> bool:
        """True if a message has come."""

    def receive_nowait(self) -> tuple[bytes, bytes, bool] | None:
        """(identity, header, whether payload frames follow) of the next message; None if there is none."""

    def skip_payload(self) -> None:
        """Drops the payload frames of the message just received."""

    def send(self, identity: bytes, header: bytes, payload: Sequence[Payload]) -> bool:
        """False if that connection is gone, or reads nothing."""

    def close(self) -> None:
        """Called once the loop no longer watches it."""


class MasterSocket(Protocol):
    """A slave's end: one connection, one session. No method waits."""

    address: str

    @property
    def pollables(self) -> tuple[Any, Any]:
        """What the loop watches: the socket, and the monitor that `is_lost` looks at."""

    def has_more(self) -> bool:
        """True if a message has come."""

    def receive_view_nowait(self) -> tuple[bytes, bytes | memoryview] | None:
        """(header, payload) of the next message; None if there is none. Raises RemoteProtocolError."""

    def send(self, header: bytes, payload: None) -> bool:
        """False if it could not be queued."""

    def is_lost(self) -> bool:
        """True after the connection was refused or has ended."""

    def close(self) -> None:
        """Ends the connection."""


class ReplicationSockets(Protocol):
    """Makes both kinds of sockets."""

    def bind(self, address: str) -> SlavesSocket:
        """Listens at "host:port". Raises ConfigError if that is taken."""

    def connect(self, address: str) -> MasterSocket:
        """Opens a connection. Raises ZenitError if that fails at once."""

    def shared(self, data: bytes | memoryview) -> Payload:
        """The same as a payload for several receivers: copied once."""

    def close(self) -> None:
        """Closes everything; called last."""


class ZeroMqSockets:
    """Real ZeroMQ sockets."""

    def __init__(self) -> None:
        self._context = ClientContext()

    def bind(self, address: str) -> SlavesSocket:
        """See `ReplicationSockets`."""
        return RouterSocket(address, FRAME_BYTES_MAX)

    def connect(self, address: str) -> MasterSocket:
        """See `ReplicationSockets`."""
        return self._context.dealer(address, MAXMSGSIZE=CHUNK_BYTES_MAX)

    def shared(self, data: bytes | memoryview) -> Payload:
        """See `ReplicationSockets`."""
        return shared_payload(data)

    def close(self) -> None:
        """See `ReplicationSockets`."""
        self._context.close()
