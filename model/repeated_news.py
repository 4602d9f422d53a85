"""Logs a repeated problem at once, then once a minute with the number of repetitions. Pure.

A report has a subject (a topic, a replica) and a kind (what is wrong with it). A new kind is reported at once. Times are
monotonic milliseconds. At most `SUBJECTS_MAX` subjects are remembered; the one reported first is forgotten first.
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
    untold: int = 0  # repetitions since then


class RepeatedNews:
    """The reports of one owner. Used by one thread at a time."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def count_to_tell(self, subject: str, kind: str, now_ms: int) -> int:
        """How often the problem has occurred since its last report, this time included; 0 = do not report it now."""
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
        """Notes that the problem has ended; returns whether it had been reported."""
        return self._told.pop(subject, None) is not None
