"""Compacts the queues of compacted topics in the background, each `compaction_interval_ms`, or at once where asked.

A run takes what the log has below the confirmed and flushed position into compacted files, queue by queue, and merges the
files where that is worth it (compaction_work), and lets the oldest records go of a topic that is not kept for ever
(compacted_expiry). When a run has taken all queues, retention may delete the log up to where
the run began. A queue that fails says why, keeps its files, and keeps the log until a later run takes it.

The loop thread starts runs and looks at their results; one thread of its own carries them out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import field
from types import MappingProxyType
from typing import Final

from ...model.errors import CorruptRecordError, OffsetOutOfRange, StoreFormatError, SystemFault
from ...model.plain_dataclass import dataclass
from ..config import StoreConfig
from ..integrity.quarantine import Quarantine
from ..integrity.scrub_reader import ScrubReader
from ..log.commit_log import CommitLog
from ..log.segment import NO_SPACE
from ..queues.confirmation import Confirmation
from ..queues.queue_engine import QueueEngine
from ..queues.queue_places import QueuePlaces
from ..store_event import StoreEvent
from ..worker_threads import WorkerThreads
from .compacted_expiry import Keeping, expire
from .compacted_files import delete_unlisted, read_manifest
from .compacted_manifest import Manifest
from .compacted_queues import CompactedQueues, QueueKey
from .compaction_work import (
    DamageMetError,
    Limits,
    MergeRule,
    StepStopped,
    merge,
    readable_end,
    take,
    without_rows_from,
)

logger = logging.getLogger(__name__)

_SPAN_BYTES: Final = 1 << 20  # of the log, read at once
_GAP_BYTES: Final = 1 << 14  # of other queues' records, read rather than left out
_TRIES_MAX: Final = 8
_AWAITED: Final = "damaged messages in the log may still be fetched from a replica"


@dataclass(slots=True)
class _CompactionRun:
    """One run. `queues`: each with the number of times that its topic was deleted before. `is_whole`: all queues.

    `limit`: the position of the log up to which it takes. `failed`: why, of each queue that failed; `damaged`: ranges of the
    log that it met.
    """

    queues: tuple[tuple[QueueKey, int], ...]
    limit: int
    is_whole: bool
    is_forced: bool
    now_ms: int
    done: int = 0
    failed: dict[QueueKey, str] = field(default_factory=dict)
    damaged: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CompactionState:
    """`runs`: how many have ended; `is_running`: one is under way, with `done` of its `queues` finished. `failed`: why, of
    the last run."""

    runs: int
    is_running: bool
    done: int
    queues: int
    failed: dict[QueueKey, str]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The queue offsets [begin, end) that the log has and readers may see. `is_other_log`: where it overlaps what was taken,
    it is not the log that was taken: an operator forced the election of a replica that lacked messages."""

    begin: int
    end: int
    is_other_log: bool


