"""The bytes that a process holds for its clients: how many for all, and how many for one connection. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from ...model.errors import BrokerBusy

SHARE: Final = 8
"""One connection has at most this part of all: who asks for much and reads nothing leaves room for others."""
RETRY_AFTER_MS: Final = 100


class ClientRoom:
    """On the event loop. `bytes_max`: of all connections."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.held = 0
        self._of_owners: dict[Hashable, int] = {}

    def take(self, size_bytes: int, owner: Hashable) -> None:
        """For a connection. Raises BrokerBusy where there is no room; who holds nothing may take more than a share."""
        own = self._of_owners.get(owner, 0)
        if self.held + size_bytes > self._bytes_max or (own and own + size_bytes > self._bytes_max // SHARE):
            raise BrokerBusy(
                RETRY_AFTER_MS, f"this proxy holds {self.held} bytes for its clients, {own} of them for this one"
            )
        self.held += size_bytes
        if size_bytes:
            self._of_owners[owner] = own + size_bytes

    def give_back(self, size_bytes: int, owner: Hashable) -> None:
        """What was taken."""
        self.held -= size_bytes
        own = self._of_owners.pop(owner, 0) - size_bytes
        if own:
            self._of_owners[owner] = own

    def check(self, owner: Hashable) -> None:
        """Raises BrokerBusy where not even a little more has room."""
        self.take(1, owner)
        self.give_back(1, owner)
