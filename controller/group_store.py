"""The storage of groups, as the controller sees it: a `Protocol` that ZooKeeper and the tests' model of it implement.

A write names the version it was built on and has exactly three outcomes: `Written`; `Stale` (the node has
another version, or already exists, or does not exist); and `Unknown`: the connection was lost or too slow, and the write
may have been carried out or may still be. After `Unknown` the caller reads and decides again; the write itself is not repeated.

What was read is watched: the listener gets its next change once, as a `Touched`, which only says that it is
time to read again. A suspended session misses no change for good: after CONNECTED everything is
read again. The listener is called on a thread of the store's own and must return at once.

Every call has a deadline and raises ZooKeeperUnavailable if no answer came within it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from ..model.groups.group import GroupNode, KnownGroup, Seen, Sighting
from ..model.plain_dataclass import dataclass

EVENTS_MAX: Final = 500
EVENT_BYTES_MAX: Final = 200_000
"""Of a group's history: a node of ZooKeeper may have a megabyte, and each event writes it whole."""


@dataclass(frozen=True, slots=True)
class Written:
    """The write was carried out: the node now has this content and version."""

    version: int


@dataclass(frozen=True, slots=True)
class Stale:
    """Nothing was written: the node does not have the named version."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Written or not, or later: read and decide again."""

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
    """A watched node has changed. `broker_name`: of the group; None for the list of groups."""

    broker_name: str | None


@dataclass(frozen=True, slots=True)
class MembersTouched:
    """A controller joined or left."""


StoreEvent = SessionChanged | Touched | MembersTouched
Listener = Callable[[StoreEvent], None]


@dataclass(frozen=True, slots=True)
class ControllerMember:
    """A controller that is a member: the address for brokers and tools. `own`: it is this process."""

    address: str
    own: bool


class GroupStore(Protocol):
    """One cluster's groups, controllers and records. Called from any thread; calls block until their deadline."""

    def read(self, broker_name: str) -> KnownGroup | None:
        """The present state of the group; None if there is none. Raises GroupNodeDamaged."""

    def broker_names(self) -> tuple[str, ...]:
        """The names of all groups, sorted."""

    def create(self, node: GroupNode) -> Outcome:
        """Writes a group's first node; Stale if it has one."""

    def write(self, node: GroupNode, version: int) -> Outcome:
        """Writes the group's next node, if it is still at `version`."""

    def seen_names(self) -> tuple[str, ...]:
        """The groups of which some replica ever knew more than ZooKeeper did, sorted."""

    def read_seen(self, broker_name: str) -> Seen:
        """The sightings of a group. Raises SightingsDamaged."""

    def remember(self, broker_name: str, sighting: Sighting) -> None:
        """Stores another sighting for ever. ZooKeeperUnavailable: it is unknown whether it is stored. Raises
        SightingsDamaged."""

    def renew_seen(self, broker_name: str, sighting: Sighting) -> None:
        """The same; replaces a record that cannot be read."""

    def cluster_id(self) -> str:
        """The id of the cluster; "" where none was made yet."""

    def make_cluster_id(self, offered: str) -> str:
        """Makes `offered` the cluster's id if it has none; returns the id that it has."""

    def join(self, address: str) -> None:
        """Joins the members, as long as the session lasts; a second call in the same session changes nothing."""

    def members(self) -> tuple[ControllerMember, ...]:
        """The members, oldest first: the first one leads."""

    def add_events(self, broker_name: str, lines: tuple[bytes, ...]) -> None:
        """Adds events to a group's history, which keeps the newest EVENTS_MAX. ZooKeeperUnavailable: it is unknown whether
        they are stored; to add them again does no harm."""

    def events(self, broker_name: str) -> bytes:
        """A group's history: a line an event, oldest first."""

    def append_record(self, record: bytes) -> str:
        """Stores an audit record for ever; returns its name. ZooKeeperUnavailable: it is unknown whether it is stored."""

    def records(self) -> tuple[bytes, ...]:
        """All audit records, oldest first."""
