"""How many requests clients of one protocol have made, by method: how long they took, and what they were refused with.

The event loop writes; any thread reads copies of plain numbers. Methods and codes are those of the protocol: few, whatever
clients send.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...metrics.histogram import Histogram, HistogramReading, time_histogram
from ...model.clock import monotonic_ns


class MethodCounts:
    """Of one protocol in one process."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.polls = 0
        """Requests that may wait for messages now."""
        self._times: dict[str, Histogram] = {}
        self._errors: dict[tuple[str, str], int] = {}

    def count(self, method: str, begun_ns: int, error: str = "") -> None:
        """A request was answered. `begun_ns`: monotonic; `error`: the name of its code, "" = it succeeded."""
        times = self._times.get(method)
        if times is None:
            times = self._times[method] = time_histogram()
        times.observe((monotonic_ns() - begun_ns) // 1000)
        if error:
            key = method, error
            self._errors[key] = self._errors.get(key, 0) + 1

    def times(self) -> Iterator[tuple[str, HistogramReading]]:
        """(method, how long its requests took). Any thread."""
        return ((method, times.reading()) for method, times in sorted(self._times.copy().items()))

    def errors(self) -> Iterator[tuple[str, str, int]]:
        """(method, code, how many). Any thread."""
        return ((method, code, number) for (method, code), number in sorted(self._errors.copy().items()))
