"""A store's background work: checkpoints, watching the disk, a clean close. `expiry` removes what has expired.

The loop calls `on_tick` about each second. Work that blocks on the disk runs in one worker thread: making the queues, the
index and the other dispatchers durable, writing the checkpoint, making index files, blanking expired files. A failure there is
final, like a failed flush (`StorePoisoned`).
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from ..model.errors import StoreNotWriteable
from ..model.queue import PhysicalOffset
from .config import StoreConfig
from .expiry import Expiry
from .index.key_index import KeyIndex
from .integrity.quarantine import HAS_BATCHES, QUEUES_AT_STOP, note_facts
from .log.commit_log import CommitLog
from .log.segment import NO_SPACE
from .opening.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from .opening.store_files import clear_abort
from .queues.confirmation import Confirmation
from .queues.dispatch import ConfirmedDispatcher, Dispatcher
from .queues.queue_engine import StoreQueues
from .retention import disk_use
from .store_event import StoreEvent
from .worker_threads import WorkerThreads

logger = logging.getLogger(__name__)

CHECKPOINT_FILE: Final = "checkpoint"
DISK_LOOK_MS: Final = 100  # between two looks while an expiry goes on
FILES_PER_SLICE: Final = 64  # queue files made durable before the worker checks for other work


def _positions_of(checkpoint: Checkpoint) -> tuple[int | None, ...]:
    """The positions whose change is worth a checkpoint."""
    return checkpoint.dispatched_offset, checkpoint.flushed_offset, checkpoint.confirm_offset


class Upkeep:
    """The upkeep of one open store. Loop thread, except where a method says otherwise."""

    def __init__(
        self,
        directory: str,
        config: StoreConfig,
        *,
        log: CommitLog,
        queues: StoreQueues,
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
        self._confirmation = confirmation
        self._is_closing = False
        self._checkpoint = Checkpoint()
        self._found_end = log.written  # until that is flushed, the last process's checkpoint says more than ours could
        self._had_batches = queues.had_batches  # as the store's facts say
        self._checkpoint_begun_ms: int | None = None  # the last one
        self._is_persisting = False
        self._mark = (PhysicalOffset(0), 0)  # (log end, time): everything below was stored before that time
        self.is_refusing = False  # the disk is too full to take messages
        self._disk_use = 0.0  # when it was looked at last
        self._disk_seen_ms = 0
        self._worker = WorkerThreads(1, "zenit-store-worker")
        self.expiry = Expiry(
            config,
            log=log,
            queues=queues,
            index=index,
            first_opened_ms=first_opened_ms,
            final_below=self._final_below,
            run_in_worker=self.run_in_worker,
        )
        self._work: deque[Callable[[], None]] = deque()  # work for the worker, without persisting

    def set_limits(self, config: StoreConfig) -> None:
        """Of retention and of the disk; from the next look on."""
        self._config = self.expiry.config = config

    def check_writeable(self) -> None:
        """Raises StoreNotWriteable while the disk is too full."""
        if self.is_refusing:
            raise StoreNotWriteable(self.too_full)

    @property
    def too_full(self) -> str:
        """The reason while `is_refusing`."""
        ratio = self._config.disk_refuse_ratio
        return f"disk use is over {ratio:.0%} (store.disk_refuse_ratio): free space, then writes go on by themselves"

    @property
    def disk_use(self) -> float:
        """The share of the disk that is used, 0 to 1, when it was looked at last."""
        return self._disk_use

    @property
    def deletes_early(self) -> str | None:
        """Why files are deleted before their age, and what to do; None if they are not."""
        ratio = self._config.disk_force_ratio
        if self._disk_use < ratio:
            return None
        return (
            f"disk use is {self._disk_use:.0%}: over {ratio:.0%} (store.disk_force_ratio) the oldest files go whatever their "
            "age: free space, or give the log less (store.retention_bytes)"
        )

    def dispatched(self) -> PhysicalOffset:
        """Everything below is durable in queues and index."""
        index = self._queues.reflected() if self._index is None else self._index.reflected()
        return min(self._queues.reflected(), index)

    def _final_below(self) -> int:
        """Everything below may be deleted: it is flushed, confirmed, and durable in every dispatcher."""
        reflected = min([self.dispatched(), *(dispatcher.reflected() for dispatcher in self._others)])
        return min(reflected, self._log.flushed, self._confirmation.end(self._log.written))

    # ---- the worker

    def run_in_worker(self, work: Callable[[], None]) -> Future[None]:
        """Lets the worker do it, in the order of the calls; a failure poisons the store."""
        self._work.append(work)
        return self._worker.submit(self._run_next)

    def _run_next(self) -> None:
        """Worker: does the next piece of work, unless a round of persisting has already done it."""
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
        """Worker: makes all dispatchers durable, then writes the checkpoint. On a full disk nothing changes: a restart
        replays more."""
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
            ),  # a power failure may end the log there, and new records go there
            flushed_offset=flushed,
            confirm_offset=self._confirmation.to_remember(),
        )
        try:
            self._queues.purge(self._confirmation.end(self._log.written))
            self._persist_others()
            self._note_batches(log_end)
            is_news = _positions_of(checkpoint) != _positions_of(before)
            if is_news and flushed >= self._found_end:
                write_checkpoint(os.path.join(self._directory, CHECKPOINT_FILE), checkpoint)
                self._checkpoint = checkpoint
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("disk full: no checkpoint now error=%s", error)

    def _note_batches(self, log_end: int) -> None:
        """Worker: before a checkpoint covers the first batch queue, the store's facts say that there is one: if all are lost,
        the next start knows it. Raises OSError."""
        has_batches = self._queues.has_batches
        if has_batches != self._had_batches:
            note_facts(self._directory, {HAS_BATCHES: has_batches}, log_end)
            self._had_batches = has_batches

    def forget_remembered_confirm(self) -> None:
        """See `MessageStore.forget_remembered_confirm`."""
        confirmation = self._confirmation
        is_lost, confirmation.remembered = confirmation.remembered > (confirmation.offset or 0), 0
        if is_lost:
            self.run_in_worker(self._lower_confirm).result()

    def _lower_confirm(self) -> None:
        """Worker."""
        path = os.path.join(self._directory, CHECKPOINT_FILE)
        found, confirm = read_checkpoint(path), self._confirmation.to_remember()
        if found.confirmed > confirm:
            write_checkpoint(path, replace(found, confirm_offset=confirm))

    def _persist_others(self) -> None:
        """Worker: the snapshots. They must not contain what the log may still lose."""
        confirmed = self._confirmation.offset
        for dispatcher in self._others:
            if confirmed is None or (self._is_closing and self._log.written <= confirmed):
                dispatcher.persist()
            elif isinstance(dispatcher, ConfirmedDispatcher):
                dispatcher.persist_confirmed(PhysicalOffset(confirmed))

    # ---- each second

    def on_tick(self, now_ms: int) -> list[StoreEvent]:
        """Starts due work and returns events. A failing disk poisons the store; a full one only delays the work."""
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
        if not self._is_persisting and self._is_checkpoint_due(now_ms):
            mark, self._mark = self._mark, (self._log.written, now_ms)
            self._is_persisting = True
            self._worker.submit(self._guarded, partial(self._persist, mark))
            self._checkpoint_begun_ms = now_ms
        is_seen = self.expiry.is_unfinished and 0 <= now_ms - self._disk_seen_ms < DISK_LOOK_MS
        events = [] if is_seen else self._look_at_disk(now_ms)
        return [*events, *self.expiry.go_on(now_ms, self._disk_use)]

    def _look_at_disk(self, now_ms: int) -> list[StoreEvent]:
        usage = os.statvfs(self._directory)
        self._disk_seen_ms = now_ms
        return self._watch_disk(
            disk_use((usage.f_blocks - usage.f_bfree) * usage.f_frsize, usage.f_bavail * usage.f_frsize)
        )

    def _is_checkpoint_due(self, now_ms: int) -> bool:
        """True if a checkpoint is due. After the clock was set back it is due at once: nothing waits for a wrong time."""
        begun_ms = self._checkpoint_begun_ms
        return begun_ms is None or not 0 <= now_ms - begun_ms < self._config.checkpoint_interval_ms

    def _log_retry(self) -> None:
        if self._queues.is_blocked:
            self._queues.retry_unwritten(self._log.written)
        if self._index is not None and self._index.is_blocked:
            self._index.retry_waiting(self._log.written)

    def _watch_disk(self, use: float) -> list[StoreEvent]:
        self._disk_use = use
        refusing = use >= self._config.disk_refuse_ratio
        if refusing == self.is_refusing:
            return []
        self.is_refusing = refusing
        if refusing:
            return [StoreEvent("disk_full", f"disk use {use:.1%}: sends are refused, reads go on")]
        return [StoreEvent("disk_ok", f"disk use {use:.1%}: sends are taken again")]

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
                self._note_queues(end)
                clear_abort(self._directory)
        finally:
            if self._index is not None:
                self._index.close()
            self._queues.close()

    def _note_queues(self, end: PhysicalOffset) -> None:
        """The clean stop's record for the next start, which checks the files against it. On a full disk an earlier record
        stays, with an earlier end."""
        try:
            count, files = self._queues.kept()
            left = {"count": count, "files": files, "batches": self._queues.batches_kept(), "logEnd": end}
            note_facts(self._directory, {QUEUES_AT_STOP: left, HAS_BATCHES: self._queues.has_batches}, end)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("disk full: the number of queues is not noted error=%s", error)
