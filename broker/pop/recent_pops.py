"""The pops that were answered last, or cancelled before they came: their clients may yet say that no answer has reached them.

Pure; loop thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..state.pop_queue import Name
from ..state.pop_table import Place

RECENT_MAX: Final = 8192

PopName = tuple[str, str, int]
"""(group, client, pop id)."""


class RecentPops:
    """By (group, client, pop id): the topic and the check points, (place, name), that went out."""

    def __init__(self) -> None:
        self._pops: dict[PopName, tuple[str, Sequence[tuple[Place, Name]]] | None] = {}

    def on_answered(self, pop: PopName, topic: str, names: Sequence[tuple[Place, Name]]) -> None:
        """These went out for it."""
        self._add(pop, (topic, names))

    def take(self, pop: PopName) -> tuple[str, Sequence[tuple[Place, Name]]] | None:
        """It is cancelled: what went out for it, once. Where nothing did, it may yet come."""
        answered = self._pops.pop(pop, None)
        if answered is None:
            self._add(pop, None)
        return answered

    def is_cancelled(self, pop: PopName) -> bool:
        """Whether it was cancelled before it came; asked once."""
        return pop in self._pops and self._pops.pop(pop) is None

    def _add(self, pop: PopName, answered: tuple[str, Sequence[tuple[Place, Name]]] | None) -> None:
        self._pops[pop] = answered
        if len(self._pops) > RECENT_MAX:
            del self._pops[next(iter(self._pops))]

    def clear(self) -> None:
        """Another broker hands out from now on."""
        self._pops.clear()
