"""The wall clock as retention goes by it: a leap ahead counts only once it has lasted.

What retention has deleted does not come back when the clock is right again. So where the clock shows much more than the time
that has passed on the monotonic clock, it is believed after SETTLE_MS; until then time goes on from before. A clock that is
set back is believed at once: that deletes nothing. Pure.
"""

from __future__ import annotations

from typing import Final

LEAP_MS: Final = 60_000  # less is what clocks are corrected by
SETTLE_MS: Final = 3_600_000


class SteadyTime:
    """Of one process; what its clock shows first is believed."""

    __slots__ = ("_at_ms", "_leapt_ms", "_seen_ms")

    def __init__(self) -> None:
        self._seen_ms: int | None = None  # what the wall clock showed when it was believed last
        self._at_ms = 0  # and the monotonic clock
        self._leapt_ms: int | None = None  # monotonic: since when it has been ahead

    def at(self, *, now_ms: int, monotonic_ms: int) -> int:
        """The time to go by, ms since the epoch. `now_ms`: what the wall clock shows."""
        expected_ms = now_ms if self._seen_ms is None else self._seen_ms + monotonic_ms - self._at_ms
        if now_ms - expected_ms > LEAP_MS:
            self._leapt_ms = monotonic_ms if self._leapt_ms is None else self._leapt_ms
            if monotonic_ms - self._leapt_ms < SETTLE_MS:
                return expected_ms
        self._seen_ms, self._at_ms, self._leapt_ms = now_ms, monotonic_ms, None
        return now_ms
