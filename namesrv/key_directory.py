"""What a secured name server tells of servers' keys, and how it announces changed routes without naming topics.

A broker's key is the one on whose connection it registered. A change is announced by a mark, a keyed hash of the topic's
name, which only who may see the topic is told: so a subscriber learns nothing of the other topics.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

from ..model.security.trusted_file import StaticRow
from ..remoting.commands import GetRoute, RegisterBroker, RouteReply
from ..remoting.security.door import is_open
from ..remoting.security.opened_security import server_keys
from ..remoting.server import Call

MARK_BYTES: Final = 8
ADDRESSES_MAX: Final = 100_000


class KeyDirectory:
    """Of one name server. Loop thread."""

    def __init__(self, secret: str, rows: tuple[StaticRow, ...]) -> None:
        """`secret`: the name server's own key, of which marks are made. `rows`: of the trusted file."""
        self._fixed = server_keys(rows)
        self._told: dict[str, str] = {}
        self._open: dict[str, str] = {}  # a broker's address: its address for clients without a key
        self._marking = hashlib.blake2b(secret.encode(), digest_size=32).digest()

    def on_trusted(self, rows: tuple[StaticRow, ...]) -> None:
        """The trusted file has changed."""
        self._fixed = server_keys(rows)

    def on_register(self, key: str, request: RegisterBroker) -> None:
        """The owner of `key` has registered with these addresses."""
        for address in (request.address, request.replication_address):
            if address and (address in self._told or len(self._told) < ADDRESSES_MAX):
                self._told[address] = key
        if request.open_address:
            self._open[request.address] = request.open_address
        else:
            self._open.pop(request.address, None)

    def all(self) -> tuple[tuple[str, str], ...]:
        """((address, public key), ...)."""
        return tuple({**self._told, **self._fixed}.items())

    def mark_of(self, topic: str) -> str:
        """16 hexadecimal digits."""
        return hashlib.blake2b(topic.encode(), key=self._marking, digest_size=MARK_BYTES).hexdigest()

    def add_to(self, reply: RouteReply, call: Call[GetRoute]) -> RouteReply:
        """The reply with keys and mark; for a client without a key with the addresses that take it."""
        if is_open(call.key):
            brokers = tuple(
                (cluster, name, tuple((number, self._open[at]) for number, at in members if at in self._open))
                for cluster, name, members in reply.brokers
            )
            return replace(reply, brokers=brokers, publish_port=0)
        known = {**self._told, **self._fixed}
        addresses = [address for _, _, members in reply.brokers for _, address in members]
        keys = tuple((address, known[address]) for address in addresses if address in known)
        return replace(reply, server_keys=keys, mark=self.mark_of(call.request.topic))
