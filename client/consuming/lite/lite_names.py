"""Which lite topics a consumer wants, and what each broker has heard of it: only changes travel. Pure.

    wanted   --- add / remove, in numbered steps --->   what a broker knows, confirmed by its answers
             --- all, where it does not know     --->

A broker that was not told yet, that is another master now, or that has forgotten this consumer is told all of it. Every broker
of the parent is told: each may have messages of any lite topic, from a time when the parent had other brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ..simple.division import PopTarget

NAMES_MAX: Final = 4096
"""Names of one change."""


@dataclass(frozen=True, slots=True)
class LiteChange:
    """One step, as it is sent. `action`: "add", "remove" or "all"."""

    action: str
    names: tuple[str, ...]
    before: int
    version: int


@dataclass(slots=True)
class _ToldBroker:
    """`version`: what the broker has confirmed. `pending`: {name: wanted or not} of what it is to be told yet; `change`: what
    is on its way, or is to be sent again. `evictions`: the last that were heard of."""

    version: int = 0
    sent: int = 0
    is_known: bool = False
    pending: dict[str, bool] = field(default_factory=dict)
    change: LiteChange | None = None
    is_under_way: bool = False
    evictions: int = 0


class LiteNames:
    """One consumer's. Guarded by the lock of its owner."""

    def __init__(self) -> None:
        self._wanted: dict[str, dict[str, None]] = {}
        self._told: dict[PopTarget, _ToldBroker] = {}

    # ---- what the program wants

    def subscription(self) -> Mapping[str, frozenset[str]]:
        """{parent: lite topics}."""
        return {topic: frozenset(names) for topic, names in self._wanted.items() if names}

    def add(self, topic: str, names: Iterable[str]) -> list[str]:
        """Returns those that are new."""
        wanted = self._wanted.setdefault(topic, {})
        fresh = [name for name in dict.fromkeys(names) if name not in wanted]
        wanted.update(dict.fromkeys(fresh))
        self._tell(topic, fresh, is_wanted=True)
        return fresh

    def remove(self, topic: str, names: Iterable[str] | None) -> None:
        """None: all of the parent."""
        wanted = self._wanted.get(topic, {})
        gone = list(wanted) if names is None else [name for name in names if name in wanted]
        for name in gone:
            del wanted[name]
        self._tell(topic, gone, is_wanted=False)

    def _tell(self, topic: str, names: Iterable[str], *, is_wanted: bool) -> None:
        changes = dict.fromkeys(names, is_wanted)
        for target, told in self._told.items():
            if target.topic == topic and told.is_known:
                told.pending.update(changes)

    # ---- what brokers know

    def keep(self, targets: Collection[PopTarget]) -> None:
        """These are the brokers now."""
        if self._told.keys() != set(targets):
            self._told = {target: self._told.get(target) or _ToldBroker() for target in targets}

    def targets_of(self, topic: str) -> list[PopTarget]:
        """The brokers of a parent."""
        return [target for target in self._told if target.topic == topic]

    def next_change(self, target: PopTarget) -> LiteChange | None:
        """What a broker is to be told next; None: nothing, or an answer is waited for."""
        told = self._told.get(target)
        if told is None or told.is_under_way:
            return None
        if told.change is None:
            told.change = self._new_change(target, told)
        told.is_under_way = told.change is not None
        return told.change

    def _new_change(self, target: PopTarget, told: _ToldBroker) -> LiteChange | None:
        if not told.is_known:
            wanted = self._wanted.get(target.topic, {})
            told.pending = dict.fromkeys(islice(wanted, NAMES_MAX, None), True)
            action, names = "all", tuple(islice(wanted, NAMES_MAX))
            told.is_known = True
        elif told.pending:
            is_wanted = next(iter(told.pending.values()))
            of_kind = (name for name, kind in told.pending.items() if kind == is_wanted)
            action, names = "add" if is_wanted else "remove", tuple(islice(of_kind, NAMES_MAX))
            for name in names:
                del told.pending[name]
        else:
            return None
        told.sent += 1
        return LiteChange(action, names, told.version, told.sent)

    def is_under_way(self, target: PopTarget) -> bool:
        """Somebody else is telling it."""
        told = self._told.get(target)
        return told is not None and told.is_under_way

    def on_answer(self, target: PopTarget, change: LiteChange, *, is_known: bool) -> None:
        """The broker has made the change, or does not know what it is to change."""
        told = self._told.get(target)
        if told is None or told.change is not change:
            return
        told.change, told.is_under_way = None, False
        if is_known:
            told.version = change.version
        else:
            self._forget(told)

    def on_failure(self, target: PopTarget, change: LiteChange) -> None:
        """It may have been made: it is sent again."""
        told = self._told.get(target)
        if told is not None and told.change is change:
            told.is_under_way = False

    def on_refused(self, target: PopTarget, change: LiteChange) -> None:
        """It was not made, and will not be: what the program wants is told anew."""
        told = self._told.get(target)
        if told is not None and told.change is change:
            told.change, told.is_under_way = None, False
            self._forget(told)

    def on_unknown(self, target: PopTarget) -> None:
        """The broker does not know this consumer."""
        told = self._told.get(target)
        if told is not None and told.change is None:
            self._forget(told)

    def _forget(self, told: _ToldBroker) -> None:
        told.is_known = False
        told.version = 0
        told.evictions = 0
        told.pending.clear()

    def confirmed(self, target: PopTarget) -> tuple[int, int]:
        """(version, evictions) that a pop at this broker names; version 0: it has confirmed nothing yet."""
        told = self._told.get(target)
        return (0, 0) if told is None else (told.version, told.evictions)

    def on_evicted(self, target: PopTarget, names: Iterable[str], evictions: int) -> list[str]:
        """Others have these now. Returns those that were wanted, and are not any more."""
        told = self._told.get(target)
        if told is None or evictions <= told.evictions:
            return []
        told.evictions = evictions
        wanted = self._wanted.get(target.topic, {})
        lost = [name for name in names if name in wanted]
        for name in lost:
            del wanted[name]
            told.pending.pop(name, None)
        for other, its in self._told.items():
            if other.topic == target.topic and other != target and its.is_known:
                its.pending.update(dict.fromkeys(lost, False))
        return lost
