"""The table of drills: the faults of each, their targets and durations. Pure.

A drill is a sequence of faults; between two of them the group is mended and in sync again. `hold_ms`: from the fault to its
mending, under load. `run.py` runs them, `faults.py` applies them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from ...model.errors import InvalidParameter

LIMITS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "runs": (1, 1_000),
        "replicas": (1, 9),
        "groups": (1, 9),
        "seconds": (0, 3_600),
        "rate": (1, 1_000_000),
        "batch": (1, 1_000),
        "body_bytes": (32, 1 << 20),
        "minutes": (0.05, 24 * 60),
        "hours": (0.001, 24 * 30),
        "leg_minutes": (0.05, 240),
    }
)
"""Limits of a drill's or a campaign's options: (minimum, maximum)."""
DEAD_MS: Final = 2_000
"""After this time without a heartbeat a controller considers a broker dead (replication.md, Detection)."""


class Deed(Enum):
    """What is done, and (in the comments) how it is mended after `hold_ms`."""

    KILL = "kill"  # SIGKILL; started again
    STOP = "stop"  # SIGTERM: it hands over and ends; started again at once
    PAUSE = "pause"  # SIGSTOP; SIGCONT
    SLOW = "slow"  # stopped four fifths of the time, in short turns; resumed
    WIPE = "wipe"  # killed and its store emptied; started again
    CUT_IN = "cut off, in"  # nothing reaches it, but what it sends arrives; the rule is removed
    CUT_OUT = "cut off, out"  # nothing that it sends arrives
    CUT_BOTH = "cut off"  # neither
    CUT_LINKS = "cut off from the other replicas"  # their replication ports; controllers, clients reach it
    HANG = "its disk hangs"  # no fdatasync returns; they return again
    FULL = "its disk is full"  # no file can be allocated; there is room again
    POWER_CUT = "power cut"  # killed, and unsynced writes are undone; started again
    EMPTY = "its data is gone"  # killed and its data directory emptied, started; an operator restores the groups
    SET_BACK = "its data is set back"  # the same with a copy from before a change of master
    EMPTY_WIPED_FIRST = "its data is gone, and a wiped replica registers first"
    ROT = "bits rot"  # of records that all replicas have; each log is scrubbed


class Whom(Enum):
    """The target: one process, several at once (ALL_...), or one after another (EACH_..., the one that leads last).

    ELECTED: the master is killed and started again, and the newly elected one is the target. SLAVE_THEN_ELECTED: a slave; a
    moment later the master is killed, and it is started again when the fault is mended.
    """

    MASTER = "master"
    SLAVE = "slave"
    ELECTED = "the next master"
    SLAVE_THEN_ELECTED = "a slave, before its master is killed"
    EACH_BROKER = "each broker"
    EACH_CONTROLLER = "each controller"
    EACH_NAME_SERVER = "each name server"
    ALL_BROKERS = "all brokers"
    CONTROLLER = "controller"
    ALL_CONTROLLERS = "all controllers"
    ZOOKEEPER = "ZooKeeper"
    MINORITY = "a minority of the replicas"


CUTS_NETWORK_IN_ORDER: Final = (Deed.CUT_IN, Deed.CUT_OUT, Deed.CUT_BOTH, Deed.CUT_LINKS)
CUTS_NETWORK: Final = frozenset(CUTS_NETWORK_IN_ORDER)
FAILS_DISK_IN_ORDER: Final = (Deed.HANG, Deed.FULL)
FAILS_DISK: Final = frozenset(FAILS_DISK_IN_ORDER)
LOSES_NODES: Final = frozenset({Deed.EMPTY, Deed.SET_BACK, Deed.EMPTY_WIPED_FIRST})
OF_FILES: Final = frozenset({*FAILS_DISK, *LOSES_NODES, Deed.POWER_CUT, Deed.ROT})
"""What needs the files of servers, or their start with a library: those of `zenit up`."""
OF_CONTAINERS: Final = frozenset(Deed) - OF_FILES - {Deed.CUT_IN, Deed.CUT_OUT, Deed.CUT_LINKS}
"""What an engine of containers can do: it takes a network away whole."""
DRAWN_HOLD_MS: Final = 8_000
NEEDS_CONTROLLER: Final = frozenset(
    {
        *(Whom.CONTROLLER, Whom.ALL_CONTROLLERS, Whom.EACH_CONTROLLER),
        *(Whom.ZOOKEEPER, Whom.ELECTED, Whom.SLAVE_THEN_ELECTED),
    }
)
ONE_BY_ONE: Final = frozenset({Whom.EACH_BROKER, Whom.EACH_CONTROLLER, Whom.EACH_NAME_SERVER})


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a drill."""

    deed: Deed
    whom: Whom
    hold_ms: int

    def __str__(self) -> str:
        held = f" for {self.hold_ms / 1000:g} s" if self.deed not in (Deed.KILL, Deed.STOP, Deed.WIPE) else ""
        return self.name + held

    @property
    def name(self) -> str:
        """The deed and its target, without the duration."""
        return f"{self.deed.value}: {self.whom.value}"


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill. `faults`: empty if they are drawn from a seed. `replicas_min`: fewer make no sense."""

    name: str
    meaning: str
    faults: tuple[Fault, ...]
    replicas_min: int = 1

    @property
    def cuts_network(self) -> bool:
        """Whether it needs root and iptables."""
        return any(fault.deed in CUTS_NETWORK for fault in self.faults)

    @property
    def is_for_containers(self) -> bool:
        """Whether an engine of containers can do all of it; of `random`, what it draws then."""
        return all(fault.deed in OF_CONTAINERS for fault in self.faults)

    @property
    def needs_controller(self) -> bool:
        """Whether it makes no sense with a static master."""
        return any(fault.whom in NEEDS_CONTROLLER for fault in self.faults)

    @property
    def cuts_power(self) -> bool:
        """Whether its brokers run with the library that records unsynced writes."""
        return any(fault.deed is Deed.POWER_CUT for fault in self.faults)

    @property
    def fails_disk(self) -> bool:
        """Whether its brokers run with the library that makes disks hang or full."""
        return any(fault.deed in FAILS_DISK for fault in self.faults)

    @property
    def wants_sync(self) -> bool:
        """Whether its group flushes before it acknowledges."""
        return any(fault.deed in (Deed.POWER_CUT, Deed.HANG) for fault in self.faults)

    @property
    def is_random(self) -> bool:
        """Whether its faults are drawn."""
        return not self.faults

    @property
    def longest_hold_ms(self) -> int:
        """The longest of its faults, or of most drawn ones."""
        return max((fault.hold_ms for fault in self.faults), default=DRAWN_HOLD_MS)

    def held(self, hold_ms: int) -> Drill:
        """The same drill with every fault held for this long."""
        return replace(self, faults=tuple(replace(fault, hold_ms=hold_ms) for fault in self.faults))


def _pause(factor: float) -> Fault:
    return Fault(Deed.PAUSE, Whom.MASTER, round(DEAD_MS * factor))


_ALL: Final = (
    Drill("kill-master", "kill -9 of the master; it comes back as a slave", (Fault(Deed.KILL, Whom.MASTER, 4_000),)),
    Drill("kill-slave", "kill -9 of a slave; it catches up", (Fault(Deed.KILL, Whom.SLAVE, 4_000),), 2),
    Drill(
        "pause-master",
        "the master stands still for 0.5, 1.1 and 3 times the dead time, and goes on as if nothing had been",
        (_pause(0.5), _pause(1.1), _pause(3)),
    ),
    Drill(
        "partition-master",
        "the master hears nobody, then is heard by nobody, then both",
        tuple(Fault(deed, Whom.MASTER, 8_000) for deed in (Deed.CUT_IN, Deed.CUT_OUT, Deed.CUT_BOTH)),
        2,
    ),
    Drill(
        "cut-off",
        "the master has no network, then a slave has none",
        (Fault(Deed.CUT_BOTH, Whom.MASTER, 8_000), Fault(Deed.CUT_BOTH, Whom.SLAVE, 8_000)),
        2,
    ),
    Drill("kill-controller", "kill -9 of the leading controller", (Fault(Deed.KILL, Whom.CONTROLLER, 8_000),), 2),
    Drill(
        "kill-all-controllers",
        "kill -9 of every controller; writes go on",
        (Fault(Deed.KILL, Whom.ALL_CONTROLLERS, 60_000),),
        2,
    ),
    Drill("lose-zookeeper", "kill -9 of ZooKeeper; writes go on", (Fault(Deed.KILL, Whom.ZOOKEEPER, 60_000),), 2),
    Drill("slow-slave", "a slave runs a fifth of the time", (Fault(Deed.SLOW, Whom.SLAVE, 8_000),), 2),
    Drill("wipe-slave", "a slave loses its disk and is filled again", (Fault(Deed.WIPE, Whom.SLAVE, 3_000),), 2),
    Drill(
        "rolling-restart",
        "every broker hands over, stops and is started again, in turn, the master last",
        (Fault(Deed.STOP, Whom.EACH_BROKER, 0),),
    ),
    Drill(
        "rolling-upgrade",
        "every server is restarted in turn, in the order of `zenit upgrade plan`: controllers, name server, slaves, master",
        tuple(Fault(Deed.STOP, whom, 0) for whom in (Whom.EACH_CONTROLLER, Whom.EACH_NAME_SERVER, Whom.EACH_BROKER)),
    ),
    Drill(
        "power-cut-all",
        "the power of all brokers fails at once; what was not synced is gone (flush mode sync)",
        (Fault(Deed.POWER_CUT, Whom.ALL_BROKERS, 500),),
    ),
    Drill(
        "hung-fsync",
        "the master's disk does not finish a sync, and another takes over; then a slave's (flush mode sync)",
        (Fault(Deed.HANG, Whom.MASTER, 10_000), Fault(Deed.HANG, Whom.SLAVE, 10_000)),
        3,
    ),
    Drill(
        "full-disk-after-election",
        "the disk of a slave that is elected is full: before its master dies, and once it leads",
        (Fault(Deed.FULL, Whom.SLAVE_THEN_ELECTED, 4_000), Fault(Deed.FULL, Whom.ELECTED, 10_000)),
        3,
    ),
    Drill(
        "partition-replication",
        "the master and its slaves do not reach each other; the controllers reach all of them",
        (Fault(Deed.CUT_LINKS, Whom.MASTER, 10_000),),
        3,
    ),
    Drill(
        "zookeeper-emptied",
        "ZooKeeper loses its data while it is down; writes go on; an operator restores the groups",
        (Fault(Deed.EMPTY, Whom.ZOOKEEPER, 8_000),),
        2,
    ),
    Drill(
        "zookeeper-set-back",
        "ZooKeeper comes back with what it had before the last election; the same",
        (Fault(Deed.SET_BACK, Whom.ZOOKEEPER, 8_000),),
        2,
    ),
    Drill(
        "wiped-first",
        "ZooKeeper loses its data and a slave its disk, and that one registers first; the same",
        (Fault(Deed.EMPTY_WIPED_FIRST, Whom.ZOOKEEPER, 8_000),),
        3,
    ),
    Drill(
        "bit-rot",
        "bits of the log rot at a minority of the replicas while they run; each log is scrubbed, and mended by another",
        (Fault(Deed.ROT, Whom.MINORITY, 2_000),),
        3,
    ),
    Drill("random", "all of these, one after another in an order drawn from a seed, for some minutes", (), 2),
)

DRILLS: Final[Mapping[str, Drill]] = MappingProxyType({drill.name: drill for drill in _ALL})


def check_limits(**wishes: float | None) -> None:
    """Raises InvalidParameter for values outside of LIMITS. None: not given."""
    for name, value in wishes.items():
        least, most = LIMITS[name]
        if value is not None and not least <= value <= most:
            raise InvalidParameter(name, value, f"{least:g} to {most:g}")


def drill_named(name: str) -> Drill:
    """The drill with this name. Raises InvalidParameter."""
    if name not in DRILLS:
        raise InvalidParameter("drill", name, f"one of {', '.join(DRILLS)}")
    return DRILLS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Which faults a cluster allows: whether it has controllers, a network of its own, and brokers with the library that
    records unsynced writes, or with the one that makes disks hang or full; or is one of containers.
    """

    has_controllers: bool = True
    can_cut_network: bool = False
    can_cut_power: bool = False
    can_fail_disk: bool = False
    has_containers: bool = False


