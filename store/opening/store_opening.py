"""Opens a store directory: lock, sizes, recovery, replay; independent of who uses the store.

It opens RocketMQ's stores too: what our checkpoint does not say is taken from RocketMQ's (`checkpoint`), and after a clean
stop its queues and index count as complete.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from typing import Any, Final

from ...model.clock import Clock
from ...model.errors import StoreFormatError, StorePoisoned
from ...model.plain_dataclass import dataclass
from ...model.queue import PhysicalOffset
from ...record.codes import RUN_BLANK, RUN_END, RUN_MORE
from ...record.kernel import RunKernel
from ..config import StoreConfig
from ..index.key_index import INDEX_FOLDER, KeyIndex
from ..integrity.quarantine import FACTS_FILE as FACTS_FILE
from ..integrity.quarantine import QUEUES_AT_STOP, Quarantine, Range, are_facts_lost, joined, overlaps, write_facts
from ..integrity.queue_check import read_record
from ..integrity.recovery import LastStop, LogSurvey, Survey, first_store_time, newest_segment_before, replay
from ..log.commit_log import COMMIT_LOG_FOLDER, CommitLog
from ..log.log_pages import is_record_readable
from ..log.spare_files import SPARE_INDEX_FOLDER
from ..queues.batches.batch_table import BATCH_FOLDER
from ..queues.confirmation import Confirmation
from ..queues.dispatch import Dispatcher, SettledDispatcher, TopicDispatcher
from ..queues.engine_choice import open_engine
from ..queues.queue_engine import QueueEngine, StoreQueues
from ..queues.queue_witness import QueueWitness
from ..upkeep import CHECKPOINT_FILE, Upkeep
from .checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from .snapshot import read_snapshot
from .store_files import AbortMark, StoreLock, read_abort, write_abort

logger = logging.getLogger(__name__)

_SPARE_SHARE: Final = 4  # of the bytes of recycled segments: the share of queue and index files for many small messages
BEGUN_WITH: Final = (
    "begunWith"  # key of a fact: what the newest snapshot that the store began with reflects (store_beginning)
)

_FOREIGN_END: Final = "foreignEnd"

Interest = tuple[Dispatcher, frozenset[str] | None, int, Callable[[PhysicalOffset], None] | None]


@dataclass(slots=True)
class Opened:
    """The parts of an open store.

    `others`: the dispatchers besides queues and index, the topics they want (None: all), the flags of runs that they want
    of any topic, and the call that advances them past the rest. `queues_reflected`: how far the queues were complete when
    the store was opened. `foreign_end`: see `MessageStore.foreign_end`.
    """

    log: CommitLog
    queues: StoreQueues
    index: KeyIndex | None
    quarantine: Quarantine
    others: tuple[Interest, ...]
    queues_reflected: PhysicalOffset
    upkeep: Upkeep
    confirmation: Confirmation
    foreign_end: PhysicalOffset
    replayed: int = field(default=0)


def has_commit_log(directory: str) -> bool:
    """Whether a broker has ever opened a store there. Raises OSError if we may not look."""
    try:
        return stat.S_ISDIR(os.stat(os.path.join(directory, COMMIT_LOG_FOLDER)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def find_segment_bytes(directory: str) -> int | None:
    """The size of a store's commit log files, None if it has none."""
    folder = os.path.join(directory, COMMIT_LOG_FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return None
    sizes = (os.path.getsize(os.path.join(folder, name)) for name in names)
    return next((size for size in sizes if size), None)


def scanning_kernel(config: StoreConfig, segment_bytes: int) -> RunKernel:
    """A kernel for existing records, whatever limits they were written under."""
    return RunKernel(
        record_max=segment_bytes,
        body_max=segment_bytes,
        index_keys=config.index_enabled,
        index_tags=config.index_tags,
    )


def open_store(
    directory: str,
    config: StoreConfig,
    *,
    clock: Clock,
    dispatchers: Sequence[Dispatcher],
    on_flushed: Callable[[], None],
    on_poisoned: Callable[[StorePoisoned], None],
    adopt: Callable[[Opened], None],
    started: ExitStack,
) -> Opened:
    """Opens and starts the store, and adds to `started` what closes it. Calls `adopt` before the replay.

    Raises StoreLocked, StoreFormatError, OSError.
    """
    started.enter_context(StoreLock(directory))
    left = _Left(
        read_abort(directory), read_checkpoint(os.path.join(directory, CHECKPOINT_FILE)), are_facts_lost(directory)
    )
    with ExitStack() as unwinding:
        parts = _open_parts(directory, config, left, unwinding, clock, on_flushed, on_poisoned)
        log, queues, index = parts.log, parts.queues, parts.index
        whole = survey_begin(log, left.checkpoint, parts.kernel, clean=left.is_clean)
        if index is not None and not left.is_clean and left.checkpoint.dispatched_offset is None:
            index.cut_newer(left.checkpoint.index_time_ms)
        begin = log.begin if left.are_facts_lost else _replay_begin(log, queues, index, dispatchers, whole)
        if not left.is_clean:
            log.drop_cached_pages(whole)
        survey = _find_end(directory, config, left, parts, begin)
        _lower_checkpoint(directory, left.checkpoint, _rebuild_begin(log, queues, index))
        _settle(parts, left, begin=whole)
        first_opened_ms, quarantine, foreign_end = _store_facts(
            directory,
            log,
            survey,
            clock.now_ms(),
            known_whole=_known_whole(log, left),
            is_foreign=left.checkpoint.dispatched_offset is None and log.written > log.begin,
        )
        write_abort(directory)
        log.start()
        confirmation = Confirmation(left.checkpoint.confirmed)
        upkeep = Upkeep(
            directory,
            config,
            log=log,
            queues=queues,
            index=index,
            others=dispatchers,
            first_opened_ms=first_opened_ms,
            confirmation=confirmation,
        )
        started.callback(upkeep.close)
        _recycle_in_worker(parts, upkeep)
        unwinding.pop_all()
    others = tuple(_interest(dispatcher) for dispatcher in dispatchers)
    opened = Opened(log, queues, index, quarantine, others, queues.complete_below, upkeep, confirmation, foreign_end)
    adopt(opened)
    opened.replayed = _replay(parts, dispatchers, opened)
    logger.info(
        "store open dir=%s clean=%s written=%s scanned=%s replayed=%s quarantined=%s",
        directory, left.is_clean, log.written, log.written - begin, opened.replayed, len(quarantine.ranges),
    )  # fmt: skip
    return opened


@dataclass(frozen=True, slots=True)
class _Left:
    """What the last stop left. `abort`: its mark, None if it was clean."""

    abort: AbortMark | None
    checkpoint: Checkpoint
    are_facts_lost: bool

    @property
    def is_clean(self) -> bool:
        return self.abort is None


@dataclass(frozen=True, slots=True)
class _Parts:
    """The open files. `kernel`: reads what is in the log already."""

    log: CommitLog
    queues: StoreQueues
    index: KeyIndex | None
    kernel: RunKernel


def _open_parts(
    directory: str,
    config: StoreConfig,
    left: _Left,
    unwinding: ExitStack,
    clock: Clock,
    on_flushed: Callable[[], None],
    on_poisoned: Callable[[StorePoisoned], None],
) -> _Parts:
    """Opens log, queues and index; `unwinding` closes them again. Raises StoreFormatError, OSError."""
    log = CommitLog(
        directory,
        segment_bytes=find_segment_bytes(directory) or config.segment_bytes,
        preallocate_segments=config.preallocate_segments,
        recycle_segments=config.recycle_segments,
        flush_interval_ms=config.flush_interval_ms,
        on_flushed=on_flushed,
        on_poisoned=_noting_failure(directory, on_poisoned),
    )
    unwinding.callback(log.close)
    queues = open_engine(directory, config, spare_bytes=_spare_bytes(config, log.segment_bytes))
    unwinding.callback(queues.close)
    _check_log_is_there(log, left.checkpoint, queues)
    index = _open_index(directory, config, clock, _spare_bytes(config, log.segment_bytes))
    if index is not None:
        unwinding.callback(index.close)
    return _Parts(log, queues, index, scanning_kernel(config, log.segment_bytes))


def _find_end(directory: str, config: StoreConfig, left: _Left, parts: _Parts, begin: int) -> Survey:
    """Reads the log from `begin` on and cuts it behind its last whole record. Raises StoreFormatError, OSError."""
    log, queues = parts.log, parts.queues
    survey = LogSurvey(
        log,
        parts.kernel,
        check_body_crc=config.verify_body_crc,
        last_stop=LastStop.of(left.abort),
        is_ours=is_ours(directory, left.abort, left.checkpoint),
        witness=QueueWitness(queues.source()),
    ).run(begin, left.checkpoint.flushed_offset or 0)
    log.truncate(survey.end, wipe_bytes=_wipe_bytes(config, left.abort))
    if survey.unmatched:
        logger.warning("bodies came with another's checksum, they are kept records=%s", len(survey.unmatched))
        log.vouch_for(survey.unmatched)
    if left.is_clean and left.checkpoint.flushed_offset is not None:
        log.trust_flushed(left.checkpoint.flushed_offset)
        _check_queues_are_there(directory, log, queues)
    return survey


def _recycle_in_worker(parts: _Parts, upkeep: Upkeep) -> None:
    """Lets the upkeep's worker prepare spare files."""
    parts.queues.work_in(upkeep.run_in_worker)
    index = parts.index
    if index is not None:
        index.run_soon = upkeep.run_in_worker
        if index.spares is not None:
            index.spares.run_soon = upkeep.run_in_worker


def _replay(parts: _Parts, dispatchers: Sequence[Dispatcher], opened: Opened) -> int:
    """Dispatches to queues, index and dispatchers what each lacks of the log; returns how many records were read."""
    log, queues, index = parts.log, parts.queues, parts.index
    own: list[Dispatcher] = [queues] if index is None else [queues, index]
    for dispatcher in dispatchers:
        if isinstance(dispatcher, SettledDispatcher):
            dispatcher.settle(log.begin, log.written)
    replayed = replay(log, parts.kernel, [*own, *dispatchers], opened.quarantine.ranges)
    queues.on_replayed(log.written)
    if index is not None:
        index.advance(log.written)
    for _, _, _, advance in opened.others:
        if advance is not None:
            advance(log.written)
    return replayed


def _check_log_is_there(log: CommitLog, checkpoint: Checkpoint, queues: QueueEngine) -> None:
    """Checks that the log still exists, with its newest files, if anything else of the store does.

    Otherwise new messages would get offsets that consumers know from other messages. Raises StoreFormatError.
    """
    is_gone = not log.segments() and (queues.count or checkpoint.flushed_offset or checkpoint.message_time_ms)
    if is_gone or (checkpoint.flushed_offset or 0) > log.written:
        raise StoreFormatError(
            log.directory,
            f"its {'files' if is_gone else 'newest files'} are gone, and the rest of the store is of messages that were in"
            " them. Put the files back; where they are lost, move the store's whole directory away and start with an empty"
            " one: a replica gets its group's log, a broker alone begins without messages",
        )


def _check_queues_are_there(directory: str, log: CommitLog, queues: StoreQueues) -> None:
    """Checks that no queue and no queue file is missing since our last, clean stop.

    Otherwise new messages would get offsets that consumers know from other messages. If all of a kind are missing they are
    rebuilt. Raises StoreFormatError.
    """
    known = read_snapshot(os.path.join(directory, FACTS_FILE))
    left = {} if known is None else known.document.get(QUEUES_AT_STOP, {})
    if left.get("logEnd") != log.written:
        return
    batches = queues.batches_kept()
    were_batches = left.get("batches", batches)  # older facts lack them, and the number of files
    were = left["count"] - were_batches[0], left.get("files", 0) - were_batches[1]
    _check_kept(queues.directory, queues.plain.kept(), were)
    _check_kept(os.path.join(directory, BATCH_FOLDER), batches, were_batches)


def _check_kept(directory: str, kept: Sequence[int], were: Sequence[int]) -> None:
    """(queues, files) in a folder now, and at our last stop; (0, 0): all are gone, or the engine does not tell. Raises
    StoreFormatError."""
    if not kept[0]:
        return
    if kept[0] < were[0]:
        gone = f"{were[0] - kept[0]} of {were[0]} queues are gone. Put their folders back"
    elif kept[1] < were[1]:
        gone = f"{were[1] - kept[1]} of {were[1]} files of queues are gone. Put them back"
    else:
        return
    raise StoreFormatError(
        directory, f"{gone}; where they are lost, move the whole of it away: all its queues are made again from the log"
    )


def _known_whole(log: CommitLog, left: _Left) -> int:
    """Everything below this offset was on the disk once; 0 if the list of damaged ranges is lost."""
    if left.are_facts_lost:
        logger.error("%s is damaged: the whole log is read, and counts up to the first damage in it", FACTS_FILE)
        return 0
    return log.written if left.is_clean else left.checkpoint.flushed_offset or 0


def _noting_failure(directory: str, on_poisoned: Callable[[StorePoisoned], None]) -> Callable[[StorePoisoned], None]:
    """Calls `on_poisoned`, then writes into the abort mark that the disk failed: a failed sync loses pages even though the
    kernel runs on.
    """

    def on_disk_failed(error: StorePoisoned) -> None:
        on_poisoned(error)
        try:
            write_abort(directory, disk_failed=True)
        except OSError as problem:
            logger.critical("cannot even note that the disk failed dir=%s error=%s", directory, problem)

    return on_disk_failed


def append_bytes_max(config: StoreConfig) -> int:
    """The largest append: how far behind a damaged place the next record may begin."""
    return config.drain_bytes + config.frame_bytes_max + config.record_bytes_max


def _wipe_bytes(config: StoreConfig, abort: AbortMark | None) -> int | None:
    """How far behind the end bytes may look like records (`CommitLog.truncate`)."""
    if abort is None:
        return 0
    return append_bytes_max(config) if abort.same_boot else None


def is_ours(directory: str, abort: AbortMark | None, checkpoint: Checkpoint) -> bool:
    """Whether our broker wrote the log last: then all that was flushed has its checksum entry, which RocketMQ does not
    write.

    RocketMQ leaves its own abort mark; or, if an older version found ours, a checkpoint that is not ours; it creates one if
    there is none. Raises OSError.
    """
    if abort is None or not abort.is_ours:
        return False
    return checkpoint.flushed_offset is not None or not os.path.exists(os.path.join(directory, CHECKPOINT_FILE))


def survey_begin(log: CommitLog, checkpoint: Checkpoint, kernel: RunKernel, *, clean: bool) -> int:
    """From where the log must be read to find its end: everything before is known to be whole."""
    if checkpoint.dispatched_offset is not None and checkpoint.flushed_offset is not None:
        known = min(checkpoint.dispatched_offset, checkpoint.flushed_offset)
        if log.begin <= known <= log.written and _begins_at(log, known, kernel):
            return known
    if not clean:
        return newest_segment_before(log, kernel, checkpoint.recover_from_ms)
    for segment in reversed(log.segments()):
        if first_store_time(segment, kernel) is not None:
            return segment.base_offset
    return log.begin


def _begins_at(log: CommitLog, offset: int, kernel: RunKernel) -> bool:
    """Whether a record, a blank or nothing begins at `offset`."""
    if offset == log.written:
        return True
    segment = log.segments()[(offset - log.begin) // log.segment_bytes]
    at = offset - segment.base_offset
    if not is_record_readable(segment, at):
        return False
    kernel.clear()
    return kernel.scan(segment.map, at, segment.size_bytes, offset, False, 1) == 1 or kernel.status in (
        RUN_END,
        RUN_BLANK,
        RUN_MORE,
    )


def _spare_bytes(config: StoreConfig, segment_bytes: int) -> int:
    """How many bytes of expired queue files, and of index files, are kept for reuse."""
    return config.recycle_segments * segment_bytes // _SPARE_SHARE


def _open_index(directory: str, config: StoreConfig, clock: Clock, spare_bytes: int) -> KeyIndex | None:
    if not config.index_enabled:
        folder = os.path.join(directory, INDEX_FOLDER)
        if os.path.isdir(folder):  # it would miss new messages; if switched on again, it is rebuilt from the log
            logger.warning("the index is switched off: its files are deleted dir=%s", folder)
            shutil.rmtree(folder)
        shutil.rmtree(os.path.join(directory, SPARE_INDEX_FOLDER), ignore_errors=True)
        return None
    return KeyIndex(
        directory,
        slots=config.index_slots,
        entries=config.index_entries,
        now_ms=clock.now_ms,
        spare_bytes=spare_bytes,
    )


def _replay_begin(
    log: CommitLog, queues: StoreQueues, index: KeyIndex | None, dispatchers: Sequence[Dispatcher], whole: int
) -> int:
    """From where the log must be read because some dispatcher lacks it; `whole`: from where it must be read anyway."""
    rebuilt = _rebuild_begin(log, queues, index)
    needed = [whole, *(dispatcher.reflected() for dispatcher in dispatchers), *([] if rebuilt is None else [rebuilt])]
    return max(min(needed), log.begin)


def _rebuild_begin(log: CommitLog, queues: StoreQueues, index: KeyIndex | None) -> PhysicalOffset | None:
    """From where the log must be read to rebuild what queues or index have lost; None: nothing is lost."""
    if not queues.count or queues.are_batches_lost or (index is not None and index.end_offset < 0):
        return log.begin
    if index is not None and index.needs_from is not None:
        return PhysicalOffset(max(index.needs_from, log.begin))
    return None


def _lower_checkpoint(directory: str, checkpoint: Checkpoint, rebuilt: PhysicalOffset | None) -> None:
    """Lowers the checkpoint before a rebuild from `rebuilt` on: a kill meanwhile must not leave one that says it is
    complete.
    """
    if rebuilt is not None and checkpoint.dispatched_offset is not None and rebuilt < checkpoint.dispatched_offset:
        path = os.path.join(directory, CHECKPOINT_FILE)
        write_checkpoint(path, replace(checkpoint, dispatched_offset=rebuilt))


def _settle(parts: _Parts, left: _Left, *, begin: int) -> None:
    """Sets how far queues and index are complete for certain; they drop the rest."""
    log, index, clean = parts.log, parts.index, left.is_clean
    end = log.written
    dispatched = left.checkpoint.dispatched_offset
    held = min(dispatched, end) if dispatched is not None else PhysicalOffset(end if clean else begin)
    parts.queues.read_records_by(partial(read_record, log))
    parts.queues.begin(log_end=end, reflected=held, unclean=not clean, is_whole=clean and dispatched is not None)
    if index is None:
        return
    if index.end_offset >= end:
        index.cut(end, log.stored_ms)
    elif clean:
        index.trust(held)
    elif dispatched is not None:
        index.cut(held, log.stored_ms)


def _interest(dispatcher: Dispatcher) -> Interest:
    """What a dispatcher wants of future writes."""
    if isinstance(dispatcher, TopicDispatcher):
        return dispatcher, dispatcher.topics, dispatcher.run_flags, dispatcher.advance
    return dispatcher, None, 0, None


def _store_facts(
    directory: str, log: CommitLog, survey: Survey, now_ms: int, *, known_whole: int, is_foreign: bool
) -> tuple[int, Quarantine, PhysicalOffset]:
    """(when we first opened this store, all quarantined ranges, where the log ended after RocketMQ wrote it); saves new
    facts.

    `known_whole`: everything below was on the disk once, so damage there is bit rot; other damage is a hole, unless it was
    recorded as bit rot before.
    """
    known = read_snapshot(os.path.join(directory, FACTS_FILE))
    document = known.document if known is not None else {}
    first_opened_ms = int(document.get("firstOpenedMs", now_ms))
    before, rotten = _ranges(document, "quarantined"), _ranges(document, "rotten")
    found = [
        (low, high)
        for low, high in survey.damaged
        if overlaps(rotten, low, high) or (high <= known_whole and not overlaps(before, low, high))
    ]
    kept = Quarantine(_within(log, (*before, *survey.damaged)), _within(log, (*rotten, *found)))
    for low, high in sorted(set(kept.ranges) - set(before)):
        logger.error("damage in the log is quarantined begin=%s end=%s", low, high)
    foreign_end = log.written if is_foreign else PhysicalOffset(int(document.get(_FOREIGN_END, 0)))
    if known is None or kept.ranges != before or foreign_end != document.get(_FOREIGN_END, 0):
        facts = {
            "firstOpenedMs": first_opened_ms,
            _FOREIGN_END: foreign_end,
            "quarantined": [list(found) for found in kept.ranges],
            "rotten": [list(found) for found in kept.rotten],
        }
        write_facts(directory, {**document, **facts}, log.written)
    return first_opened_ms, kept, foreign_end


def _ranges(document: Mapping[str, Any], key: str) -> tuple[Range, ...]:
    return joined((int(low), int(high)) for low, high in document.get(key, []))


def _within(log: CommitLog, ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The ranges that touch the log, cut off at its end: what is appended there next is whole."""
    written = int(log.written)
    return tuple((low, min(high, written)) for low, high in ranges if log.begin < high and low < written)
