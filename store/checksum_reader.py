"""Finds the checksum entries of one place in the log, without reading their file from its beginning.

The entries of a file ascend, so where one begins is found by halving. A file that is damaged itself may hide entries:
the bytes that they cover then count as unvouched, never as damaged. Any thread; each call opens its file anew.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from typing import Final

from ..model.queue import PhysicalOffset
from .checksum_log import ENTRY, ChecksumEntry
from .segment import segment_name

logger = logging.getLogger(__name__)

_READ_ENTRIES: Final = 512


class ChecksumReader:
    """Of one checksum directory, which need not exist."""

    def __init__(self, directory: str, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes

    def overlapping(self, begin: int, end: int) -> list[ChecksumEntry]:
        """The written entries that share a byte with [begin, end), which lies in one segment; ascending.

        None of them where their file cannot be read: then nothing vouches for these bytes.
        """
        base = begin - begin % self._segment_bytes
        try:
            fd = os.open(os.path.join(self._directory, segment_name(base)), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            return self._read(fd, base, begin, end)
        except OSError as error:
            logger.warning("checksums cannot be read base=%s error=%s", base, error)
            return []
        finally:
            os.close(fd)

    def _read(self, fd: int, base: int, begin: int, end: int) -> list[ChecksumEntry]:
        count = os.fstat(fd).st_size // ENTRY.size
        index = max(0, bisect_right(range(count), begin, key=lambda at: _offset_at(fd, at)) - 1)
        found: list[ChecksumEntry] = []
        expected = base
        while index < count:
            data = os.pread(fd, _READ_ENTRIES * ENTRY.size, index * ENTRY.size)
            for at in range(0, len(data) - ENTRY.size + 1, ENTRY.size):
                offset, length, crc = ENTRY.unpack_from(data, at)
                if offset >= end or length == 0 or offset < expected or offset + length > base + self._segment_bytes:
                    return found
                expected = offset + length
                if expected > begin:
                    found.append(ChecksumEntry(PhysicalOffset(offset), length, crc))
            index += _READ_ENTRIES
        return found


def _offset_at(fd: int, index: int) -> int:
    return int.from_bytes(os.pread(fd, 8, index * ENTRY.size), "big")
