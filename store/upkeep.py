"""What a store does beside its work: checkpoints, retention, watching the disk, closing well.

The loop calls `on_tick` about each second. What blocks on the disk runs in one worker thread: making the queues, the
index and the other dispatchers durable, writing the checkpoint, making index files, blanking what expired. A failure there is
final, as a failed flush is (`StorePoisoned`).
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ..model.errors import StoreNotWriteable
from ..model.queue import PhysicalOffset
from .checkpoint import Checkpoint, write_checkpoint
from .commit_log import CommitLog
from .config import StoreConfig
from .confirmation import Confirmation
from .deleted_queues import purge
from .dispatch import ConfirmedDispatcher, Dispatcher
from .key_index import KeyIndex
from .queue_table import QueueTable
from .retention import SegmentAge, decide, disk_use
from .segment import NO_SPACE
from .store_files import clear_abort

logger = logging.getLogger(__name__)

CHECKPOINT_FILE: Final = "checkpoint"
FILES_PER_SLICE: Final = 64  # queue files made durable before the worker looks at what else there is to do
NOTHING: Final = 1 << 62  # what nobody needs begins behind any log


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """Something an operator should see. `kind`: segment_deleted, unconsumed_deleted, unconsumed_held, held_deleted,
    held_for_readers, disk_full, disk_ok."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def _nothing_protected() -> Mapping[tuple[str, int], int]:
    return {}


def _nothing_waits(_offset: int) -> bool:
    return True


def _positions_of(checkpoint: Checkpoint) -> tuple[int | None, ...]:
    """What is worth a write where it has moved."""
    return checkpoint.dispatched_offset, checkpoint.flushed_offset, checkpoint.confirm_offset


