"""What differs from seed to seed: sizes, settings, and how often which fault comes. Many rates are 0 in any one seed,
so that no fault hides behind another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from zenitmq.model.groups.group import AckMode, FlushMode, GroupSettings

from .network import Weather

FAULTS = (
    "kill",
    "power",
    "wipe",
    "fsync",
    "stop",
    "pause",
    "cut",
    "one_way",
    "split",
    "controller_kill",
    "controller_pause",
    "zookeeper_away",
    "session_end",
    "operator",
    "expire",
    "all_power",
    "garbage",
    "settings",
    "set_back",
    "full",
    "hang",
    "mid_write",
    "drain",
)


@dataclass(slots=True)
class Swarm:
    """One seed's conditions. `faults`: (name, weight). Rates of clocks are relative to true time."""

    names: tuple[str, ...]
    controllers: int
    settings: GroupSettings
    weather: Weather
    clock_rates: dict[str, float]
    producers: int
    pause_ms: int
    consumer_ms: int
    disk_latency_ms: float
    flush_ms: int
    zookeeper_ms: float
    zookeeper_loss: float
    damage_rate: float
    chunk_records: int
    fault_gap_ms: int
    repair_ms: int
    ambush_rate: float
    faults: tuple[tuple[str, int], ...]
    chaos_ms: int
    late_start: dict[str, int] = field(default_factory=dict)
    lz4: frozenset[str] = frozenset()  # who wants its chunks compressed
    followers: frozenset[str] = frozenset()  # who only copies, until somebody forces it to lead

    @classmethod
    def calm(cls, names: str, settings: GroupSettings, followers: str = "") -> Swarm:
        """No fault comes by itself, and nothing is slow."""
        return cls(
            names=tuple(names),
            controllers=1,
            settings=settings,
            weather=Weather(),
            clock_rates=dict.fromkeys((*names, "controller-0"), 1.0),
            producers=2,
            pause_ms=20,
            consumer_ms=100,
            disk_latency_ms=0.0,
            flush_ms=20,
            zookeeper_ms=1.0,
            zookeeper_loss=0.0,
            damage_rate=0.0,
            chunk_records=8,
            fault_gap_ms=10**9,
            repair_ms=1,
            ambush_rate=0.0,
            faults=(("kill", 1),),
            chaos_ms=0,
            late_start=dict.fromkeys(names, 0),
            followers=frozenset(followers),
        )

    @classmethod
    def of(cls, rng: Random) -> Swarm:
        """Drawn from the seed's chance."""
        names = tuple("abcd"[: rng.choice((2, 3, 3, 3, 3, 4))])
        settings = GroupSettings(
            min_in_sync=rng.choice((1, 2, 2, 2)),
            flush_mode=rng.choice((FlushMode.SYNC, FlushMode.ASYNC)),
            ack_mode=AckMode.MASTER if rng.random() < 0.08 else AckMode.ALL,
            lag_ms_max=rng.choice((1000, 4000, 10_000)),
        )

        def sometimes(share: float, *choices: float) -> float:
            return rng.choice(choices) if rng.random() < share else 0.0

        weather = Weather(
            lost=sometimes(0.4, 0.002, 0.02, 0.1),
            doubled=sometimes(0.4, 0.02, 0.1),
            reordered=sometimes(0.3, 0.02, 0.2),
            late=sometimes(0.4, 0.01, 0.05),
            delay_us=rng.choice((200, 1000, 5000)),
        )
        controllers = rng.choice((1, 2))
        hosts = (*names, *(f"controller-{number}" for number in range(controllers)))
        skew = rng.choice((0.0, 0.01, 0.2))
        repair_ms = rng.choice((50, 400, 1500))
        weights = tuple((fault, rng.choice((0, 0, 1, 1, 4))) for fault in FAULTS)
        return cls(
            names=names,
            controllers=controllers,
            settings=settings,
            weather=weather,
            clock_rates={host: 1 + skew * (2 * rng.random() - 1) for host in hosts},
            producers=rng.choice((1, 2, 3)),
            pause_ms=rng.choice((15, 40, 80)),
            consumer_ms=100,
            disk_latency_ms=rng.choice((0.0, 0.5, 4.0)),
            flush_ms=rng.choice((50, 100, 500)),
            zookeeper_ms=rng.choice((1.0, 5.0, 50.0)),
            zookeeper_loss=sometimes(0.3, 0.05, 0.3),
            damage_rate=sometimes(0.2, 0.01),
            chunk_records=rng.choice((2, 8, 10_000)),
            fault_gap_ms=max(rng.choice((150, 400, 1000)), repair_ms * 2 // 3),  # else all is broken all the time
            ambush_rate=sometimes(0.5, 0.1, 0.4),
            repair_ms=repair_ms,
            faults=tuple((fault, weight) for fault, weight in weights if weight) or (("kill", 1),),
            chaos_ms=8_000,
            late_start={name: rng.choice((0, 0, 30, 1500)) for name in names},
            lz4=frozenset(name for name in names if rng.random() < 0.15),
        )
