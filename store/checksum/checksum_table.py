"""The checksum entries of a log by the begin of their appends; one segment at a time, 17 bytes an entry.

A start that must read the whole log, because its index or its queues are gone, looks up each append once and in order.
Used once, while nothing is appended.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from ...model.queue import PhysicalOffset
from ...record.codes import BLANK_BYTES
from .checksum_entry import ChecksumEntry
from .checksum_log import ChecksumLog

_NOWHERE: Final = -1


class ChecksumTable:
    """The table of a log that ends at `end`, or before. Raises OSError if it has to read."""

    def __init__(self, checksums: ChecksumLog, segment_bytes: int, end: int) -> None:
        self._checksums = checksums
        self._segment_bytes = segment_bytes
        self._end = end
        self._base = _NOWHERE  # of the segment whose entries are held
        self._offsets, self._lengths, self._crcs = array("q"), array("I"), array("I")
        self._loose = bytearray()

    def get(self, offset: int) -> ChecksumEntry | None:
        """The entry of the append that begins there."""
        self._hold(offset - offset % self._segment_bytes)
        index = bisect_left(self._offsets, offset)
        return self._entry(index) if index < len(self._offsets) and self._offsets[index] == offset else None

    def behind(self, offset: int, limit: int | None = None) -> Iterator[ChecksumEntry]:
        """The entries behind `offset` and before `limit`, ascending; `get` may be called meanwhile."""
        at, end = offset, self._end if limit is None else limit
        for base in range(offset - offset % self._segment_bytes, end, self._segment_bytes):
            while True:
                self._hold(base)
                index = bisect_right(self._offsets, at)
                if index == len(self._offsets) or self._offsets[index] >= end:
                    break
                entry = self._entry(index)
                at = entry.offset
                yield entry

    def end_at(self, offset: int) -> bool:
        """True if the last entry covers the bytes just before `offset`, and none is known to be missing behind it."""
        base = offset - offset % self._segment_bytes
        for held in (base, base - self._segment_bytes) if offset == base else (base,):
            self._hold(held)
            index = bisect_left(self._offsets, offset)
            if index:
                last = self._entry(index - 1)
                reached = held + self._segment_bytes if last.length == BLANK_BYTES else last.end
                is_last = reached == offset and next(self.behind(offset - 1), None) is None
                return is_last and not any(self._checksums.has_gap(looked_at) for looked_at in {held, base})
        return False

    def _entry(self, index: int) -> ChecksumEntry:
        return ChecksumEntry(
            PhysicalOffset(self._offsets[index]), self._lengths[index], self._crcs[index], bool(self._loose[index])
        )

    def _hold(self, base: int) -> None:
        if base == self._base:
            return
        self._base = base
        self._offsets, self._lengths, self._crcs = array("q"), array("I"), array("I")
        self._loose = bytearray()
        for entry in self._checksums.entries(base, min(base + self._segment_bytes, self._end)):
            self._offsets.append(entry.offset)
            self._lengths.append(entry.length)
            self._crcs.append(entry.crc)
            self._loose.append(entry.is_loose)
