"""Which bytes of the log were held to their checksums a moment ago. Pure; loop thread.

A delayed message is written anew when it is due, with checksums of its own: what had rotted in its record would pass for well
from then on. So its append is looked at first, with what lies around it: messages that are due together were often sent
together, and one look does for all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

KEPT_MS: Final = 10_000
"""How long a look counts: bytes may rot between."""

RANGES_MAX: Final = 4096


class WholeRanges:
    """Those of one log."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._since_ms = 0

    def has(self, offset: int, now_ms: int) -> bool:
        """Whether the byte at `offset` lies in one of them."""
        if now_ms - self._since_ms >= KEPT_MS or len(self._begins) >= RANGES_MAX:
            self._begins.clear()
            self._ends.clear()
            self._since_ms = now_ms
        at = bisect_right(self._begins, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def add(self, begin: int, end: int) -> None:
        """These bytes are whole."""
        at = bisect_right(self._begins, begin)
        self._begins.insert(at, begin)
        self._ends.insert(at, end)