class _LogSource:
    """The log, for `take`. The compaction's thread."""

    def __init__(
        self,
        log: CommitLog,
        quarantine: Quarantine,
        damaged_in: Callable[[Sequence[tuple[int, int]]], list[tuple[int, int]]],
    ) -> None:
        self._log = log
        self._quarantine = quarantine
        self.damaged = damaged_in

    def is_lost(self, begin: int, end: int) -> bool:
        """Raises DamageMetError."""
        if not self._quarantine.ranges_in(begin, end):
            return False
        if self._quarantine.is_awaited(begin, end):
            raise DamageMetError(())
        return True

    def read(self, places: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """Neighbours are read at once. Raises DamageMetError where the disk cannot read, OffsetOutOfRange."""
        at = 0
        while at < len(places):
            begin, end = places[at]
            segment_end = (begin // self._log.segment_bytes + 1) * self._log.segment_bytes
            last = at + 1
            while last < len(places) and places[last][0] - end <= _GAP_BYTES and end - begin < _SPAN_BYTES:
                if places[last][1] > segment_end:
                    break
                end = places[last][1]
                last += 1
            with ScrubReader(self._log, begin) as reader:
                try:
                    data = reader.read(begin, end)
                except OSError as error:
                    raise DamageMetError([(begin, end)]) from error
            for low, high in places[at:last]:
                yield data[low - begin : high - begin]
            at = last


class Compaction:
    """The compaction of one open store. Loop thread."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        log: CommitLog,
        queues: QueueEngine,
        confirmation: Confirmation,
        quarantine: Quarantine,
        compacted: CompactedQueues,
        damaged_in: Callable[[Sequence[tuple[int, int]]], list[tuple[int, int]]],
        found_damage: Callable[[Iterable[tuple[int, int]], str], object],
    ) -> None:
        """`damaged_in`: see `MessageStore.damaged_in`. `found_damage`: is told of damage in the log, on the loop."""
        self._config = config
        self._log = log
        self._queues = queues
        self._confirmation = confirmation
        self._compacted = compacted
        self._source = _LogSource(log, quarantine, damaged_in)
        self._found_damage = found_damage
        self._wanted: Callable[[], Iterable[QueueKey]] = tuple
        self._keeping: Mapping[str, Keeping] = {}
        self._floor = 0  # everything of compacted queues below is in their files
        self._due_ms: int | None = None
        self._is_due = False
        self._asked: set[str] = set()  # topics
        self._asked_end = 0  # of the log; it is flushed first
        self._run: _CompactionRun | None = None
        self._future: Future[None] | None = None
        self._runs = 0
        self._failed: dict[QueueKey, str] = {}
        self._is_closing = False
        self._worker = WorkerThreads(1, "zenit-compaction")
        self._limits = Limits(memory_bytes=config.compaction_memory_bytes, should_stop=lambda: self._is_closing)

    def begin(
        self, queues: Callable[[], Iterable[QueueKey]], keeping: Mapping[str, Keeping] = MappingProxyType({})
    ) -> None:
        """`queues()`: the queues of all compacted topics, now. `keeping`: the topics that are not kept for ever."""
        self._wanted = queues
        self._keeping = keeping

    def clear_below(self, offset: int) -> bool:
        """Whether the files hold, durably, all that compacted queues have below this position of the log. If not, a run
        begins soon. For retention."""
        if offset <= self._floor or not any(True for _ in self._wanted()):
            return True
        self._is_due = True
        return False

    def ask_for(self, topic: str) -> int:
        """Compacts a topic soon, whatever that frees, up to the present end of the log as far as it is confirmed; returns what
        `state().runs` exceeds once it has been done."""
        self._asked.add(topic)
        self._asked_end = self._log.written
        self._log.request_flush(self._asked_end)
        return self._runs + (self._future is not None)

    def state(self) -> CompactionState:
        """How far it is."""
        run = self._run
        return CompactionState(
            self._runs,
            bool(run or self._asked or self._is_due),
            0 if run is None else run.done,
            0 if run is None else len(run.queues),
            self._failed,
        )

    def on_tick(self, now_ms: int) -> list[StoreEvent]:
        """Looks at the run under way, and starts the next one if it is due."""
        events = self._end_run() if self._future is not None and self._future.done() else []
        if self._due_ms is None or self._due_ms > now_ms + self._config.compaction_interval_ms:
            # at the start, and after the clock was set back
            self._due_ms = now_ms + self._config.compaction_interval_ms
        if self._future is None and not self._is_closing:
            if self._asked and self._log.flushed >= self._asked_end:
                asked, self._asked = self._asked, set()
                self._start(now_ms, [key for key in self._wanted() if key[0] in asked], is_forced=True)
            elif not self._asked and (self._is_due or now_ms >= self._due_ms):
                self._is_due, self._due_ms = False, now_ms + self._config.compaction_interval_ms
                self._start(now_ms, list(self._wanted()), is_forced=False)
        return events

    def _start(self, now_ms: int, keys: list[QueueKey], *, is_forced: bool) -> None:
        limit = min(self._confirmation.end(self._log.written), self._log.flushed)
        queues = tuple((key, self._compacted.deletions(key[0])) for key in keys)
        self._run = _CompactionRun(queues, limit, not is_forced, is_forced, now_ms)
        self._future = self._worker.submit(self._work, self._run)

    def _end_run(self) -> list[StoreEvent]:
        assert self._run is not None
        assert self._future is not None
        run, self._run, future, self._future = self._run, None, self._future, None
        error = future.exception()
        if error is not None and not isinstance(error, StepStopped):
            self._log.poison(f"compaction: {error}")
        if run.damaged:
            self._found_damage(run.damaged, "met while its topic was compacted")
        if run.is_whole and not run.failed and error is None:
            self._floor = max(self._floor, run.limit)
        self._runs += 1
        news = {key: why for key, why in run.failed.items() if self._failed.get(key) != why}
        self._failed = run.failed
        return [StoreEvent("compaction_waits", f"{topic} queue {at}: {why}") for (topic, at), why in news.items()]

    def close(self) -> None:
        """Stops the run under way; what it had not listed does not count."""
        self._is_closing = True
        self._worker.shutdown(wait=True)

    # ---- the compaction's thread

    def _work(self, run: _CompactionRun) -> None:
        self._compacted.purge(self._confirmation.end(self._log.written))
        for key, deletions in run.queues:
            self._limits.check()
            try:
                self._compact(run, key, deletions)
            except DamageMetError as error:
                run.damaged += error.ranges
                run.failed[key] = "the log is damaged" if error.ranges else _AWAITED
            except (CorruptRecordError, StoreFormatError, OffsetOutOfRange, SystemFault) as error:
                run.failed[key] = str(error)
            except (OSError, IndexError) as error:
                if self._compacted.deletions(key[0]) != deletions:
                    continue  # its topic was deleted, and its files with it
                if not isinstance(error, OSError) or error.errno not in NO_SPACE:
                    raise
                run.failed[key] = "disk full: free space, then it goes on by itself"
                self._compacted.adopt(key, read_manifest(self._compacted.folder(key)), deletions)
            run.done += 1

    def _compact(self, run: _CompactionRun, key: QueueKey, deletions: int) -> None:
        """Raises what may go wrong."""
        folder = self._compacted.folder(key)
        manifest = self._compacted.manifests.get(key, Manifest())
        before = manifest.files
        delete_unlisted(folder, manifest)
        for changed in self._taken(run, key, manifest):
            manifest = changed
            self._adopt(key, manifest, deletions)
        are_tombstones_old = bool(manifest.tombstones) and (
            run.now_ms - manifest.merged_ms >= self._config.compaction_tombstone_ms
        )
        if manifest.files and (run.is_forced or manifest.files != before or are_tombstones_old):
            rule = MergeRule(
                now_ms=run.now_ms,
                dead_ratio=0 if run.is_forced else self._config.compaction_dead_ratio,
                tombstone_ms=self._config.compaction_tombstone_ms,
            )
            manifest = merge(folder, manifest, key[1], rule, self._limits)
            self._adopt(key, manifest, deletions)
        keeping = self._keeping.get(key[0])
        if keeping is not None:
            self._adopt(key, expire(folder, manifest, key[1], keeping, run.now_ms, self._limits), deletions)

    def _adopt(self, key: QueueKey, manifest: Manifest, deletions: int) -> None:
        self._compacted.adopt(key, manifest, deletions)
        delete_unlisted(self._compacted.folder(key), manifest)

    def _taken(self, run: _CompactionRun, key: QueueKey, manifest: Manifest) -> Iterator[Manifest]:
        """The manifests that taking what is new brings to the disk. Raises as `take`, and SystemFault if files of the queue
        expired at every attempt."""
        folder = self._compacted.folder(key)
        for _ in range(_TRIES_MAX):
            with self._queues.private(*key) as queue:
                if queue is None or manifest.covered > queue.next_offset:
                    return
                bounds = self._bounds(queue, manifest)
                if bounds is None:
                    continue
                if bounds.is_other_log:
                    logger.error("the log was cut and written anew below what is compacted topic=%s queue=%s", *key)
                    self._floor = 0
                    manifest = without_rows_from(folder, manifest, key[1], bounds.begin, self._limits)
                    yield manifest
                begin = max(manifest.covered, bounds.begin)
                end = readable_end(queue, begin, max(begin, bounds.end), run.limit)
                yield from take(queue, folder, manifest, self._source, begin=begin, end=end, limits=self._limits)
                return
        raise SystemFault("files of the queue expire as fast as they are read")

    def _bounds(self, queue: QueuePlaces, manifest: Manifest) -> _Bounds | None:
        """None if files of the queue expired meanwhile: what was read may be of another queue."""
        try:
            low = int(queue.min_offset(self._log.begin))
            last = manifest.covered - 1
            is_other = last >= max(low, queue.first_offset) and manifest.anchor != queue.unit(last)[:2]
            bounds = _Bounds(low, self._confirmation.next_offset(queue), is_other)
        except FileNotFoundError:
            return None
        return bounds if self._queues.begins_at(*queue.key, queue.first_offset) else None
