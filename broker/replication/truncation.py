"""Cuts a slave's log to where it agrees with its master's, in steps that a crash cannot leave half done (R4). Pure.

    intent (epoch, offset) durable -> log cut, durable -> rows at or behind the offset dropped, durable -> intent cleared

A restart that finds an intent begins again at the cut. Without the intent, a power failure could bring back cut bytes
under a list of epochs without them.
"""

from __future__ import annotations

from .effects import ClearIntent, CutLog, DiskEffect, Effect, PersistEpochs, PersistIntent
from .replica_log import ReplicaLog


class Truncation:
    """One cut, from the intent to its end; moves `log` as the steps become durable."""

    def __init__(self, intent: PersistIntent, log: ReplicaLog) -> None:
        self.is_done = False
        self._intent = intent
        self._log = log
        self._awaiting: DiskEffect = intent

    def begin(self) -> list[Effect]:
        """The first step."""
        return [self._intent]

    def resume(self) -> list[Effect]:
        """The first step after a restart: the intent is already on the disk."""
        return self._next(CutLog(self._intent.offset))

    def on_done(self, effect: DiskEffect) -> list[Effect]:
        """A step is durable: returns the next one."""
        if effect != self._awaiting:
            return []
        log, offset = self._log, self._intent.offset
        if isinstance(effect, PersistIntent):
            return self._next(CutLog(offset))
        if isinstance(effect, CutLog):
            log.on_cut(offset)
            return self._next(PersistEpochs(log.epochs.below(offset)))
        if isinstance(effect, PersistEpochs):
            log.epochs = effect.epochs
            return self._next(ClearIntent())
        self.is_done = True
        return []

    def _next(self, effect: DiskEffect) -> list[Effect]:
        self._awaiting = effect
        return [effect]
