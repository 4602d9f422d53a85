"""Decides which role this replica plays (candidate, slave or master), from the news of the group's node. Pure.

    candidate --(another is master)--> slave --(elected)--> taking over --> master
        ^  a newer epoch ends every role: stop it, persist the promise, then decide again |
        +----------------------------------------------------------------------------------+

Rules R1 to R3. News are adopted in the order of epochs, and of the node's versions within one; epochs below the
promised one are ignored. An election counts only if it names this very process (incarnation) and an epoch above all
promised before: a process never resumes an epoch, it waits for another. A new master takes over in this order, each step
durable before the next: promise -> torn tail cut -> (flush = sync) log synced -> row (epoch, own end) -> appends.

A replica that is elected with a hole in its log, while others are in the sets, first ends its log at the hole (R9), in an
incarnation of its own: nothing behind the hole was acknowledged, and the others could not follow past bytes that nobody can
send. If it is alone in both sets, it may have been forced for the sake of those bytes: then the log is taken as it is.

A cut that a crash interrupted (R4) is carried out first, before anything is sent to anybody: `on_start`.
"""

from __future__ import annotations

from enum import Enum

from ...model.errors import TooManyEpochs
from ...model.groups.group import FlushMode, GroupNode, Incarnation, KnownGroup
from .effects import (
    CutTail,
    DiskEffect,
    Effect,
    Follow,
    Halt,
    Lead,
    PersistEpochs,
    PersistIntent,
    PersistPromise,
    StopFollowing,
    StopLeading,
    SyncLog,
)
from .epochs import ROWS_MAX, EpochList
from .replica_log import ReplicaLog
from .truncation import Truncation


class Role(Enum):
    """The replica's role in the newest epoch it knows."""

    CANDIDATE = "candidate"
    SLAVE = "slave"
    MASTER = "master"


class RoleState:
    """`role`; `promised`: the highest epoch persisted; `known`: the newest news adopted."""

    def __init__(self, name: str, incarnation: Incarnation, log: ReplicaLog, *, promised: int) -> None:
        """`promised`: as persisted, 0 on a new store. `log.epochs`: as recovered (`EpochList.recovered`)."""
        self.role = Role.CANDIDATE
        self.promised = promised
        self.known: KnownGroup | None = None
        self._name = name
        self._incarnation = incarnation
        self._log = log
        self._decided = 0  # newest epoch in which this process takes part
        self._elected = 0  # epoch whose election this process may accept: promised by itself
        self._awaiting: DiskEffect | None = None
        self._stopping = False
        self._truncation: Truncation | None = None

    def on_start(self, intent: PersistIntent | None) -> list[Effect]:
        """The process has started; `intent` is the cut in progress when the former process ended, if any."""
        if intent is None:
            return []
        self._truncation = Truncation(intent, self._log)
        return self._truncation.resume()

    def on_group(self, known: KnownGroup) -> list[Effect]:
        """The node was read. Lower epochs, and lower versions within an epoch, are old news."""
        if known.node.epoch < self.promised or (self.known is not None and not known.is_news_after(self.known)):
            return []
        self.known = known
        return self._advance()

    def on_stopped(self) -> list[Effect]:
        """The slave core has stopped."""
        self._stopping = False
        return self._advance()

    def on_done(self, effect: DiskEffect) -> list[Effect]:
        """A disk effect of this core was carried out."""
        if self._truncation is not None:
            effects = self._truncation.on_done(effect)
            if not self._truncation.is_done:
                return effects
            self._truncation = None
            return effects + self._advance()
        if effect != self._awaiting:
            return []
        self._awaiting = None
        if isinstance(effect, CutTail):
            self._log.has_hole = False  # nobody else is in the sets: the log is taken as it is
        if isinstance(effect, PersistPromise):
            self.promised = self._elected = effect.epoch
        elif isinstance(effect, PersistEpochs):
            return self._lead(effect)
        elif self._is_overtaken():
            pass  # deposed while taking over: what was cut or synced does no harm
        elif isinstance(effect, CutTail) and self._is_sync():
            return self._await(SyncLog())
        elif isinstance(effect, CutTail | SyncLog):
            return self._await(PersistEpochs(self._with_own_epoch()))
        return self._advance()

    def _advance(self) -> list[Effect]:
        """The next step towards the role of the newest news, if no effect is pending."""
        if self.known is None or self._awaiting is not None or self._stopping or self._truncation is not None:
            return []
        if self.known.node.epoch > self.promised:
            return self._leave_role()
        return self._decide() if self._decided < self.promised else []

    def _leave_role(self) -> list[Effect]:
        """A newer epoch: end the present role, then promise."""
        was, self.role = self.role, Role.CANDIDATE
        if was is Role.SLAVE:
            self._stopping = True
            return [StopFollowing()]
        stop: list[Effect] = [StopLeading()] if was is Role.MASTER else []
        assert self.known is not None
        node = self.known.node
        if node.master == self._name and (full := self._why_full(node.epoch)) is not None:
            return [*stop, Halt(full)]  # without a promise: the controller elects another
        return stop + self._await(PersistPromise(node.epoch))

    def _with_own_epoch(self) -> EpochList:
        """Bytes written before the log had rows belong to the first epoch: no other replica has them in another epoch."""
        log = self._log
        return log.with_epoch(self.promised, log.end if log.epochs.rows else log.begin)

    def _why_full(self, epoch: int) -> TooManyEpochs | None:
        if len(self._log.epochs.rows) < ROWS_MAX:
            return None
        try:
            self._log.with_epoch(epoch, self._log.end)
        except TooManyEpochs as full:
            return full
        return None

    def _decide(self) -> list[Effect]:
        """Takes part in the promised epoch."""
        assert self.known is not None
        node = self.known.node
        if node.master is None:
            return []
        if self._is_hole_to_be_cut(node):
            self._truncation = Truncation(PersistIntent(node.epoch, self._log.end), self._log)
            return self._truncation.begin()
        self._decided = node.epoch
        if node.master != self._name:
            self.role = Role.SLAVE
            return [Follow(node.master, node.epoch)]
        return self._await(CutTail()) if self._is_elected(node) else []

    def _is_elected(self, node: GroupNode) -> bool:
        """True if the node names this very process, for an epoch that this process was the first to promise."""
        is_named = node.master == self._name and node.master_incarnation == self._incarnation
        return is_named and self._elected == node.epoch

    def _is_hole_to_be_cut(self, node: GroupNode) -> bool:
        """True if it is elected, not by force, and bytes lie behind its end that nobody can follow to."""
        others = {*node.in_sync, *node.eligible} - {self._name}
        return self._log.has_hole and bool(others) and self._is_elected(node)

    def _lead(self, effect: PersistEpochs) -> list[Effect]:
        self._log.epochs = effect.epochs
        if self._is_overtaken():
            return self._advance()
        self.role = Role.MASTER
        return [Lead(self.promised, self._log.epochs.rows[-1].begin)]

    def _is_overtaken(self) -> bool:
        return self.known is not None and self.known.node.epoch > self.promised

    def _is_sync(self) -> bool:
        return self.known is not None and self.known.node.settings.flush_mode is FlushMode.SYNC

    def _await(self, effect: DiskEffect) -> list[Effect]:
        self._awaiting = effect
        return [effect]
