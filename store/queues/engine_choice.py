"""Chooses the engine that keeps a store's consume queues: of existing ones, the one that made them.

What only RocksDB's engine needs is imported where it is chosen: numpy is a sixth of what a broker costs to start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...model.errors import StoreFormatError
from ..config import StoreConfig, parse_delay_levels
from ..integrity.quarantine import FACTS_FILE, HAS_BATCHES
from ..opening.snapshot import read_snapshot
from .batches.all_queues import AllQueues, BothSources
from .batches.batch_queue import BATCH_UNIT_BYTES
from .batches.batch_table import BATCH_FOLDER, BatchSource, BatchTable
from .conversion import adopt_shadow, drop_shadow, finish_conversion
from .deleted_queues import DELETED_FOLDER
from .queue_engine import QUEUE_FOLDER, QueueEngine, StoreQueues, UnitSource
from .queue_pair import QueuePair, is_shadow_whole, shadow_of
from .queue_places import UNIT_BYTES
from .queue_table import QueueTable, find_queue_file_bytes, list_queues
from .unit_files import UnitFiles

FILE: Final = "file"
ROCKSDB: Final = "rocksdb"
BOTH: Final = "both"


def engine_of(directory: str) -> str | None:
    """The engine that made a store's queues; None if it has none. Raises OSError."""
    folder = os.path.join(directory, QUEUE_FOLDER)
    if is_rocksdb(folder):
        return ROCKSDB
    return FILE if os.path.isdir(folder) and os.listdir(folder) else None


def is_rocksdb(folder: str) -> bool:
    """Whether a RocksDB is there."""
    return os.path.isfile(os.path.join(folder, "CURRENT"))


def open_engine(directory: str, config: StoreConfig, *, spare_bytes: int = 0) -> StoreQueues:
    """All queues of a store, to be written, before `begin`. `spare_bytes`: how much of expired files is kept for reuse, at
    least one file; 0: none.

    Raises StoreLocked, OSError, and StoreFormatError, also if another engine made the queues.
    """
    return _with_batches(directory, config, open_plain_engine(directory, config, spare_bytes=spare_bytes))


def open_plain_engine(
    directory: str, config: StoreConfig, *, spare_bytes: int = 0, as_put: bool = False
) -> QueueEngine:
    """The same without batch queues. `as_put`: units of delayed messages have their times already."""
    finish_conversion(directory)
    delays_ms = () if as_put else parse_delay_levels(config.delay_levels)
    made_by, wanted = engine_of(directory), config.consume_queue
    if made_by in (None, wanted):
        drop_shadow(directory)  # what it follows is gone, or it would no longer follow
    if wanted == BOTH:
        first_name = made_by or FILE
        first = _open(directory, config, first_name, delays_ms, spare_bytes=spare_bytes)
        try:
            shadow = _open(shadow_of(directory), config, ROCKSDB if first_name == FILE else FILE, delays_ms)
        except BaseException:
            first.close()
            raise
        return QueuePair(directory, first, shadow)
    if made_by not in (None, wanted):
        if not is_shadow_whole(directory):
            raise StoreFormatError(
                os.path.join(directory, QUEUE_FOLDER),
                f'these queues are opened by the engine "{made_by}": set store.consume_queue = "{made_by}", or stop the'
                f" broker and run zenit store convert {directory} --to {wanted}",
            )
        _switch(directory)
    return _open(directory, config, wanted, delays_ms, spare_bytes=spare_bytes)


def _switch(directory: str) -> None:
    """The shadow takes the first engine's place. Raises StoreFormatError, OSError."""
    for store in (directory, shadow_of(directory)):
        deleted = os.path.join(store, DELETED_FOLDER)
        if os.path.isdir(deleted) and os.listdir(deleted):
            raise StoreFormatError(
                deleted,
                'the deletion of a topic is not confirmed yet; run with store.consume_queue = "both" until it is',
            )
    adopt_shadow(directory)


def open_for_reading(directory: str, config: StoreConfig) -> QueueEngine:
    """All queues of a store, whatever made them, perhaps beside a broker. Raises StoreFormatError, OSError."""
    return _with_batches(directory, config, open_plain_for_reading(directory, config), writable=False)


def _with_batches(directory: str, config: StoreConfig, plain: QueueEngine, *, writable: bool = True) -> AllQueues:
    try:
        batched = BatchTable(
            directory,
            file_units=config.queue_file_units,
            open_max=config.queue_files_open_max,
            delays_ms=(),
            writable=writable,
        )
    except BaseException:
        plain.close()
        raise
    known = read_snapshot(os.path.join(directory, FACTS_FILE))
    return AllQueues(plain, batched, had_batches=known is not None and bool(known.document.get(HAS_BATCHES)))


def open_plain_for_reading(directory: str, config: StoreConfig) -> QueueEngine:
    """The same without batch queues."""
    delays_ms = parse_delay_levels(config.delay_levels)
    return _open(directory, config, engine_of(directory) or FILE, delays_ms, writable=False)


def _open(
    directory: str,
    config: StoreConfig,
    engine: str,
    delays_ms: tuple[int, ...],
    *,
    spare_bytes: int = 0,
    writable: bool = True,
) -> QueueEngine:
    if engine == ROCKSDB:
        from .rows.row_table import RowTable

        return RowTable(directory, delays_ms=delays_ms, writable=writable)
    return QueueTable(
        directory,
        file_units=config.queue_file_units,
        open_max=config.queue_files_open_max,
        delays_ms=delays_ms,
        spare_bytes=spare_bytes,
        writable=writable,
    )


@contextmanager
def open_source(directory: str) -> Iterator[UnitSource]:
    """The units of a store's queues as they are, perhaps beside a broker. Raises StoreFormatError, OSError."""
    folder, batch_folder = os.path.join(directory, QUEUE_FOLDER), os.path.join(directory, BATCH_FOLDER)
    batch_bytes = find_queue_file_bytes(directory, BATCH_FOLDER, BATCH_UNIT_BYTES) or BATCH_UNIT_BYTES
    batched = BatchSource(batch_folder, file_bytes=batch_bytes)
    if engine_of(directory) == ROCKSDB:
        from .rows.rocksdb_units import RocksDbUnits
        from .rows.row_source import RowSource

        rows = RocksDbUnits(folder, writable=False)
        try:
            yield BothSources(RowSource(rows), batched)
        finally:
            rows.close()
    else:
        yield BothSources(UnitFiles(folder, file_bytes=find_queue_file_bytes(directory) or UNIT_BYTES), batched)


def topics_with_queues(directory: str) -> set[str]:
    """The topics of a closed store's queues. Raises StoreFormatError, OSError."""
    batched = {topic for topic, _, _ in list_queues(directory, BATCH_FOLDER)}
    if engine_of(directory) != ROCKSDB:
        return batched | {topic for topic, _, _ in list_queues(directory)}
    from .rows.rocksdb_units import RocksDbUnits
    from .rows.unit_rows import decode_end

    rows = RocksDbUnits(os.path.join(directory, QUEUE_FOLDER), writable=False)
    try:
        ends = (decode_end(key, value) for key, value in rows.ends())
        return batched | {end.topic for end in ends if end is not None and end.is_max}
    finally:
        rows.close()
