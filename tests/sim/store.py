"""The store of one life of a replica, on a simulated disk: all that the shipped replica asks of `MessageStore`.

Opening it recovers the log; what this process has not flushed does not count as flushed, but after a clean stop (R8).
An fsync takes its time, fails or hangs as the disk says. A log with a hole is kept as it is, and counts up to it
(R9, which is the replica's to see to); who is to go on behind it sends nobody what the hole has taken.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from zenitmq.model.errors import OffsetOutOfRange, StoreNotWriteable, StorePoisoned
from zenitmq.model.queue import PhysicalOffset
from zenitmq.store.log.chunk_reader import LogChunk
from zenitmq.store.queues.confirmation import Confirmation

from .disk import Disk
from .records import SEGMENT, cut_at
from .schedule import Host
from .small_files import TOPIC

HANG_LOOK_MS: Final = 20


class SimulatedQuarantine:
    """`Quarantine`, as far as holes go."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    @property
    def first_hole(self) -> int | None:
        """See `Quarantine`."""
        return self._disk.hole


class SimulatedDamage:
    """`Damage`: no bytes rot here, but holes may be left."""

    def __init__(self, disk: Disk) -> None:
        self.quarantine = SimulatedQuarantine(disk)
        self.on_change: Callable[[], None] = bool
        self._disk = disk

    @property
    def unsendable(self) -> tuple[tuple[int, int], ...]:
        """See `Damage`."""
        return self._disk.taken

    @property
    def is_noted(self) -> bool:
        """See `Damage`."""
        return True

    def take_holes(self) -> Future[None] | None:
        """See `Damage`."""
        if not self._disk.take_holes():
            return None
        self.on_change()
        done: Future[None] = Future()
        done.set_result(None)
        return done


