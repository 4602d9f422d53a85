"""The keys with which a process connects to servers: its own pair, and what it knows of theirs.

Any thread. A server may have two public keys while they are changed: after a handshake that failed the other one is tried.
While a cluster is being secured, a server may have no key yet: that is tried by turns too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ...model.errors import ServerKeyUnknown
from ...model.security.principals import KEYS_MAX
from .key_file import KeyFile, KeyPair

ADDRESSES_MAX: Final = 100_000
WITHOUT: Final = ""
"""In place of a server's key: it is connected to as one that has none."""

Finder = Callable[[str], tuple[str, ...]]
"""(address) -> the public keys that the server there may have; () = not known."""


class KeyRing:
    """`pair`: our own. `servers`: keys that are known from the start, by address; nothing that is told replaces them."""

    def __init__(self, pair: KeyPair, servers: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.pair = pair
        self._fixed = dict(servers or {})
        self._told: dict[str, tuple[str, ...]] = {}
        self._turns: dict[str, int] = {}
        self._lock = threading.Lock()
        self.find: Finder | None = None
        """Asked about an address that is not known otherwise; must not wait long."""
        self.takes_open = False
        """Whether a server without a key will do, which whoever sits in between can pretend to be."""

    @classmethod
    def of(cls, key: KeyFile) -> KeyRing:
        """Of a key file."""
        return cls(key.pair, key.servers)

    def learn(self, servers: Iterable[tuple[str, str]]) -> None:
        """(address, public key) as a name server tells them: of each address all keys, the newest last. What was told of it
        before counts no more: a key that was replaced may be in wrong hands."""
        told: dict[str, tuple[str, ...]] = {}
        for address, key in servers:
            others = (each for each in told.get(address, ()) if each != key)
            told[address] = (key, *others)[:KEYS_MAX]
        with self._lock:
            for address, keys in told.items():
                if self._told.get(address) == keys:
                    continue
                if len(self._told) >= ADDRESSES_MAX:
                    self._told.clear()
                self._told[address] = keys
                self._turns.pop(address, None)

    def fix(self, address: str, key: str) -> None:
        """A key that is known from elsewhere, for an address at which nobody was expected."""
        with self._lock:
            self._fixed.setdefault(address, (key,))

    def key_of(self, address: str) -> str:
        """The public key to expect at this address; "" = it is to be tried without one. Raises ServerKeyUnknown."""
        found = self._candidates(address)
        if self.takes_open:
            found = (*found, WITHOUT)
        if not found:
            raise ServerKeyUnknown(address)
        return found[self._turns.get(address, 0) % len(found)]

    def on_failed(self, address: str) -> None:
        """A handshake failed there: the server may have its other key by now, or its first."""
        with self._lock:
            self._turns[address] = self._turns.get(address, 0) + 1

    def _candidates(self, address: str) -> tuple[str, ...]:
        with self._lock:
            known = self._fixed.get(address) or self._told.get(address)
        if known or self.find is None:
            return known or ()
        return self.find(address)
