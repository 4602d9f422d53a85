"""Which replica is asked for which damaged range, and when a range counts as gone for good. Pure.

    damage --> asked of one replica after another --whole bytes--> mended
                 '- all have said that they have not the bytes, or `wait_ms` have passed --> lost, and asked for now and then

Who has just started may not know all replicas yet: that all refuse counts after `SETTLE_MS` only, and who joins is asked at
once. Whose log does not reach so far has not the bytes either, and can get them from nobody but another of those that are
asked; it is asked again all the same, since that may happen before its source is gone.

Each replica has one question under way at a time: who hangs, and lets each question run out, holds up one range and no other
replica. Asked next is what has been due for longest, so that ranges which nobody can give keep none from being asked for.
Times are monotonic milliseconds. Only what lies below the confirm offset is asked for: there every replica that has the bytes
has the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

RETRY_MS: Final = 1_000
LOST_RETRY_MS: Final = 60_000
SETTLE_MS: Final = 10_000
"""Replicas that live register within a second or two; those of a static group, after each start of its master."""

Range = tuple[int, int]


class RepairOutcome(Enum):
    """What came of a question."""

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
    behind: set[str] = field(default_factory=set)  # whose logs ended before these bytes when they were asked last
    again_ms: dict[str, int] = field(
        default_factory=dict
    )  # when who gave nothing is asked again; others at `not_before_ms`
    is_lost: bool = False
    has_nobody: bool = False  # all replicas that there are have said that they have not the bytes


class RepairPlan:
    """One store's. `mended`: ranges so far."""

    def __init__(self, *, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._tasks: dict[Range, _Task] = {}
        self._under_way: dict[str, RangeAsk] = {}  # by replica
        self._replicas: frozenset[str] = frozenset()
        self.mended = 0

    @property
    def awaited(self) -> tuple[Range, ...]:
        """What a replica may still have."""
        return tuple(sorted(found for found, task in self._tasks.items() if not task.is_lost))

    @property
    def lost(self) -> tuple[Range, ...]:
        """What is gone for good, as far as anybody knows."""
        return tuple(sorted(found for found, task in self._tasks.items() if task.is_lost))

    @property
    def sought(self) -> tuple[Range, ...]:
        """Of what is lost, what a replica that has not answered may have."""
        return tuple(sorted(found for found, task in self._tasks.items() if task.is_lost and not task.has_nobody))

    def on_damage(self, ranges: Iterable[Range], now_ms: int) -> None:
        """These are all the damaged ranges that there are now."""
        known = self._tasks
        self._tasks = {found: known.get(found) or _Task(now_ms, now_ms) for found in ranges}

    def next_ask(self, now_ms: int, replicas: tuple[str, ...] | None, confirm: int) -> RangeAsk | None:
        """A question to be put now. `replicas`: the group's others; None while nobody knows the group."""
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
        """A question was settled. What is mended leaves with the next `on_damage`."""
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
        """Those that were not known before may have what others have not."""
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
            if is_refused and (task.refused or task.behind):  # disks are replaced, and groups get other members
                task.refused.clear()
                task.behind.clear()
                task.again_ms.clear()
                task.not_before_ms = now_ms + LOST_RETRY_MS
