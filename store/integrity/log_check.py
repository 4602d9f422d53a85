"""Checks whether bytes of the log are still those that were written, by checksum entries or by the records' structure.

    append with an entry, CRC equal -> undamaged, headers and properties too
    append with an entry, CRC wrong -> the invalid records in it, and those whose body's CRC is wrong, are damaged;
                                       if each looks valid all of it is, since nothing says which has rotted
    bytes without an entry          -> record by record: structure, position, body's CRC; also if the entry does not
                                       meet its neighbours and the CRC is wrong: then the entry may be damaged

A damaged entry is reported. If the bytes between its neighbours have the CRC that it holds, its right value is known.

It reads the checksum file and nothing else. One checker belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ...model.queue import PhysicalOffset
from ...record.codes import BLANK_BYTES, MAGIC_BLANK, RECORD_OVERHEAD_BYTES, RUN_BLANK
from ...record.crc32 import crc32
from ...record.kernel import RunKernel
from ..checksum.checksum_entry import ChecksumEntry, RottenEntry, Suspect
from ..checksum.checksum_reader import ChecksumReader
from .quarantine import Range

GAP_READ_BYTES: Final = 1 << 20
GAP_LEAST_BYTES: Final = 4096
APPEND_BYTES_MAX: Final = 32 << 20  # between the neighbours of a damaged entry: it may be one append
_MAGIC_HEAD: Final = b"\xda\xa3\x20"  # both record magics begin with it
_BLANK: Final = MAGIC_BLANK.to_bytes(4, "big")

Read = Callable[[int, int], bytes | memoryview]
"""(begin, end) -> these bytes of the log. Raises OSError if the disk cannot read them."""


@dataclass(frozen=True, slots=True)
class Checked:
    """[begin, end) was checked; the next check begins at `end`. `damaged`: [begin, end) each, ascending.

    `vouched_bytes`: the bytes read that a checksum entry covers. `rotten_entries`: damaged entries of this part; the next check
    may find the last of them again.
    """

    begin: int
    end: int
    read_bytes: int = 0
    vouched_bytes: int = 0
    damaged: tuple[Range, ...] = ()
    rotten_entries: tuple[RottenEntry, ...] = ()


class LogChecker:
    """Checks bytes of one log. `kernel`: for records of any size that the log may hold (`scanning_kernel`)."""

    def __init__(self, kernel: RunKernel, checksums: ChecksumReader, segment_bytes: int) -> None:
        self._kernel = kernel
        self._checksums = checksums
        self._segment_bytes = segment_bytes
        self._read_bytes = self._vouched_bytes = 0
        self._damaged: list[Range] = []

    def check(self, read: Read, begin: int, *, bytes_max: int, limit: int) -> Checked:
        """Checks the log from `begin` on, where an append, a record or a blank begins, or inside an append: about
        `bytes_max`, never past the segment, nothing at or behind `limit`, where the log's written bytes end. Bytes that cannot
        be read are damaged.
        """
        segment_end = begin - begin % self._segment_bytes + self._segment_bytes
        stop = min(segment_end, limit)
        full = min(stop, begin + bytes_max)
        self._read_bytes = self._vouched_bytes = 0
        self._damaged = []
        at = begin
        entries, suspects = self._checksums.looked_up(begin, full)
        for entry in entries:
            if entry.end > stop:
                break
            data = self._append_bytes(read, entry)
            is_whole = data is not None and crc32(data) == entry.crc
            if entry.is_loose and not is_whole:
                continue  # the entry may be damaged: its bytes are checked like those without one
            if at < entry.offset:
                at = self._check_gap(read, at, entry.offset, entry.offset, segment_end)
            if at >= entry.end:
                continue  # a blank, or damage, went beyond it
            at = self._check_append(entry, data, is_whole, segment_end)
        if at < full:
            at = self._check_gap(read, at, stop, full, segment_end)
        rotten = tuple(self._rotten(read, suspects, stop)) if suspects else ()
        return Checked(begin, at, self._read_bytes, self._vouched_bytes, tuple(self._damaged), rotten)

    def appends(self, begin: int, end: int) -> list[ChecksumEntry]:
        """The entries that share a byte with [begin, end), which is in one segment."""
        return self._checksums.overlapping(begin, end)

    def ground_before(self, at: int) -> int:
        """The last known position up to `at` where an append, a record or a blank begins; `at` itself if it is such a
        position, or inside an append with an entry."""
        return self._checksums.end_before(at)

    def vouches_for(self, read: Read, begin: int, end: int) -> bool:
        """True if the entries of the appends that share a byte with [begin, end), of one segment, match and have no gap."""
        reached = begin
        for entry in self.appends(begin, end):
            if entry.offset > reached or not self._has_crc(read, entry.offset, entry.end, entry.crc):
                return False
            reached = entry.end
        return reached >= end

    def is_well_formed(self, data: bytes | memoryview, begin: int) -> bool:
        """True if `data`, at `begin` in the log, is whole records, with or without a blank's header behind them."""
        return not self._bad_records(data, begin)

    # ---- wrong entries

    def _rotten(self, read: Read, suspects: Iterable[Suspect], stop: int) -> Iterator[RottenEntry]:
        """Entries that match nothing; entries behind `stop`, or without a lower neighbour, cannot be judged yet."""
        for suspect in suspects:
            offset, length, crc = suspect.raw
            begin, end = suspect.begin, suspect.end
            if begin >= stop or (end is not None and end > stop):
                continue
            if suspect.may_be_true and self._has_crc(read, offset, offset + length, crc):
                continue  # entries are missing beside it
            right = None
            if end is not None and self._has_crc(read, begin, end, crc):
                right = ChecksumEntry(PhysicalOffset(begin), end - begin, crc)
            yield RottenEntry(begin - begin % self._segment_bytes, suspect.slot, suspect.raw, begin, right)

    def _has_crc(self, read: Read, begin: int, end: int, crc: int) -> bool:
        if not 0 < end - begin <= APPEND_BYTES_MAX:
            return False
        try:
            return crc32(read(begin, end)) == crc
        except OSError:
            return False

    # ---- one append

    def _append_bytes(self, read: Read, entry: ChecksumEntry) -> bytes | memoryview | None:
        try:
            return read(entry.offset, entry.end)
        except OSError:
            return None

    def _check_append(
        self, entry: ChecksumEntry, data: bytes | memoryview | None, is_whole: bool, segment_end: int
    ) -> int:
        """Returns the begin of the next append."""
        is_blank = entry.length == BLANK_BYTES
        if data is not None:
            self._read_bytes += entry.length
            self._vouched_bytes += entry.length
        if not is_whole:
            bad = [] if is_blank or data is None else self._bad_records(data, entry.offset)
            self._damaged += bad or [(int(entry.offset), int(entry.end))]
        return segment_end if is_blank else entry.end

    def _bad_records(self, data: bytes | memoryview, begin: int) -> list[Range]:
        bad: list[Range] = []
        at = 0
        while at < len(data):
            at, is_blank = self._records_end(data, at, begin)
            if is_blank or at >= len(data):
                break
            found = self._next_record(data, at + 1, begin)
            bad.append((begin + at, begin + found))
            at = found
        return bad

    # ---- bytes without an entry

    def _check_gap(self, read: Read, at: int, gap_end: int, full: int, segment_end: int) -> int:
        """Checks records from `at` on, up to `gap_end`; may stop at a record behind `full`. Returns how far it came."""
        wanted, window = 0, GAP_READ_BYTES
        while at < full:
            # hardly more than requested: entries may cover what is behind
            end = min(gap_end, at + (wanted or max(GAP_LEAST_BYTES, min(window, full - at))))
            try:
                data = read(at, end)
            except OSError:
                window = max(GAP_LEAST_BYTES, (end - at) // 2)
                if not wanted and end - at > GAP_LEAST_BYTES:
                    continue  # one sector costs no more than what lies around it
                self._damaged.append((at, end))
                at, wanted, window = end, 0, GAP_READ_BYTES
                continue
            stop, is_blank = self._records_end(data, 0, at)
            self._read_bytes += stop
            if is_blank:
                return segment_end
            if stop == len(data):
                at, wanted = end, 0
                continue
            size = int.from_bytes(data[stop : stop + 4], "big")
            is_cut = end < gap_end and (stop + RECORD_OVERHEAD_BYTES > len(data) or stop + size > len(data))
            if is_cut and stop:
                at, wanted = at + stop, 0
            elif is_cut and end - at < size <= gap_end - at:
                wanted = size
            else:
                found = self._next_record(data, stop + 1, at)
                self._damaged.append((at + stop, at + found))
                at, wanted = at + found, 0
        return at

    # ---- records

    def _records_end(self, data: bytes | memoryview, at: int, begin: int) -> tuple[int, bool]:
        """(end of the last whole record from `at` on, whether a blank follows). `begin`: the position of data[0]."""
        kernel, size = self._kernel, len(data)
        while at < size:
            if size - at >= BLANK_BYTES and data[at + 4 : at + 8] == _BLANK:
                rest = self._segment_bytes - (begin + at) % self._segment_bytes
                return at, int.from_bytes(data[at : at + 4], "big") == rest
            kernel.clear()
            if kernel.scan(data, at, size, begin + at, True) == 0:
                return at, kernel.status == RUN_BLANK
            at = kernel.end
        return at, False

    def _next_record(self, data: bytes | memoryview, after: int, begin: int) -> int:
        """Where in `data`, from `after` on, the next whole record begins; its end if none does."""
        for at in magics(bytes(data), after):
            if int.from_bytes(data[at + 28 : at + 36], "big") == begin + at:
                self._kernel.clear()
                if self._kernel.scan(data, at, len(data), begin + at, True, 1) == 1:
                    return at
        return len(data)


def magics(data: bytes, after: int) -> Iterator[int]:
    """Where in `data`, from `after` on, a record might begin by its magic."""
    at = data.find(_MAGIC_HEAD, after + 4)
    while at >= 0:
        yield at - 4
        at = data.find(_MAGIC_HEAD, at + 1)
