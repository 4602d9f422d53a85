"""Units read from queue files as they are, without opening their queues: each read opens its file."""

from __future__ import annotations

import os

from ..log.segment import segment_name
from .queue_engine import NO_UNIT
from .queue_places import UNIT_BYTES


class UnitFiles:
    """A UnitSource. `directory`: of the consume queues, whose files have `file_bytes` each."""

    def __init__(self, directory: str, *, file_bytes: int) -> None:
        self._directory = directory
        self._file_bytes = file_bytes

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether the queue has a folder."""
        return os.path.isdir(os.path.join(self._directory, topic, str(queue_id)))

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """The units in the files; zeros where a file is shorter. Raises OSError."""
        held = b""
        begin, end = queue_offset * UNIT_BYTES, (queue_offset + count) * UNIT_BYTES
        while begin + len(held) < end:
            position = begin + len(held)
            base = position // self._file_bytes * self._file_bytes
            path = os.path.join(self._directory, topic, str(queue_id), segment_name(base))
            size = min(end, base + self._file_bytes) - position
            try:
                with open(path, "rb") as file:
                    held += os.pread(file.fileno(), size, position - base).ljust(size, b"\0")
            except FileNotFoundError:
                held += NO_UNIT * (size // UNIT_BYTES)
        return held
