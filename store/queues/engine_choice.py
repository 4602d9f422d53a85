"""Chooses the engine that keeps a store's consume queues."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..config import StoreConfig, parse_delay_levels
from .queue_engine import QUEUE_FOLDER, QueueEngine, UnitSource
from .queue_places import UNIT_BYTES
from .queue_table import QueueTable, find_queue_file_bytes, list_queues
from .unit_files import UnitFiles


def open_engine(directory: str, config: StoreConfig, *, spare_bytes: int = 0, writable: bool = True) -> QueueEngine:
    """The queues of a store, before `begin`. `spare_bytes`: how much of expired files is kept for reuse, at least one file;
    0: none. Raises StoreFormatError, OSError."""
    return QueueTable(
        directory,
        file_units=config.queue_file_units,
        open_max=config.queue_files_open_max,
        delays_ms=parse_delay_levels(config.delay_levels),
        spare_bytes=spare_bytes,
        writable=writable,
    )


@contextmanager
def open_source(directory: str) -> Iterator[UnitSource]:
    """The units of a store's queues as they are, perhaps beside a broker. Raises StoreFormatError, OSError."""
    yield UnitFiles(os.path.join(directory, QUEUE_FOLDER), file_bytes=find_queue_file_bytes(directory) or UNIT_BYTES)


def topics_with_queues(directory: str) -> set[str]:
    """The topics of a closed store's queues. Raises StoreFormatError, OSError."""
    return {topic for topic, _, _ in list_queues(directory)}
