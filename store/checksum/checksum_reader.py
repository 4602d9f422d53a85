"""Finds the checksum entries of one place in the log, without reading their file from the beginning.

The entries of a file ascend, so a binary search finds them. If a rotten entry misleads the search,
the file is read from its beginning. Any thread; each call opens its file again.

In an open log the waiting entries are written first, so that an append is never judged without its entry
because it was read too soon.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ..log.segment import segment_name
from .checksum_entry import ENTRY, ChecksumEntry, Raw, Suspect, entries_in, raws_in

logger = logging.getLogger(__name__)

_READ_ENTRIES: Final = 512
_BEFORE: Final = 3  # so many slots before the first one behind a position: its entry, with one that it must meet


class ChecksumReader:
    """Reads one checksum directory, which need not exist. `write_out(end)`: writes the waiting entries of appends
    below `end`."""

    def __init__(
        self, directory: str, segment_bytes: int, *, write_out: Callable[[int], None] = lambda _end: None
    ) -> None:
        self._write_out = write_out
        self._directory = directory
        self._segment_bytes = segment_bytes

    def overlapping(self, begin: int, end: int) -> list[ChecksumEntry]:
        """The written entries that share a byte with [begin, end), which is in one segment; ascending.

        None of them if their file cannot be read: then no checksum covers these bytes.
        """
        return self.looked_up(begin, end)[0]

    def looked_up(self, begin: int, end: int) -> tuple[list[ChecksumEntry], list[Suspect]]:
        """`overlapping`, and the doubtful entries of the same place. Raises StorePoisoned."""
        self._write_out(end)
        base = begin - begin % self._segment_bytes
        try:
            fd = os.open(os.path.join(self._directory, segment_name(base)), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return [], []
        try:
            return self._read(fd, base, begin, end)
        except OSError as error:
            logger.warning("checksums cannot be read base=%s error=%s", base, error)
            return [], []
        finally:
            os.close(fd)

    def end_before(self, offset: int) -> int:
        """The last position at or before `offset` where an append with an entry ends or the segment begins;
        `offset` itself if it is inside an append with an entry. Raises StorePoisoned."""
        self._write_out(offset + 1)
        base = offset - offset % self._segment_bytes
        try:
            fd = os.open(os.path.join(self._directory, segment_name(base)), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return base
        try:
            near = bisect_right(
                range(os.fstat(fd).st_size // ENTRY.size), offset, key=lambda slot: _offset_in(fd, slot)
            )
            found = base
            for _, entry in entries_in(
                _raws_from(fd, max(0, near - _BEFORE)), begin=base, limit=base + self._segment_bytes
            ):
                if entry.offset > offset:
                    break
                found = found if entry.is_loose else min(entry.end, offset)
            return found
        except OSError as error:
            logger.warning("checksums cannot be read base=%s error=%s", base, error)
            return base
        finally:
            os.close(fd)

    def _read(self, fd: int, base: int, begin: int, end: int) -> tuple[list[ChecksumEntry], list[Suspect]]:
        count = os.fstat(fd).st_size // ENTRY.size
        near = bisect_right(range(count), begin, key=lambda slot: _offset_in(fd, slot)) - _BEFORE
        suspects: list[Suspect] = []
        found, is_complete = self._from_slot(fd, max(0, near), base, begin, end, suspects)
        if not is_complete:
            suspects.clear()
            found, _ = self._from_slot(fd, 0, base, begin, end, suspects)
        return found, [one for one in suspects if one.begin < end and (one.end is None or one.end > begin)]

    def _from_slot(
        self, fd: int, first: int, base: int, begin: int, end: int, suspects: list[Suspect]
    ) -> tuple[list[ChecksumEntry], bool]:
        """(the wanted entries in slot `first` or behind it, whether no wanted one can be before it)."""
        found: list[ChecksumEntry] = []
        is_complete = not first
        limit = base + self._segment_bytes
        for slot, entry in entries_in(_raws_from(fd, first), begin=base, limit=limit, suspects=suspects):
            if entry.offset >= end:
                break
            if entry.end > begin and (slot or is_complete):
                found.append(entry)
            elif entry.end <= begin:
                is_complete = True
        # the neighbours of the first slot are not known
        suspects[:] = [replace(one, slot=one.slot + first) for one in suspects if one.slot or not first]
        return found, is_complete


def _offset_in(fd: int, slot: int) -> int:
    """The begin of the append of a slot; for a slot of zeros, behind everything."""
    raw: Raw = ENTRY.unpack(os.pread(fd, ENTRY.size, slot * ENTRY.size))
    return raw[0] if any(raw) else 1 << 64


def _raws_from(fd: int, slot: int) -> Iterator[Raw]:
    while data := os.pread(fd, _READ_ENTRIES * ENTRY.size, slot * ENTRY.size):
        yield from raws_in(data)
        slot += _READ_ENTRIES
