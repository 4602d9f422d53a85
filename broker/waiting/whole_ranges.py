"""Remembers which bytes of the log matched their checksums a moment ago. Pure; loop thread.

A due delayed message is appended again, with new checksums: damage in its old record would pass as valid from then on. So
the old append is checked first, with the bytes around it. Messages that are due together were often sent together, so one
check covers them all.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

KEPT_MS: Final = 10_000
"""How long a check counts: bytes may be damaged later."""

RANGES_MAX: Final = 4096


class WholeRanges:
    """The checked ranges of one log."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._since_ms = 0

    def has(self, offset: int, now_ms: int) -> bool:
        """Whether the byte at `offset` was checked lately."""
        if now_ms - self._since_ms >= KEPT_MS or len(self._begins) >= RANGES_MAX:
            self._begins.clear()
            self._ends.clear()
            self._since_ms = now_ms
        at = bisect_right(self._begins, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def add(self, begin: int, end: int) -> None:
        """Notes that these bytes match their checksums."""
        at = bisect_right(self._begins, begin)
        self._begins.insert(at, begin)
        self._ends.insert(at, end)