class Upkeep:
    """Belongs to one open store. Loop thread, except where a method says otherwise."""

    def __init__(
        self,
        directory: str,
        config: StoreConfig,
        *,
        log: CommitLog,
        queues: QueueTable,
        index: KeyIndex | None,
        others: Sequence[Dispatcher],
        first_opened_ms: int,
        confirmation: Confirmation,
    ) -> None:
        self._directory = directory
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._others = tuple(others)
        self._first_opened_ms = first_opened_ms
        self._confirmation = confirmation
        self._is_closing = False
        self._unconsumed = _nothing_protected
        self._held = _nothing_protected
        self._clear_below: Callable[[int], bool] = _nothing_waits
        self._checkpoint = Checkpoint()
        self._found_end = log.written  # until that is flushed, the last life's checkpoint says more than we could
        self._checkpoint_due_ms = 0
        self._is_persisting = False
        self._mark = (PhysicalOffset(0), 0)  # (log end, time): what lies below was stored before
        self._held_reported: str | None = None
        self.is_refusing = False  # the disk is too full to take messages
        self._worker = ThreadPoolExecutor(1, "zenit-store-worker")
        self._work: deque[Callable[[], None]] = deque()  # what the worker was asked to do, persisting apart

    def protect(self, provider: Callable[[], Mapping[tuple[str, int], int]]) -> None:
        """`provider`: what groups have yet to consume, {(topic, queue id): first queue offset}."""
        self._unconsumed = provider

    def hold(self, provider: Callable[[], Mapping[tuple[str, int], int]]) -> None:
        """`provider`: what readers hold for now, {(topic, queue id): first queue offset}."""
        self._held = provider

    def keep_waiting(self, clear_below: Callable[[int], bool]) -> None:
        """`clear_below`: see `MessageStore.keep_waiting`."""
        self._clear_below = clear_below

    def check_writeable(self) -> None:
        """Raises StoreNotWriteable while the disk is too full."""
        if self.is_refusing:
            raise StoreNotWriteable(f"disk use is over {self._config.disk_refuse_ratio:.0%}")

    def dispatched(self) -> PhysicalOffset:
        """Everything below is durable in queues and index."""
        index = self._queues.reflected() if self._index is None else self._index.reflected()
        return min(self._queues.reflected(), index)

    def _reflected(self) -> int:
        return min([self.dispatched(), *(dispatcher.reflected() for dispatcher in self._others)])

    # ---- the worker

    def run_in_worker(self, work: Callable[[], None]) -> Future[None]:
        """Has the worker do it, in the order of the calls; a failure poisons the store."""
        self._work.append(work)
        return self._worker.submit(self._run_next)

    def _run_next(self) -> None:
        """Worker: the next piece of work, unless a round of persisting has done it on its way."""
        with suppress(IndexError):
            self._guarded(self._work.popleft())

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self._log.poison(f"store worker: {error.strerror or error}")
        except Exception as error:
            logger.exception("store worker failed")
            self._log.poison(f"store worker: {error}")

    def _persist(self, mark: tuple[PhysicalOffset, int]) -> None:
        self._write_checkpoint(mark)
        self._is_persisting = False

    def _write_checkpoint(self, mark: tuple[PhysicalOffset, int]) -> None:
        """Worker: makes all dispatchers durable, then says so. On a full disk it stays as it was: a restart replays more."""
        log_end, time_ms = mark
        while self._queues.persist_some(FILES_PER_SLICE):
            self._run_next()  # an index file that is due must not wait for ten thousand queues
        flushed = self._log.flushed
        queues = self._queues.reflected()
        index = queues if self._index is None else self._index.persist()
        before = self._checkpoint
        checkpoint = replace(
            before,
            message_time_ms=time_ms if flushed >= log_end else before.message_time_ms,
            queue_time_ms=time_ms if queues >= log_end else before.queue_time_ms,
            index_time_ms=time_ms if index >= log_end else before.index_time_ms,
            dispatched_offset=min(
                queues, index, flushed
            ),  # a power cut may end the log there, and it goes on from there
            flushed_offset=flushed,
            confirm_offset=self._confirmation.to_remember(),
        )
        try:
            purge(self._directory, self._confirmation.end(self._log.written))
            self._persist_others()
            is_news = _positions_of(checkpoint) != _positions_of(before)
            if is_news and flushed >= self._found_end:
                write_checkpoint(os.path.join(self._directory, CHECKPOINT_FILE), checkpoint)
                self._checkpoint = checkpoint
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("disk full: no checkpoint now error=%s", error)

    def _persist_others(self) -> None:
        """Worker: their snapshots. What the log may yet lose must not be in one."""
        confirmed = self._confirmation.offset
        for dispatcher in self._others:
            if confirmed is None or (self._is_closing and self._log.written <= confirmed):
                dispatcher.persist()
            elif isinstance(dispatcher, ConfirmedDispatcher):
                dispatcher.persist_confirmed(PhysicalOffset(confirmed))

    # ---- each second

    def on_tick(self, now_ms: int) -> list[StoreEvent]:
        """Starts what is due and returns what happened. A disk that fails at it poisons the store; a full one only waits."""
        try:
            return self._tick(now_ms)
        except OSError as error:
            if error.errno in NO_SPACE:
                logger.warning("disk full: expired files are given up later error=%s", error)
            else:
                self._log.poison(f"store upkeep: {error.strerror or error}")
            return []

    def _tick(self, now_ms: int) -> list[StoreEvent]:
        self._log_retry()
        if not self._is_persisting and now_ms >= self._checkpoint_due_ms:
            mark, self._mark = self._mark, (self._log.written, now_ms)
            self._is_persisting = True
            self._worker.submit(self._guarded, partial(self._persist, mark))
            self._checkpoint_due_ms = now_ms + self._config.checkpoint_interval_ms
        usage = os.statvfs(self._directory)
        use = disk_use((usage.f_blocks - usage.f_bfree) * usage.f_frsize, usage.f_bavail * usage.f_frsize)
        return [*self._watch_disk(use), *self._retire(now_ms, use)]

    def _log_retry(self) -> None:
        if self._queues.is_blocked:
            self._queues.retry_unwritten(self._log.written)
        if self._index is not None and self._index.is_blocked:
            self._index.retry_waiting(self._log.written)

    def _watch_disk(self, use: float) -> list[StoreEvent]:
        refusing = use >= self._config.disk_refuse_ratio
        if refusing == self.is_refusing:
            return []
        self.is_refusing = refusing
        if refusing:
            return [StoreEvent("disk_full", f"disk use {use:.1%}: sends are refused, reads go on")]
        return [StoreEvent("disk_ok", f"disk use {use:.1%}: sends are taken again")]

    def _retire(self, now_ms: int, use: float) -> list[StoreEvent]:
        segments = self._log.segments()
        if len(segments) < 2:
            return []
        ages = [SegmentAge(s.base_offset, s.end_offset, s.modified_ms()) for s in segments[:2]]
        if use >= self._config.disk_clean_ratio or self._config.retention_bytes:
            ages = [SegmentAge(s.base_offset, s.end_offset, s.modified_ms()) for s in segments]
        facts = {"now_ms": now_ms, "first_opened_ms": self._first_opened_ms}
        first = decide(
            ages,
            self._config,
            **facts,
            use=use,
            reflected=self._log.flushed,
            unconsumed_from=NOTHING,
            held_from=NOTHING,
        )
        if first.remove_before <= self._log.begin:
            self._held_reported = None
            return []
        unconsumed, held = self._positions(self._unconsumed()), self._positions(self._held())
        decision = decide(
            ages,
            self._config,
            **facts,
            use=use,
            reflected=min(self._reflected(), self._log.flushed, self._confirmation.end(self._log.written)),
            unconsumed_from=min(unconsumed.values(), default=NOTHING),
            held_from=min(held.values(), default=NOTHING),
        )
        events: list[StoreEvent] = []
        if decision.held_by_groups:
            events += self._report_held("unconsumed_held", f"groups from offset {min(unconsumed.values())} on")
        elif decision.held_by_readers:
            events += self._report_held(
                "held_for_readers", f"readers that hold them from offset {min(held.values())} on"
            )
        if decision.remove_before > self._log.begin and self._clear_below(decision.remove_before):
            events += self._remove(decision.remove_before, unconsumed, held)
        return events

    def _report_held(self, kind: str, for_whom: str) -> list[StoreEvent]:
        """Once, until that changes."""
        if self._held_reported == kind:
            return []
        self._held_reported = kind
        return [StoreEvent(kind, f"expired files are kept for {for_whom}")]

    def _positions(self, needed: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """{(topic, queue id): physical offset of the first message that is needed}, of {(topic, queue id): its offset}."""
        positions: dict[tuple[str, int], int] = {}
        for (topic, queue_id), offset in needed.items():
            queue = self._queues.get(topic, queue_id)
            if queue is not None:
                first = max(offset, queue.min_offset(self._log.begin))
                if first < queue.next_offset:
                    positions[topic, queue_id] = queue.unit(first)[0]
        return positions

    def _remove(
        self, offset: int, unconsumed: Mapping[tuple[str, int], int], held: Mapping[tuple[str, int], int]
    ) -> list[StoreEvent]:
        needs = (("unconsumed_deleted", unconsumed, self._unconsumed()), ("held_deleted", held, self._held()))
        lost = [
            (kind, key, self._first_kept(key, offsets))
            for kind, positions, offsets in needs
            for key in sorted(key for key, position in positions.items() if position < offset)
        ]
        removed = self._log.remove_before(offset)
        events = [StoreEvent("segment_deleted", f"base {segment.base_offset}") for segment in removed]
        if removed:
            self._queues.remove_before(self._log.begin)
            if self._index is not None:
                for file in self._index.remove_before(self._log.begin):
                    self.run_in_worker(partial(self._index.retire, file))
        for kind, (topic, queue_id), before in lost:
            first = self._first_kept((topic, queue_id), {})
            if first > before:
                events.append(StoreEvent(kind, f"{topic} queue {queue_id}: offsets {before} to {first - 1}"))
        return events

    def _first_kept(self, key: tuple[str, int], needed: Mapping[tuple[str, int], int]) -> int:
        """The first offset of what is needed of a queue (of all, where `needed` does not tell) that the log still has."""
        queue = self._queues.get(*key)
        offset = needed.get(key, 0)
        return offset if queue is None else max(offset, queue.min_offset(self._log.begin))

    # ---- the end

    def close(self) -> None:
        """Stops the worker, flushes, makes everything durable and marks the store as closed; no mark where it failed."""
        self._worker.shutdown(wait=True)
        self._is_closing = True
        end = self._log.written
        try:
            self._log.close()
            if self._log.poisoned is None and self._log.flushed >= end:
                self._write_checkpoint((end, self._mark[1]))
                clear_abort(self._directory)
        finally:
            if self._index is not None:
                self._index.close()
            self._queues.close()
