"""The damage of an open store: finds it by checksums, quarantines it, and writes repaired bytes in place.

    chunk for a slave, doubt of a reader --check--> damaged? --quarantine--> readers stop there; the worker records it
    bytes of a replica --write--> in place, synced by the worker --on_whole--> readers continue; recorded

`unsendable` is what no slave is sent: each quarantined range with the whole appends that contain it, since no checksum
confirms the headers and properties of their other records. A replica is asked for the same ranges (`extents`).
Loop thread, except what `worker` runs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final

from ...model.errors import OffsetOutOfRange
from ...model.events.table import DAMAGE_FOUND, DAMAGE_MENDED
from ...model.events.telling import tell
from ...record.kernel import RunKernel
from ..log.chunk_reader import ChunkCheck
from ..log.commit_log import CommitLog
from ..log.segment import NO_SPACE, Segment, write_fully
from ..queues.queue_engine import QueueEngine
from ..upkeep import Upkeep
from .log_check import LogChecker
from .mending import Mender, extent_of
from .quarantine import Quarantine, Range, note_quarantine
from .recovery import walk

logger = logging.getLogger(__name__)

NEAR_BYTES: Final = 16 * 1024


class Damage:
    """The damage of one open store. `on_change`: called whenever the damaged ranges change."""

    def __init__(
        self,
        directory: str,
        log: CommitLog,
        queues: QueueEngine,
        quarantine: Quarantine,
        upkeep: Upkeep,
        *,
        kernel: RunKernel,
        checker: LogChecker,
    ) -> None:
        """`kernel`: for records of any size that the log may hold; not shared with the checker."""
        self.quarantine = quarantine
        self.on_change: Callable[[], None] = _ignore
        self._directory = directory
        self._log = log
        self._queues = queues
        self._upkeep = upkeep
        self._kernel = kernel
        self._checker = checker
        self._mender = Mender(checker, log.read)
        self._chunks = ChunkCheck(log, checker, fresh_from=log.written)
        self._noted = quarantine.ranges, quarantine.rotten
        self._extents: dict[Range, Range] = {}  # of the present ranges
        self.found = 0  # ranges that were quarantined since the start
        self.unsendable: tuple[Range, ...] = ()
        self._list_unsendable()

    # ---- finding

    def in_chunk(self, begin: int, end: int, *, is_doubted: bool = False) -> bool:
        """True if the chunk [begin, end) of the log is damaged; the damage is quarantined. `is_doubted`: no records were
        found there. Raises like `ChunkCheck.damage`."""
        found = self._chunks.damage(begin, end, is_doubted=is_doubted)
        if not found:
            return False
        self.add_all(found, "met while it was to be sent to a slave")
        return True

    def may_return(self, offset: int) -> bool:
        """Checks the record at `offset`, which could not be read: True if a replica may have the damaged bytes."""
        written = self._log.written
        if not self._log.begin <= offset < written:
            return False
        if not self.quarantine.ranges_in(offset, offset + 1):
            checked = self._checker.check(self._log.read, offset, bytes_max=1, limit=written)
            self.add_all(checked.damaged, "a record that was needed could not be read")
        return self.quarantine.is_awaited(offset, offset + 1)

    def look(self, begin: int, bytes_max: int) -> tuple[int, int] | None:
        """Compares the log from `begin` on, in one segment, with its checksums: about `bytes_max`, whole appends.
        Damage is quarantined, and the result is None; otherwise it is the checked [begin, end). Raises OffsetOutOfRange."""
        checked = self._checker.check(self._log.read, begin, bytes_max=bytes_max, limit=self._log.written)
        self.add_all(checked.damaged, "met where it was to be written again")
        return None if checked.damaged else (checked.begin, checked.end)

    def add(self, begin: int, end: int, how: str) -> None:
        """Quarantines a rotten range, if it is still in the log; reported once."""
        self.add_all([(begin, end)], how)

    def add_all(self, ranges: Iterable[Range], how: str) -> None:
        """Quarantines several at once, at the cost of one."""
        found = [(low, high) for low, high in ranges if high > self._log.begin]
        if not self.quarantine.add(found):
            return
        begin, end = min(low for low, _ in found), max(high for _, high in found)
        tell(logger, DAMAGE_FOUND, begin=begin, end=end, ranges=len(found), why=how)
        self.found += len(found)
        logger.error(
            "damage in the log is quarantined begin=%s end=%s ranges=%s found=%s",
            min(low for low, _ in found), max(high for _, high in found), len(found), how,
        )  # fmt: skip
        self._changed()

    def take_holes(self) -> Future[None] | None:
        """From now on the log counts up to its end, with its holes: no replica has more of it. Their messages are lost unless
        a replica has them. Complete once this is recorded; if there was no room for that (`is_noted`), call again. None
        if there is no hole, and everything is recorded."""
        holes = self.quarantine.take_holes()
        if not holes:
            return None if self.is_noted else self._upkeep.run_in_worker(self._note)
        logger.warning("the log has holes and is taken as it is, what lay in them is lost ranges=%s", holes)
        return self._changed()

    @property
    def is_noted(self) -> bool:
        """The known damage is recorded on the disk: the next start knows it too."""
        return self._noted == (self.quarantine.ranges, self.quarantine.rotten)

    def forget_expired(self) -> None:
        """Drops ranges that retention has deleted."""
        ranges = self.quarantine.ranges
        if ranges and ranges[0][1] <= self._log.begin:
            self.quarantine.lift(0, self._log.begin)
            self._changed()

    def extents(self, ranges: Iterable[Range]) -> list[Range]:
        """The appends that contain each of some quarantined ranges, as one range each; without an entry, the range itself."""
        return sorted({self._extents[found] for found in ranges if found in self._extents})

    def _changed(self) -> Future[None]:
        self._list_unsendable()
        noted = self._upkeep.run_in_worker(self._note)
        self.on_change()
        return noted

    def _note(self) -> None:
        """In the worker: several changes together are recorded once."""
        found = self.quarantine.ranges, self.quarantine.rotten
        if found == self._noted:
            return
        try:
            note_quarantine(self._directory, *found, self._log.written)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("a full disk: damage is known to this process only until there is room; error=%s", error)
            return
        self._noted = found

    def _list_unsendable(self) -> None:
        """Looks up only new ranges: each costs some reads of its checksum file."""
        now = {*self.quarantine.ranges, *self.quarantine.rotten}
        extents = {found: extent for found, extent in self._extents.items() if found in now}
        for near in _neighbours(sorted(now.difference(extents)), self._log.segment_bytes):
            appends = self._checker.appends(max(near[0][0], self._log.begin), near[-1][1])
            extents.update((found, extent_of(found, appends)) for found in near)
        self._extents = extents
        whole: list[Range] = []
        for low, high in sorted(self._extents.values()):
            if whole and low <= whole[-1][1]:
                whole[-1] = (whole[-1][0], max(whole[-1][1], high))
            else:
                whole.append((low, high))
        self.unsendable = tuple(whole)

    # ---- mending

    def fits(self, begin: int, data: bytes) -> bool:
        """See Mender."""
        return self._mender.fits(begin, data)

    def made_whole(self, begin: int, copy: bytes) -> bytes | None:
        """See Mender."""
        return self._mender.made_whole(begin, copy)

    def write(self, begin: int, data: bytes) -> Future[None]:
        """Writes bytes in place, within one segment; complete once they are durable. A failed sync poisons the
        store, as always. Raises OffsetOutOfRange if retention was faster, OSError.
        """
        segment = self._segment_at(begin)
        fd = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            write_fully(fd, data, begin - segment.base_offset)
        except OSError:
            os.close(fd)
            raise
        self._chunks.forget()
        return self._upkeep.run_in_worker(lambda: _sync_and_close(fd))

    def on_whole(self, begin: int, end: int) -> None:
        """The bytes [begin, end) are repaired and durable: they may be read again. Units that a replay had to leave out
        now come into their queues."""
        self.quarantine.lift(begin, end)
        tell(logger, DAMAGE_MENDED, begin=begin, end=end)
        if begin >= self._log.begin:
            for run in walk(self._log, self._kernel, begin, end, ()):
                self._queues.fill_in(run)
        self._changed()

    def _segment_at(self, offset: int) -> Segment:
        for segment in self._log.segments():
            if segment.base_offset <= offset < segment.end_offset:
                return segment
        raise OffsetOutOfRange("commit log", offset, self._log.begin, self._log.written)


def _neighbours(ranges: Sequence[Range], segment_bytes: int) -> Iterator[Sequence[Range]]:
    """Groups ascending ranges, each group in one segment and so close that their checksum entries are read together."""
    begin = 0
    for at in range(1, len(ranges) + 1):
        is_near = at < len(ranges) and ranges[at][0] - ranges[at - 1][1] <= NEAR_BYTES
        if not is_near or ranges[begin][0] // segment_bytes != ranges[at][0] // segment_bytes:
            yield ranges[begin:at]
            begin = at


def _sync_and_close(fd: int) -> None:
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _ignore() -> None:
    """Used until there is a listener."""
