"""A replica group as its node in ZooKeeper has it: controllers decide it, brokers obey it. Values only. Pure.

One group = one broker name: its replicas, who is master in which epoch, who is in sync. `GroupNode` is the content of
`/zenit/{cluster}/groups/{broker_name}`; its ZooKeeper version travels beside it in a `KnownGroup`, since every change
names the version it was built on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

NO_VERSION: Final = -1
"""The version of a node that does not exist."""
SIGHTINGS_MAX: Final = 16


class FlushMode(Enum):
    """What a replica's acknowledged position counts: bytes on its disk, or bytes it has written."""

    SYNC = "sync"
    ASYNC = "async"


class AckMode(Enum):
    """Whom a send waits for: the whole in-sync set, or the master alone (which can lose what it acknowledged)."""

    ALL = "all"
    MASTER = "master"


@dataclass(frozen=True, slots=True, order=True)
class Incarnation:
    """One life of a replica's process: the store's identity and how often a process has been started on it."""

    store_id: str
    starts: int


@dataclass(frozen=True, slots=True)
class Replica:
    """A member of a group: where clients and where other replicas reach it ("host:port"), and its present life.

    `life`: a token that the process drew at its start. A registration asked again by the process that is registered
    already (its answer was lost) is told by it from one by a disk that was set back to the same start counter.
    """

    name: str
    address: str
    replication_address: str
    incarnation: Incarnation
    life: str = ""

    def has_place_of(self, other: Replica) -> bool:
        """Whether it has the store and the address of `other`, as a broker's next life has, and a copy elsewhere has not."""
        return (self.incarnation.store_id, self.address) == (other.incarnation.store_id, other.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What an operator chooses for a group; lives in the node and nowhere else, so that all replicas agree on it.

    `min_in_sync`: fewer members in sync and writes are refused. `lag_ms_max`: a member that was not caught up for so
    long leaves the in-sync set.
    """

    min_in_sync: int = 1
    flush_mode: FlushMode = FlushMode.ASYNC
    ack_mode: AckMode = AckMode.ALL
    lag_ms_max: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNode:
    """The node's content. Names are replicas'; `in_sync` and `eligible` are sorted, and disjoint.

    `master` is None where nobody was elected yet; `master_incarnation` is the life that was elected, which need not be
    the replica's present one. `last`: where both sets became empty, the member that left last. `group_id`: by what the group
    is told from another of its name, chosen once: the store of the replica that founded it; "" where the master is static.
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

    def replica(self, name: str) -> Replica | None:
        """The replica of that name; None where there is none."""
        return next((replica for replica in self.replicas if replica.name == name), None)


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A node as it was read: its content and its version in ZooKeeper."""

    node: GroupNode
    version: int

    def is_news_after(self, adopted: KnownGroup) -> bool:
        """Whether it is newer than one that was adopted: of a later epoch, or a later version within the same epoch.

        Versions alone do not tell: they begin anew with ZooKeeper's data, while no epoch is ever given twice.
        """
        return (self.node.epoch, self.version) > (adopted.node.epoch, adopted.version)


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """The newest node of a group that one of its replicas was heard to know: its epoch, and its version where that was told.

    `group_id`: of the group that the replica belongs to, which need not be the one that ZooKeeper has.
    """

    group_id: str
    epoch: int
    version: int = NO_VERSION


@dataclass(frozen=True, slots=True)
class Seen:
    """What replicas were heard to know that ZooKeeper does not: one sighting for each group id, in the order of ids.

    The content of `/zenit/{cluster}/seen/{broker_name}`. It only grows; what counts of it is what is newer than the node.
    """

    broker_name: str
    sightings: tuple[Sighting, ...] = ()

    def with_sighting(self, one: Sighting) -> Seen:
        """With one more; itself where that is not newer than the one of its group id. Beyond SIGHTINGS_MAX the oldest goes."""
        others = [other for other in self.sightings if other.group_id != one.group_id]
        present = next((other for other in self.sightings if other.group_id == one.group_id), None)
        if present is not None and present >= one:
            return self
        kept = sorted([*others, one], key=lambda sighting: (sighting.epoch, sighting.version))[-SIGHTINGS_MAX:]
        return replace(self, sightings=tuple(sorted(kept)))
