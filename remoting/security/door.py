"""What a server's sockets need to be secured: keys, who is let in, what they may do. One for all sockets of a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from ...model.clock import Clock
from ...model.security.access_table import AccessTable
from ...model.security.principals import UserKind
from .admission import OPEN_KEY, Doorkeeper
from .curve_socket import ServerSecurity
from .guard import Guard, Refusal
from .key_file import KeyPair
from .security_config import HANDSHAKES_PER_SECOND


class Door:
    """Opened before the sockets, closed after them; a context manager. `set_access` belongs to the loop's thread."""

    def __init__(
        self,
        pair: KeyPair,
        table: AccessTable,
        clock: Clock,
        *,
        group: str = "",
        open_bind: str = "",
        open_user: str = "",
        handshakes_per_second: int = HANDSHAKES_PER_SECOND,
    ) -> None:
        """`group`: the broker name, of a broker. `open_bind`: "host:port" for those without a key; they have the rights of
        `open_user`."""
        self.open_bind = open_bind
        opener = table.users.get(open_user) if open_bind else None
        self.is_open_to_servers = opener is not None and opener.kind is UserKind.SERVER
        """Servers that have no key yet come by the open port too: to them we are where we were before there were keys."""
        self.guard = Guard(table, group=group, open_user=open_user)
        self.on_denied: Callable[[Refusal], None] = _nothing
        self.doorkeeper = Doorkeeper(
            self.guard.user_of, handshakes_per_second=handshakes_per_second, has_open_port=bool(open_bind)
        )
        self.security = ServerSecurity(pair, self.doorkeeper, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.security.close()

    def set_access(self, table: AccessTable) -> None:
        """The users and rights from now on, for new connections and for requests."""
        self.guard.table = table


def is_open(key: str) -> bool:
    """Whether a request came by the open port."""
    return key.partition("\n")[0] == OPEN_KEY


def _nothing(_: Refusal) -> None:
    """Nobody notes refusals."""
