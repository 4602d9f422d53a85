"""A replica's disk: what outlives a process, and how it fails.

Bytes of the log are first in the page cache (`log`) and below `durable` on the platter too. A kill keeps the cache, a
loss of power keeps any prefix from `durable` on, which may end in a torn record or have a hole. Small files are in the
cache (`files`) and on the platter; a name that was put in place is on the platter once its folder is synced (`unsynced`).
`log` holds zeros for what lies before `begin`, so that positions in it are physical offsets.

What a process makes of it is store.py's and small_files.py's.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from zenitmq.broker.group import epoch_file
from zenitmq.broker.replication import replica_files
from zenitmq.broker.replication.epochs import EpochList

from .records import RECORD, has_record, next_record, records_in, whole_end
from .schedule import Died

DIRECTORY: Final = "/store"
REPLICA_FILE: Final = os.path.join(DIRECTORY, replica_files.FILE_NAME)
EPOCH_FILE: Final = os.path.join(DIRECTORY, epoch_file.FILE_NAME)


@dataclass(slots=True)
class Disk:
    """`name`: of its machine. `new_store_id`: what a process that finds no identity here calls itself. `begin`: where the log
    is kept from. `queue_begins`: {queue: the offset that its first record from there on has}.

    `confirm_noted`, `flushed_noted`: the checkpoint. `is_closed`: the last process closed its store. `hole`: where bytes are
    lost, as the last recovery has written down; what lies behind is kept. `taken`: ranges that a master goes on behind.
    `undead`: bytes behind a cut that was not made durable. `failed_pages`: an fsync has failed; the pages behind
    `durable` pass for written and are not. `fsync_fails`: asked at the end of each fsync. `dies_in`: after so many steps
    more on the disk its process ends, if `may_die` says so then. `is_full`: there is no room for a chunk; `is_brimful`: nor
    for a small file; `takes_no_note`: no small file can be written. `hangs`: no fsync ends. `unheard`: it may have forgotten,
    and no controller was told; `awaits_hearing`: set back, and the same: its next lives must not pass the count unheard.
    """

    name: str
    new_store_id: str
    boot_id: int = 1
    log: bytearray = field(default_factory=bytearray)
    durable: int = 0
    begin: int = 0
    queue_begins: dict[int, int] = field(default_factory=dict)
    confirm_noted: int = 0
    flushed_noted: int = 0
    is_closed: bool = False
    hole: int | None = None
    taken: tuple[tuple[int, int], ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    platter: dict[str, bytes] = field(default_factory=dict)
    unsynced: set[str] = field(default_factory=set)
    undead: bytes = b""
    failed_pages: bool = False
    fsync_fails: Callable[[], bool] | None = None
    dies_in: int | None = None
    may_die: Callable[[], bool] = bool
    changed_from: int = 0
    is_full: bool = False
    is_brimful: bool = False
    takes_no_note: bool = False
    hangs: bool = False
    unheard: bool = False
    awaits_hearing: bool = False

    def copy(self) -> Disk:
        """As it is now."""
        return replace(
            self,
            log=bytearray(self.log),
            queue_begins=dict(self.queue_begins),
            files=dict(self.files),
            platter=dict(self.platter),
            unsynced=set(self.unsynced),
        )

    # ---- what the small files say, for who looks at a disk from outside

    @property
    def replica(self) -> Any:
        """The content of `replica.zenit`; of a replica that never started where there is none."""
        return _facts_in(self.files.get(REPLICA_FILE), self.new_store_id)

    def rewrite_replica(self, **changes: Any) -> None:
        """Somebody else has written that file."""
        data = replica_files._encode(replace(self.replica, **changes)).encode("ascii")
        self.files[REPLICA_FILE] = self.platter[REPLICA_FILE] = data

    def rewrite_epochs(self, epochs: EpochList) -> None:
        """And this one."""
        data = epoch_file.render_epochs(epochs.rows).encode("ascii")
        self.files[EPOCH_FILE] = self.platter[EPOCH_FILE] = data

    # ---- the machine fails

    def step(self) -> None:
        """The process has come so far on the disk; it may end here. Raises Died."""
        if self.dies_in is None:
            return
        self.dies_in -= 1
        if self.dies_in < 0:
            self.dies_in = None
            if self.may_die():
                raise Died(self.name)

    def lose_power(self, rng: Random) -> None:
        """The cache is gone; what was written and not synced may be there, in part, or torn."""
        kept = self.durable if rng.random() < 0.4 else rng.randint(self.durable, len(self.log))
        if self.undead and rng.random() < 0.7:
            self.raise_dead()
            kept = len(self.log)
        self.truncate(kept)
        holes = range(self.durable // RECORD, kept // RECORD - 1)
        if holes and rng.random() < 0.4:
            self.lose_page(rng.choice(holes))
        if kept % RECORD == 0 and rng.random() < 0.3:
            self.log += bytes(rng.randint(1, 2 * RECORD))  # a file longer than what was written to it
        for path in sorted(self.unsynced):
            if rng.random() < 0.5:
                self._sync_name(path)
        self.forget_cache()

    def forget_cache(self) -> None:
        """What is left is what the platter has."""
        self.durable = min(self.durable, len(self.log))
        self.files = dict(self.platter)
        self.unsynced.clear()
        self.undead, self.failed_pages, self.is_closed = b"", False, self.is_closed and self.durable == len(self.log)
        self.boot_id += 1

    def lose_page(self, record: int) -> None:
        """A record in the middle of what was written did not reach the disk, others behind it did."""
        begin = record * RECORD
        assert begin >= self.durable
        self.log[begin : begin + RECORD] = bytes(RECORD)
        self.changed_from = min(self.changed_from, begin)

    def raise_dead(self) -> None:
        """The cut never reached the platter."""
        self.log[:], self.undead = self.undead, b""
        self.changed_from = 0

    def wipe(self, store_id: str) -> None:
        """Another disk in its place."""
        boot_id = self.boot_id
        self.__init__(self.name, store_id, boot_id)  # type: ignore[misc]

    def mend(self) -> None:
        """There is room, and fsyncs end."""
        self.is_full = self.is_brimful = self.takes_no_note = self.hangs = False

    # ---- small files

    def check_room(self) -> None:
        """Raises OSError where no small file can be written."""
        if self.takes_no_note:
            raise OSError(errno.EIO, "input/output error")
        if self.is_brimful:
            raise OSError(errno.ENOSPC, "no space left on device")

    def sync_names(self) -> None:
        """The names in the folder are on the platter."""
        for path in self.unsynced:
            self._sync_name(path)
        self.unsynced.clear()

    def _sync_name(self, path: str) -> None:
        if path in self.files:
            self.platter[path] = self.files[path]
        else:
            self.platter.pop(path, None)

    # ---- changes of the log

    def recover(self) -> None:
        """Keeps the whole records (R13): the confirm offset has no say in it. What lies behind a hole is kept too."""
        if self.failed_pages:
            self.drop_cached_pages()
        holes = self._holes()
        end = whole_end(self.log, holes[-1][1] if holes else min(self.begin, len(self.log)))
        self.truncate(end)
        self.hole = next((begin for begin, hole_end in holes if (begin, hole_end) not in self.taken), None)

    def _holes(self) -> list[tuple[int, int]]:
        """Where no whole records are that others lie behind."""
        holes = []
        at = whole_end(self.log, min(self.begin, len(self.log)))
        while has_record(self.log, at):
            holes.append((at, next_record(self.log, at)))
            at = whole_end(self.log, holes[-1][1])
        return holes

    def take_holes(self) -> bool:
        """The log goes on behind them from now on; False where there is none."""
        if self.hole is None:
            return False
        self.taken, self.hole = tuple(self._holes()), None
        return True

    def drop_cached_pages(self) -> None:
        """Re-reads the disk after a failed fsync (R8): what it never got is gone, as after a loss of power."""
        self.failed_pages = False
        self.truncate(self.durable)

    def truncate(self, end: int) -> None:
        """The log ends there."""
        if end < len(self.log):
            del self.log[end:]
            self.changed_from = min(self.changed_from, end)
        if self.hole is not None and end <= self.hole:
            self.hole = None
        self.taken = tuple(found for found in self.taken if found[0] < end)
        self.durable = min(self.durable, end)

    def cut(self, offset: int) -> None:
        """The log ends there; until `sync_cut`, power may bring back what was on the platter."""
        if offset < self.durable and not self.undead:
            self.undead = bytes(self.log[: self.durable])
        self.truncate(offset)

    def sync_cut(self) -> None:
        """No loss of power undoes the cut (R4)."""
        self.undead = b""
        self.durable = len(self.log)

    def note_checkpoint(self, *, confirm: int, flushed: int) -> None:
        """Whole at any moment."""
        self.confirm_noted, self.flushed_noted = confirm, flushed

    def append(self, data: bytes | memoryview) -> None:
        """At the end."""
        self.changed_from = min(self.changed_from, len(self.log))
        self.log += data

    def erase(self) -> None:
        """No log, and no checkpoint."""
        self.log.clear()
        self.hole, self.taken = None, ()
        self.durable = self.begin = self.changed_from = 0
        self.undead, self.is_closed, self.queue_begins = b"", False, {}
        self.note_checkpoint(confirm=0, flushed=0)

    def begin_log(self, begin: int, queue_begins: dict[int, int]) -> None:
        """An empty log that begins further on (R12)."""
        self.log[:] = bytes(begin)
        self.durable = self.begin = begin
        self.queue_begins = queue_begins

    def expire(self, begin: int) -> None:
        """Retention: nothing below is kept."""
        self.queue_begins = self.queue_ends(begin)
        self.log[self.begin : begin] = bytes(begin - self.begin)
        self.begin = begin

    def queue_ends(self, end: int) -> dict[int, int]:
        """{queue: the offset behind its last record} of the log below `end`."""
        ends = dict(self.queue_begins)
        for record in records_in(self.log, self.begin, end):
            ends[record.queue] = record.queue_offset + 1
        return ends


def _facts_in(data: bytes | None, store_id: str) -> Any:
    if data is None:
        return replica_files._Facts(store_id=store_id)
    return replica_files._facts_of(REPLICA_FILE, json.loads(data.partition(b"\n")[0]))
