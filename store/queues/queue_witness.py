"""Proof by the consume queues, before they are opened, that the broker itself wrote a record at a position.

A queue's unit is written once its record is in the log, and by nobody but the broker; no record can bring a unit with it.
So behind damage, where a producer's bytes could pass for a record, the unit that names exactly this place tells the two
apart. Files are read as they lie there; what cannot be read says nothing.
"""

from __future__ import annotations

import os

from ...record.layout import UNIT
from ..log.segment import segment_name


class QueueWitness:
    """Of the `consumequeue` directory of a store. `file_bytes`: of each queue file."""

    def __init__(self, directory: str, *, file_bytes: int) -> None:
        self._directory = directory
        self._file_bytes = file_bytes

    def names(self, topic: str, queue_id: int, queue_offset: int, *, physical_offset: int, size: int) -> bool:
        """Whether that unit of that queue is of a record of `size` bytes at `physical_offset`."""
        position = queue_offset * UNIT.size
        base = position // self._file_bytes * self._file_bytes
        path = os.path.join(self._directory, topic, str(queue_id), segment_name(base))
        try:
            with open(path, "rb") as file:
                unit = os.pread(file.fileno(), UNIT.size, position - base)
        except OSError:
            return False
        return len(unit) == UNIT.size and UNIT.unpack(unit)[:2] == (physical_offset, size)
