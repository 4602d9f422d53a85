"""A campaign: the random drill repeated for hours, on clusters of every kind. Pure: its plan and its report.

A *leg* is one run of the random drill, on a cluster of one kind. Kinds come in rounds: in a round each kind has as many
legs as its weight, in an order drawn from the seed. After each leg every acknowledgement is compared with every replica.

The account is one JSON document: passed, acknowledged, lost, changed, ..., how often each fault was drawn and which ones
never were, pauses, and the legs, each with the document of its drill. Pauses over 4 s are listed one by one, as judged by
campaign_pauses; a leg in which writes stalled has not passed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from ..catalogue import Conditions, possible_faults, writes_wait
from ..topic_kinds import PLAIN, TOPIC_KINDS
from .campaign_pauses import Pause, pauses_of

LEG_MINUTES: Final = 4.0
RATE: Final = 5_000.0
BATCH: Final = 16
"""Fewer and larger sends than in a drill: the load of two campaigns must leave most of two cores to the clusters."""

COUNTS: Final = (
    "acknowledged",
    "lost",
    "changed",
    "uneven",
    "holes",
    "damaged",
    "reordered",
    "duplicated",
    "violations",
    "transfers",
    "popped",
    "popped_again",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of cluster for the random drill. `weight`: its legs in a round."""

    name: str
    replicas: int
    controllers: int
    groups: int = 1
    power: bool = False
    disks: bool = False
    weight: int = 1

    @property
    def conditions(self) -> Conditions:
        """The faults that may be drawn, if the machine allows cutting the network."""
        return Conditions(
            has_controllers=self.controllers > 0,
            can_cut_network=not (self.power or self.disks),
            can_cut_power=self.power,
            can_fail_disk=self.disks,
        )


KINDS: Final = (
    Kind(name="three", replicas=3, controllers=2, weight=3),
    Kind(name="three-power", replicas=3, controllers=2, power=True, weight=2),
    Kind(name="three-disks", replicas=3, controllers=2, disks=True),
    Kind(name="two", replicas=2, controllers=2),
    Kind(name="two-power", replicas=2, controllers=1, power=True),
    Kind(name="static", replicas=2, controllers=0),
    Kind(name="groups", replicas=2, controllers=1, groups=2),
)


@dataclass(frozen=True, slots=True)
class Leg:
    """`seed`: of its faults. `topics`: the kind of topic that its load is sent to."""

    number: int
    kind: Kind
    seed: int
    minutes: float
    topics: str = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The result of a leg.

    `document`: the drill's; None if it broke off, and `failure` says why. `evidence`: the kept files.
    """

    leg: Leg
    began_ms: int
    ended_ms: int
    document: Mapping[str, Any] | None
    failure: str = ""
    evidence: str = ""

    @property
    def passed(self) -> bool:
        """Whether all promises held, and writes did not stall."""
        return self.document is not None and bool(self.document["passed"]) and not self.stalls()

    def pauses(self) -> list[Pause]:
        """The pause of each of its faults; empty if it broke off."""
        return [] if self.document is None else pauses_of(_run(self.document), self.leg.kind.conditions)

    def stalls(self) -> list[str]:
        """The stalls as text."""
        return [str(pause) for pause in self.pauses() if pause.stalled]


def legs(seed: int, minutes: float = LEG_MINUTES) -> Iterator[Leg]:
    """An endless sequence, always the same for a seed."""
    chance, of_topics = random.Random(seed), random.Random(f"topics of {seed}")
    number = 0
    while True:
        turn = [kind for kind in KINDS for _ in range(kind.weight)]
        chance.shuffle(turn)
        for kind in turn:
            yield Leg(number, kind, chance.randrange(1, 1 << 20), minutes, of_topics.choice(TOPIC_KINDS))
            number += 1


def folder(number: int) -> str:
    """The folder of a leg's report, in the campaign's directory."""
    return f"leg-{number:03d}"


def document(
    accounts: Sequence[Account],
    *,
    seed: int,
    hours: float,
    began_ms: int,
    is_interrupted: bool = False,
    command: str = "",
) -> dict[str, Any]:
    """The whole campaign.

    Times of legs in ms since `began_ms` (wall clock). `is_interrupted`: by a user. `command`: repeats the campaign.
    """
    runs = [_run(account.document) for account in accounts if account.document is not None]
    pauses = [(account.leg, pause) for account in accounts for pause in account.pauses()]
    lengths = [pause.pause_ms for _, pause in pauses]
    long = [(leg, pause) for leg, pause in pauses if pause.is_long]
    faults = _faults([fault for run in runs for fault in run["faults"]])
    return {
        "campaign": seed,
        "command": command,
        "hours": hours,
        "began_ms": began_ms,
        "interrupted": is_interrupted,
        "passed": bool(accounts) and all(account.passed for account in accounts),
        **{name: sum(run[name] for run in runs) for name in COUNTS},
        "faults": faults,
        "never_drawn": sorted({fault for kind in KINDS for fault in possible_faults(kind.conditions)} - set(faults)),
        "pauses": {
            "count": len(lengths),
            "median_ms": round(median(lengths), 1) if lengths else None,
            "worst_ms": max(lengths, default=None),
            "too_long": sum(not pause.by_design for _, pause in long),
            "stalled": sum(pause.stalled for _, pause in pauses),
            "long": [{"leg": leg.number, "kind": leg.kind.name, **pause.document()} for leg, pause in long],
        },
        "legs": [_leg_document(account) for account in accounts],
    }


def _faults(drawn: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """How often each was drawn, and the pauses it caused."""
    pauses: dict[str, list[float]] = {}
    for fault in drawn:
        pauses.setdefault(fault["kind"], []).append(fault["pause_ms"])
    return {
        kind: {"times": len(found), "pause_median_ms": round(median(found), 1), "pause_worst_ms": max(found)}
        for kind, found in sorted(pauses.items())
    }


def _run(drill: Mapping[str, Any]) -> Mapping[str, Any]:
    run: Mapping[str, Any] = drill["runs"][0]
    return run


def _leg_document(account: Account) -> dict[str, Any]:
    leg = account.leg
    return {
        "number": leg.number,
        "kind": asdict(leg.kind),
        "waits_by_design": sorted(
            fault for fault in possible_faults(leg.kind.conditions) if writes_wait(fault, leg.kind.conditions)
        ),
        "topics": leg.topics,
        "seed": leg.seed,
        "minutes": leg.minutes,
        "began_ms": account.began_ms,
        "ended_ms": account.ended_ms,
        "passed": account.passed,
        "failure": account.failure,
        "stalls": account.stalls(),
        "evidence": account.evidence,
        "drill": account.document,
    }
