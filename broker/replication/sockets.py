"""What the replication port stands on: a ROUTER for slaves, a DEALER a session; ZeroMQ's, or a simulation's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...remoting.client_socket import ClientContext
from ...remoting.server_socket import Payload, RouterSocket, shared_payload
from .frames import CHUNK_BYTES_MAX, FRAME_BYTES_MAX


class SlavesSocket(Protocol):
    """The master's end: receives [identity, header] and sends [identity, header, payload...]. Nothing waits."""

    address: str

    @property
    def pollable(self) -> Any:
        """What the loop watches."""

    def has_more(self) -> bool:
        """True where a message has come."""

    def receive_nowait(self) -> tuple[bytes, bytes, bool] | None:
        """(identity, header, whether payload frames follow), of what has come; None where nothing has."""

    def skip_payload(self) -> None:
        """Drops the payload frames of the message just received."""

    def send(self, identity: bytes, header: bytes, payload: Sequence[Payload]) -> bool:
        """False where that connection is gone, or reads nothing."""

    def close(self) -> None:
        """Once the loop does not watch it any more."""


class MasterSocket(Protocol):
    """A slave's end: one connection, one session. Nothing waits."""

    address: str

    @property
    def pollables(self) -> tuple[Any, Any]:
        """What the loop watches: the socket, and the monitor that `is_lost` looks at."""

    def has_more(self) -> bool:
        """True where a message has come."""

    def receive_view_nowait(self) -> tuple[bytes, bytes | memoryview] | None:
        """(header, payload), of what has come; None where nothing has. Raises RemoteProtocolError."""

    def send(self, header: bytes, payload: None) -> bool:
        """False where it could not be queued."""

    def is_lost(self) -> bool:
        """True once the connection was refused or has ended."""

    def close(self) -> None:
        """Ends the connection."""


class ReplicationSockets(Protocol):
    """Where both come from."""

    def bind(self, address: str) -> SlavesSocket:
        """Listens at "host:port". Raises ConfigError where that is taken."""

    def connect(self, address: str) -> MasterSocket:
        """Begins a connection. Raises ZenitError where it cannot even be begun."""

    def shared(self, data: bytes | memoryview) -> Payload:
        """The same as a payload for several receivers: copied once."""

    def close(self) -> None:
        """Last of all."""


class ZeroMqSockets:
    """Real ones."""

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
