"""Carries out the disk effects of the replication cores: on the store, the epoch file and the replica's own files.

Everything is done when `perform` returns, except a sync and the counting of bytes behind a hole. If the disk has no room,
an effect is refused and changes nothing. A log is cut only while the store is closed: the intent is on the disk first, then
the broker reopens its store, as after a crash, and the cut is carried out before anything else (R4).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ...model.errors import CorruptRecordError, OffsetOutOfRange, StorePoisoned
from ...store.message_store import MessageStore
from ...store.opening.small_file import needs_room
from ..group.epoch_file import write_epochs
from ..group.store_directory import StoreDirectory
from . import effects as fx
from .effects import DiskEffect
from .replica_files import ReplicaFiles

log = logging.getLogger(__name__)

GUESSES_MAX: Final = 64
"""More than there are slaves, each of which tries one chunk at a time."""


class StoreDisk:
    """Carries out effects on the store. Loop thread."""

    def __init__(
        self,
        store: MessageStore,
        files: ReplicaFiles,
        directory: StoreDirectory,
        *,
        post: Callable[[Callable[[], None]], None],
        later: Callable[[Callable[[], None]], object],
        on_cut_needed: Callable[[], None],
        on_beginning_needed: Callable[[], None],
        withdraw_beginning: Callable[[], bool],
        on_fatal: Callable[[], None],
    ) -> None:
        """`post`: runs a function on the loop soon; `later`: runs it when a full disk may have room again. `on_cut_needed`: the
        intent is written, so close the store and reopen it. `on_beginning_needed`: ask the master for the state that a store
        needs which begins at the log's begin; `withdraw_beginning`: cancel that, False if the answer is already on the disk.
        `on_fatal`: end the process.
        """
        self._store = store
        self._files = files
        self._directory = directory
        self._post = post
        self._later = later
        self._on_cut_needed = on_cut_needed
        self._on_beginning_needed = on_beginning_needed
        self._withdraw_beginning = withdraw_beginning
        self._on_fatal = on_fatal
        self._syncing: tuple[int, Callable[[], None]] | None = None
        self._hole = store.damage.quarantine.first_hole
        self._guessed: set[int] = set()  # begins of chunks whose ends are estimates
        self._performers: dict[type[DiskEffect], Callable[[Any, Callable[[], None]], None]] = {
            fx.PersistPromise: self._persist_promise,
            fx.PersistIntent: self._persist_intent,
            fx.ClearIntent: self._clear_intent,
            fx.CutLog: self._cut_log,
            fx.PersistEpochs: self._persist_epochs,
            fx.Append: self._append,
            fx.CutTail: self._cut_tail,
            fx.SyncLog: self._sync_log,
            fx.StartAnew: self._start_anew,
        }

    def perform(self, effect: DiskEffect, on_done: Callable[[], None]) -> None:
        """See `ReplicaDisk`. Raises StoreNotWriteable."""
        self._performers[type(effect)](effect, on_done)

    def withdraw(self, effect: DiskEffect) -> bool:
        """See `ReplicaDisk`: a requested beginning can be cancelled until it is written down."""
        return isinstance(effect, fx.StartAnew) and self._withdraw_beginning()

    @property
    def has_hole(self) -> bool:
        """True if there are bytes behind the end, which do not count (R9)."""
        return self._hole is not None

    def position(self) -> tuple[int, int]:
        """(end, flushed) of the log; its first hole is its end."""
        end: int = self._store.written
        if self._hole is not None:
            end = min(end, max(self._hole, self._store.begin))
        return end, min(self._store.flushed, end)

    def read(self, begin: int, end: int) -> memoryview:
        """The bytes of a chunk: all of [begin, end), of a blank only the header. Raises OffsetOutOfRange,
        CorruptRecordError."""
        data = self._store.chunk(begin, end - begin, limit=end).data
        if begin in self._guessed and not self._is_cut_at(begin, end):
            self._store.damage.in_chunk(begin, end, is_doubted=True)
            raise CorruptRecordError(begin, end - begin, "no record ends there")
        return data

    def _is_cut_at(self, begin: int, end: int) -> bool:
        """True if [begin, end) is whole records."""
        try:
            return self._store.chunk_end(begin, end - begin) == end
        except CorruptRecordError:
            return False

    def cut_at(self, begin: int, limit: int) -> int:
        """The end of the last whole record in [begin, limit); if the first record is longer, its end; `limit` if the log
        is damaged or gone there, which `read` then reports."""
        try:
            end = self._store.chunk_end(begin, limit - begin)
        except (CorruptRecordError, OffsetOutOfRange):
            if len(self._guessed) == GUESSES_MAX:
                self._guessed.clear()
            self._guessed.add(begin)
            return limit
        self._guessed.discard(begin)
        return end

    def on_flushed(self) -> None:
        """More of the log is on the disk."""
        if self._syncing is not None and self._store.flushed >= self._syncing[0]:
            (_, on_done), self._syncing = self._syncing, None
            on_done()

    def _persist_promise(self, effect: fx.PersistPromise, on_done: Callable[[], None]) -> None:
        with needs_room():
            self._files.promise(effect.epoch)
        on_done()

    def _persist_intent(self, effect: fx.PersistIntent, on_done: Callable[[], None]) -> None:
        with needs_room():
            self._files.intend(effect.epoch, effect.offset)
        on_done()

    def _clear_intent(self, _effect: fx.ClearIntent, on_done: Callable[[], None]) -> None:
        with needs_room():
            self._files.clear_intent()
        on_done()

    def _cut_log(self, effect: fx.CutLog, on_done: Callable[[], None]) -> None:
        if self._store.written > effect.offset:
            log.warning("cutting the log offset=%s end=%s", effect.offset, self._store.written)
            self._on_cut_needed()
        else:
            on_done()

    def _persist_epochs(self, effect: fx.PersistEpochs, on_done: Callable[[], None]) -> None:
        with needs_room():
            write_epochs(self._directory.path, effect.epochs.rows, self._directory.small_files)
        on_done()

    def _append(self, effect: fx.Append, on_done: Callable[[], None]) -> None:
        try:
            chunk = effect.chunk
            self._store.append_chunk(memoryview(effect.data), chunk.begin, chunk.end, crc=chunk.crc)
        except StorePoisoned:
            log.critical("the disk failed below a chunk begin=%s", effect.chunk.begin)  # the store has told the broker
        except (CorruptRecordError, OffsetOutOfRange) as error:
            log.critical(
                "a chunk of the master is no part of a log, stopping; have its log looked at (zenit store scrub), then start"
                " this broker again; error=%s",
                error,
            )
            self._on_fatal()
        else:
            on_done()

    def _cut_tail(self, effect: fx.CutTail, on_done: Callable[[], None]) -> None:
        """A new master has nothing to cut: the start cut the torn tail, and chunks are whole records. Holes stay, and the bytes
        behind them count, because nobody has more. This is made durable before anything there is acknowledged: otherwise the
        next start would end the log before the holes."""
        self._hole = None
        noted = self._store.damage.take_holes()
        if noted is None:
            on_done()
        else:
            noted.add_done_callback(lambda _: self._post(partial(self._on_noted, effect, on_done)))

    def _on_noted(self, effect: fx.CutTail, on_done: Callable[[], None]) -> None:
        """The holes are recorded, or the disk had no room for the record."""
        if self._store.damage.is_noted:
            on_done()
        else:
            self._later(partial(self._cut_tail, effect, on_done))

    def _sync_log(self, _effect: fx.SyncLog, on_done: Callable[[], None]) -> None:
        written = self._store.written
        if self._store.flushed >= written:
            on_done()
            return
        self._syncing = (written, on_done)
        self._store.request_flush()

    def _start_anew(self, effect: fx.StartAnew, _on_done: Callable[[], None]) -> None:
        """Asks for the master's state, which is written down. The broker is then reopened, so this effect never completes."""
        log.warning("behind the master's retention, beginning anew begin=%s", effect.begin)
        self._on_beginning_needed()
