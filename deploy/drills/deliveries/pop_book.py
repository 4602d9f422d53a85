"""The book of what consumers popped and acknowledged, and the promises that it shows broken. Pure.

A *place* is (broker name, queue, queue offset): a message that a retry stored twice is in two places. Times are monotonic, in
milliseconds, each of the side that breaks no promise by itself: a lease begins after its `receive` was called, and ends its
invisible time after that returned, at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

Place = tuple[str, int, int]

EXAMPLES_MAX: Final = 5
LATE_MS: Final = 1_000
"""A message is there again so soon after its invisible time, and what the brokers could not serve is added."""
ASK_MS: Final = 4_000
"""What a consumer may take to ask again, whose question went to a broker that is gone."""


@dataclass(frozen=True, slots=True)
class Again:
    """A message that came again, and when it was to come at the latest."""

    place: Place
    due_ms: int
    received_ms: int


@dataclass(slots=True)
class PopBook:
    """Of all consumers of a group. Its owner locks it. `again`: those that came later than LATE_MS."""

    received: int = 0
    returned: int = 0
    late_ms_max: int = 0
    violations: list[str] = field(default_factory=list)
    again: list[Again] = field(default_factory=list)
    _leases: dict[Place, tuple[int, int]] = field(default_factory=dict)  # (free at the earliest, free at the latest)
    _acked_ms: dict[Place, int] = field(default_factory=dict)
    _unsure: set[Place] = field(default_factory=set)

    def on_received(self, place: Place, *, called_ms: int, now_ms: int, invisible_ms: int) -> None:
        """A `receive` that was called then has brought it now."""
        self.received += 1
        self._unsure.discard(place)
        acked_ms = self._acked_ms.get(place)
        if acked_ms is not None and acked_ms < called_ms:
            self._tell(f"{place} came again {called_ms - acked_ms} ms after it was acknowledged")
        lease = self._leases.get(place)
        if lease is not None:
            self.returned += 1
            if now_ms < lease[0]:
                self._tell(f"{place} came again {lease[0] - now_ms} ms before its time")
            late_ms = now_ms - lease[1]
            self.late_ms_max = max(self.late_ms_max, late_ms)
            if late_ms > LATE_MS:
                self.again.append(Again(place, lease[1], now_ms))
        self._leases[place] = called_ms + invisible_ms, now_ms + invisible_ms

    def on_acked(self, place: Place, now_ms: int) -> None:
        """Its acknowledgement is confirmed."""
        self._acked_ms[place] = now_ms
        self._leases.pop(place, None)

    def on_unsure(self, place: Place) -> None:
        """Nobody knows whether its acknowledgement took effect: it may come again, or not."""
        self._leases.pop(place, None)
        self._unsure.add(place)

    def open(self, sent: set[Place]) -> set[Place]:
        """Messages that were sent, nobody has acknowledged, and must come again."""
        return sent - self._acked_ms.keys() - self._unsure

    @property
    def acked(self) -> int:
        """How many messages are acknowledged."""
        return len(self._acked_ms)

    def _tell(self, text: str) -> None:
        if len(self.violations) < EXAMPLES_MAX:
            self.violations.append(text)
