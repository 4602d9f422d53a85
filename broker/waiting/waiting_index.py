"""The index of what waits in some topics, as a dispatcher of the log: told of those topics, and of every run that holds a
record which ends a wait, whatever its topic.

The store of it only ever holds what is confirmed and on our own disk, so that it never has to be taken back; where it
nevertheless reflects more than the log holds (a disk that lost what it said it had), it is made anew from the whole log.

Threads: the loop is told and asks; the store's worker persists. Before the store is open the loop does both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ...model.clock import Clock
from ...model.errors import StoreFormatError
from ...model.queue import PhysicalOffset
from ...record.kernel import ended_waits
from ...record.sys_flag import ENDS_WAIT
from ...store.opening.store_files import read_abort
from ...store.queues.dispatch import Run
from ...store.queues.queue_table import list_queues
from ...store.rocksdb_waits import WaitStore
from .waiting_table import ENDED, WaitingTable

log = logging.getLogger(__name__)

PERSIST_INTERVAL_MS: Final = 5000  # while nothing waits
LAG_BYTES_MAX: Final = 64 << 20
BATCH_CHANGES: Final = 250  # four puts at most for each
SPILL_CHANGES: Final = 20_000  # kept in memory while the log is replayed

EVERYTHING: Final = 1 << 62

Change = tuple[int, int, int]
"""(where the record that says so ends; physical offset of the one that it is about; due, ms since the epoch, or ENDED)."""


class WaitKind(Protocol):
    """What one index is of."""

    @property
    def topics(self) -> frozenset[str]:
        """Where messages of this kind wait."""

    def changes(self, run: Run) -> Iterable[Change]:
        """What a run in one of the topics says by itself, of those that wait in it or elsewhere."""

    def is_end(self, topic: str, sys_flag: int, offset: int) -> bool:
        """Whether a record of a topic, with this sysFlag, that ends the wait of the one at `offset` ends one of this kind."""


class WaitingIndex:
    """A SettledDispatcher, TopicDispatcher and ConfirmedDispatcher of the store. A context manager."""

    run_flags = ENDS_WAIT

    def __init__(self, directory: str, store: WaitStore, kind: WaitKind, *, clock: Clock) -> None:
        """`directory`: of the message store; `store`: what is durable of the index, closed with it."""
        self._kind = kind
        self.topics = kind.topics
        self._clock = clock
        self._store = store
        self._holds_all = store.reflected == 0 and _nothing_waited(directory, kind.topics)  # whatever the log holds
        self.table = WaitingTable(store)
        self._applied = store.reflected
        self._persisted_at_ms = clock.monotonic_ms()
        self._flushed: Callable[[], int] | None = None  # until the store is open
        self.is_closing = False

    def close(self) -> None:
        """Once the message store is closed."""
        self._store.close()

    @property
    def is_damaged(self) -> bool:
        """It must be opened again: only then is it made anew."""
        return self._store.is_damaged

    def on_opened(self, flushed: Callable[[], int]) -> None:
        """The store is open. `flushed()`: everything below is on the disk."""
        self._flushed = flushed

    # ---- dispatch

    def settle(self, log_begin: PhysicalOffset, log_end: PhysicalOffset) -> None:
        """The log is [log_begin, log_end): of what lies before nothing waits; an index that knows more starts over."""
        if self._store.reflected > log_end:
            log.warning("the index of what waits is made anew reflected=%s log_end=%s", self._store.reflected, log_end)
            self._store.clear()
        if self._holds_all:
            self._store.write([], log_end)
            self._holds_all = False
        while gone := self._store.below(log_begin, count_max=BATCH_CHANGES):
            self._store.write([(ENDED, offset) for offset in gone], self._store.reflected)
        self.table = WaitingTable(self._store)
        self._applied = self._store.reflected

    def on_run(self, run: Run) -> None:
        """Notes what begins to wait, and what has waited long enough."""
        changes: list[Change] = []
        kind = self._kind
        if run.topic in self.topics:
            changes += kind.changes(run)
        if run.sys_flag & ENDS_WAIT:
            changes += [
                (run.begin + behind, offset, ENDED)
                for behind, offset, sys_flag in ended_waits(run.records)
                if kind.is_end(run.topic, sys_flag, offset)
            ]
            changes.sort()
        applied, table = self._applied, self.table
        for end, offset, due_ms in changes:
            if end <= applied:
                continue
            if due_ms == ENDED:
                table.on_ended(offset, end)
            else:
                table.on_waits(offset, due_ms, end)
        self.advance(run.end)
        if self._flushed is None and table.journal_length >= SPILL_CHANGES:
            self._write(EVERYTHING)
        table.settle()

    def advance(self, end: PhysicalOffset) -> None:
        """Everything below `end` that concerns it has been told."""
        if end > self._applied:
            self._applied = end

    # ---- persisting

    def reflected(self) -> PhysicalOffset:
        """What follows from the log below is durable."""
        return PhysicalOffset(EVERYTHING if self._holds_all else self._store.reflected)

    def persist(self) -> PhysicalOffset:
        """Writes what the disk holds the log of. Worker thread. Raises OSError."""
        return self.persist_confirmed(PhysicalOffset(EVERYTHING))

    def persist_confirmed(self, confirmed: PhysicalOffset) -> PhysicalOffset:
        """The same, of what is confirmed."""
        limit = min(confirmed, self._applied, EVERYTHING if self._flushed is None else self._flushed())
        behind = limit - self._store.reflected
        now_ms = self._clock.monotonic_ms()
        is_due = self.is_closing or behind > LAG_BYTES_MAX or now_ms - self._persisted_at_ms >= PERSIST_INTERVAL_MS
        if behind > 0 and (is_due or self.table.take(limit)):
            self._persisted_at_ms = now_ms
            try:
                self._write(limit)
                self._store.flush()
            except StoreFormatError as error:  # who asks for what is due finds out: `is_damaged`
                log.warning("the index of what waits cannot go on error=%s", error)
        return self.reflected()

    def _write(self, limit: int) -> None:
        """Brings the store to `limit`, or as far as we were told, in small steps."""
        limit = min(limit, self._applied)  # before the journal is read: all below is in it
        changes = self.table.take(limit)
        begin = 0
        while len(changes) - begin > BATCH_CHANGES:
            stop = begin + BATCH_CHANGES
            while stop < len(changes) and changes[stop][0] == changes[stop - 1][0]:
                stop += 1  # one record may say two things
            self._write_step(changes[begin:stop], changes[stop - 1][0])
            begin = stop
        self._write_step(changes[begin:], limit)

    def _write_step(self, changes: list[tuple[int, int, int]], reflected: int) -> None:
        self._store.write([(due_ms, offset) for _, due_ms, offset in changes], reflected)


def _nothing_waited(directory: str, topics: frozenset[str]) -> bool:
    """Whether nothing ever waited in a store that was closed well: it need not be read from its beginning to know."""
    if read_abort(directory) is not None:
        return False
    known = {topic for topic, _, _ in list_queues(directory)}
    return bool(known) and known.isdisjoint(topics)
