"""Leases that a staged event ends: who comes in the same turn of the loop finds them ended, though the table says so only once
the event is in the log. Pure."""

from __future__ import annotations

from ..state.pop_queue import Name
from ..state.pop_table import QueueKey


class LeaseEnds:
    """By check point: which of its messages, and where in the log that will be said. Ends only grow, until `clear`."""

    def __init__(self) -> None:
        self._staged: dict[tuple[QueueKey, Name], tuple[int, int]] = {}
        self._end = 0

    def add(self, key: QueueKey, name: Name, bits: int, end: int) -> None:
        """An event that ends at the physical offset `end` is staged."""
        known = self._staged.get((key, name), (0, 0))[0]
        self._staged[key, name] = known | bits, end
        self._end = end

    def bits(self, key: QueueKey, name: Name, applied: int) -> int:
        """What of a check point ends; `applied`: the tables know everything below."""
        if self._end <= applied:
            return 0
        bits, end = self._staged.get((key, name), (0, 0))
        return bits if end > applied else 0

    def settle(self, applied: int) -> None:
        """Forgets all of it once the tables know all of it."""
        if self._end <= applied:
            self._staged.clear()

    def clear(self) -> None:
        """Another broker decides from now on."""
        self._staged.clear()
        self._end = 0
