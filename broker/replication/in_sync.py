"""Decides which replicas a master waits for: the in-sync set, and proposals that are not settled (R6, R7). Pure.

The *union* is the in-sync set last known at the controller, and every set proposed on that version of the node: any of
these may have been written, even if the answer was lost. Only a node of a higher version settles a proposal. Sends wait
for a proposed member, but it does not count towards the minimum. This module decides what to propose and when to
repeat it; the caller (master) judges who is dead or caught up.
"""

from __future__ import annotations

from typing import Final

from ...model.groups.group import KnownGroup
from .effects import ProposeInSync

PROPOSE_AGAIN_MS: Final = 500


class InSyncSet:
    """`known`: names in sync at the controller; `union`: whose positions count; `has_minimum`: enough are in sync."""

    def __init__(self, group: KnownGroup) -> None:
        self.group = group
        self.known: frozenset[str] = frozenset(group.node.in_sync)
        self.union = self.known
        self.has_minimum = self._has_minimum()
        self._proposed: frozenset[str] | None = None
        self._again_ms = 0

    @property
    def proposed(self) -> frozenset[str] | None:
        """The last proposed set until it is settled; None if none is open."""
        return self._proposed

    def on_group(self, group: KnownGroup) -> bool:
        """Adopts a node; False if its version is not above the known one: then it settles nothing."""
        if group.version <= self.group.version:
            return False
        self.group = group
        self.known = self.union = frozenset(group.node.in_sync)
        self.has_minimum = self._has_minimum()
        self._proposed = None
        return True

    def propose(self, *, joining: frozenset[str], leaving: frozenset[str], now_ms: int) -> ProposeInSync | None:
        """What to propose now: a needed change, or the open proposal again.

        `joining`: caught-up members; they are in the union from now on. `leaving`: members in sync at the controller
        that are gone
        or too far behind; they stay in the union until the controller has written. A member that was proposed to join
        stays in the proposal until that is settled, even if it has died since: only then can it be proposed to leave.
        """
        wanted = (self.union | joining) - leaving
        if wanted == self.known or (wanted == self._proposed and now_ms < self._again_ms):
            return None
        self._proposed = wanted
        self.union |= wanted
        self._again_ms = now_ms + PROPOSE_AGAIN_MS
        return ProposeInSync(self.group.version, tuple(sorted(wanted)))

    def _has_minimum(self) -> bool:
        return len(self.known) >= self.group.node.settings.min_in_sync
