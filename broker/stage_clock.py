"""Measures where a turn's time goes, in one turn of sixteen, so that the measurement costs next to nothing.

Loop thread. `receive` is the time between two sends of a turn: receiving and decoding the next request.
"""

from __future__ import annotations

from typing import Final

from ..model.clock import monotonic_ns

SAMPLE_EVERY: Final = 16
STAGES: Final = ("receive", "stage", "write", "reply", "dispatch")


class StageClock:
    """Nanoseconds and calls of each stage in the sampled turns."""

    __slots__ = ("_calls", "_left", "_ns", "_turn", "is_sampling")

    def __init__(self) -> None:
        self.is_sampling = False
        self._turn = 0
        self._left = 0  # when the last send of this turn was handled; 0 = none yet
        self._ns = dict.fromkeys(STAGES, 0)
        self._calls = dict.fromkeys(STAGES, 0)

    def enter_send(self) -> int:
        """A send's handler begins; returns the time for `leave_send`."""
        now = monotonic_ns()
        if self._left:
            self._add("receive", now - self._left)
        return now

    def leave_send(self, entered: int) -> None:
        """It ends."""
        self._left = monotonic_ns()
        self._add("stage", self._left - entered)

    def on_answered(self, begun: int, written: int, answered: int) -> None:
        """The end of a sampled turn: when the write began, when it ended, when all replies were sent."""
        self._add("write", written - begun)
        self._add("reply", answered - written)

    def on_dispatched(self, begun: int, dispatched: int) -> None:
        """The work after the replies: when it began, and when it ended."""
        self._add("dispatch", dispatched - begun)

    def next_turn(self) -> None:
        """Decides whether the next turn is sampled."""
        self._turn += 1
        self._left = 0
        self.is_sampling = self._turn % SAMPLE_EVERY == 0

    def document(self) -> dict[str, dict[str, int]]:
        """{stage: {ns, calls}} of the sampled turns."""
        return {stage: {"ns": self._ns[stage], "calls": self._calls[stage]} for stage in STAGES}

    def _add(self, stage: str, elapsed_ns: int) -> None:
        self._ns[stage] += elapsed_ns
        self._calls[stage] += 1
