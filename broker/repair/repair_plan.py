"""Decides which replica is asked for which damaged range, and when a range counts as lost. Pure.

    damage --> one replica after another is asked --undamaged bytes--> mended
                 '- all have answered that they lack the bytes, or `wait_ms` have passed --> lost, and asked for rarely

A replica that has just started may not know all others yet: the refusal of all counts only after `SETTLE_MS`, and a new
replica is asked at once. A replica whose log ends before the range lacks the bytes too, and can get them only from another of
the asked ones. It is asked again all the same, since it may get them before their source is gone.

Each replica has one request in flight at a time: one that hangs, and lets each request time out, delays one range and no
other replica. The range that has been due longest is asked for next, so that lost ranges do not keep others from being asked
for. Times are monotonic milliseconds. Only ranges below the confirm offset are asked for: there all replicas with the bytes
have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum
from typing import Final

from ...model.plain_dataclass import dataclass

RETRY_MS: Final = 1_000
LOST_RETRY_MS: Final = 60_000
SETTLE_MS: Final = 10_000
"""Living replicas register within a second or two; those of a static group after each start of its master."""

Range = tuple[int, int]


class RepairOutcome(Enum):
    """The outcome of a request."""

    MENDED = "mended"
    REFUSED = "it has not these bytes"
    NOT_THERE_YET = "its log ends before them"
    UNANSWERED = "no answer, or not now"


@dataclass(frozen=True, slots=True)
class RangeAsk:
    """Ask this replica for the bytes [begin, end) of the log."""

    begin: int
    end: int
    replica: str


@dataclass(slots=True)
class _Task:
    since_ms: int
    not_before_ms: int
    refused: set[str] = field(default_factory=set)
    behind: set[str] = field(default_factory=set)  # whose logs ended before these bytes when they were last asked
    again_ms: dict[str, int] = field(
        default_factory=dict
    )  # when replicas that gave nothing are asked again; others at `not_before_ms`
    is_lost: bool = False
    has_nobody: bool = False  # all present replicas have answered that they lack the bytes


class RepairPlan:
    """The plan of one store. `mended`: repaired ranges so far."""

    def __init__(self, *, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._tasks: dict[Range, _Task] = {}
        self._under_way: dict[str, RangeAsk] = {}  # by replica
        self._replicas: frozenset[str] = frozenset()
        self.mended = 0

    @property
    def awaited(self) -> tuple[Range, ...]:
        """Ranges that a replica may still have."""
        return tuple(sorted(found for found, task in self._tasks.items() if not task.is_lost))

    @property
    def lost(self) -> tuple[Range, ...]:
        """Ranges that count as lost."""
        return tuple(sorted(found for found, task in self._tasks.items() if task.is_lost))

    @property
    def sought(self) -> tuple[Range, ...]:
        """Lost ranges that a replica that has not answered may have."""
        return tuple(sorted(found for found, task in self._tasks.items() if task.is_lost and not task.has_nobody))

    def on_damage(self, ranges: Iterable[Range], now_ms: int) -> None:
        """These are all the damaged ranges now."""
        known = self._tasks
        self._tasks = {found: known.get(found) or _Task(now_ms, now_ms) for found in ranges}

    def next_ask(self, now_ms: int, replicas: tuple[str, ...] | None, confirm: int) -> RangeAsk | None:
        """The request to send now. `replicas`: the group's others; None while the group is unknown."""
        self._meet(now_ms, replicas or ())
        self._give_up(now_ms, replicas)
        held = {(ask.begin, ask.end) for ask in self._under_way.values()}
        free = [name for name in replicas or () if name not in self._under_way]
        due = (
            (task.again_ms.get(name, task.not_before_ms), found, name)
            for found, task in self._tasks.items()
            if found[1] <= confirm and found not in held
            for name in free
            if name not in task.refused
        )
        due_ms, (begin, end), name = min(due, default=(now_ms + 1, (0, 0), ""))
        if due_ms > now_ms:
            return None
        ask = self._under_way[name] = RangeAsk(begin, end, name)
        return ask

    def on_outcome(self, ask: RangeAsk, outcome: RepairOutcome, now_ms: int) -> None:
        """A request has ended. A repaired range leaves with the next `on_damage`."""
        assert self._under_way[ask.replica] == ask
        del self._under_way[ask.replica]
        task = self._tasks.get((ask.begin, ask.end))
        if outcome is RepairOutcome.MENDED:
            self.mended += 1
        if task is None:
            return
        task.behind.discard(ask.replica)
        if outcome is RepairOutcome.REFUSED:
            task.refused.add(ask.replica)
        elif outcome is RepairOutcome.NOT_THERE_YET:
            task.behind.add(ask.replica)
        if outcome in (RepairOutcome.UNANSWERED, RepairOutcome.NOT_THERE_YET):
            task.again_ms[ask.replica] = now_ms + (LOST_RETRY_MS if task.is_lost else RETRY_MS)

    def _meet(self, now_ms: int, replicas: tuple[str, ...]) -> None:
        """New replicas may have what others lack."""
        if new := set(replicas) - self._replicas:
            for task in self._tasks.values():
                task.not_before_ms = min(task.not_before_ms, now_ms)
                task.has_nobody = False
                for name in new & task.again_ms.keys():
                    del task.again_ms[name]
        self._replicas = frozenset(replicas)

    def _give_up(self, now_ms: int, replicas: tuple[str, ...] | None) -> None:
        for task in self._tasks.values():
            is_settled = replicas is not None and now_ms - task.since_ms >= SETTLE_MS
            is_refused = is_settled and (task.refused | task.behind).issuperset(replicas or ())
            if not task.is_lost and (is_refused or now_ms - task.since_ms >= self._wait_ms):
                task.is_lost = True
            task.has_nobody |= is_refused
            if is_refused and (task.refused or task.behind):  # disks are replaced, and groups get new members
                task.refused.clear()
                task.behind.clear()
                task.again_ms.clear()
                task.not_before_ms = now_ms + LOST_RETRY_MS
