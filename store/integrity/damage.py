"""What an open store knows of its own damage: finds it in chunks, takes it out of sight, and has it made whole again.

    chunk to be sent, consumer's doubt --look--> damaged? --quarantine--> readers stop there; written down by the worker
    bytes of a replica --write--> in place, synced by the worker --on_whole--> readers go on; written down

`unsendable` is what no slave is sent: each quarantined range with the whole of the appends that it lies in, since nothing
vouches for the headers and properties of their other records. What a replica is asked for is the same (`extents`).
Loop thread, but for what `worker` runs.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final

from ...model.errors import OffsetOutOfRange
from ...record.crc32 import crc32
from ...record.kernel import RunKernel
from ..checksum.checksum_entry import ChecksumEntry
from ..checksum.splice import spliced
from ..log.chunk_reader import ChunkCheck
from ..log.commit_log import CommitLog
from ..log.segment import NO_SPACE, Segment, write_fully
from ..queues.queue_table import QueueTable
from ..upkeep import Upkeep
from .log_check import LogChecker
from .quarantine import Quarantine, Range, note_quarantine
from .recovery import walk

logger = logging.getLogger(__name__)

NEAR_BYTES: Final = 16 * 1024


class Damage:
    """Belongs to one open store. `on_change`: called whenever there is more damage, or less."""

    def __init__(
        self,
        directory: str,
        log: CommitLog,
        queues: QueueTable,
        quarantine: Quarantine,
        upkeep: Upkeep,
        *,
        kernel: RunKernel,
        checker: LogChecker,
    ) -> None:
        """`kernel`: for records of any size that the log may hold; not the checker's."""
        self.quarantine = quarantine
        self.on_change: Callable[[], None] = _ignore
        self._directory = directory
        self._log = log
        self._queues = queues
        self._upkeep = upkeep
        self._kernel = kernel
        self._checker = checker
        self._chunks = ChunkCheck(log, checker, fresh_from=log.written)
        self._noted = quarantine.ranges, quarantine.rotten
        self._extents: dict[Range, Range] = {}  # of the ranges that there are
        self.unsendable: tuple[Range, ...] = ()
        self._list_unsendable()

    # ---- finding

    def in_chunk(self, begin: int, end: int, *, is_doubted: bool = False) -> bool:
        """Whether the chunk [begin, end) of the log holds damage; what is found is quarantined. `is_doubted`: no records were
        found there. Raises as `ChunkCheck.damage` does."""
        found = self._chunks.damage(begin, end, is_doubted=is_doubted)
        if not found:
            return False
        self.add_all(found, "met while it was to be sent to a slave")
        return True

    def may_return(self, offset: int) -> bool:
        """Looks at the record at `offset`, which could not be read: True where a replica may give back what is damaged."""
        written = self._log.written
        if not self._log.begin <= offset < written:
            return False
        if not self.quarantine.ranges_in(offset, offset + 1):
            checked = self._checker.check(self._log.read, offset, bytes_max=1, limit=written)
            self.add_all(checked.damaged, "a record that was needed could not be read")
        return self.quarantine.is_awaited(offset, offset + 1)

    def look(self, begin: int, bytes_max: int) -> tuple[int, int] | None:
        """Holds what lies in the log from `begin` on, in one segment, to its checksums: about `bytes_max`, an append whole.
        What is damaged is quarantined; None then, else [begin, end) that was looked at. Raises OffsetOutOfRange."""
        checked = self._checker.check(self._log.read, begin, bytes_max=bytes_max, limit=self._log.written)
        self.add_all(checked.damaged, "met where it was to be written again")
        return None if checked.damaged else (checked.begin, checked.end)

    def add(self, begin: int, end: int, how: str) -> None:
        """Takes a range that has rotted out of everybody's sight, where it is still in the log; told once."""
        self.add_all([(begin, end)], how)

    def add_all(self, ranges: Iterable[Range], how: str) -> None:
        """Takes several at once, which costs as little as one."""
        found = [(low, high) for low, high in ranges if high > self._log.begin]
        if not self.quarantine.add(found):
            return
        logger.error(
            "damage in the log is quarantined begin=%s end=%s ranges=%s found=%s",
            min(low for low, _ in found), max(high for _, high in found), len(found), how,
        )  # fmt: skip
        self._changed()

    def take_holes(self) -> Future[None] | None:
        """The log counts to its end from now on, whatever holes it has: nobody has more of it. Their messages are lost unless
        a replica has them. Done once that was written down; where there was no room for it (`is_noted`), ask again. None
        where there is no hole, and all is noted."""
        holes = self.quarantine.take_holes()
        if not holes:
            return None if self.is_noted else self._upkeep.run_in_worker(self._note)
        logger.warning("the log has holes and is taken as it is, what lay in them is lost ranges=%s", holes)
        return self._changed()

    @property
    def is_noted(self) -> bool:
        """What is known of damage is on the disk: the next life knows it too."""
        return self._noted == (self.quarantine.ranges, self.quarantine.rotten)

    def forget_expired(self) -> None:
        """Drops the ranges that retention has given up."""
        ranges = self.quarantine.ranges
        if ranges and ranges[0][1] <= self._log.begin:
            self.quarantine.lift(0, self._log.begin)
            self._changed()

    def extents(self, ranges: Iterable[Range]) -> list[Range]:
        """The appends that each of some quarantined ranges lies in, as one range each; where no entry covers it, itself."""
        return sorted({self._extents[found] for found in ranges if found in self._extents})

    def _changed(self) -> Future[None]:
        self._list_unsendable()
        noted = self._upkeep.run_in_worker(self._note)
        self.on_change()
        return noted

    def _note(self) -> None:
        """The worker's: several changes at once are written down once."""
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
        """Looks up what is new only: each range costs some reads of its checksum file."""
        now = {*self.quarantine.ranges, *self.quarantine.rotten}
        extents = {found: extent for found, extent in self._extents.items() if found in now}
        for near in _neighbours(sorted(now.difference(extents)), self._log.segment_bytes):
            appends = self._checker.appends(max(near[0][0], self._log.begin), near[-1][1])
            extents.update((found, _extent(found, appends)) for found in near)
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
        """Whether `data` may be what was written at `begin`: our own checksums have all of it, or it is whole records that
        agree with those that we have. A producer may send a body that has not its CRC: then only our checksums tell.

        A checksum that does not agree counts for nothing where the log holds these very bytes: then it has rotted itself.
        Raises OffsetOutOfRange where retention was faster.
        """
        end = begin + len(data)
        if self._checker.vouches_for(lambda low, high: data[max(low - begin, 0) : high - begin], begin, end):
            return True
        if not self._checker.is_well_formed(data, begin):
            return False
        inside = (entry for entry in self._checker.appends(begin, end) if begin <= entry.offset and entry.end <= end)
        if all(crc32(data[entry.offset - begin : entry.end - begin]) == entry.crc for entry in inside):
            return True
        try:
            return bytes(self._log.read(begin, end)) == data
        except OSError:
            return False

    def made_whole(self, begin: int, copy: bytes) -> bytes | None:
        """What was written at `begin`, from another replica's copy and our own, whichever of them is right in each place, as
        our checksums have all of it; None where these say of no choice that it is. Raises OffsetOutOfRange where retention
        was faster."""
        whole, at = bytearray(copy), begin
        for entry in self._checker.appends(begin, begin + len(copy)):
            if entry.offset != at or entry.end > begin + len(copy):
                return None
            place = slice(entry.offset - begin, entry.end - begin)
            if crc32(copy[place]) != entry.crc:
                try:
                    ours = bytes(self._log.read(entry.offset, entry.end))
                except OSError:
                    return None
                found = spliced(ours, copy[place], entry.crc)
                if found is None:
                    return None
                whole[place] = found
            at = entry.end
        return bytes(whole) if at == begin + len(copy) else None

    def write(self, begin: int, data: bytes) -> Future[None]:
        """Puts bytes in their place, which lies in one segment; done once they are durable. A sync that fails poisons the
        store, as any other. Raises OffsetOutOfRange where retention was faster, OSError.
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
        """What was written at [begin, end) is durable: everybody may read it again. Units that a replay had to leave out
        come into their queues now."""
        self.quarantine.lift(begin, end)
        logger.warning("damage in the log is made whole begin=%s end=%s", begin, end)
        if begin >= self._log.begin:
            for run in walk(self._log, self._kernel, begin, end, ()):
                self._queues.fill_in(run)
        self._changed()

    def _segment_at(self, offset: int) -> Segment:
        for segment in self._log.segments():
            if segment.base_offset <= offset < segment.end_offset:
                return segment
        raise OffsetOutOfRange("commit log", offset, self._log.begin, self._log.written)


def _extent(found: Range, appends: Sequence[ChecksumEntry]) -> Range:
    """The appends that a range lies in, as one range; where none of those given, ascending, touches it, itself."""
    first = bisect_right(appends, found[0], key=lambda entry: entry.end)
    last = bisect_left(appends, found[1], first, key=lambda entry: entry.offset)
    return (min(found[0], appends[first].offset), max(found[1], appends[last - 1].end)) if first < last else found


def _neighbours(ranges: Sequence[Range], segment_bytes: int) -> Iterator[Sequence[Range]]:
    """Ascending ranges in groups, each of one segment, so near that their checksum entries are read in one go."""
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
    """Nobody listens yet."""
