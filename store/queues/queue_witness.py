"""Proof from the consume queues, before they are opened, that the broker itself wrote a record at a position.

Only the broker writes a queue's unit, after its record is in the log; no record can bring a unit with it. Behind damage, a
producer's bytes could look like a record: it is a real one only if the unit names exactly its position. Units are read as
they are; one that cannot be read proves nothing. Pure.
"""

from __future__ import annotations

from ...record.layout import UNIT
from .queue_engine import UnitSource


class QueueWitness:
    """The queues of a store."""

    def __init__(self, source: UnitSource) -> None:
        self._source = source

    def names(self, topic: str, queue_id: int, queue_offset: int, *, physical_offset: int, size: int) -> bool:
        """Whether that unit points to a record of `size` bytes at `physical_offset`."""
        try:
            unit = self._source.units(topic, queue_id, queue_offset, 1)
        except OSError:
            return False
        return UNIT.unpack(unit)[:2] == (physical_offset, size)
