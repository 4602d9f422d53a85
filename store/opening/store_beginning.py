"""Begins a store whose log does not begin at 0: on a slave that was wiped, or is behind its master's retention (rule R12).

The state before the beginning comes from the master. It sends, all as of one moment:

    begin             a segment's begin in its log, at or below the lowest offset that its snapshots reflect
    snapshots         {name: bytes} of the state files under config/, as they are on its disk; each says what it reflects
    queue minimums    `MessageStore.queue_minimums(begin)`: where each queue continues, so that no queue offset is reused
    (and the rows of its epoch list from the one that covers `begin` on, which the store does not handle)

and then its log from `begin` on. The snapshots may reflect more than the slave's log holds until it has caught up;
replaying that part of the log sets the same final values again.

    erase_store -> begin_store -> MessageStore(...) opens with begin = written = flushed = `begin`

The log's first segment is created last. If a crash interrupts this, it is repeated from `erase_store` on. A store that was
erased in part is an older store of the same log.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from typing import Final

from ...model.clock import now_ms
from ...model.errors import StoreFormatError
from ...model.names import check_topic
from ...model.topics.light_queues import check_light_queue, is_light_queue
from ..config import SEGMENT_BYTES_LIMIT, StoreConfig
from ..index.key_index import INDEX_FOLDER
from ..integrity.quarantine import write_facts
from ..log.commit_log import CHECKSUM_FOLDER, COMMIT_LOG_FOLDER, SPARE_FOLDER
from ..log.segment import create_allocated, make_directory, segment_name, sync_directory, write_fully
from ..log.spare_files import SPARE_INDEX_FOLDER, SPARE_QUEUE_FOLDER
from ..queues.batches.batch_table import BATCH_FOLDER
from ..queues.conversion import CONVERTING_FOLDER, OLD_QUEUE_FOLDER, SHADOW_FOLDER
from ..queues.deleted_lights import DELETED_LIGHT_FOLDER
from ..queues.deleted_queues import DELETED_BATCH_FOLDER, DELETED_FOLDER
from ..queues.engine_choice import open_engine
from ..queues.queue_engine import QUEUE_FOLDER
from ..rocksdb_waits import HALF_FOLDER, TIMER_FOLDER
from ..upkeep import CHECKPOINT_FILE
from .snapshot import parse_snapshot
from .store_cut import CONFIG_FOLDER
from .store_files import StoreLock, clear_abort
from .store_opening import BEGUN_WITH, FACTS_FILE

OFFSET_LIMIT: Final = 1 << 62

_SNAPSHOT_NAME: Final = re.compile(r"[A-Za-z]{1,64}\.json")


def erase_store(directory: str) -> None:
    """Deletes the log and all that was derived from it but the compacted files (`adopt_incoming`); other files of the
    directory stay. Raises StoreLocked, OSError."""
    with StoreLock(directory):
        checkpoint = os.path.join(directory, CHECKPOINT_FILE)
        if os.path.exists(checkpoint):
            os.unlink(checkpoint)  # first, because the rest can no longer be trusted
            sync_directory(directory)
        derived = (
            QUEUE_FOLDER,
            OLD_QUEUE_FOLDER,
            CONVERTING_FOLDER,
            SHADOW_FOLDER,
            DELETED_FOLDER,
            DELETED_LIGHT_FOLDER,
            BATCH_FOLDER,
            DELETED_BATCH_FOLDER,
            INDEX_FOLDER,
            TIMER_FOLDER,
            HALF_FOLDER,
            CONFIG_FOLDER,
            SPARE_FOLDER,
            SPARE_QUEUE_FOLDER,
            SPARE_INDEX_FOLDER,
            CHECKSUM_FOLDER,
        )
        for folder in derived:
            shutil.rmtree(os.path.join(directory, folder), ignore_errors=True)
        log = os.path.join(directory, COMMIT_LOG_FOLDER)
        for name in sorted(os.listdir(log) if os.path.isdir(log) else (), reverse=True):
            os.unlink(os.path.join(log, name))
        if os.path.isdir(log):
            sync_directory(log)
        clear_abort(directory)
        sync_directory(directory)


def check_beginning(
    begin: int, segment_bytes: int, *, snapshots: Mapping[str, bytes], queue_minimums: Mapping[tuple[str, int], int]
) -> dict[str, int]:
    """What each snapshot reflects. Raises StoreFormatError if no store can begin with these, InvalidName (of a topic)."""
    if not 0 < segment_bytes <= SEGMENT_BYTES_LIMIT:
        raise StoreFormatError(COMMIT_LOG_FOLDER, f"files of {segment_bytes} bytes")
    if not 0 <= begin < OFFSET_LIMIT or begin % segment_bytes:
        raise StoreFormatError(COMMIT_LOG_FOLDER, f"{begin} is no multiple of segment_bytes {segment_bytes}")
    for (topic, queue_id), offset in queue_minimums.items():
        if is_light_queue(topic):
            check_light_queue(topic)
        else:
            check_topic(topic)
        if not 0 <= queue_id < 1 << 31 or not -OFFSET_LIMIT <= offset < OFFSET_LIMIT:
            raise StoreFormatError(QUEUE_FOLDER, f"queue {queue_id} of {topic} begins at {offset}")
    return {name: _reflected(name, data, begin) for name, data in snapshots.items()}


def begin_store(
    directory: str,
    config: StoreConfig,
    begin: int,
    *,
    segment_bytes: int,
    snapshots: Mapping[str, bytes],
    queue_minimums: Mapping[tuple[str, int], int],
) -> None:
    """Makes an empty directory a closed store whose log begins and ends at `begin`, in files of `segment_bytes`.

    Raises StoreFormatError if the directory holds a log, or if the arguments contradict each other; InvalidName (of a
    topic), StoreLocked, OSError.
    """
    with StoreLock(directory):
        log = os.path.join(directory, COMMIT_LOG_FOLDER)
        if os.path.isdir(log) and os.listdir(log):
            raise StoreFormatError(log, "a store begins in an empty directory only")
        reflected = check_beginning(begin, segment_bytes, snapshots=snapshots, queue_minimums=queue_minimums)
        for name, data in snapshots.items():
            _write(os.path.join(directory, CONFIG_FOLDER, name), data)
        facts = {"firstOpenedMs": now_ms(), "quarantined": [], BEGUN_WITH: max(reflected.values(), default=begin)}
        write_facts(directory, facts, begin)
        _begin_queues(directory, config, queue_minimums)
        _make_segment(directory, begin, segment_bytes)


def _reflected(name: str, data: bytes, begin: int) -> int:
    """What a snapshot reflects. Raises StoreFormatError if it is no snapshot, or reflects less than `begin`."""
    if _SNAPSHOT_NAME.fullmatch(name) is None or name == os.path.basename(FACTS_FILE):
        raise StoreFormatError(name[:140], "it is no name of a state file")
    try:
        snapshot = parse_snapshot(data.decode("utf-8"))
    except UnicodeDecodeError:
        snapshot = None
    if snapshot is None or snapshot.reflected is None:
        raise StoreFormatError(name, "it is no snapshot, or a damaged one")
    if snapshot.reflected < begin:
        raise StoreFormatError(name, f"it reflects {snapshot.reflected}, and the log begins at {begin}")
    return snapshot.reflected


def _begin_queues(directory: str, config: StoreConfig, minimums: Mapping[tuple[str, int], int]) -> None:
    queues = open_engine(directory, config)
    try:
        queues.begin_at(minimums)
    finally:
        queues.close()


def _make_segment(directory: str, begin: int, segment_bytes: int) -> None:
    log, spare = os.path.join(directory, COMMIT_LOG_FOLDER), os.path.join(directory, SPARE_FOLDER)
    os.makedirs(log, exist_ok=True)
    os.makedirs(spare, exist_ok=True)
    prepared = os.path.join(spare, "first")
    create_allocated(prepared, segment_bytes)
    os.rename(prepared, os.path.join(log, segment_name(begin)))
    sync_directory(log)
    sync_directory(directory)


def _write(path: str, data: bytes) -> None:
    make_directory(os.path.dirname(path))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_fully(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
