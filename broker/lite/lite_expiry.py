"""Collects lite topics that are idle: their light queues, what groups have received of them, and their subscribers' hints.

Loop thread; only a master that `leads`. What is staged is written first, and looked at; then the queue is removed here, and an
event in the log removes it at each replica, and what the groups have of it at all of them. So a message that comes meanwhile
begins a new queue, behind that event.

A master or slave also forgets how far groups were in light queues of no lite topic that retention has removed.
"""

from __future__ import annotations

import logging
from typing import Final

from ...model.errors import StoreNotWriteable
from ...model.topics.lite_settings import expiration_ms, is_lite_parent
from ..handlers.parts import Parts
from ..state.pop_table import PopTable
from ..state.state_log import TOPICS
from ..state.stored_time import stored_at_ms
from .expiry import LiteScan, LiteState, is_over
from .lite_sends import LiteWriters
from .subscriptions import LiteSubscriptions

log = logging.getLogger(__name__)

LOOKS_AT_ONCE: Final = 500
OFFSETS_AT_ONCE: Final = 50  # some 2 us each


class LiteCollector:
    """`collected`: lite topics since the start."""

    def __init__(self, parts: Parts, subscriptions: LiteSubscriptions, writers: LiteWriters) -> None:
        self.collected = 0
        self._store, self._state, self._clock = parts.store, parts.state, parts.clock
        self._table: PopTable = parts.state.pop_table
        self._leads = parts.leads
        self._interval_ms = parts.config.lite_scan_interval_ms
        self._subscriptions = subscriptions
        self._writers = writers
        self._scan: LiteScan | None = None
        self._next_ms = 0

    def on_tick(self, now_ms: int) -> None:
        """Ten times a second. `now_ms`: monotonic."""
        self._state.offset_table.forget_lights(OFFSETS_AT_ONCE, self._store.is_light_queue_gone)
        if not self._leads():
            self._scan = None
            return
        if self._scan is None:
            if now_ms < self._next_ms:
                return
            self._next_ms = now_ms + self._interval_ms
            self._scan = LiteScan(dict.fromkeys((*self._store.light_queues(), *self._table.light_queues())))
        try:
            self._store.commit()
            for parent, found in self._scan.some(LOOKS_AT_ONCE, self._is_over).items():
                self._collect(parent, found)
        except StoreNotWriteable as error:
            log.warning("idle lite topics cannot be collected error=%s", error)
        if self._scan.is_done:
            self._writers.on_scanned(self._scan.counts)
            self._scan = None

    def _is_over(self, parent: str, name: str, queue: str) -> bool:  # noqa: ARG002
        config = self._state.topic_table.configs.get(parent)
        expires_ms = (
            None if config is None or not is_lite_parent(config.attributes) else expiration_ms(config.attributes)
        )
        begin, end = self._store.min_offset(queue, 0), self._store.max_offset(queue, 0)
        last_ms = stored_at_ms(self._store, queue, 0, end - 1) if end > begin else None
        if end > begin and last_ms is None:
            return False  # its last message cannot be read at present
        groups = {
            *self._table.lite_counts(parent),
            *(member.name.group for member in self._subscriptions.subscribers(queue)),
        }
        is_wanted = any(self._table.has_left((group, queue, 0), begin, end) for group in groups)
        is_kept = end > begin or any(self._table.queue((group, queue, 0)) for group in groups)
        return is_over(LiteState(last_ms, is_wanted, is_kept), expires_ms, self._clock.now_ms())

    def _collect(self, parent: str, found: list[tuple[str, str]]) -> None:
        for _, queue in found:
            if self._store.has_light_queue(queue):
                self._store.delete_light_queue(queue)
        names = [name for name, _ in found]
        self._state.stage(self._store, TOPICS, self._state.topic_table.event_collected(parent, names))
        self.collected += len(found)
        log.info("idle lite topics are collected topic=%s count=%s first=%s", parent, len(found), names[0])
