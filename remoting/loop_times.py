"""How long turns and requests of a loop take, and which requests fail: counted where metrics are on. Pure.

Owned by the loop; others read. One turn of SAMPLE_EVERY is timed, with the requests that it receives, and counts for all of
them: so a request on its own costs next to nothing more. A request's time begins with the turn that received it.
"""

from __future__ import annotations

from typing import Final

from ..metrics.histogram import Histogram, time_histogram
from .commands import Request

NS_PER_US: Final = 1_000
SAMPLE_EVERY: Final = 8


class LoopTimes:
    """`turns`: without the wait for work. `requests`: by their class. `failed`: {(class, code of the error): count}."""

    __slots__ = ("begun_ns", "failed", "number", "requests", "turns")

    def __init__(self) -> None:
        self.turns = time_histogram()
        self.requests: dict[type[Request], Histogram] = {}
        self.failed: dict[tuple[type[Request], int], int] = {}
        self.begun_ns = 0  # the present turn; 0 if it is not timed
        self.number = 0  # of the present turn

    def on_turn(self, now_ns: int) -> None:
        """The present turn is over."""
        self.turns.observe((now_ns - self.begun_ns) // NS_PER_US, SAMPLE_EVERY)

    def on_settled(self, request_class: type[Request], begun_ns: int, now_ns: int) -> None:
        """A request of the turn that began at `begun_ns` is answered."""
        times = self.requests.get(request_class)
        if times is None:
            times = self.requests[request_class] = time_histogram()
        times.observe((now_ns - begun_ns) // NS_PER_US, SAMPLE_EVERY)

    def on_failed(self, request_class: type[Request], code: int) -> None:
        """A request is answered with an error."""
        key = request_class, code
        self.failed[key] = self.failed.get(key, 0) + 1
