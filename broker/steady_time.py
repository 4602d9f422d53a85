"""The clock of retention: the wall clock, except that a jump ahead counts only after it has lasted.

What retention has deleted does not come back when the clock is right again. So if the wall clock shows much more than the
time that has passed on the monotonic clock, it is accepted only after SETTLE_MS; until then time goes on from before. A
clock that is set back is accepted at once, because that deletes nothing. Pure.
"""

from __future__ import annotations

from typing import Final

LEAP_MS: Final = 60_000  # corrections of a clock are smaller
SETTLE_MS: Final = 3_600_000


class SteadyTime:
    """The clock of one process; the first time that it shows is accepted."""

    __slots__ = ("_at_ms", "_leapt_ms", "_seen_ms")

    def __init__(self) -> None:
        self._seen_ms: int | None = None  # the last accepted time of the wall clock
        self._at_ms = 0  # and the monotonic clock
        self._leapt_ms: int | None = None  # monotonic: since when it has been ahead

    def at(self, *, now_ms: int, monotonic_ms: int) -> int:
        """The time to use, ms since the epoch. `now_ms`: the wall clock."""
        expected_ms = now_ms if self._seen_ms is None else self._seen_ms + monotonic_ms - self._at_ms
        if now_ms - expected_ms > LEAP_MS:
            self._leapt_ms = monotonic_ms if self._leapt_ms is None else self._leapt_ms
            if monotonic_ms - self._leapt_ms < SETTLE_MS:
                return expected_ms
        self._seen_ms, self._at_ms, self._leapt_ms = now_ms, monotonic_ms, None
        return now_ms
