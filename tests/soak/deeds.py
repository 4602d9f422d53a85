"""What is done to the cluster and to its clients during a soak, and when: a function of the seed. Pure.

One broker at a time is killed (SIGKILL) or stopped (SIGTERM) and started again, and then perhaps made master by an orderly
election. After the warm-up one of the replicas is
left alone, so that one broker lives for the rest of the run and has a series from which a slope can be told. Visitors are
processes of a consumer that come for a while, and are closed or killed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

WARM_UP_MAX_S: Final = 1800.0
BROKER_GAP_S: Final = (150.0, 270.0)
VISITOR_GAP_S: Final = (90.0, 150.0)
CALM_END_S: Final = 60.0
"""Nothing is done in the last part of a run: what is under way then is settled before the accounts are closed."""
SHORT_PART: Final = 4
"""In a short run, a gap is at most this part of it, and so is the calm at the end."""


@dataclass(frozen=True, slots=True)
class Deed:
    """`at_s`: since the load began. `victim`: number of the replica, or of the visitor. `hold_s`: how long a broker is away,
    or a visitor stays. `is_killed`: by SIGKILL, else asked to end. `leads_then`: a broker that came back is made master."""

    at_s: float
    what: str  # "broker" or "visitor"
    victim: int
    hold_s: float
    is_killed: bool
    leads_then: bool = False


def warm_up_s(seconds: float) -> float:
    """What is not counted into slopes: the first half hour, or the first third of a shorter run."""
    return min(WARM_UP_MAX_S, seconds / 3)


def spared(seed: int, replicas: int) -> int:
    """The number of the replica that is left alone after the warm-up."""
    return random.Random(f"{seed}.spared").randrange(replicas)


def deeds(seed: int, seconds: float, *, replicas: int) -> list[Deed]:
    """All of a run, in the order of time."""
    calm_s = min(CALM_END_S, seconds / SHORT_PART)
    found = [*_brokers(seed, seconds, seconds - calm_s, replicas), *_visitors(seed, seconds, seconds - calm_s)]
    return sorted(found, key=lambda deed: deed.at_s)


def _brokers(seed: int, seconds: float, end_s: float, replicas: int) -> list[Deed]:
    chance = random.Random(f"{seed}.brokers")
    warm_s, alone = warm_up_s(seconds), spared(seed, replicas)
    found: list[Deed] = []
    at_s = _gap(chance, BROKER_GAP_S, seconds)
    while at_s < end_s:
        victims = [number for number in range(replicas) if at_s < warm_s or number != alone or replicas == 1]
        hold_s = chance.uniform(1.0, min(15.0, seconds / 20))
        is_killed, leads_then = chance.random() < 0.5, chance.random() < 0.5
        found.append(Deed(at_s, "broker", chance.choice(victims), hold_s, is_killed, leads_then))
        at_s += hold_s + _gap(chance, BROKER_GAP_S, seconds)
    return found


def _visitors(seed: int, seconds: float, end_s: float) -> list[Deed]:
    chance = random.Random(f"{seed}.visitors")
    found: list[Deed] = []
    at_s = _gap(chance, VISITOR_GAP_S, seconds)
    while at_s < end_s:
        hold_s = chance.uniform(0.2, 0.5) * min(VISITOR_GAP_S[1], seconds / SHORT_PART)
        found.append(Deed(at_s, "visitor", len(found), hold_s, is_killed=chance.random() < 0.5))
        at_s += hold_s + _gap(chance, VISITOR_GAP_S, seconds)
    return found


def _gap(chance: random.Random, bounds: tuple[float, float], seconds: float) -> float:
    return min(chance.uniform(*bounds), chance.uniform(0.8, 1.0) * seconds / SHORT_PART)
