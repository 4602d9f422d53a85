"""Removes what has expired: segments that retention releases, then the queue files and index files that refer to them.

Each call does only as much as the loop can wait for, however many queues and segments there are. It continues a
survey of who needs what (retention_needs), removes some files, and says whether it is to be called again soon. Segments do
not wait for the queue files of those before, or a broker that writes fast would fill its disk; who is behind gets a larger
share of the loop. A kill in between leaves queue files without records; they go with the next segment. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from .config import StoreConfig
from .index.key_index import KeyIndex
from .log.commit_log import CommitLog
from .log.segment import Segment
from .queues.queue_engine import QueueEngine
from .queues.queue_places import FILLER_SIZE
from .retention import Decision, SegmentAge, decide
from .retention_needs import Budget, FixedNeeds, Needs, NeedSurvey
from .store_event import StoreEvent

NOTHING: Final = 1 << 62  # if nobody needs anything, the position is behind any log
LOOKS_PER_SLICE: Final = 1_000  # limit of needs per slice: about 0.5 ms
SEGMENTS_PER_SLICE: Final = 16
QUEUES_PER_SLICE: Final = 32  # of queues that have files to remove
SHARE_STEP_BYTES: Final = 1 << 30
SHARE_MAX: Final = 8  # slices at once: with 1 ms for one, and 10 ms between two calls, less than half of the loop
_READ_LOOKS: Final = 16  # reading a unit takes as long as so many comparisons
_LOAD_LOOKS: Final = 64  # loading a queue

QueueKey = tuple[str, int]


def share_of(behind_bytes: int) -> int:
    """How many slices are done at once by what is so far behind the log: one more each SHARE_STEP_BYTES."""
    return min(1 + max(behind_bytes, 0) // SHARE_STEP_BYTES, SHARE_MAX)


class Expiry:
    """The expiry of one open store."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        log: CommitLog,
        queues: QueueEngine,
        index: KeyIndex | None,
        first_opened_ms: int,
        final_below: Callable[[], int],
        run_in_worker: Callable[[Callable[[], None]], object],
    ) -> None:
        """`final_below`: everything below is flushed, confirmed and durable in every dispatcher."""
        self.config = config
        """Another one takes effect with the next look."""
        self._log = log
        self._queues = queues
        self._index = index
        self._first_opened_ms = first_opened_ms
        self._final_below = final_below
        self.log_floor: Callable[[], int] = lambda: NOTHING
        """The lowest offset of the log that somebody holds; not counted where the disk is so full that the oldest files go."""
        self._run_in_worker = run_in_worker
        self._unconsumed = NeedSurvey(FixedNeeds({}), self._position)
        self._held = NeedSurvey(FixedNeeds({}), self._position)
        self._clear_below: list[Callable[[int], bool]] = []
        self._held_reported: str | None = None
        self._queues_below = log.begin  # the present or last expiry of queues
        self._is_expiring = False  # that of queues goes on
        self.is_unfinished = False  # more work waits than can wait for the next second
        self.unread_deleted = 0  # messages deleted though somebody had yet to read them

    def protect(self, needs: Needs) -> None:
        """What groups have yet to consume."""
        self._unconsumed = NeedSurvey(needs, self._position)

    def hold(self, needs: Needs) -> None:
        """What readers hold now."""
        self._held = NeedSurvey(needs, self._position)

    def keep_waiting(self, *clear_below: Callable[[int], bool]) -> None:
        """`clear_below`: see `MessageStore.keep_waiting`."""
        self._clear_below += clear_below

    def go_on(self, now_ms: int, use: float) -> list[StoreEvent]:
        """One slice. `use`: the used share of the disk. Raises OSError."""
        self._expire_queues()
        self.is_unfinished = self._is_expiring or self._queues_below < self._log.begin
        segments = self._log.segments()
        if len(segments) < 2:
            return []
        decided = partial(
            decide,
            self._ages(segments, use),
            self.config,
            now_ms=now_ms,
            first_opened_ms=self._first_opened_ms,
            use=use,
            reflected=self._final_below(),
        )
        free = decided(unconsumed_from=NOTHING, held_from=NOTHING)
        if free.remove_before <= self._log.begin:
            if not free.needs_persist:
                self._held_reported = None
            return []
        return self._survey(free, decided, segments[0].end_offset, use)

    def _expire_queues(self) -> None:
        """One slice of an expiry of queues; the next one begins when it is over, with all that has expired by then."""
        if not self._is_expiring and self._queues_below < self._log.begin:
            self._queues_below = self._log.begin
            self._queues.begin_expiry(self._log.begin)
        share = share_of(self._log.begin - self._queues_below)
        self._is_expiring = self._queues.expire_some(QUEUES_PER_SLICE * share)

    def _ages(self, segments: tuple[Segment, ...], use: float) -> list[SegmentAge]:
        """The events for the segments that may go in this slice, and for the last one."""
        is_by_age = use < self.config.disk_clean_ratio and not self.config.retention_bytes
        oldest = segments[: min(1 if is_by_age else SEGMENTS_PER_SLICE, len(segments) - 1)]
        return [SegmentAge(s.base_offset, s.end_offset, s.modified_ms()) for s in (*oldest, segments[-1])]

    # ---- who needs it

    def _survey(self, free: Decision, decided: Callable[..., Decision], first_end: int, use: float) -> list[StoreEvent]:
        """Removes what nobody needs, or what must go nevertheless; finds out who needs it, in slices."""
        end = self._log.written
        over_bytes = end - self._log.begin - self.config.retention_bytes if self.config.retention_bytes else 0
        budget = Budget(LOOKS_PER_SLICE * share_of(over_bytes))
        floors = {"unconsumed": NOTHING, "held": NOTHING}
        lost: list[tuple[str, QueueKey, int]] = []
        limit = free.remove_before
        for name, survey, is_given_up in (
            ("unconsumed", self._unconsumed, self.config.delete_unconsumed),
            ("held", self._held, use >= self.config.disk_force_ratio),
        ):
            losses = survey.losses(free.remove_before, end, budget) if is_given_up else None
            floor = NOTHING if is_given_up else survey.floor(first_end, end, budget)
            if floor is None or (is_given_up and losses is None):
                self.is_unfinished = True
                return []
            floors[name] = floor
            if name == "held" and not is_given_up:
                floors[name] = min(floor, self.log_floor())
            if losses is not None:
                limit = min(limit, losses.below)
                lost += [(f"{name}_deleted", key, first) for key, first in sorted(losses.first.items())]
        decision = decided(unconsumed_from=floors["unconsumed"], held_from=floors["held"])
        if decision.remove_before <= self._log.begin:
            if decision.held_by_groups:
                return self._report_held("unconsumed_held", f"groups from offset {floors['unconsumed']} on")
            if decision.held_by_readers:
                return self._report_held("held_for_readers", f"readers that hold them from offset {floors['held']} on")
            return []
        removed_before = min(decision.remove_before, limit)
        are_clear = [
            clear_below(removed_before) for clear_below in self._clear_below
        ]  # every one is asked, so that each begins to append again
        return self._remove(removed_before, lost) if all(are_clear) else []

    def _position(self, topic: str, queue_id: int, offset: int, budget: Budget) -> int | None:
        """The place of the first message from `offset` on that the log still has."""
        budget.left -= 1
        if not self._queues.is_loaded(topic, queue_id):
            budget.left -= _LOAD_LOOKS
        queue = self._queues.get(topic, queue_id)
        if queue is None or offset >= queue.next_offset:
            return None
        budget.left -= _READ_LOOKS
        physical, size, _ = queue.unit(max(offset, queue.first_offset))
        if physical >= self._log.begin and size != FILLER_SIZE:
            return physical
        budget.left -= _READ_LOOKS
        first = max(offset, queue.min_offset(self._log.begin))
        return queue.unit(first)[0] if first < queue.next_offset else None

    def _report_held(self, kind: str, for_whom: str) -> list[StoreEvent]:
        """Reports it once, until it changes."""
        if self._held_reported == kind:
            return []
        self._held_reported = kind
        return [StoreEvent(kind, f"expired files are kept for {for_whom}")]

    # ---- giving up

    def _remove(self, offset: int, lost: list[tuple[str, QueueKey, int]]) -> list[StoreEvent]:
        begins = [max(first, self._first_kept(key)) for _, key, first in lost]
        removed = self._log.remove_before(offset)
        events = [StoreEvent("segment_deleted", f"base {segment.base_offset}") for segment in removed]
        if removed:
            self.is_unfinished = True  # with the files that refer to them
            if self._index is not None:
                for file in self._index.remove_before(self._log.begin):
                    self._run_in_worker(partial(self._index.retire, file))
        for (kind, key, _), before in zip(lost, begins, strict=True):
            first = self._first_kept(key)
            if first > before:
                self.unread_deleted += first - before
                events.append(StoreEvent(kind, f"{key[0]} queue {key[1]}: offsets {before} to {first - 1}"))
        return events

    def _first_kept(self, key: QueueKey) -> int:
        """The first offset of a queue that the log still has."""
        queue = self._queues.get(*key)
        return 0 if queue is None else queue.min_offset(self._log.begin)
