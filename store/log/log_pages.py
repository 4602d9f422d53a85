"""Checks which bytes of a segment's map a start may touch. A page that the disk cannot read is SIGBUS, at this start and at
each one after it. So pages are requested first; an unreadable one is damage like any other.
"""

from __future__ import annotations

from typing import Final

from .segment import Segment, page_in

PAGE_BYTES: Final = 4096
AHEAD_BYTES: Final = 1 << 20  # requested at once
HEADER_BYTES: Final = 36  # of a record: up to behind its physical offset


class LogPages:
    """Remembers the last run of readable pages; for a reader that goes through a log from front to end."""

    def __init__(self) -> None:
        self._segment: Segment | None = None
        self._low = self._high = 0  # positions in it, between which all pages are readable

    def readable_end(self, segment: Segment, begin: int, end: int) -> int:
        """The first of the positions [begin, end) of a segment that cannot be read; `end` if all can."""
        if segment is not self._segment or not self._low <= begin <= self._high:
            self._segment, self._low = segment, begin - begin % PAGE_BYTES
            self._high = self._low
        while self._high < end:
            ahead = min(self._high + AHEAD_BYTES, segment.size_bytes)
            if page_in(segment.map[self._high : ahead]):
                self._high = ahead
                continue
            while self._high < ahead and page_in(segment.map[self._high : self._high + PAGE_BYTES]):
                self._high += PAGE_BYTES
            if self._high < ahead:
                return min(max(begin, self._high), end)
        return end


def is_record_readable(segment: Segment, begin: int) -> bool:
    """True if the record at this position, if there is one, and the header of the next one may be touched."""
    head = segment.map[begin : begin + HEADER_BYTES]
    if not page_in(head):
        return False
    size_bytes = min(int.from_bytes(head[:4], "big"), segment.size_bytes - begin)
    return page_in(segment.map[begin : begin + size_bytes + HEADER_BYTES])
