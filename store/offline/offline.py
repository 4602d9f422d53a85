"""Reads a store's files without a broker: `zenit store inspect | verify | dump`.

Nothing is written, so it may run beside a broker. What the broker writes meanwhile is not examined, and what expires meanwhile
is left out (offline_log).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ...model.clock import now_ms
from ...model.queue import PhysicalOffset
from ...model.topics.light_queues import is_light_queue
from ...record.kernel import StoredMessage
from ..compaction.compacted_queues import CompactedQueues
from ..config import StoreConfig
from ..index.key_index import KeyIndex
from ..index.key_reader import KeyReader
from ..integrity.quarantine import Quarantine
from ..log.commit_log import CHECKSUM_FOLDER
from ..log.segment import segment_name
from ..queues.engine_choice import engine_of, open_for_reading
from ..queues.queue_engine import QueueEngine
from ..queues.queue_reader import QueueReader
from .offline_compacted import check_compacted
from .offline_log import DamagedRange, OfflineLog, check_offline, open_log, read_batches, read_checked, tried_again
from .pending import PendingReader

_UNITS_TOLD: Final = 100


@dataclass(frozen=True, slots=True)
class OfflineQueues:
    """An open log with its queues and its index; `pending`: reads what waits in it; `compacted`: what it no longer has."""

    store: OfflineLog
    queues: QueueEngine
    index: KeyIndex
    pending: PendingReader
    compacted: CompactedQueues


@contextmanager
def open_queues(directory: str) -> Iterator[OfflineQueues]:
    """Opens a store for reading. Raises StoreFormatError, OSError."""
    config = StoreConfig()
    with ExitStack() as opened:
        store = opened.enter_context(open_log(directory, config))
        queues = open_for_reading(directory, config)
        opened.callback(queues.close)
        index = KeyIndex(
            directory, slots=config.index_slots, entries=config.index_entries, now_ms=now_ms, writable=False
        )
        opened.callback(index.close)
        queues.begin(log_end=PhysicalOffset(store.end), reflected=store.end, unclean=False)
        quarantine = Quarantine(store.quarantined)
        compacted = CompactedQueues(directory)
        reader = QueueReader(store.log, queues, config, quarantine=quarantine, compacted=compacted)
        keys = KeyReader(store.log, index, quarantine=quarantine)
        pending = PendingReader(queues, reader, keys, confirm_offset=store.log.written)
        yield OfflineQueues(store, queues, index, pending, compacted)


def inspect_store(directory: str) -> dict[str, Any]:
    """The content of a store, as a document. Raises StoreFormatError, OSError."""
    return tried_again(lambda: _inspected(directory))


def _inspected(directory: str) -> dict[str, Any]:
    with open_queues(directory) as opened:
        store, queues, index = opened.store, opened.queues, opened.index
        topics: dict[str, dict[str, Any]] = {}
        for topic, queue_id in queues.listed():
            if is_light_queue(topic):
                continue
            queue = queues.get(topic, queue_id)
            assert queue is not None
            topics.setdefault(topic, {})[str(queue_id)] = {
                "min_offset": opened.compacted.begin(queue.key, queue.min_offset(store.log.begin)),
                "max_offset": queue.next_offset,
            }
        segments = store.log.segments()
        pending = opened.pending.report(directory)
        return {
            "directory": os.path.abspath(directory),
            "closed_cleanly": store.clean,
            "begin_offset": store.log.begin,
            "end_offset": store.end,
            "segment_bytes": store.log.segment_bytes,
            "segments": [segment.base_offset for segment in segments if segment.base_offset < max(store.end, 1)],
            "checkpoint": {
                "dispatched_offset": store.checkpoint.dispatched_offset,
                "flushed_offset": store.checkpoint.flushed_offset,
                "message_time_ms": store.checkpoint.message_time_ms,
            },
            "index": {
                "files": index.file_count,
                "entries": index.entry_count,
                "slots": index.slots,
            },
            "queue_engine": engine_of(directory),
            "quarantined": [{"begin": low, "end": high} for low, high in store.quarantined],
            "light_queues": len(queues.lights),
            "topics": topics,
            "pending": pending.document(),
        }


def verify_store(directory: str) -> dict[str, Any]:
    """Checks every record: its structure, its place, its body's checksum; the checksum of each append that has one; and
    the record's unit in its queue.

    {"records", "bytes", "unvouched_bytes": that no checksum covers, "end_offset", "damaged": [{"begin", "end", "reason"}],
    "damaged_units": how many, "first_units": [{"topic", "queue_id", "queue_offset"}], "damaged_entries": [{"file", "entry",
    "offset"}] of checksum files, "damaged_compacted": [{"file", "reason"}] of compacted files}. Raises
    StoreFormatError, OSError.
    """
    with open_log(directory, StoreConfig()) as store:
        found = check_offline(store)
        known = tuple(damage for damage in store.quarantined if damage[1] > found.begin)
        ranges = tuple(sorted({*found.damaged, *known}))
        damaged = [
            {"begin": low, "end": high, "reason": "quarantined" if (low, high) in known else "no valid record"}
            for low, high in ranges
        ]
        damaged_files = check_compacted(directory)
        return {
            "records": sum(len(batch) for batch in read_batches(store, ranges, least=found.begin)),
            "bytes": store.end - found.begin,
            "unvouched_bytes": found.unvouched_bytes,
            "end_offset": store.end,
            "damaged": damaged,
            "damaged_units": len(found.units),
            "first_units": [
                {"topic": unit.topic, "queue_id": unit.queue_id, "queue_offset": unit.queue_offset}
                for unit in found.units[:_UNITS_TOLD]
            ],
            "damaged_entries": [
                {
                    "file": os.path.join(directory, CHECKSUM_FOLDER, segment_name(entry.base)),
                    "entry": entry.slot,
                    "offset": entry.offset,
                }
                for entry in sorted(found.entries, key=lambda entry: (entry.base, entry.slot))
            ],
            "damaged_compacted": damaged_files,
        }


def dump_store(directory: str, begin: int = 0) -> Generator[StoredMessage, None, None]:
    """Every record from a position on, in the order of the log. If `begin` is within a record: from the next one on.

    Raises StoreFormatError, OSError.
    """
    with open_log(directory, StoreConfig()) as store:
        for batch in read_batches(store, store.quarantined, least=begin):
            for message in batch:
                if message.physical_offset >= begin:
                    yield message


def checked_store(
    directory: str, begin: int = 0, end: int | None = None
) -> Generator[StoredMessage | DamagedRange, None, None]:
    """The same up to `end`, checked as `verify_store` checks records. Each damaged range that touches [begin, end) comes where
    it lies.

    Raises StoreFormatError, OSError.
    """
    with open_log(directory, StoreConfig()) as store:
        for piece in read_checked(store, begin, end):
            if isinstance(piece, DamagedRange):
                if piece.end > begin and (end is None or piece.begin < end):
                    yield piece
                continue
            for message in piece:
                at = message.physical_offset
                if at >= begin and (end is None or at < end):
                    yield message
