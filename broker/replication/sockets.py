"""The sockets under the replication port: a ROUTER for slaves, a DEALER a session; real ZeroMQ or simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...remoting.client_socket import ClientContext
from ...remoting.security.opened_security import Secured
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

    @property
    def peer_key(self) -> str:
        """The key of who sent the message just received; "" where nobody needs one."""

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

    def admits(self, key: str, replica: str) -> bool:
        """Whether the owner of a key may open a session as this replica; always where nobody needs one."""

    def shared(self, data: bytes | memoryview) -> Payload:
        """The same as a payload for several receivers: copied once."""

    def close(self) -> None:
        """Closes everything; called last."""


def _everybody(_key: str, _replica: str) -> bool:
    return True


class ZeroMqSockets:
    """Real ZeroMQ sockets; only servers are let in where there are keys."""

    def __init__(self, secured: Secured | None = None, admits: Callable[[str, str], bool] = _everybody) -> None:
        """`admits`: see `ReplicationSockets`; everybody is admitted where nobody needs a key."""
        self.admits = admits
        self._door = secured.door if secured is not None else None
        self._context = ClientContext(secured.keys if secured is not None else None)

    def bind(self, address: str) -> SlavesSocket:
        """See `ReplicationSockets`."""
        door = self._door
        if door is None:
            return RouterSocket(address, FRAME_BYTES_MAX, only_servers=True)
        is_open = door.is_open_to_servers
        return RouterSocket(address, FRAME_BYTES_MAX, door.security, only_servers=True, is_open=is_open)

    def connect(self, address: str) -> MasterSocket:
        """See `ReplicationSockets`."""
        return self._context.dealer(address, MAXMSGSIZE=CHUNK_BYTES_MAX)

    def shared(self, data: bytes | memoryview) -> Payload:
        """See `ReplicationSockets`."""
        return shared_payload(data)

    def close(self) -> None:
        """See `ReplicationSockets`."""
        self._context.close()
