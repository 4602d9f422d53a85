"""Proof from the consume queues, before they are opened, that the broker itself wrote a record at a position.

Only the broker writes a queue's unit, after its record is in the log; no record can bring a unit with it. Behind damage, a
producer's bytes could look like a record: it is a real one only if the unit names exactly its position. Files are read as
they are; a file that cannot be read proves nothing.
"""

from __future__ import annotations

import os

from ...record.layout import UNIT
from ..log.segment import segment_name


class QueueWitness:
    """The `consumequeue` directory of a store. `file_bytes`: the size of a queue file."""

    def __init__(self, directory: str, *, file_bytes: int) -> None:
        self._directory = directory
        self._file_bytes = file_bytes

    def names(self, topic: str, queue_id: int, queue_offset: int, *, physical_offset: int, size: int) -> bool:
        """Whether that unit points to a record of `size` bytes at `physical_offset`."""
        position = queue_offset * UNIT.size
        base = position // self._file_bytes * self._file_bytes
        path = os.path.join(self._directory, topic, str(queue_id), segment_name(base))
        try:
            with open(path, "rb") as file:
                unit = os.pread(file.fileno(), UNIT.size, position - base)
        except OSError:
            return False
        return len(unit) == UNIT.size and UNIT.unpack(unit)[:2] == (physical_offset, size)
