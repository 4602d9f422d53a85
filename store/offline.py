"""Looking at a store's files without a broker: `zenit store inspect | verify | dump`.

Nothing is written, so it may run beside a broker; what that writes meanwhile is not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ..model.clock import now_ms
from ..model.errors import StoreFormatError
from .checkpoint import Checkpoint, read_checkpoint
from .commit_log import COMMIT_LOG_FOLDER, CommitLog
from .config import StoreConfig, parse_delay_levels
from .key_index import KeyIndex
from .key_reader import KeyReader
from .pending import PendingReader
from .quarantine import Quarantine, Range
from .queue_reader import QueueReader
from .queue_table import QueueTable
from .record_kernel import RUN_BLANK, RunKernel, StoredMessage, decode_batch
from .recovery import LastStop, LogSurvey, Survey
from .snapshot import read_snapshot
from .store_files import read_abort
from .store_opening import FACTS_FILE, find_segment_bytes, scanning_kernel, survey_begin
from .upkeep import CHECKPOINT_FILE

_DUMP_RECORDS: Final = 1024  # decoded at a time


@dataclass(frozen=True, slots=True)
class _Offline:
    """A store's parts, opened for reading."""

    log: CommitLog
    queues: QueueTable
    index: KeyIndex
    config: StoreConfig
    kernel: RunKernel
    checkpoint: Checkpoint
    clean: bool
    end: int
    quarantined: tuple[Range, ...]


@contextmanager
def _open_offline(directory: str) -> Iterator[_Offline]:
    """Raises StoreFormatError where there is no store, or one we cannot read."""
    if not os.path.isdir(os.path.join(directory, COMMIT_LOG_FOLDER)):
        raise StoreFormatError(directory, f"it is no store: no {COMMIT_LOG_FOLDER} in it")
    config = StoreConfig()
    with ExitStack() as opened:
        log = CommitLog(directory, segment_bytes=find_segment_bytes(directory) or config.segment_bytes)
        opened.callback(log.close)
        queues = QueueTable(
            directory,
            file_units=config.queue_file_units,
            open_max=config.queue_files_open_max,
            delays_ms=parse_delay_levels(config.delay_levels),
            writable=False,
        )
        opened.callback(queues.close)
        index = KeyIndex(
            directory, slots=config.index_slots, entries=config.index_entries, now_ms=now_ms, writable=False
        )
        opened.callback(index.close)
        kernel = scanning_kernel(config, log.segment_bytes)
        checkpoint = read_checkpoint(os.path.join(directory, CHECKPOINT_FILE))
        clean = read_abort(directory) is None
        begin = survey_begin(log, checkpoint, kernel, clean=clean)
        end = _survey(log, kernel, begin, checkpoint, clean).end
        queues.begin(log_end=end, reflected=end, unclean=False)
        facts = read_snapshot(os.path.join(directory, FACTS_FILE))
        ranges = [] if facts is None else facts.document.get("quarantined", [])
        quarantined = tuple((int(low), int(high)) for low, high in ranges)
        yield _Offline(log, queues, index, config, kernel, checkpoint, clean, end, quarantined)


def _survey(log: CommitLog, kernel: RunKernel, begin: int, checkpoint: Checkpoint, clean: bool) -> Survey:
    last_stop = LastStop.CLEAN if clean else LastStop.POWER_LOST
    survey = LogSurvey(log, kernel, check_body_crc=True, last_stop=last_stop)
    return survey.run(begin, checkpoint.flushed_offset or 0)


def inspect_store(directory: str) -> dict[str, Any]:
    """What a store holds, as a document. Raises StoreFormatError, OSError."""
    with _open_offline(directory) as store:
        topics: dict[str, dict[str, Any]] = {}
        for topic, queue_id in store.queues.listed():
            queue = store.queues.get(topic, queue_id)
            assert queue is not None
            topics.setdefault(topic, {})[str(queue_id)] = {
                "min_offset": queue.min_offset(store.log.begin),
                "max_offset": queue.next_offset,
            }
        segments = store.log.segments()
        quarantine = Quarantine(store.quarantined)
        reader = QueueReader(store.log, store.queues, store.config, quarantine=quarantine)
        keys = KeyReader(store.log, store.index, quarantine=quarantine)
        pending = PendingReader(store.queues, reader, keys, confirm_offset=store.log.written).report(directory)
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
                "files": store.index.file_count,
                "entries": store.index.entry_count,
                "slots": store.index.slots,
            },
            "quarantined": [{"begin": low, "end": high} for low, high in store.quarantined],
            "topics": topics,
            "pending": pending.document(),
        }


def verify_store(directory: str) -> dict[str, Any]:
    """Reads every record: its structure, its place, its body's checksum, and the checksum of each append that has one.

    {"records", "bytes", "end_offset", "damaged": [{"begin", "end", "reason"}]}. Raises StoreFormatError, OSError.
    """
    with _open_offline(directory) as store:
        survey = _survey(store.log, store.kernel, store.log.begin, store.checkpoint, store.clean)
        ranges = tuple(sorted(set(survey.damaged) | set(store.quarantined)))
        damaged = [
            {
                "begin": low,
                "end": high,
                "reason": "quarantined" if (low, high) in store.quarantined else "no valid record",
            }
            for low, high in ranges
        ]
        records = sum(len(batch) for batch in _batches(store, store.log.begin, survey.end, ranges))
        return {
            "records": records,
            "bytes": survey.end - store.log.begin,
            "end_offset": survey.end,
            "damaged": damaged,
        }


def dump_store(directory: str, begin: int = 0) -> Iterator[StoredMessage]:
    """Every record from a position on, in the order of the log. `begin` within a record: from the next one on.

    Raises StoreFormatError, OSError.
    """
    with _open_offline(directory) as store:
        for batch in _batches(store, store.log.begin, store.end, store.quarantined, least=begin):
            for message in batch:
                if message.physical_offset >= begin:
                    yield message


def _batches(
    store: _Offline, begin: int, end: int, skipped: tuple[Range, ...], least: int = 0
) -> Iterator[list[StoredMessage]]:
    """The records of [begin, end), some at a time; segments that end below `least` are left out."""
    log, kernel = store.log, store.kernel
    for segment in log.segments():
        at, base = max(begin, segment.base_offset), segment.base_offset
        if segment.end_offset <= max(begin, least):
            continue
        while at < min(end, segment.end_offset):
            jump = next((high for low, high in skipped if low <= at < high), None)
            if jump is not None:
                at = jump
                continue
            limit = min([end, segment.end_offset, *(low for low, _ in skipped if low > at)])
            kernel.clear()
            count = kernel.scan(segment.map, at - base, limit - base, at, False, _DUMP_RECORDS)
            if not count:
                if kernel.status != RUN_BLANK:
                    at = limit
                    continue
                break
            yield list(decode_batch(bytes(segment.map[at - base : kernel.end])))
            at = base + kernel.end
