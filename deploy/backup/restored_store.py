"""A store that is filled from a backup: opened with all that follows a broker's log, and appended to as a slave's is.

So queues, index, state and waits are complete at its end, and its broker starts on it as after a clean stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from ...broker.config import BrokerConfig
from ...broker.delay.timer_index import open_timer_index
from ...broker.delay.timing import DelayRules
from ...broker.lite.hand_over import settle_groups
from ...broker.state.producer_table import ProducerTable
from ...broker.state.state_log import StateLog
from ...broker.transaction.half_index import Halves, open_half_index
from ...broker.transaction.half_rules import HalfRules
from ...model.clock import SystemClock
from ...model.errors import CorruptRecordError, StoreNotWriteable
from ...model.ids import HostAddress
from ...record.codes import BLANK_BYTES
from ...record.kernel import whole_records
from ...store.config import RECORD_BYTES_LIMIT, StoreConfig, parse_delay_levels
from ...store.message_store import MessageStore

CHUNK_BYTES: Final = 1 << 20
TICK_MS: Final = 1_000
ROOM_MS: Final = 30_000
RETRY_MS: Final = 10
FLUSH_MS: Final = 600_000
_NO_LIMIT: Final = 1 << 62


def _ignore(_error: object = None) -> None:
    """The caller sees it."""


class RestoredStore:
    """An open store; see `opened_store`. One thread. Raises CorruptRecordError, StoreNotWriteable, StorePoisoned."""

    def __init__(self, store: MessageStore, clock: SystemClock) -> None:
        self._store = store
        self._clock = clock
        self._tick_ms = clock.monotonic_ms()

    @property
    def end(self) -> int:
        """How far its log reaches."""
        return self._store.written

    def append(self, parts: Iterable[bytes], end: int) -> None:
        """The bytes of one object, which begins where the log ends. `end`: of its part of the log; beyond the bytes where a
        blank's header is the last of them."""
        left = b""  # the begin of a record that goes on in the next part
        for part in parts:
            at = 0
            if left:
                size = int.from_bytes((left + part[:4])[:4], "big")
                at = min(max(0, size - len(left)), len(part))
                left += part[:at]
                left = left[self._append_records(memoryview(left)) :]
                if len(left) > RECORD_BYTES_LIMIT:
                    raise CorruptRecordError(self.end, size, "size")
                if left:
                    continue
            data = memoryview(part)[at:]
            left = bytes(data[self._append_records(data) :])
        segment_bytes = self._store.segment_bytes
        if end % segment_bytes == 0 and len(left) == BLANK_BYTES:
            self._append_chunk(memoryview(left), end)
        elif left or self.end != end:
            raise CorruptRecordError(self.end, len(left), "no record")

    def _append_records(self, data: memoryview) -> int:
        """Appends whole records, as chunks; returns how many bytes they are."""
        at = 0
        while at < len(data):
            stop, _ = whole_records(data, at, len(data), at + CHUNK_BYTES)
            if stop == at:
                break
            self._append_chunk(data[at:stop], self.end + stop - at)
            at = stop
        return at

    def _append_chunk(self, data: memoryview, end: int) -> None:
        deadline_ms = self._clock.monotonic_ms() + ROOM_MS
        while True:
            now_ms = self._clock.monotonic_ms()
            if now_ms >= self._tick_ms:
                self._tick_ms = now_ms + TICK_MS
                self._store.on_tick(self._clock.now_ms())
            try:
                self._store.append_chunk(data, self.end, end)
                return
            except StoreNotWriteable:
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise
                self._clock.sleep_ms(RETRY_MS)


@contextmanager
def opened_store(directory: str, config: BrokerConfig) -> Iterator[RestoredStore]:
    """Opens a store that was begun there. At the end all of it is durable, and closed cleanly.

    Raises StoreLocked, StoreFormatError, StorePoisoned, OSError.
    """
    clock = SystemClock()
    limits = replace(
        config.store,
        retention_ms=_NO_LIMIT,
        retention_bytes=0,
        disk_clean_ratio=1.0,
        disk_force_ratio=1.0,
        disk_refuse_ratio=1.0,
        record_bytes_max=RECORD_BYTES_LIMIT,
        body_bytes_max=RECORD_BYTES_LIMIT - (1 << 20),
        frame_bytes_max=RECORD_BYTES_LIMIT + (1 << 20),
    )
    with ExitStack() as opened:
        state = StateLog(
            directory,
            clock=clock,
            persist_interval_ms=config.state_persist_ms,
            producers=ProducerTable(
                retention_ms=config.producer_state_retention_ms, entries_max=config.producer_states_max
            ),
        )
        rules = DelayRules(parse_delay_levels(config.store.delay_levels), config.timer_delay_ms_max)
        timers = opened.enter_context(closing(open_timer_index(directory, rules, clock=clock)))
        halves = Halves(HalfRules(timeout_ms=0, interval_ms=0, checks_max=0), directory)
        half_index = opened.enter_context(closing(open_half_index(directory, halves, clock=clock)))
        store = _store(directory, limits, clock, (state, timers, half_index))
        state.on_topic_deleted = store.delete_topic
        state.on_lite_collected = store.delete_light_queues
        state.on_taken_over = partial(settle_groups, store, state)
        opened.enter_context(store)
        state.on_opened(store.written, lambda: store.flushed)
        for index in (timers, half_index):
            index.on_opened(lambda: store.flushed)
        yield RestoredStore(store, clock)
        store.flush_all(FLUSH_MS)
        timers.is_closing = half_index.is_closing = state.is_closing = True


def _store(directory: str, config: StoreConfig, clock: SystemClock, dispatchers: tuple[object, ...]) -> MessageStore:
    return MessageStore(
        directory,
        config,
        store_host=HostAddress.parse("127.0.0.1", 0),
        clock=clock,
        on_flushed=_ignore,
        on_poisoned=_ignore,
        dispatchers=dispatchers,  # type: ignore[arg-type]
    )
