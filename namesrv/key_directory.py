"""What a secured name server tells of servers' keys, and how it announces changed routes without naming topics.

A broker's key is the one on whose connection it registered. No server takes the place of another one that is there: its clients
would be told a wrong key. A change is announced by a mark, a keyed hash of the topic's
name, which only who may see the topic is told: so a subscriber learns nothing of the other topics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ..model.errors import AccessDenied
from ..model.security.principals import ANY, User
from ..model.security.trusted_file import StaticRow
from ..remoting.commands import GetRoute, RegisterBroker, RouteReply
from ..remoting.security.door import is_open
from ..remoting.security.opened_security import server_keys
from ..remoting.server import Call

MARK_BYTES: Final = 8
ADDRESSES_MAX: Final = 100_000
NAME_MAX: Final = 80  # characters of a name in an error


class KeyDirectory:
    """Of one name server. Loop thread."""

    def __init__(self, secret: str, rows: tuple[StaticRow, ...]) -> None:
        """`secret`: the name server's own key, of which marks are made. `rows`: of the trusted file."""
        self._told: dict[str, tuple[str, str]] = {}  # address: (the server's user, its key)
        self.on_trusted(rows)
        self._open: dict[str, str] = {}  # a broker's address: its address for clients without a key
        self._marking = hashlib.blake2b(secret.encode(), digest_size=32).digest()

    def on_trusted(self, rows: tuple[StaticRow, ...]) -> None:
        """The trusted file has changed."""
        self._fixed = server_keys(rows)
        self._fixed_of = {address: row.user.name for row in rows for address in row.addresses if row.user.keys}

    def check(self, user: User, request: RegisterBroker, is_living: Callable[[str], bool]) -> None:
        """`is_living`: whether a broker is registered with an address. Raises AccessDenied if the server is of another cluster,
        or the address is that of another server."""
        if user.binding is not None and user.binding.cluster not in (ANY, request.cluster):
            raise AccessDenied(user.name, "serve", f"cluster:{request.cluster[:NAME_MAX]}")
        for address in filter(None, (request.address, request.replication_address)):
            told_of, _ = self._told.get(address, (user.name, ""))
            is_taken = told_of != user.name and is_living(address)
            if is_taken or self._fixed_of.get(address, user.name) != user.name:
                raise AccessDenied(user.name, "serve", f"address:{address[:NAME_MAX]}")

    def check_own(self, user: User, address: str) -> None:
        """Raises AccessDenied if another server has registered with this address: no replica speaks for another."""
        told_of, _ = self._told.get(address, (user.name, ""))
        if told_of != user.name:
            raise AccessDenied(user.name, "serve", f"address:{address[:NAME_MAX]}")

    def on_register(self, user: str, key: str, request: RegisterBroker) -> None:
        """The user with this key has registered with these addresses. One that has no key is reached without one."""
        if is_open(key):
            if len(self._open) < ADDRESSES_MAX:
                self._open[request.address] = request.address
            return
        for address in (request.address, request.replication_address):
            if address and (address in self._told or len(self._told) < ADDRESSES_MAX):
                self._told[address] = user, key
        if request.open_address and request.address in self._told:
            self._open[request.address] = request.open_address
        else:
            self._open.pop(request.address, None)

    def all(self) -> tuple[tuple[str, str], ...]:
        """((address, public key), ...)."""
        told = ((address, key) for address, (_, key) in self._told.items() if address not in self._fixed_of)
        return (*told, *self._fixed)

    def seen_by(self, document: dict[str, Any], key: str) -> dict[str, Any]:
        """What GetClusterInfo answers: a client without a key is told the addresses that take it."""
        if not is_open(key):
            return document
        brokers = [{**one, "address": self._open.get(one["address"], one["address"])} for one in document["brokers"]]
        return {**document, "brokers": brokers}

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
        addresses = [address for _, _, members in reply.brokers for _, address in members]
        keys = tuple(pair for pair in self.all() if pair[0] in addresses)
        return replace(reply, server_keys=keys, mark=self.mark_of(call.request.topic))
