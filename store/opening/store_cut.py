"""Cuts a closed store to end at an offset, as if it had never held more (rule R4).

Each step is durable before the next one, and all of them may be repeated after a crash at any byte:

    checkpoint   lowered to the offset, so that no start relies on what is about to be removed
    log          later segments deleted, newest first; the rest of the last one zeroed; checksum entries dropped
    queues       those of topics whose deletion is cut are restored; units of records behind the offset zeroed; queues
                 that held nothing else deleted; compacted files of topics whose deletion is cut are restored
    index        keys of such records dropped
    snapshots    deleted if they reflect more than the offset, unless the store began with them

Until all steps are done the store must not be opened: the caller makes its intention durable first.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Final

from ...model.clock import now_ms
from ...model.errors import OffsetOutOfRange
from ...model.queue import PhysicalOffset
from ..compaction.compacted_queues import restore_compacted
from ..config import StoreConfig
from ..index.key_index import KeyIndex
from ..integrity.recovery import walk
from ..log.commit_log import CommitLog
from ..log.segment import sync_directory
from ..queues.engine_choice import open_engine
from ..upkeep import CHECKPOINT_FILE
from .checkpoint import read_checkpoint, write_checkpoint
from .snapshot import read_snapshot
from .store_files import StoreLock
from .store_opening import BEGUN_WITH, FACTS_FILE, find_segment_bytes, scanning_kernel

logger = logging.getLogger(__name__)

CONFIG_FOLDER: Final = "config"


def truncate_store(directory: str, config: StoreConfig, offset: int) -> None:
    """Ends the log at `offset`, where a record begins or the log ends; a log that ends before is left as it is.

    Raises StoreLocked, OffsetOutOfRange (the log begins above `offset`: nothing was changed), StoreFormatError, OSError.
    """
    with StoreLock(directory):
        log = CommitLog(directory, segment_bytes=find_segment_bytes(directory) or config.segment_bytes)
        try:
            if offset < log.begin:
                raise OffsetOutOfRange("commit log", offset, log.begin, log.written)
            _lower_checkpoint(directory, offset)
            log.cut(min(offset, log.written))
            restore_compacted(directory, log.written)
            _cut_queues(directory, config, log)
            if config.index_enabled:
                _cut_index(directory, config, log)
        finally:
            log.close()
        _drop_snapshots(directory, offset)
        logger.info("store cut dir=%s offset=%s", directory, offset)


def _lower_checkpoint(directory: str, offset: int) -> None:
    path = os.path.join(directory, CHECKPOINT_FILE)
    found = read_checkpoint(path)
    if found.dispatched_offset is not None and found.flushed_offset is not None:
        dispatched, flushed = min(found.dispatched_offset, offset), min(found.flushed_offset, offset)
        lowered = replace(
            found,
            dispatched_offset=PhysicalOffset(dispatched),
            flushed_offset=PhysicalOffset(flushed),
            confirm_offset=min(found.confirm_offset, offset),
        )
        write_checkpoint(path, lowered)


def _cut_queues(directory: str, config: StoreConfig, log: CommitLog) -> None:
    kernel = scanning_kernel(config, log.segment_bytes)
    facts = read_snapshot(os.path.join(directory, FACTS_FILE))
    quarantined = [] if facts is None else facts.document.get("quarantined", [])
    ranges = [(int(low), int(high)) for low, high in quarantined]
    queues = open_engine(directory, config)
    try:
        queues.cut(log.written, lambda begin: walk(log, kernel, max(begin, log.begin), log.written, ranges))
    finally:
        queues.close()


def _cut_index(directory: str, config: StoreConfig, log: CommitLog) -> None:
    index = KeyIndex(directory, slots=config.index_slots, entries=config.index_entries, now_ms=now_ms)
    try:
        index.cut(log.written, log.stored_ms)
        index.persist()
        if os.path.isdir(index.directory):
            sync_directory(index.directory)
    finally:
        index.close()


def _drop_snapshots(directory: str, offset: int) -> None:
    """Deletes snapshots that reflect more than `offset`.

    We write ours only up to the confirm offset, so there are none unless the store had no replicas when it was written.
    """
    facts = read_snapshot(os.path.join(directory, FACTS_FILE))
    kept_up_to = max(offset, 0 if facts is None else int(facts.document.get(BEGUN_WITH, 0)))
    folder = os.path.join(directory, CONFIG_FOLDER)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        path = os.path.join(folder, name)
        if not name.endswith(".json") or path == os.path.join(directory, FACTS_FILE):
            continue
        snapshot = read_snapshot(path)
        if snapshot is not None and snapshot.reflected is not None and snapshot.reflected > kept_up_to:
            logger.warning("a snapshot that reflects what was cut is dropped path=%s", path)
            os.unlink(path)
    if names:
        sync_directory(folder)
