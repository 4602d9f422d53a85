"""A replica's disk: what outlives a process, and how it fails. And the process's side of it, which carries out effects.

Bytes of the log are first in the page cache (`log`) and below `durable` on the platter too. A kill keeps the cache, a
loss of power keeps any prefix from `durable` on, which may end in a torn record or have a hole. The small files (promise,
epochs, intent, facts of the last life) are replaced whole and durable when their effect is done; between being asked and
being done an effect may have happened or not.

What the real shell must do for the rules to hold is done here in methods of one rule each, so that a mutation can take
it away: `recover`, `forget_failed_pages`, `flushed_at_start`, `note_registered`, `cut`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from zenitmq.broker.replication import effects as fx
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.model.errors import StoreNotWriteable

from .records import RECORD, cut_at, has_record, whole_end
from .schedule import Host

NO_END: Final = -1
HANG_LOOK_MS: Final = 20


@dataclass(slots=True)
class Disk:
    """`begin`: where the log is kept from. `platter_epochs`: rows that a loss of power keeps (all, by the rules).

    `undead`: bytes behind a cut that was not made durable. `behind`: a hole that a loss of power left, and the rest of the log,
    which starts there and is kept aside until it is cut away (R9). `failed_pages`: an fsync has failed; the pages behind
    `durable` pass for written and are not. `is_full`: there is no room for a chunk; `is_brimful`: nor for a small
    file. `hangs`: no fsync ends.
    """

    store_id: str
    boot_id: int = 1
    log: bytearray = field(default_factory=bytearray)
    durable: int = 0
    begin: int = 0
    epochs: EpochList = field(default_factory=EpochList)
    platter_epochs: EpochList = field(default_factory=EpochList)
    starts: int = 0
    promised: int = 0
    intent: fx.PersistIntent | None = None
    noted_boot_id: int = 0
    clean_end: int = NO_END
    ran_async: bool = False
    set_back: bool = False
    group_id: str = ""
    remembered: int = 0  # how far the log was confirmed, as the last checkpoint says
    unheard: bool = False
    awaits_hearing: bool = False  # set back, and no controller was told: its next lives must not pass the count unheard
    is_registered: bool = False  # the present life is
    undead: bytes = b""
    behind: bytes = b""
    failed_pages: bool = False
    changed_from: int = 0
    is_full: bool = False
    is_brimful: bool = False
    hangs: bool = False

    # ---- a process starts

    def start(self) -> None:
        """Counts the start, and recovers the log."""
        self.starts += 1
        self.is_registered = False
        if self.failed_pages:
            self.forget_failed_pages()
        self.recover()
        self.epochs = self.epochs.recovered(len(self.log))

    def recover(self) -> None:
        """Keeps the whole records (R13): the confirm offset has no say in it."""
        end = whole_end(self.log, min(self.begin, len(self.log)))
        if has_record(self.log, end):
            self.behind = bytes(self.log[end:])
        self.truncate(end)

    def forget_failed_pages(self) -> None:
        """Re-reads the disk after a failed fsync (R8): what it never got is gone, as after a loss of power; it says so as it
        registers (R9), though the kernel still runs."""
        self.failed_pages = False
        self.truncate(self.durable)
        self.noted_boot_id = 0

    def flushed_at_start(self) -> int:
        """How much counts as flushed before this process has synced anything (R8)."""
        return 0

    def is_clean(self) -> bool:
        """The last registered life stopped cleanly."""
        return self.clean_end != NO_END

    def note_registered(self, group_id: str) -> None:
        """The controller has heard of this life; from now on its own end is what counts (R9)."""
        self.group_id = self.group_id or group_id
        self.noted_boot_id, self.clean_end, self.set_back = self.boot_id, NO_END, False
        self.unheard, self.awaits_hearing, self.is_registered = False, False, True
        self.remembered = min(self.remembered, len(self.log))  # what was lost is told

    def remember(self, confirm: int) -> None:
        """The checkpoint is written: what it said before counts until the controller was told (R6, R9)."""
        self.remembered = confirm if self.is_registered else max(confirm, self.remembered)

    def confirm_at_start(self) -> int:
        """What may be read before anything is heard of a master (R6)."""
        return min(self.remembered, len(self.log))

    def mark_clean(self) -> None:
        """A clean stop: all is on the platter; a life that nobody has heard of vouches for nothing."""
        self.durable = len(self.log)
        if self.is_registered and self.intent is None:
            self.clean_end = len(self.log)

    # ---- the machine fails

    def lose_power(self, rng: Random) -> None:
        """The cache is gone; what was written and not synced may be there, in part, or torn."""
        kept = self.durable if rng.random() < 0.4 else rng.randint(self.durable, len(self.log))
        if self.undead and rng.random() < 0.7:
            self.log[:] = self.undead
            self.changed_from = 0
            kept = len(self.log)
        self.truncate(kept)
        if rng.random() < 0.5:
            self.behind = b""
        holes = range(self.durable // RECORD, kept // RECORD - 1)
        if holes and not self.behind and rng.random() < 0.4:
            self.lose_page(rng.choice(holes))
        if kept % RECORD == 0 and rng.random() < 0.3:
            self.log += bytes(rng.randint(1, 2 * RECORD))  # a file longer than what was written to it
        self.durable = min(self.durable, len(self.log))
        self.epochs = self.platter_epochs
        self.undead = b""
        self.failed_pages = False
        self.boot_id += 1

    def lose_page(self, record: int) -> None:
        """A record in the middle of what was written did not reach the disk, others behind it did."""
        begin = record * RECORD
        assert begin >= self.durable
        self.log[begin : begin + RECORD] = bytes(RECORD)
        self.changed_from = min(self.changed_from, begin)

    def wipe(self, store_id: str) -> None:
        """Another disk in its place."""
        boot_id = self.boot_id
        self.__init__(store_id, boot_id)  # type: ignore[misc]

    def lacks_room_for(self, effect: fx.DiskEffect) -> bool:
        """A chunk needs more room than a small file."""
        if isinstance(effect, fx.Append):
            return self.is_full or self.is_brimful
        small = fx.PersistPromise | fx.PersistEpochs | fx.PersistIntent | fx.ClearIntent
        return self.is_brimful and isinstance(effect, small)

    def mend(self) -> None:
        """There is room, and fsyncs end."""
        self.is_full = self.is_brimful = self.hangs = False

    # ---- changes of the log

    def truncate(self, end: int) -> None:
        """The log ends there."""
        if end < len(self.log):
            del self.log[end:]
            self.changed_from = min(self.changed_from, end)
        self.durable = min(self.durable, end)

    def cut(self, offset: int) -> None:
        """A cut that no loss of power undoes (R4)."""
        self.truncate(offset)
        self.undead = self.behind = b""
        self.remembered = min(self.remembered, offset)

    def append(self, data: bytes | memoryview) -> None:
        """At the end."""
        assert not self.behind, "an append over what lies behind a hole"
        self.changed_from = min(self.changed_from, len(self.log))
        self.log += data

    def persist_row(self, epochs: EpochList) -> None:
        """The list is on the platter before a byte of its newest epoch is written (R5)."""
        self.epochs = self.platter_epochs = epochs

    def persist_intent(self, intent: fx.PersistIntent | None) -> None:
        """Before the cut (R4)."""
        self.intent = intent

    def start_anew(self, effect: fx.StartAnew) -> None:
        """An empty log that begins further on (R12)."""
        self.log[:], self.behind = bytes(effect.begin), b""
        self.durable, self.begin, self.changed_from = effect.begin, effect.begin, 0
        self.epochs = self.platter_epochs = effect.epochs

    def expire(self, begin: int) -> None:
        """Retention: nothing below is kept."""
        self.log[self.begin : begin] = bytes(begin - self.begin)
        self.begin = begin


class DiskShell:
    """`ReplicaDisk` of one life. Effects take `latency_ms`, or none; one at a time, as the shell hands them out."""

    def __init__(self, disk: Disk, host: Host, *, latency_ms: float, on_fsync_failed: Callable[[], None]) -> None:
        self.disk = disk
        self.fsync_fails: Callable[[], bool] | None = None  # asked at the end of each fsync
        self._host = host
        self._latency_ms = latency_ms
        self._on_fsync_failed = on_fsync_failed
        self._flushed = disk.flushed_at_start()
        self._flushing: int | None = None
        self._flush_began_ms = 0
        self._on_flushed: list[Callable[[], None]] = []
        self.on_flush_done: Callable[[], None] = _nothing

    def perform(self, effect: fx.DiskEffect, on_done: Callable[[], None]) -> None:
        """See `ReplicaDisk`. Raises StoreNotWriteable."""
        if self.disk.lacks_room_for(effect):
            raise StoreNotWriteable("disk full")
        if isinstance(effect, fx.SyncLog):
            self._on_flushed.append(on_done)
            self.flush()
            return
        rng = self._host.schedule.rng
        if not self._latency_ms or rng.random() < 0.5:
            self._apply(effect)
            on_done()
            return
        half_ms = rng.random() * self._latency_ms

        def apply() -> None:
            self._apply(effect)
            self._host.after_ms(half_ms, on_done)

        self._host.after_ms(half_ms, apply)

    def withdraw(self, _effect: fx.DiskEffect) -> bool:
        """See `ReplicaDisk`: a beginning needs no answer of anybody here, and so always comes to its end."""
        return False

    def _apply(self, effect: fx.DiskEffect) -> None:
        disk = self.disk
        if isinstance(effect, fx.Append):
            assert effect.chunk.begin == len(disk.log), "an append behind or before the end"
            disk.append(effect.data)
        elif isinstance(effect, fx.PersistPromise):
            assert effect.epoch > disk.promised, "I4: a promise goes back"
            disk.promised = effect.epoch
        elif isinstance(effect, fx.PersistEpochs):
            disk.persist_row(effect.epochs)
        elif isinstance(effect, fx.PersistIntent):
            disk.persist_intent(effect)
        elif isinstance(effect, fx.ClearIntent):
            disk.persist_intent(None)
        elif isinstance(effect, fx.CutLog):
            disk.cut(effect.offset)
            self._lower_flush(effect.offset)
        elif isinstance(effect, fx.StartAnew):
            disk.start_anew(effect)
            self._flushed, self._flushing = effect.begin, None
        else:
            assert isinstance(effect, fx.CutTail)
            disk.behind = b""  # the shipped store takes it with its hole; to who leads here, it is lost as a whole

    def _lower_flush(self, offset: int) -> None:
        self._flushed = min(self._flushed, offset)
        if self._flushing is not None:
            self._flushing = min(self._flushing, offset)

    def position(self) -> tuple[int, int]:
        """(end, flushed) of the log."""
        end = len(self.disk.log)
        return end, min(self._flushed, end)

    def read(self, begin: int, end: int) -> memoryview:
        """A chunk's bytes."""
        assert self.disk.begin <= begin < end <= len(self.disk.log), f"a read of {begin} to {end}"
        return memoryview(bytes(self.disk.log[begin:end]))

    def cut_at(self, begin: int, limit: int) -> int:
        """Whole records only."""
        return cut_at(begin, limit)

    # ---- fsync

    @property
    def sync_pending_ms(self) -> int:
        """How long the fsync under way has taken by now; 0 where none is."""
        return 0 if self._flushing is None else self._host.monotonic_ms() - self._flush_began_ms

    def flush(self) -> None:
        """Begins an fsync of all that is written, unless one is under way: that one is followed by another."""
        if self._flushing is not None:
            return
        self._flushing = len(self.disk.log)
        self._flush_began_ms = self._host.monotonic_ms()
        latency_ms = self._latency_ms * 2 * self._host.schedule.rng.random()
        if latency_ms:
            self._host.after_ms(latency_ms, self._end_flush)
        else:
            self._end_flush()

    def _end_flush(self) -> None:
        if self._flushing is None:
            return
        if self.disk.hangs:
            self._host.after_ms(HANG_LOOK_MS, self._end_flush)
            return
        disk, target, self._flushing = self.disk, self._flushing, None
        if self.fsync_fails is not None and self.fsync_fails():
            disk.failed_pages = True
            self._on_fsync_failed()
            return
        self._flushed = max(self._flushed, target)
        if not disk.failed_pages:
            disk.durable = max(disk.durable, target)
            disk.platter_epochs = disk.epochs
            disk.undead = b""
        if len(disk.log) > target and self._on_flushed:
            self.flush()
            return
        waiting, self._on_flushed = self._on_flushed, []
        for on_done in waiting:
            on_done()
        self.on_flush_done()


def _nothing() -> None:
    pass
