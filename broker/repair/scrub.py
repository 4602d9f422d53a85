"""The scrub of a running broker: a worker reads the log a little at a time, and damage is quarantined.

    tick --step--> worker: read, check --> loop: damage is quarantined and repairs ask a replica for it; quarantined
                   |                       ranges that match their checksums again are released; queue units that do
                   |                       not name their records are rewritten
                   '- each 10 s, and at a round's end: progress and result to config/zenitScrub.json

Behind a round over the log come compacted files (compacted_scrub). `store/integrity/scrub_plan.py` decides what to read, how
fast and when. Loop thread, except the worker's functions.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from ...model.clock import Clock, process_cpu_ns
from ...model.errors import InvalidParameter, OffsetOutOfRange
from ...remoting.commands import Done, ScrubLog
from ...remoting.server import Call, RequestLoop
from ...store.checksum.checksum_entry import RottenEntry
from ...store.integrity.log_check import Checked
from ...store.integrity.quarantine import Range
from ...store.integrity.scrub_plan import ScrubPlan, ScrubRound, ScrubStep
from ...store.message_store import MessageStore
from ...store.opening.snapshot import read_snapshot, write_snapshot
from ...store.queues.queue_engine import WrongUnit
from ..config import SCRUB_RATE_MIN, BrokerConfig
from ..worker_pool import WorkerPool
from .compacted_scrub import CompactedScrub

log = logging.getLogger(__name__)

TICK_MS: Final = 100
BUSY_EACH_MS: Final = 1000
KEEP_EACH_MS: Final = 10_000
SCRUB_FILE: Final = os.path.join("config", "zenitScrub.json")


_Found = tuple[Checked, list[WrongUnit], tuple[RottenEntry, ...], list[Range]]
"""What a step found: damage in the log and in queues, checksum entries that could not be repaired, and quarantined ranges
that match their checksums."""


class Scrub:
    """The scrub of one broker."""

    def __init__(
        self, store: MessageStore, loop: RequestLoop, clock: Clock, workers: WorkerPool, config: BrokerConfig
    ) -> None:
        """`store` is open. Raises OSError."""
        self._store = store
        self._loop = loop
        self._clock = clock
        self._workers = workers
        self._busy_share = config.scrub_busy_share
        self._path = os.path.join(config.store_dir, SCRUB_FILE)
        known = read_snapshot(self._path)
        self._plan = ScrubPlan(
            {} if known is None else known.document,
            bytes_per_second=config.scrub_bytes_per_second,
            interval_ms=config.scrub_interval_ms,
            now_ms=clock.now_ms(),
        )
        self.compacted = CompactedScrub(store, clock, workers)
        self._rate = self._asked_rate = config.scrub_bytes_per_second
        self._checkers = store.log_checker(), store.queue_checker()
        self._kept_ms = clock.monotonic_ms()
        self._kept_last: ScrubRound | None = self._plan.last
        self._sampled = (clock.monotonic_ms(), process_cpu_ns())
        self._is_busy = False
        self._entries_left: dict[RottenEntry, int] = {}  # and the round that last found each, by its begin

    def start(self) -> None:
        """From here on, checks ten times a second."""
        if not os.path.exists(self._path):
            self._keep()
        self._loop.every(TICK_MS, self._on_tick)

    def on_scrub(self, call: Call[ScrubLog]) -> Done:
        """ScrubLog: a round begins now. Raises InvalidParameter."""
        request = call.request
        rate = request.bytes_per_second
        if rate and rate < SCRUB_RATE_MIN:
            raise InvalidParameter("bytes_per_second", rate, f"0 (as configured), or {SCRUB_RATE_MIN} and more")
        self._asked_rate = rate or self._rate
        self._plan.ask(
            self._clock.now_ms(),
            bytes_per_second=request.bytes_per_second,
            begin=self._store.begin,
            end=self._store.flushed,
        )
        log.info("scrub asked for begin=%s end=%s", self._store.begin, self._store.flushed)
        return Done()

    def document(self) -> dict[str, Any]:
        """For statistics: the present round, the last one, and when the next begins (ms since the epoch)."""
        plan = self._plan
        return {
            "current": None if plan.current is None else asdict(plan.current),
            "is_waiting_for_calm": plan.is_waiting_for_calm,
            "last": None if plan.last is None else asdict(plan.last),
            "next_due_ms": plan.next_due_ms(),
            "compacted": self.compacted.document(),
        }

    # ---- a step

    def _on_tick(self) -> None:
        plan, store, now_ms = self._plan, self._store, self._clock.now_ms()
        self._sample()
        step = plan.next_step(now_ms, begin=store.begin, end=store.flushed, is_busy=self._is_busy)
        if step is not None:
            self._workers.run_aside(lambda: self._check(step), lambda checked: self._on_checked(step, checked))
        if plan.last is not self._kept_last:
            self._tell_result(plan.last)
            is_asked = plan.last is not None and plan.last.is_asked
            self.compacted.begin(self._asked_rate if is_asked else self._rate, is_asked=is_asked)
        self.compacted.on_tick(is_busy=self._is_busy)
        is_stale = plan.current is not None and self._clock.monotonic_ms() >= self._kept_ms + KEEP_EACH_MS
        if plan.last is not self._kept_last or is_stale:
            self._keep()

    def _sample(self) -> None:
        """True if the broker used more than its share of a core for a second, the scrub's own small part included."""
        now_ms, (then_ms, then_ns) = self._clock.monotonic_ms(), self._sampled
        if now_ms - then_ms >= BUSY_EACH_MS:
            used_ns = process_cpu_ns()
            self._is_busy = used_ns - then_ns > (now_ms - then_ms) * 1_000_000 * self._busy_share
            self._sampled = now_ms, used_ns

    def _check(self, step: ScrubStep) -> _Found | str:
        """In a worker. A text says why the bytes could not be read."""
        try:
            units = self._store.damaged_units
            checked, wrong = units.check(*self._checkers, step.begin, bytes_max=step.bytes_max, limit=step.limit)
            left = self._store.set_entries_right(checked.rotten_entries)
            return checked, wrong, left, self._store.whole_again(step.begin, checked.end)
        except OffsetOutOfRange as error:
            return str(error.__cause__ or f"the file with byte {step.begin} of the log has lost its name")
        except OSError as error:
            return str(error)

    def _on_checked(self, step: ScrubStep, result: _Found | str | None) -> None:
        """None: the step itself failed, as the log says."""
        if result is None or isinstance(result, str):
            self._plan.on_failed(step, self._clock.now_ms(), result or "an internal error: the broker's log says which")
            return
        checked, wrong, left, whole = result
        for low, high in whole:
            self._store.damage.on_whole(low, high)
        found = [(low, high) for low, high in checked.damaged if low >= self._store.begin]
        self._store.damage.add_all(found, "by a scrub")
        self._plan.on_step(
            step,
            end=checked.end,
            read_bytes=checked.read_bytes,
            vouched_bytes=checked.vouched_bytes,
            damaged=len(found),
            sizes=sum(high - low for low, high in found),
            units=self._store.damaged_units.set_right(wrong),
            mended_entries=len(checked.rotten_entries) - len(left),
            damaged_entries=self._tell_entries(checked.rotten_entries, left),
        )

    def _tell_entries(self, rotten: Sequence[RottenEntry], left: Sequence[RottenEntry]) -> list[str]:
        """Logs each damaged entry once. Entries that remain and that no step of this round has found yet."""
        for entry in rotten:
            if entry not in left:
                log.warning("a damaged checksum entry is rewritten at=%s offset=%s", entry, entry.offset)
            elif entry not in self._entries_left:
                log.error(
                    "a checksum entry is damaged: only bodies have a checksum there at=%s offset=%s",
                    entry, entry.offset,
                )  # fmt: skip
        begun_ms = self._plan.current.begun_ms if self._plan.current is not None else 0
        new = [str(entry) for entry in left if self._entries_left.get(entry) != begun_ms]
        self._entries_left |= dict.fromkeys(left, begun_ms)
        return new

    # ---- what is kept

    def _tell_result(self, last: ScrubRound | None) -> None:
        if last is None:
            return
        if last.error:
            log.error("scrub ended early: the log cannot be read at=%s error=%s", last.position, last.error)
        else:
            log.info(
                "scrub ended read=%s vouched=%s damaged_ranges=%s damaged_bytes=%s damaged_units=%s damaged_entries=%s",
                last.read_bytes,
                last.vouched_bytes,
                last.damaged_ranges,
                last.damaged_bytes,
                last.damaged_units,
                last.damaged_entries,
            )

    def _keep(self) -> None:
        self._kept_ms, self._kept_last = self._clock.monotonic_ms(), self._plan.last
        document = self._plan.document()
        self._workers.run_aside(lambda: write_snapshot(self._path, document, 0), lambda _done: None)