_MENU: Final = (
    (Deed.KILL, Whom.MASTER, (500, 6_000)),
    (Deed.KILL, Whom.SLAVE, (500, 6_000)),
    (Deed.PAUSE, Whom.MASTER, (DEAD_MS // 4, DEAD_MS * 3)),
    (Deed.PAUSE, Whom.SLAVE, (DEAD_MS // 4, DEAD_MS * 3)),
    (Deed.SLOW, Whom.SLAVE, (2_000, 8_000)),
    (Deed.WIPE, Whom.SLAVE, (500, 3_000)),
    (Deed.STOP, Whom.MASTER, (0, 0)),
    (Deed.STOP, Whom.EACH_BROKER, (0, 0)),
    (Deed.KILL, Whom.ALL_BROKERS, (500, 2_000)),
    (Deed.KILL, Whom.CONTROLLER, (500, 8_000)),
    (Deed.KILL, Whom.ALL_CONTROLLERS, (2_000, 15_000)),
    (Deed.PAUSE, Whom.CONTROLLER, (500, 6_000)),
    (Deed.KILL, Whom.ZOOKEEPER, (2_000, 15_000)),
    (Deed.PAUSE, Whom.ZOOKEEPER, (500, 10_000)),
    *((deed, whom, (1_000, 8_000)) for deed in CUTS_NETWORK_IN_ORDER for whom in (Whom.MASTER, Whom.SLAVE)),
    (Deed.POWER_CUT, Whom.ALL_BROKERS, (500, 1_000)),
    *((deed, whom, (1_000, 8_000)) for deed in FAILS_DISK_IN_ORDER for whom in (Whom.MASTER, Whom.SLAVE)),
    (Deed.FULL, Whom.SLAVE_THEN_ELECTED, (500, 3_000)),
    (Deed.FULL, Whom.ELECTED, (1_000, 8_000)),
    (Deed.EMPTY, Whom.ZOOKEEPER, (1_000, 8_000)),
    (Deed.SET_BACK, Whom.ZOOKEEPER, (1_000, 8_000)),
    (Deed.EMPTY_WIPED_FIRST, Whom.ZOOKEEPER, (1_000, 8_000)),
    (Deed.ROT, Whom.MINORITY, (500, 2_000)),
)
"""The possible faults: deed, target, shortest and longest duration."""


def random_faults(seed: int, conditions: Conditions) -> Iterator[Fault]:
    """An endless sequence, always the same for a seed and conditions: each possible fault once, then all again in another
    order.
    """
    chance = random.Random(seed)
    turn: list[tuple[Deed, Whom, tuple[int, int]]] = []
    while True:
        turn = turn or chance.sample(menu := _menu(conditions), len(menu))
        deed, whom, (shortest, longest) = turn.pop()
        yield Fault(deed, whom, chance.randint(shortest, longest))


def possible_faults(conditions: Conditions) -> list[str]:
    """The names of the faults that may be drawn."""
    return [Fault(deed, whom, 0).name for deed, whom, _ in _menu(conditions)]


def writes_wait(fault: str, conditions: Conditions) -> bool:
    """Whether writes wait by design during a fault of this name: then no pause is promised.

    Nobody takes over from a static master, or if all were killed; the rest is in docs/failover.md.
    """
    return fault in _WRITES_WAIT or (not conditions.has_controllers and fault in _STATIC_WAITS)


def waits_for_its_mending(fault: str) -> bool:
    """Whether writes wait by design only after the mending of this fault began: they continue while it is held, and an
    operator's restore stops them.
    """
    return fault in _WAITS_FOR_ITS_MENDING


_WRITES_WAIT: Final = frozenset(
    Fault(deed, whom, 0).name
    for deed, whom in (
        (Deed.KILL, Whom.ALL_BROKERS),
        (Deed.POWER_CUT, Whom.ALL_BROKERS),
        (Deed.FULL, Whom.SLAVE_THEN_ELECTED),  # too few are in sync until the killed master is back
        *(
            (deed, Whom.ZOOKEEPER) for deed in (Deed.EMPTY, Deed.SET_BACK, Deed.EMPTY_WIPED_FIRST)
        ),  # until an operator acts
    )
)
_WAITS_FOR_ITS_MENDING: Final = frozenset(Fault(deed, Whom.ZOOKEEPER, 0).name for deed in (Deed.EMPTY, Deed.SET_BACK))
_STATIC_WAITS: Final = frozenset(
    Fault(deed, whom, 0).name
    for deed, whom in (
        (Deed.KILL, Whom.MASTER),
        (Deed.PAUSE, Whom.MASTER),
        (Deed.STOP, Whom.MASTER),
        (Deed.STOP, Whom.EACH_BROKER),
        (Deed.HANG, Whom.MASTER),
        (Deed.FULL, Whom.MASTER),
        *((deed, Whom.MASTER) for deed in (Deed.CUT_IN, Deed.CUT_OUT, Deed.CUT_BOTH)),  # clients do not reach it either
    )
)


def _menu(conditions: Conditions) -> list[tuple[Deed, Whom, tuple[int, int]]]:
    return [entry for entry in _MENU if _is_possible(entry[0], entry[1], conditions)]


def _is_possible(deed: Deed, whom: Whom, conditions: Conditions) -> bool:
    if whom in NEEDS_CONTROLLER and not conditions.has_controllers:
        return False
    if conditions.has_containers:
        return deed in OF_CONTAINERS
    if deed in CUTS_NETWORK:
        return conditions.can_cut_network
    if deed in FAILS_DISK:
        return conditions.can_fail_disk
    return deed is not Deed.POWER_CUT or conditions.can_cut_power
