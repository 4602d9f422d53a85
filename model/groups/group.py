"""A replica group as in its ZooKeeper node: controllers decide it, brokers obey it. Values only. Pure.

One group = one broker name: its replicas, the master in each epoch, the in-sync set. `GroupNode` is the content of
`/zenit/{cluster}/groups/{broker_name}`. A `KnownGroup` has it with its ZooKeeper version, because every change names the
version it was built on.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from enum import Enum
from typing import Final

from ..plain_dataclass import dataclass

NO_VERSION: Final = -1
"""The version of a node that does not exist."""
SIGHTINGS_MAX: Final = 16


class FlushMode(Enum):
    """What a replica's acknowledged position counts: bytes on its disk, or bytes it has written."""

    SYNC = "sync"
    ASYNC = "async"


class AckMode(Enum):
    """What a send waits for: the whole in-sync set, or the master alone (which can lose what it acknowledged)."""

    ALL = "all"
    MASTER = "master"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Incarnation:
    """One run of a replica's process: the store's identity and how often a process was started on it."""

    store_id: str
    starts: int


@dataclass(frozen=True, slots=True)
class Replica:
    """A member of a group: its addresses ("host:port") for clients and for other replicas, and its present process.

    `life`: a token that the process drew at its start. With it a repeated registration of the same process (its answer was
    lost) is distinguished from one by a disk that was restored to the same start counter. `is_follower`: it copies the log and
    counts for nothing else: it is in neither set, and is not elected.
    """

    name: str
    address: str
    replication_address: str
    incarnation: Incarnation
    life: str = ""
    is_follower: bool = False

    def has_place_of(self, other: Replica) -> bool:
        """Whether it has the store and the address of `other`, as the broker's next process has, and a copy elsewhere has
        not.
        """
        return (self.incarnation.store_id, self.address) == (other.incarnation.store_id, other.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """An operator's settings of a group; stored only in the node, so that all replicas agree on them.

    `min_in_sync`: with fewer members in sync, writes are refused. `lag_ms_max`: a member that was behind for this long
    leaves the in-sync set.
    """

    min_in_sync: int = 1
    flush_mode: FlushMode = FlushMode.ASYNC
    ack_mode: AckMode = AckMode.ALL
    lag_ms_max: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNode:
    """The node's content. Names are replicas'; `in_sync` and `eligible` are sorted, and disjoint.

    `master` is None if nobody was elected yet; `master_incarnation` is the elected incarnation, which need not be the
    replica's present one. `last`: if both sets became empty, the member that left last. `group_id`: distinguishes the group
    from others of its name, chosen once: the store of the founding replica; "" with a static master.
    """

    broker_name: str
    cluster_id: str = ""
    group_id: str = ""
    epoch: int = 0
    master: str | None = None
    master_incarnation: Incarnation | None = None
    in_sync: tuple[str, ...] = ()
    eligible: tuple[str, ...] = ()
    last: str | None = None
    settings: GroupSettings = GroupSettings()
    replicas: tuple[Replica, ...] = ()

    @property
    def members(self) -> tuple[Replica, ...]:
        """The replicas that may be in sync and be elected: all but the followers."""
        return tuple(replica for replica in self.replicas if not replica.is_follower)

    def replica(self, name: str) -> Replica | None:
        """The replica with this name; None if there is none."""
        return next((replica for replica in self.replicas if replica.name == name), None)


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A node as read from ZooKeeper: its content and its version."""

    node: GroupNode
    version: int

    def is_news_after(self, adopted: KnownGroup) -> bool:
        """Whether it is newer than an adopted one: of a later epoch, or a later version within the same epoch.

        Versions alone are not enough: they start again with ZooKeeper's data, but no epoch is given twice.
        """
        return (self.node.epoch, self.version) > (adopted.node.epoch, adopted.version)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """The newest node of a group that one of its replicas reported: its epoch, and its version if that was reported.

    `group_id`: of the replica's group, which need not be the one in ZooKeeper.
    """

    group_id: str
    epoch: int
    version: int = NO_VERSION


@dataclass(frozen=True, slots=True)
class Seen:
    """What replicas reported and ZooKeeper does not know: one sighting for each group id, in the order of ids.

    The content of `/zenit/{cluster}/seen/{broker_name}`. It only grows; only sightings newer than the node count.
    """

    broker_name: str
    sightings: tuple[Sighting, ...] = ()

    def with_sighting(self, one: Sighting) -> Seen:
        """This with one more sighting; unchanged if that is not newer than the one of its group id.

        Beyond SIGHTINGS_MAX the oldest is dropped.
        """
        others = [other for other in self.sightings if other.group_id != one.group_id]
        present = next((other for other in self.sightings if other.group_id == one.group_id), None)
        if present is not None and present >= one:
            return self
        kept = sorted([*others, one], key=lambda sighting: (sighting.epoch, sighting.version))[-SIGHTINGS_MAX:]
        return replace(self, sightings=tuple(sorted(kept)))
