"""The checksum entries of a log, looked up by where an append begins; of one segment at a time, at 16 bytes an entry.

A start that must read the whole log, because its index or its queues are gone, meets each append once and in order.
Used once, while nobody appends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from ..model.queue import PhysicalOffset
from .checksum_log import ChecksumEntry, ChecksumLog

_NOWHERE: Final = -1


class ChecksumTable:
    """Of [begin, end) of a log. Raises OSError where it has to read."""

    def __init__(self, checksums: ChecksumLog, segment_bytes: int, begin: int, end: int) -> None:
        self._checksums = checksums
        self._segment_bytes = segment_bytes
        self._begin = begin
        self._end = end
        self._base = _NOWHERE  # of the segment whose entries are held
        self._offsets, self._lengths, self._crcs = array("q"), array("I"), array("I")

    def get(self, offset: int) -> ChecksumEntry | None:
        """The entry of the append that begins there."""
        self._hold(offset - offset % self._segment_bytes)
        index = bisect_left(self._offsets, offset)
        return self._entry(index) if index < len(self._offsets) and self._offsets[index] == offset else None

    def next_in_segment(self, offset: int) -> int | None:
        """Where the first append behind `offset` begins that has an entry, in the same segment."""
        self._hold(offset - offset % self._segment_bytes)
        index = bisect_right(self._offsets, offset)
        return self._offsets[index] if index < len(self._offsets) else None

    def behind(self, offset: int) -> Iterator[ChecksumEntry]:
        """Those that begin behind `offset`, ascending; `get` may be called meanwhile."""
        at = offset
        for base in range(offset - offset % self._segment_bytes, self._end, self._segment_bytes):
            while True:
                self._hold(base)
                index = bisect_right(self._offsets, at)
                if index == len(self._offsets):
                    break
                entry = self._entry(index)
                at = entry.offset
                yield entry

    def _entry(self, index: int) -> ChecksumEntry:
        return ChecksumEntry(PhysicalOffset(self._offsets[index]), self._lengths[index], self._crcs[index])

    def _hold(self, base: int) -> None:
        if base == self._base:
            return
        self._base = base
        self._offsets, self._lengths, self._crcs = array("q"), array("I"), array("I")
        for entry in self._checksums.entries(max(base, self._begin), min(base + self._segment_bytes, self._end)):
            self._offsets.append(entry.offset)
            self._lengths.append(entry.length)
            self._crcs.append(entry.crc)
