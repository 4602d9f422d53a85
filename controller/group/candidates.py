"""What the leading controller has heard of a group's replicas, and which one it would elect. Pure.

Only a replica heard within the last second is elected: after a power failure of all, heartbeats of two seconds ago are
those of dead replicas. The longest log of the in-sync set is chosen; if none of that may lead, of the eligible set.

A replica that was *passed over* stalled the group as its master, or after its election. It ranks behind all others for a
while, which doubles each time, and until it can do what it could not. So two replicas that both hang are not elected in
turn: a stalled master is replaced only by a *clear* replica, and if there is none, nothing changes and the log says so.

A replica that *drains* is about to stop, or is not to lead. It ranks behind all others, so that two that drain do not pass
the group to and fro.

Times are monotonic milliseconds. Owned by one thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Final

from ...model.groups.group import GroupNode, Incarnation
from ...model.groups.log_reach import LogReach
from ...model.plain_dataclass import dataclass
from ...remoting.commands import RegisterReplica, ReplicaHeartbeat

HEARD_MS: Final = 1000
"""A replica that was silent for this long is not elected. A broker sends a heartbeat each 500 ms."""
PASSED_OVER_MS: Final = 15_000
PASSED_OVER_MS_MAX: Final = 240_000
SYNC_SLOW_MS: Final = 1000
"""A disk whose present sync takes longer is no reason to depose a master, but one to elect another."""


@dataclass(frozen=True, slots=True)
class Sign:
    """The last heartbeat of a replica; the fields are those of `ReplicaHeartbeat`."""

    incarnation: Incarnation
    heard_ms: int
    log_end: int
    epoch: int
    sync_pending_ms: int = 0
    no_room_ms: int = 0
    cut_off_ms: int = 0
    newest_epoch: int = 0
    newest_begin: int = 0
    confirm_offset: int = 0
    drains: bool = False

    @classmethod
    def of(cls, request: ReplicaHeartbeat, now_ms: int) -> Sign:
        """Made from a heartbeat."""
        return cls(
            Incarnation(request.store_id, request.starts),
            now_ms,
            request.log_end,
            request.epoch,
            request.sync_pending_ms,
            request.no_room_ms,
            request.cut_off_ms,
            request.newest_epoch,
            request.newest_begin,
            request.confirm_offset,
            request.drains,
        )

    @classmethod
    def of_registration(cls, request: RegisterReplica, now_ms: int) -> Sign:
        """Made from the registration of a new incarnation."""
        return cls(
            Incarnation(request.store_id, request.starts),
            now_ms,
            request.log_end,
            request.epoch,
            newest_epoch=request.newest_epoch,
            newest_begin=request.newest_begin,
        )

    def reach(self, name: str) -> LogReach:
        """How far the log of that replica reaches."""
        return LogReach(
            name=name,
            newest_epoch=self.newest_epoch,
            newest_begin=self.newest_begin,
            end=self.log_end,
            confirm=self.confirm_offset,
        )


@dataclass(frozen=True, slots=True)
class _PassedOver:
    """`epoch`: the one it stalled. `hold_ms`: how long from `since_ms` on."""

    incarnation: Incarnation
    epoch: int
    since_ms: int
    hold_ms: int


class Candidates:
    """The replicas of one group. `epoch_seen`: the highest that a replica reports."""

    def __init__(self) -> None:
        self.epoch_seen = 0
        self._signs: dict[str, Sign] = {}
        self._passed_over: dict[str, _PassedOver] = {}

    # ---- what is heard

    def hear(self, name: str, sign: Sign) -> None:
        """A heartbeat or a registration."""
        self._signs[name] = sign
        self.epoch_seen = max(self.epoch_seen, sign.epoch)

    def sign(self, node: GroupNode, name: str | None) -> Sign | None:
        """The last heartbeat of a replica, if it is of the incarnation that the node names."""
        replica = node.replica(name) if name is not None else None
        sign = self._signs.get(name) if name is not None else None
        return sign if sign is not None and replica is not None and sign.incarnation == replica.incarnation else None

    def reaches(self) -> dict[str, LogReach]:
        """How far the logs of all heard replicas reach, by name."""
        return {name: sign.reach(name) for name, sign in self._signs.items()}

    def is_heard(self, node: GroupNode, name: str | None, now_ms: int, within_ms: int = HEARD_MS) -> bool:
        """True if its present incarnation was heard within that time."""
        sign = self.sign(node, name)
        return sign is not None and now_ms - sign.heard_ms < within_ms

    # ---- who was passed over

    def pass_over(self, node: GroupNode, name: str, now_ms: int) -> int:
        """It stalls the epoch of this node, or did. Returns for how long, in ms, it ranks behind all others."""
        before = self._passed_over.get(name)
        sign = self._signs[name]
        if before is not None and (before.incarnation, before.epoch) == (sign.incarnation, node.epoch):
            return before.hold_ms
        hold_ms = PASSED_OVER_MS
        if before is not None and now_ms - before.since_ms < 2 * before.hold_ms:
            hold_ms = min(PASSED_OVER_MS_MAX, 2 * before.hold_ms)
        self._passed_over[name] = _PassedOver(sign.incarnation, node.epoch, now_ms, hold_ms)
        return hold_ms

    def is_able(self, node: GroupNode, name: str, now_ms: int) -> bool:
        """It was heard just now, and its disk accepts and syncs writes."""
        sign = self.sign(node, name)
        if sign is None or not self.is_heard(node, name, now_ms):
            return False
        return sign.sync_pending_ms < SYNC_SLOW_MS and not sign.no_room_ms

    def is_clear(self, node: GroupNode, name: str, now_ms: int) -> bool:
        """It may take over from a master that stalls: able, and not passed over."""
        passed = self._passed_over.get(name)
        if not self.is_able(node, name, now_ms):
            return False
        sign = self._signs[name]
        if passed is None or passed.incarnation != sign.incarnation:
            return True
        return sign.epoch >= passed.epoch and now_ms - passed.since_ms >= passed.hold_ms

    # ---- who drains

    def drains(self, node: GroupNode, name: str | None) -> bool:
        """Its present incarnation says that it drains."""
        sign = self.sign(node, name)
        return sign is not None and sign.drains

    def successor(self, node: GroupNode, now_ms: int) -> str | None:
        """Who takes over from a master that drains: a clear replica of the in-sync set that does not drain; None if there is
        none, or the master does not drain."""
        if not self.drains(node, node.master):
            return None
        return self._longest(
            name
            for name in node.in_sync
            if name != node.master and not self.drains(node, name) and self.is_clear(node, name, now_ms)
        )

    # ---- whom to choose

    def best(self, node: GroupNode, now_ms: int, *, but: str | None = None, only_clear: bool = False) -> str | None:
        """The longest log: of the in-sync set, otherwise of the eligible; ties go by name. Clear replicas rank before
        all others, and those that drain behind them."""
        tests = (self.is_clear,) if only_clear else (self.is_clear, self.is_heard)
        for drains, may_lead in product((False, True), tests):
            for members in (node.in_sync, node.eligible):
                found = self._longest(
                    name
                    for name in members
                    if name != but and self.drains(node, name) is drains and may_lead(node, name, now_ms)
                )
                if found is not None:
                    return found
        return None

    def _longest(self, names: Iterable[str]) -> str | None:
        """The one with the longest log; ties go by name."""
        return min(names, key=lambda name: (-self._signs[name].log_end, name), default=None)
