"""The index of waiting records in some topics: a dispatcher of the log, which feeds a durable store.

The dispatcher is given the runs of those topics, and every run that holds a record which ends a wait, whatever its topic.
The store contains only what is confirmed and on our own disk, so it never has to be taken back. If it nevertheless reflects
more than the log holds (a disk lost what it had reported as written), it is rebuilt from the whole log.

Threads: the loop dispatches and asks; the store's worker persists. Before the store is open the loop does both.
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
from ...store.queues.engine_choice import topics_with_queues
from ...store.rocksdb_waits import WaitStore
from .waiting_table import ENDED, WaitingTable

log = logging.getLogger(__name__)

PERSIST_INTERVAL_MS: Final = 5000  # while no wait begins or ends
LAG_BYTES_MAX: Final = 64 << 20
BATCH_CHANGES: Final = 250  # at most four puts each
SPILL_CHANGES: Final = 20_000  # kept in memory while the log is replayed

EVERYTHING: Final = 1 << 62

Change = tuple[int, int, int]
"""(end of the record that makes the change; physical offset of the record that it is about; due, ms since the epoch, or
ENDED).
"""


class WaitKind(Protocol):
    """One kind of wait: delayed messages or half messages."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics in which messages of this kind wait."""

    def changes(self, run: Run) -> Iterable[Change]:
        """The changes that the content of a run in one of the topics makes, to records in that topic or elsewhere."""

    def is_end(self, topic: str, sys_flag: int, offset: int) -> bool:
        """True if a record of `topic` with `sys_flag`, which ends the wait of the record at `offset`, ends one of this kind."""


class WaitingIndex:
    """A SettledDispatcher, TopicDispatcher and ConfirmedDispatcher of the store. A context manager."""

    run_flags = ENDS_WAIT

    def __init__(self, directory: str, store: WaitStore, kind: WaitKind, *, clock: Clock) -> None:
        """`directory`: of the message store; `store`: the durable part of the index, closed with it."""
        self._kind = kind
        self.topics = kind.topics
        self._clock = clock
        self._store = store
        self._holds_all = store.reflected == 0 and _nothing_waited(
            directory, kind.topics
        )  # nothing waits in the whole log
        self.table = WaitingTable(store)
        self._applied = store.reflected
        self._persisted_at_ms = clock.monotonic_ms()
        self._flushed: Callable[[], int] | None = None  # None until the store is open
        self.is_closing = False
        self.on_changed: Callable[[], None] | None = None  # told of each run in which a wait begins or ends

    def close(self) -> None:
        """Called after the message store is closed."""
        self._store.close()

    @property
    def is_damaged(self) -> bool:
        """True if the index must be opened again; only that rebuilds it."""
        return self._store.is_damaged

    def on_opened(self, flushed: Callable[[], int]) -> None:
        """The store is open. `flushed()`: everything below is on the disk."""
        self._flushed = flushed

    # ---- dispatch

    def settle(self, log_begin: PhysicalOffset, log_end: PhysicalOffset) -> None:
        """The log is [log_begin, log_end). Drops waits below `log_begin`; rebuilds an index that reflects more than the log."""
        if self._store.reflected > log_end:
            log.warning(
                "the index of waiting records is rebuilt reflected=%s log_end=%s", self._store.reflected, log_end
            )
            self._store.clear()
        if self._holds_all:
            self._store.write([], log_end)
            self._holds_all = False
        while gone := self._store.below(log_begin, count_max=BATCH_CHANGES):
            self._store.write([(ENDED, offset) for offset in gone], self._store.reflected)
        self.table = WaitingTable(self._store)
        self._applied = self._store.reflected

    def on_run(self, run: Run) -> None:
        """Notes which records begin to wait, and which waits end."""
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
        if changes and self.on_changed is not None:
            self.on_changed()
        self.advance(run.end)
        if self._flushed is None and table.journal_length >= SPILL_CHANGES:
            self._write(EVERYTHING)
        table.settle()

    def advance(self, end: PhysicalOffset) -> None:
        """Everything below `end` that concerns this index was dispatched."""
        if end > self._applied:
            self._applied = end

    # ---- persisting

    def reflected(self) -> PhysicalOffset:
        """What follows from the log below this offset is durable."""
        return PhysicalOffset(EVERYTHING if self._holds_all else self._store.reflected)

    def persist(self) -> PhysicalOffset:
        """Writes what follows from the flushed log. Worker thread. Raises OSError."""
        return self.persist_confirmed(PhysicalOffset(EVERYTHING))

    def persist_confirmed(self, confirmed: PhysicalOffset) -> PhysicalOffset:
        """The same, for what is confirmed."""
        limit = min(confirmed, self._applied, EVERYTHING if self._flushed is None else self._flushed())
        behind = limit - self._store.reflected
        now_ms = self._clock.monotonic_ms()
        is_due = self.is_closing or behind > LAG_BYTES_MAX or now_ms - self._persisted_at_ms >= PERSIST_INTERVAL_MS
        if behind > 0 and (is_due or self.table.take(limit)):
            self._persisted_at_ms = now_ms
            try:
                self._write(limit)
                self._store.flush()
            except StoreFormatError as error:  # whoever asks for due entries finds out: `is_damaged`
                log.warning("the index of what waits cannot go on error=%s", error)
        return self.reflected()

    def _write(self, limit: int) -> None:
        """Brings the store to `limit`, or to the end of what was dispatched, in small steps."""
        limit = min(limit, self._applied)  # before the journal is read: it then holds all changes below
        changes = _lasting(self.table.take(limit))
        begin = 0
        while len(changes) - begin > BATCH_CHANGES:
            stop = begin + BATCH_CHANGES
            while stop < len(changes) and changes[stop][0] == changes[stop - 1][0]:
                stop += 1  # one record may make two changes
            self._write_step(changes[begin:stop], changes[stop - 1][0])
            begin = stop
        self._write_step(changes[begin:], limit)

    def _write_step(self, changes: list[tuple[int, int, int]], reflected: int) -> None:
        self._store.write([(due_ms, offset) for _, due_ms, offset in changes], reflected)


def _lasting(changes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Without those of records that began to wait and waited no longer within `changes`: the store never needs to know.

    Only for changes that are durable: a store that reflects the first of such a pair, and not the second, has no entry for it,
    and the log has the second.
    """
    began = {offset for _, due_ms, offset in changes if due_ms != ENDED}
    passed = {offset for _, due_ms, offset in changes if due_ms == ENDED and offset in began}
    return [change for change in changes if change[2] not in passed] if passed else changes


def _nothing_waited(directory: str, topics: frozenset[str]) -> bool:
    """True if nothing ever waited in a store that was closed cleanly: then the log need not be replayed from its beginning."""
    if read_abort(directory) is not None:
        return False
    known = topics_with_queues(directory)
    return bool(known) and known.isdisjoint(topics)
