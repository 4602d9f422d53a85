"""What the compacted files of a queue say of each record, and which records a merge keeps. Pure.

A row is 72 bytes, big-endian; `docs/formats/compacted.md` draws it:

    byte 0 queue offset 8 | 8 store time 8 | 16 physical offset 8 | 24 flags 4 | 28 CRC-32 of the record 4
        32 position in the file 8 | 40 record size 4 | 44 tags code 8 | 52 key digest 16 | 68 CRC-32 of bytes 0 to 67

Rows of a queue ascend by queue offset. Records whose key digests are equal have the same key (BLAKE2b, 128 bits); a record
without a key is alone under a digest of its own. A *tombstone* is a record with an empty body: it says that its key is gone.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.void]

ROW_BYTES: Final = 72
TOMBSTONE: Final = 1
DIGEST_BYTES: Final = 16
_HEAD: Final = struct.Struct(">qqqIIqiq16s")
_ROW_TYPE: Final = [
    ("offset", ">i8"), ("stored_ms", ">i8"), ("physical", ">i8"), ("flags", ">u4"), ("crc", ">u4"),
    ("position", ">i8"), ("size", ">i4"), ("code", ">i8"), ("high", ">u8"), ("low", ">u8"), ("check", ">u4"),
]  # fmt: skip
_BYTES_PER_ROW: Final = 64  # of memory, for each row that is sorted at once


@dataclass(frozen=True, slots=True)
class CompactedRow:
    """One row. `position`: of the record in its file. `crc`: of the whole record."""

    offset: int
    stored_ms: int
    physical: int
    flags: int
    crc: int
    position: int
    size: int
    code: int
    digest: bytes

    @property
    def is_tombstone(self) -> bool:
        """Whether its record says that the key is gone."""
        return bool(self.flags & TOMBSTONE)


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A record of a compacted file that is not what its row says. `path`: of the file."""

    key: tuple[str, int]
    path: str
    row: CompactedRow

    def is_whole(self, record: bytes) -> bool:
        """Whether these are the bytes that the row names."""
        return len(record) == self.row.size and zlib.crc32(record) == self.row.crc


def key_digest(key: str, offset: int) -> bytes:
    """The digest under which a record counts; `key` "": it has none."""
    text = b"k" + key.encode() if key else b"o" + offset.to_bytes(8, "big")
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def encode_row(row: CompactedRow) -> bytes:
    """72 bytes."""
    head = _HEAD.pack(
        row.offset, row.stored_ms, row.physical, row.flags, row.crc, row.position, row.size, row.code, row.digest
    )
    return head + zlib.crc32(head).to_bytes(4, "big")


def decode_row(data: bytes | memoryview) -> CompactedRow | None:
    """The row in 72 bytes; None if they are damaged."""
    if len(data) != ROW_BYTES or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
        return None
    return CompactedRow(*_HEAD.unpack(data[:-4]))


def rows_of(data: bytes) -> Rows:
    """All rows at once, for `kept_rows`; their checksums are the caller's to check."""
    import numpy as np  # only a merge needs it

    return np.frombuffer(data, dtype=_ROW_TYPE)


def kept_rows(
    row_counts: Sequence[int], load: Callable[[int], Rows], *, tombstones_before_ms: int, memory_bytes: int
) -> list[NDArray[np.bool_]]:
    """Which rows of each file a merge keeps; `load(n)`: the rows of file n. Files and rows ascend by queue offset.

    It keeps the newest of each key, but no tombstone stored before `tombstones_before_ms`. It sorts the digests in as
    many passes as `memory_bytes` asks for; beside that it needs a byte a row, and the rows of one file.
    """
    import numpy as np

    begins = [0]
    for count in row_counts:
        begins.append(begins[-1] + count)
    is_kept = np.zeros(begins[-1], dtype=np.bool_)
    passes = max(1, -(-begins[-1] * _BYTES_PER_ROW // memory_bytes))
    for turn in range(passes if row_counts else 0):
        parts = []
        for file, begin in enumerate(begins[:-1]):
            rows = load(file)
            at = np.flatnonzero(rows["high"] % passes == turn)
            gone = (rows["flags"][at] & TOMBSTONE != 0) & (rows["stored_ms"][at] < tombstones_before_ms)
            parts.append((rows["high"][at].astype(np.uint64), rows["low"][at].astype(np.uint64), at + begin, gone))
        high, low, places, are_gone = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((low, high))  # stable: under each digest the offsets ascend
        high, low = high[order], low[order]
        is_newest = np.ones(len(order), dtype=np.bool_)
        is_newest[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        is_kept[places[order]] = is_newest & ~are_gone[order]
    return [is_kept[begin:end] for begin, end in pairwise(begins)]
