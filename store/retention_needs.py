"""Finds how far back the log is needed, in slices, because ten thousand queues must not stop the loop each second.

A *need* is (topic, queue id, first queue offset) of a reader that has yet to read that queue from there on. Needs move on
by themselves; a new one, or one that moves back, raises `revision`. So a lowest position, once found, stays valid except for
those, and as long as its reader has not moved on, nothing else must be checked. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

Need = tuple[str, int, int]
QueueKey = tuple[str, int]


class Needs(Protocol):
    """The needs of some readers. Loop thread."""

    @property
    def revision(self) -> int:
        """Grows with each need that is new or moves back; 0 at first."""

    def since(self, revision: int | None) -> Iterator[Need]:
        """All needs, or those that are new or moved back after a revision. They may change during the iteration."""

    def first(self, topic: str, queue_id: int) -> int | None:
        """The lowest needed offset of a queue; None: nothing of it is needed."""


class FixedNeeds:
    """Needs that never move."""

    revision = 0

    def __init__(self, offsets: Mapping[QueueKey, int]) -> None:
        self._offsets = offsets

    def since(self, revision: int | None) -> Iterator[Need]:
        """All needs; none are new."""
        return ((*key, offset) for key, offset in ([] if revision is not None else list(self._offsets.items())))

    def first(self, topic: str, queue_id: int) -> int | None:
        """The only one."""
        return self._offsets.get((topic, queue_id))


class LogHolds:
    """Whoever needs the log itself from an offset on, for a while: a replica that copies what it begins anew with."""

    def __init__(self) -> None:
        self._holds: dict[str, tuple[int, int]] = {}  # holder: (from which offset, until when)

    def take(self, holder: str, offset: int, until_ms: int) -> None:
        """`holder` needs everything from `offset` on until then, on the monotonic clock. It has one hold."""
        self._holds[holder] = offset, until_ms

    def renew(self, holder: str, until_ms: int) -> None:
        """The same, for longer; nothing if it has none."""
        if holder in self._holds:
            self._holds[holder] = self._holds[holder][0], until_ms

    def floor(self, now_ms: int) -> int | None:
        """The lowest offset that is held; None if nothing is."""
        self._holds = {holder: hold for holder, hold in self._holds.items() if hold[1] > now_ms}
        return min((offset for offset, _ in self._holds.values()), default=None)


@dataclass(slots=True)
class Budget:
    """How much may still be examined in this slice: a comparison costs 1."""

    left: int


@dataclass(frozen=True, slots=True)
class Losses:
    """{(topic, queue id): first needed offset} of the needs below a position of the log."""

    below: int
    first: Mapping[QueueKey, int]


PositionOf = Callable[[str, int, int, Budget], int | None]
"""The physical offset of a need of a queue from an offset on; None: nothing of it exists."""


class NeedSurvey:
    """Finds the lowest needed position, and the needs that a deletion would lose."""

    def __init__(self, needs: Needs, position_of: PositionOf) -> None:
        self._needs = needs
        self._position_of = position_of
        self._floor = 0  # no need is lower, as far as known: all of `_known` was examined
        self._lowest: QueueKey | None = None  # the need of that position
        self._known: int | None = None  # the revision
        self._mark = 0  # of the present pass
        self._pass: Iterator[Need] | None = None
        self._loss_of = -1  # the position below which the present pass records losses
        self._losses: dict[QueueKey, int] = {}

    def floor(self, first_end: int, log_end: int, budget: Budget) -> int | None:
        """A position below which there is no need; None if more slices are required to know.

        Below `first_end`, the end of the oldest segment, it need not be the highest: nothing may be deleted then.
        """
        if self._loss_of >= 0 or (self._floor < first_end and self._pass is None):
            lowest = None if self._lowest is None or self._loss_of >= 0 else self._position(self._lowest, budget)
            if lowest is not None and lowest < first_end:
                return lowest
            self._begin_anew(log_end)
        while self._pass is not None or self._known != self._needs.revision:
            if self._pass is None:
                self._mark = self._needs.revision
                self._pass = self._needs.since(self._known)
            for topic, queue_id, offset in self._pass:
                at = self._position_of(topic, queue_id, offset, budget)
                if at is not None and at < self._floor:
                    self._floor, self._lowest = at, (topic, queue_id)
                    if at < first_end:
                        self._pass = None
                        return at
                if budget.left <= 0:
                    return None
            self._known, self._pass = self._mark, None
        return self._floor

    def losses(self, below: int, log_end: int, budget: Budget) -> Losses | None:
        """The needs below a position, or a lower one that was asked for before, that are lost nevertheless; None
        if more slices are required to know."""
        if not 0 <= self._loss_of <= below:
            self._begin_anew(log_end)
            self._losses, self._loss_of = {}, below
            self._pass = self._needs.since(None)
        assert self._pass is not None
        for topic, queue_id, offset in self._pass:
            at = self._position_of(topic, queue_id, offset, budget)
            if at is not None and at < self._loss_of:
                self._losses[topic, queue_id] = min(offset, self._losses.get((topic, queue_id), offset))
            if budget.left <= 0:
                return None
        found = Losses(self._loss_of, self._losses)
        self._begin_anew(log_end)
        return found

    def _begin_anew(self, log_end: int) -> None:
        self._floor, self._lowest = log_end, None  # needs of later records are behind it
        self._known = self._pass = None
        self._loss_of = -1

    def _position(self, key: QueueKey, budget: Budget) -> int | None:
        offset = self._needs.first(*key)
        return None if offset is None else self._position_of(*key, offset, budget)
