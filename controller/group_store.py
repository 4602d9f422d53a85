"""Where groups are kept, as the controller sees it: a `Protocol` that ZooKeeper and its model in the tests fulfil.

A write names the version it was built on and has three outcomes, and only three: `Written`, `Stale` (the node has
another version, or is there already, or is not there), and `Unknown`: the connection was lost or too slow, and the write
may have been carried out or may yet be. After `Unknown` one reads and decides anew; the write itself is not repeated.

What was read is watched: the next change of it comes to the listener once, as a `Touched`, which says only that it is
time to read again. A session that was suspended has missed nothing it will not be told: after CONNECTED everything is
read anew. The listener is called on a thread of the store's own and must return at once.

Every call has a deadline and raises ZooKeeperUnavailable where no answer came within it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ..model.groups.group import GroupNode, KnownGroup, Seen, Sighting


@dataclass(frozen=True, slots=True)
class Written:
    """The node is this now, at this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Stale:
    """Nothing was written: the node is not at the version named."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Written or not, or later: read and decide anew."""

    reason: str


Outcome = Written | Stale | Unknown


class SessionState(Enum):
    """SUSPENDED: the connection is lost, the session may live. LOST: it ended, and our membership with it."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """The session is in another state."""

    state: SessionState


@dataclass(frozen=True, slots=True)
class Touched:
    """What was read has changed. `broker_name`: of the group; None for the list of groups."""

    broker_name: str | None


@dataclass(frozen=True, slots=True)
class MembersTouched:
    """A controller joined or left."""


StoreEvent = SessionChanged | Touched | MembersTouched
Listener = Callable[[StoreEvent], None]


@dataclass(frozen=True, slots=True)
class ControllerMember:
    """A controller that takes part: where brokers and tools reach it. `own`: it is this process."""

    address: str
    own: bool


class GroupStore(Protocol):
    """One cluster's groups, controllers and records. Called from any thread; calls block until their deadline."""

    def read(self, broker_name: str) -> KnownGroup | None:
        """The group as it is now, not as it was; None where there is none. Raises GroupNodeDamaged."""

    def broker_names(self) -> tuple[str, ...]:
        """The groups there are, sorted."""

    def create(self, node: GroupNode) -> Outcome:
        """A group's first node; Stale where it has one."""

    def write(self, node: GroupNode, version: int) -> Outcome:
        """The group's next node, where it is still at `version`."""

    def seen_names(self) -> tuple[str, ...]:
        """The groups of which a replica was ever heard to know more than ZooKeeper did, sorted."""

    def read_seen(self, broker_name: str) -> Seen:
        """What replicas were heard to know of a group. Raises SightingsDamaged."""

    def remember(self, broker_name: str, sighting: Sighting) -> None:
        """Keeps one sighting more for ever. ZooKeeperUnavailable: whether it is kept is unknown. Raises SightingsDamaged."""

    def renew_seen(self, broker_name: str, sighting: Sighting) -> None:
        """The same; what was there and cannot be read goes."""

    def cluster_id(self) -> str:
        """The id of the cluster; "" where none was made yet."""

    def make_cluster_id(self, offered: str) -> str:
        """Makes `offered` the cluster's id where it has none; returns the one that it has."""

    def join(self, address: str) -> None:
        """Takes part in leading, as long as the session lasts; once more in the same session changes nothing."""

    def members(self) -> tuple[ControllerMember, ...]:
        """The controllers that take part, oldest first: the first one leads."""

    def append_record(self, record: bytes) -> str:
        """Keeps an audit record for ever; returns its name. ZooKeeperUnavailable: whether it is kept is unknown."""

    def records(self) -> tuple[bytes, ...]:
        """All audit records, oldest first."""
