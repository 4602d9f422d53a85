"""Clients of this process that can be asked something by their own protocol: what their threads do, and to handle one message.

A front enters those that can, for as long as they can. Whoever has an operator's question asks here, by client id. Pure.
"""

from __future__ import annotations

from typing import Protocol

from ...model.errors import InvalidParameter
from ...model.plain_dataclass import dataclass
from ...record.kernel import StoredMessage


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a message that a client was asked to handle. `remark`: what it said of it, in its own words."""

    is_success: bool
    remark: str


class AskedClient(Protocol):
    """A client, as its front sees it."""

    async def thread_stacks(self) -> str:
        """What its threads do, as text. Raises RequestTimeout, ZenitError."""

    async def handle(self, message: StoredMessage) -> Handled:
        """It handles a message, as if it had received it; nothing is acknowledged. Raises RequestTimeout, ZenitError."""


class AskedClients:
    """Of one process; on the event loop."""

    def __init__(self) -> None:
        self._clients: dict[str, AskedClient] = {}

    def enter(self, client_id: str, client: AskedClient) -> None:
        """It can be asked from now on."""
        self._clients[client_id] = client

    def leave(self, client_id: str, client: AskedClient) -> None:
        """It cannot any more."""
        if self._clients.get(client_id) is client:
            del self._clients[client_id]

    def client_ids(self) -> list[str]:
        """Of those that can be asked now."""
        return sorted(self._clients)

    def find(self, client_id: str) -> AskedClient:
        """Raises InvalidParameter."""
        client = self._clients.get(client_id)
        if client is None:
            raise InvalidParameter(
                "client_id", client_id[:64], "a client that this process of the proxy has a stream of"
            )
        return client
