"""Logs a repeated problem at once, then once a minute with the number of repetitions. Pure.

Each piece of news has a subject (a topic, a replica) and a kind (what is wrong with it). A new kind is told at once. Times are
monotonic milliseconds. At most `SUBJECTS_MAX` subjects are remembered; the one told of first is forgotten first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TELL_MS: Final = 60_000
SUBJECTS_MAX: Final = 1_000


@dataclass(slots=True)
class _Told:
    kind: str
    at_ms: int
    untold: int = 0  # how often it came since


class RepeatedNews:
    """What one owner has told. Used by one thread at a time."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def count_to_tell(self, subject: str, kind: str, now_ms: int) -> int:
        """How often it has come since it was told last, this time included; 0 = it is not to be told now."""
        told = self._told.get(subject)
        if told is None or told.kind != kind:
            self._told.pop(subject, None)
            self._told[subject] = _Told(kind, now_ms)
            if len(self._told) > SUBJECTS_MAX:
                del self._told[next(iter(self._told))]
            return 1
        told.untold += 1
        if now_ms - told.at_ms < TELL_MS:
            return 0
        count, told.untold, told.at_ms = told.untold, 0, now_ms
        return count

    def is_over(self, subject: str) -> bool:
        """It is well again: whether anything had been told of it."""
        return self._told.pop(subject, None) is not None
