"""Reads groups for a term: all of them first, then each one that changed; again if ZooKeeper did not answer.

`is_ready` once all existing groups have been read. The sightings (`seen`) are read once, with all of them: the
term itself writes them, and no other does meanwhile. A watch only says that it is time to read; a group that changes while
it is being read is read again. Loop thread, except the functions at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ..model.clock import Clock
from ..model.errors import BrokerBusy, GroupNodeDamaged, InvalidName, SightingsDamaged, ZenitError
from ..model.groups.group import KnownGroup, Seen
from .group_store import GroupStore
from .store_worker import StoreWorker

READ_AGAIN_MS: Final = 500

Found = KnownGroup | GroupNodeDamaged | None
"""A node as read; None: there is none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading some groups; `seen`: if all were read."""

    found: dict[str, Found]
    seen: dict[str, Seen | SightingsDamaged] = field(default_factory=dict)


class NodeReader:
    """`on_seen(broker_name, seen)` for what was seen of groups, then `on_found(broker_name, found)` for every node that was
    read, in no order."""

    def __init__(
        self,
        store: GroupStore,
        worker: StoreWorker,
        clock: Clock,
        *,
        on_found: Callable[[str, Found], None],
        on_seen: Callable[[str, Seen | SightingsDamaged], None],
    ) -> None:
        self.is_ready = False
        self._store = store
        self._worker = worker
        self._clock = clock
        self._on_found = on_found
        self._on_seen = on_seen
        self._unread: set[str] = set()
        self._must_list = True
        self._again_ms = 0
        self._closed = False

    def begin(self) -> None:
        """Reads everything."""
        self._read()

    def close(self) -> None:
        """Later answers are ignored."""
        self._closed = True

    def on_touched(self, broker_name: str | None) -> None:
        """A node has changed, or (None) the list of them."""
        if broker_name is None:
            self._must_list = True
        else:
            self._unread.add(broker_name)
        self._read()

    def read_soon(self, broker_name: str) -> None:
        """Reads the next of those that are due."""
        self._unread.add(broker_name)

    def on_tick(self) -> None:
        """Reads again what was not answered."""
        if (self._unread or self._must_list) and self._clock.monotonic_ms() >= self._again_ms:
            self._read()

    def _read(self) -> None:
        self._again_ms = self._clock.monotonic_ms() + READ_AGAIN_MS
        names = frozenset(self._unread)
        work = read_all if self._must_list else read_each
        try:
            self._worker.ask(partial(work, self._store, names), partial(self._on_read, names, self._must_list))
        except BrokerBusy:
            return
        self._unread.clear()
        self._must_list = False

    def _on_read(self, names: frozenset[str], listed: bool, result: Reading | ZenitError) -> None:
        if self._closed:
            return
        if isinstance(result, ZenitError):
            self._unread |= names
            self._must_list = self._must_list or listed
            return
        for name, seen in result.seen.items():
            self._on_seen(name, seen)
        for name, found in result.found.items():
            self._on_found(name, found)
        self.is_ready = self.is_ready or listed


def read_all(store: GroupStore, also: frozenset[str]) -> Reading:
    """Worker thread: every group, and all sightings. Raises ZooKeeperUnavailable."""
    seen: dict[str, Seen | SightingsDamaged] = {}
    for name in store.seen_names():
        try:
            seen[name] = store.read_seen(name)
        except SightingsDamaged as error:
            seen[name] = error
        except InvalidName:
            continue
    return Reading(read_each(store, also | frozenset(store.broker_names())).found, seen)


def read_each(store: GroupStore, names: frozenset[str]) -> Reading:
    """Worker thread: these groups. An invalid group name is left out. Raises ZooKeeperUnavailable."""
    found: dict[str, Found] = {}
    for name in sorted(names):
        try:
            found[name] = store.read(name)
        except GroupNodeDamaged as error:
            found[name] = error
        except InvalidName:
            continue
    return Reading(found)