class SimulatedStore:
    """`is_sync`: each append asks for the disk, where it `flushes_appends`. `on_confirmed`: told what may be read."""

    has_compacted = False

    def __init__(
        self,
        disk: Disk,
        host: Host,
        *,
        latency_ms: float,
        on_flushed: Callable[[], None],
        on_poisoned: Callable[[StorePoisoned], None],
        on_confirmed: Callable[[int], None],
    ) -> None:
        self.waits_above_end = self.is_sync = False
        self.flushes_appends = True
        self._disk = disk
        self._host = host
        self._latency_ms = latency_ms
        self._on_flushed = on_flushed
        self._on_poisoned = on_poisoned
        self._on_confirmed = on_confirmed
        self._flushing: int | None = None
        self._is_wanted_again = False
        self._flush_began_ms = 0
        if not disk.is_closed:
            disk.recover()
        self.damage = SimulatedDamage(disk)
        self._flushed = disk.flushed_noted if disk.is_closed else disk.begin
        self._found_end = len(disk.log)
        self._confirmation = Confirmation(disk.confirm_noted)
        disk.is_closed = False

    def close(self) -> None:
        """A clean stop: all is on the platter."""
        disk = self._disk
        disk.sync_cut()
        self._flushed = len(disk.log)
        self.write_checkpoint()
        disk.is_closed = True

    # ---- positions

    @property
    def segment_bytes(self) -> int:
        """See `MessageStore`."""
        return SEGMENT

    @property
    def begin(self) -> int:
        """See `MessageStore`."""
        return self._disk.begin

    @property
    def written(self) -> int:
        """See `MessageStore`."""
        return len(self._disk.log)

    @property
    def flushed(self) -> int:
        """See `MessageStore`."""
        return min(self._flushed, len(self._disk.log))

    @property
    def lacks_room(self) -> bool:
        """See `MessageStore`."""
        return self._disk.is_full or self._disk.is_brimful

    def queue_minimums(self, begin: int) -> dict[tuple[str, int], int]:
        """See `MessageStore`."""
        return {(TOPIC, queue): end for queue, end in self._disk.queue_ends(begin).items()}

    def hold_log(self, holder: str, offset: int, lease_ms: int) -> None:
        """See `MessageStore`; here retention is a fault, and takes what it likes."""

    # ---- what may be read

    @property
    def remembered_confirm(self) -> int:
        """See `MessageStore`."""
        return self._confirmation.remembered

    def forget_remembered_confirm(self) -> None:
        """See `MessageStore`."""
        confirmation, disk = self._confirmation, self._disk
        is_lost, confirmation.remembered = confirmation.remembered > (confirmation.offset or 0), 0
        if is_lost:
            confirm = min(disk.confirm_noted, confirmation.to_remember())
            disk.note_checkpoint(confirm=confirm, flushed=disk.flushed_noted)

    def confirm(self, offset: int) -> None:
        """See `MessageStore`."""
        self._confirmation.confirm(offset, written=self.written, queues=tuple)
        self._on_confirmed(offset)

    def write_checkpoint(self) -> None:
        """Each second, and at the end; not before the disk has what recovery found."""
        if self.flushed >= self._found_end:
            self._disk.note_checkpoint(confirm=self._confirmation.to_remember(), flushed=self.flushed)

    # ---- chunks

    def chunk(self, begin: int, bytes_max: int, *, limit: int | None = None) -> LogChunk:
        """See `MessageStore`."""
        disk, end = self._disk, begin + bytes_max
        if not disk.begin <= begin <= end <= len(disk.log):
            raise OffsetOutOfRange("commit log", begin, disk.begin, len(disk.log))
        return LogChunk(PhysicalOffset(begin), PhysicalOffset(end), memoryview(bytes(disk.log[begin:end])))

    def chunk_end(self, begin: int, bytes_max: int) -> int:
        """See `MessageStore`."""
        return cut_at(begin, begin + bytes_max)

    def append_chunk(self, data: bytes | memoryview, begin: int, end: int, *, crc: int | None = None) -> None:
        """See `MessageStore`."""
        if begin != self.written:
            raise OffsetOutOfRange("commit log", begin, self.begin, self.written)
        self.append(data)

    def append(self, data: bytes | memoryview) -> None:
        """Whole records, at the end. Raises StoreNotWriteable."""
        if self.lacks_room:
            raise StoreNotWriteable("disk full")
        self._disk.append(data)
        if self.is_sync and self.flushes_appends:
            self.request_flush()

    # ---- fsync

    @property
    def sync_pending_ms(self) -> int:
        """See `MessageStore`."""
        return 0 if self._flushing is None else self._host.monotonic_ms() - self._flush_began_ms

    def request_flush(self) -> None:
        """See `MessageStore`: one at a time, and another one where more was asked for meanwhile."""
        if self._flushing is not None:
            self._is_wanted_again = True
            return
        if self._flushed >= len(self._disk.log):
            return
        self._flushing = len(self._disk.log)
        self._flush_began_ms = self._host.monotonic_ms()
        latency_ms = self._latency_ms * 2 * self._host.schedule.rng.random()
        if latency_ms:
            self._host.after_ms(latency_ms, self._end_flush)
        else:
            self._end_flush()

    def _end_flush(self) -> None:
        disk, target = self._disk, self._flushing
        assert target is not None
        if disk.hangs:
            self._host.after_ms(HANG_LOOK_MS, self._end_flush)
            return
        if disk.fsync_fails is not None and disk.fsync_fails():
            disk.failed_pages, disk.fsync_fails = True, None
            self._on_poisoned(StorePoisoned("flush: input/output error"))
            return
        self._flushing = None
        self._flushed = max(self._flushed, target)
        if not disk.failed_pages:  # a rule that is gone may have kept those of an earlier life
            disk.durable = max(disk.durable, min(target, len(disk.log)))
            disk.undead = b""
        self._on_flushed()
        if self._is_wanted_again:
            self._is_wanted_again = False
            self.request_flush()
