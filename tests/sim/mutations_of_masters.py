"""What a master does without a rule: the in-sync set, positions, what is confirmed (R2, R6, R7, R8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zenitmq.broker.replication import following_member, in_sync, master
from zenitmq.broker.replication.effects import ConfirmMoved, Effect
from zenitmq.model.groups.group import KnownGroup

from .mutation_table import Patch, mutation


@mutation("mincount", "R8: a proposed member counts towards the minimum")
def _() -> list[Patch]:
    def has_minimum(self: in_sync.InSyncSet) -> bool:
        return len(self.union) >= self.group.node.settings.min_in_sync

    return [
        (in_sync.InSyncSet, "has_minimum", property(has_minimum, lambda *_: None)),
        (in_sync.InSyncSet, "_has_minimum", lambda _: True),
    ]


@mutation("confmin", "R6: the confirm offset moves below the minimum")
def _() -> list[Patch]:
    progress = master.MasterState._progress

    def mutant(self: master.MasterState, effects: list[Effect]) -> None:
        if self._in_sync.has_minimum:
            return progress(self, effects)
        log, sync = self._log, self._is_sync
        positions = [other.flushed if sync else other.written for other in self._others]
        lowest = min([log.flushed if sync else log.end, *positions])
        if lowest > log.confirm:
            log.confirm = lowest
            effects.append(ConfirmMoved(lowest))
        return None

    return [(master.MasterState, "_progress", mutant)]


@mutation("minimum-split", "R8: the master uses its own minimum, not the node's")
def _() -> list[Patch]:
    return [(in_sync.InSyncSet, "_has_minimum", lambda self: len(self.known) >= 1)]


def _adopting(is_news: Callable[[int, int], bool]) -> list[Patch]:
    def on_group(self: in_sync.InSyncSet, group: KnownGroup) -> bool:
        if not is_news(group.version, self.group.version):
            return False
        self.group = group
        self.known = self.union = frozenset(group.node.in_sync)
        self.has_minimum = self._has_minimum()
        self._proposed = None
        return True

    return [(in_sync.InSyncSet, "on_group", on_group)]


@mutation("infover", "R2: the master adopts an older version of the node")
def _() -> list[Patch]:
    return _adopting(lambda version, known: version != known)


@mutation("resolvever", "R7: reading the same version again settles a proposal")
def _() -> list[Patch]:
    return _adopting(lambda version, known: version >= known)


@mutation("R6-union", "R6: a proposal without an answer is dropped, and its member with it")
def _() -> list[Patch]:
    propose = in_sync.InSyncSet.propose

    def mutant(self: in_sync.InSyncSet, **wanted: Any) -> Any:
        if self._proposed is not None and wanted["now_ms"] >= self._again_ms:
            self.union, self._proposed = self.known, None
            return None
        return propose(self, **wanted)

    ask = master.MasterState._propose

    def listed(self: master.MasterState, now_ms: int) -> list[Effect]:
        effects = ask(self, now_ms)
        self._list_union()
        return effects

    return [(in_sync.InSyncSet, "propose", mutant), (master.MasterState, "_propose", listed)]


@mutation("R7-expand", "R7: a member is proposed before sends wait for it")
def _() -> list[Patch]:
    propose = in_sync.InSyncSet.propose

    def mutant(self: in_sync.InSyncSet, **wanted: Any) -> Any:
        proposal = propose(self, **wanted)
        self.union &= self.known
        return proposal

    return [(in_sync.InSyncSet, "propose", mutant)]


@mutation("R7-shrink", "R7: sends stop waiting for a leaving member before the controller has written")
def _() -> list[Patch]:
    propose = in_sync.InSyncSet.propose

    def mutant(self: in_sync.InSyncSet, **wanted: Any) -> Any:
        proposal = propose(self, **wanted)
        self.union -= wanted["leaving"]
        return proposal

    return [(in_sync.InSyncSet, "propose", mutant)]


@mutation("R8-all", "R8: a send is acknowledged when as many as the minimum have it, not all of the union")
def _() -> list[Patch]:
    progress = master.MasterState._progress

    def mutant(self: master.MasterState, effects: list[Effect]) -> None:
        others, sync = self._others, self._is_sync
        needed = self._in_sync.group.node.settings.min_in_sync - 1
        by_position = sorted(others, key=lambda other: -(other.flushed if sync else other.written))
        self._others = tuple(by_position[:needed])
        progress(self, effects)
        self._others = others

    return [(master.MasterState, "_progress", mutant)]


@mutation("epstart", "R7: a member joins at a confirm offset below the start of the epoch")
def _() -> list[Patch]:
    propose = master.MasterState._propose

    def mutant(self: master.MasterState, now_ms: int) -> list[Effect]:
        start, self.start = self.start, 0
        effects = propose(self, now_ms)
        self.start = start
        return effects

    return [(master.MasterState, "_propose", mutant)]


@mutation("expinc", "R7: a member joins on the acks of a session of an earlier incarnation")
def _() -> list[Patch]:
    def may_join(self: following_member.FollowingMember, bar: int, is_sync: bool) -> bool:
        return (self.flushed if is_sync else self.written) >= bar

    return [(following_member.FollowingMember, "may_join", may_join)]


@mutation("join-any", "R7: a member joins without having caught up")
def _() -> list[Patch]:
    return [
        (
            following_member.FollowingMember,
            "may_join",
            lambda self, *_: self.is_open and self.session_incarnation == self.incarnation,
        )
    ]
