"""Limits how many messages may be delivered now, so that a burst that is due at once is spread. Pure."""

from __future__ import annotations

from typing import Final

_SAVED_MS_MAX: Final = 100  # unused allowance is kept only for so long


class Pace:
    """At most `per_second` on average, and `per_turn` at once."""

    __slots__ = ("_allowed", "_at_ms", "_per_second", "_per_turn")

    def __init__(self, *, per_second: int, per_turn: int) -> None:
        self._per_second = per_second
        self._per_turn = per_turn
        self._allowed = 0.0
        self._at_ms: int | None = None

    def allowed(self, now_ms: int) -> int:
        """How many may be delivered now. `now_ms`: monotonic."""
        since_ms = _SAVED_MS_MAX if self._at_ms is None else max(0, now_ms - self._at_ms)
        self._at_ms = now_ms
        saved_max = max(1.0, self._per_second * _SAVED_MS_MAX / 1000)
        self._allowed = min(saved_max, self._allowed + self._per_second * since_ms / 1000)
        return min(self._per_turn, int(self._allowed))

    def spend(self, count: int) -> None:
        """`count` were delivered."""
        self._allowed -= count
