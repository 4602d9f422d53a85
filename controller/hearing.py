"""Listens to replicas in one term: which know more than ZooKeeper, and which were not heard yet. Loop thread.

A new term has only the data in ZooKeeper, which may have been set back (set_back). So before it writes an existing group
it *listens*: until each replica of the group has registered or sent a heartbeat, for LISTEN_MS at most. A living replica
sends a heartbeat each 0.5 s, so its knowledge is heard before anything is built on a node that was set back. Before the term
founds a group it listens longer (founding): the first replica to register may be the one that was wiped.

A sighting counts from the moment it is heard and is stored in ZooKeeper at once, so that the next term knows it too. If
that fails it is tried again with the next heartbeat or registration: the replica goes on registering.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from ..model.errors import BrokerBusy, SightingsDamaged, TooManyLostGroups, ZenitError
from ..model.groups.group import KnownGroup, Seen, Sighting
from ..remoting.commands import SEEN_DAMAGED
from .group.set_back import check_not_set_back, newest_epoch_seen
from .group_store import GroupStore
from .store_worker import StoreWorker

log = logging.getLogger(__name__)

LISTEN_MS: Final = 1000
"""Two heartbeats. Longer: a new leading controller writes later if a replica is dead; shorter: a slow replica is missed."""


SEEN_GROUPS_MAX: Final = 1000
"""The most groups without a node that are remembered: anybody who reaches the port may name one."""

_ANYBODY: Final = ""
"""Not a valid replica name: stands for unknown replicas that have not been heard."""


class Hearing:
    """`on_heard_out(broker_name)`: the group was listened to long enough."""

    def __init__(
        self, store: GroupStore, worker: StoreWorker, *, listen_ms: int, on_heard_out: Callable[[str], None]
    ) -> None:
        self._store = store
        self._worker = worker
        self._listen_ms = listen_ms
        self._on_heard_out = on_heard_out
        self._seen: dict[str, Seen | SightingsDamaged] = {}
        self._said_full = False
        self._unkept: set[tuple[str, Sighting]] = set()  # heard, and not known to be in ZooKeeper
        self._unheard: dict[str, set[str]] = {}  # replicas of the groups that are listened to
        self._ends_ms: dict[str, int] = {}

    # ---- listening

    def listen(self, broker_name: str, names: Iterable[str], now_ms: int) -> bool:
        """Begins to listen to a group; False if there is nobody to wait for."""
        unheard = set(names)
        if not unheard or self._listen_ms == 0:
            return False
        self._unheard[broker_name], self._ends_ms[broker_name] = unheard, now_ms + self._listen_ms
        return True

    def listen_to_all(self, broker_name: str, ends_ms: int) -> None:
        """Begins to listen for replicas of a group that ZooKeeper does not know."""
        self._unheard[broker_name], self._ends_ms[broker_name] = {_ANYBODY}, ends_ms

    def end_listening_to_all(self, broker_name: str) -> None:
        """No replica is left that could know of the group."""
        if self._unheard.get(broker_name) == {_ANYBODY}:
            self._end(broker_name)

    def listens_to(self, broker_name: str) -> bool:
        """True while not all of its replicas were heard and the time is not over."""
        return broker_name in self._unheard

    def on_heard(self, broker_name: str, name: str) -> None:
        """A replica has registered, or tried to, or sent a heartbeat."""
        unheard = self._unheard.get(broker_name)
        if unheard is not None:
            unheard.discard(name)
            if not unheard:
                self._end(broker_name)

    def on_tick(self, now_ms: int) -> None:
        """Time has passed."""
        for name in [name for name, ends_ms in self._ends_ms.items() if now_ms >= ends_ms]:
            missing = sorted(self._unheard[name] - {_ANYBODY})
            log.info("listened long enough group=%s not_heard=%s", name, ",".join(missing))
            self._end(name)

    def _end(self, broker_name: str) -> None:
        del self._unheard[broker_name], self._ends_ms[broker_name]
        self._on_heard_out(broker_name)

    # ---- who knows more

    @property
    def broker_names(self) -> frozenset[str]:
        """The groups of which anything was ever seen."""
        return frozenset(self._seen)

    def is_damaged(self, broker_name: str) -> bool:
        """The sightings of a group cannot be read."""
        return isinstance(self._seen.get(broker_name), SightingsDamaged)

    def on_seen(self, broker_name: str, seen: Seen | SightingsDamaged) -> None:
        """The sightings stored in ZooKeeper."""
        self._seen[broker_name] = seen

    def seen(self, broker_name: str) -> Seen | None:
        """The sightings of a group. Raises SightingsDamaged."""
        seen = self._seen.get(broker_name)
        if isinstance(seen, SightingsDamaged):
            raise seen
        return seen

    def epoch_seen(self, broker_name: str, known: KnownGroup | None) -> int:
        """The epoch of the newest node that a replica knows, if ZooKeeper's is older; otherwise 0. SEEN_DAMAGED if the
        sightings are invalid."""
        seen = self._seen.get(broker_name)
        return SEEN_DAMAGED if isinstance(seen, SightingsDamaged) else newest_epoch_seen(seen, known)

    def check(self, broker_name: str, known: KnownGroup | None) -> None:
        """Raises GroupNodeLost if a replica knows of a newer node, SightingsDamaged if that cannot be told; for a group
        without a node, TooManyLostGroups if it would not have been remembered."""
        if known is None and broker_name not in self._seen and self._is_full:
            raise TooManyLostGroups(SEEN_GROUPS_MAX)
        check_not_set_back(broker_name, self.seen(broker_name), known)

    @property
    def _is_full(self) -> bool:
        return len(self._seen) >= SEEN_GROUPS_MAX

    def remember(self, broker_name: str, sighting: Sighting, *, has_node: bool) -> None:
        """A replica knows of a newer node than ZooKeeper's. `has_node`: its group has a node."""
        if not has_node and broker_name not in self._seen and self._is_full:
            if not self._said_full:
                log.error("replicas of too many unknown groups, no more are remembered group=%s", broker_name)
            self._said_full = True
            return
        seen = self._seen.get(broker_name, Seen(broker_name))
        if isinstance(seen, SightingsDamaged):
            return
        after = seen.with_sighting(sighting)
        if after is not seen:
            log.error(
                "a replica knows more than ZooKeeper: its data was lost or set back, nobody is elected until an operator"
                " restores the group; group=%s epoch=%s version=%s group_id=%s",
                *(broker_name, sighting.epoch, sighting.version, sighting.group_id),
            )
        elif (broker_name, sighting) not in self._unkept:
            return
        self._seen[broker_name] = after
        self._unkept.add((broker_name, sighting))
        try:
            self._worker.ask(
                partial(self._store.remember, broker_name, sighting), partial(self._on_kept, broker_name, sighting)
            )
        except BrokerBusy:
            return

    def renew(self, broker_name: str, sighting: Sighting, then: Callable[[ZenitError | None], None]) -> None:
        """An operator's word replaces a record that cannot be read. `then(error)`: None = it is stored. Raises BrokerBusy."""
        log.warning("what was seen of a group is written anew group=%s epoch=%s", broker_name, sighting.epoch)

        def on_renewed(result: ZenitError | None) -> None:
            if result is None:
                self._seen[broker_name] = Seen(broker_name).with_sighting(sighting)
            then(result)

        self._worker.ask(partial(self._store.renew_seen, broker_name, sighting), on_renewed)

    def _on_kept(self, broker_name: str, sighting: Sighting, result: ZenitError | None) -> None:
        if result is None:
            self._unkept.discard((broker_name, sighting))
