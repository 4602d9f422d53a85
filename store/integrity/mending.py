"""Which bytes of another copy may be written over damaged ones: those that checksums prove.

    damage --extent_of--> the whole appends around it --> a copy of these bytes --fits | made_whole--> what was written

It reads the log by `read`, and checksum entries; it writes nothing. One mender belongs to one thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ...record.crc32 import crc32
from ..checksum.checksum_entry import ChecksumEntry
from ..checksum.splice import spliced
from .log_check import LogChecker, Read
from .quarantine import Range


class Mender:
    """Of one log, with its checker."""

    def __init__(self, checker: LogChecker, read: Read) -> None:
        self._checker = checker
        self._read = read

    def fits(self, begin: int, data: bytes) -> bool:
        """True if `data` may be what was written at `begin`: our own checksums cover and confirm all of it, or it is
        whole records
        that match the checksums that we have. A producer may have sent a body with a wrong CRC: then only our checksums decide.

        A checksum that does not match is ignored if the log holds these very bytes: then the checksum itself has rotted.
        Raises OffsetOutOfRange if retention was faster.
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
            return bytes(self._read(begin, end)) == data
        except OSError:
            return False

    def made_whole(self, begin: int, copy: bytes) -> bytes | None:
        """The bytes that were written at `begin`, combined from another replica's copy and our own so that our
        checksums match all of it; None if no combination does. Raises OffsetOutOfRange if retention
        was faster."""
        whole, at = bytearray(copy), begin
        for entry in self._checker.appends(begin, begin + len(copy)):
            if entry.offset != at or entry.end > begin + len(copy):
                return None
            place = slice(entry.offset - begin, entry.end - begin)
            if crc32(copy[place]) != entry.crc:
                try:
                    ours = bytes(self._read(entry.offset, entry.end))
                except OSError:
                    return None
                found = spliced(ours, copy[place], entry.crc)
                if found is None:
                    return None
                whole[place] = found
            at = entry.end
        return bytes(whole) if at == begin + len(copy) else None


def extent_of(found: Range, appends: Sequence[ChecksumEntry]) -> Range:
    """The appends that contain a range, as one range; if none of those given, ascending, touches it, the range itself."""
    first = bisect_right(appends, found[0], key=lambda entry: entry.end)
    last = bisect_left(appends, found[1], first, key=lambda entry: entry.offset)
    return (min(found[0], appends[first].offset), max(found[1], appends[last - 1].end)) if first < last else found
