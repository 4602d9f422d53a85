"""The manifest of a queue's compacted files: it alone says which files count. Pure.

    {8 hex digits: CRC-32 of the rest}\\n
    {"files": [[number, record bytes, rows, CRC-32 of the rows, first offset, last offset, tombstones], ...],
     "covered": queue offset, "anchor": [physical offset, size], "next": number, "merged_ms": time, "lost": count}

Everything of the queue below `covered` has been taken from the log. `anchor`: the place of message `covered` - 1, by which a
log that was cut and written anew is noticed. `next`: the number of the next file. `lost`: messages that were damaged in the
log and that no replica had.
"""

from __future__ import annotations

import json
import zlib
from typing import Final, Self

from ...model.errors import StoreFormatError
from ...model.plain_dataclass import dataclass
from .compacted_rows import ROW_BYTES

MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
_OFFSET_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file: records side by side, then a row for each. Its rows' queue offsets are within [first, last]."""

    number: int
    record_bytes: int
    rows: int
    rows_crc: int
    first: int
    last: int
    tombstones: int

    @property
    def name(self) -> str:
        """Its name in the queue's folder."""
        return f"{self.number:020d}.compacted"

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self.record_bytes + self.rows * ROW_BYTES


@dataclass(frozen=True, slots=True)
class Manifest:
    """See above. `files` ascend by queue offset, and do not overlap."""

    files: tuple[ListedFile, ...] = ()
    covered: int = 0
    anchor: tuple[int, int] = (0, 0)
    next_number: int = 0
    merged_ms: int = 0
    lost: int = 0

    @property
    def tombstones(self) -> int:
        """How many of its rows are tombstones."""
        return sum(file.tombstones for file in self.files)

    @property
    def rows(self) -> int:
        """How many records it has."""
        return sum(file.rows for file in self.files)

    @property
    def record_bytes(self) -> int:
        """How long they are together."""
        return sum(file.record_bytes for file in self.files)

    def encode(self) -> bytes:
        """The content of the file."""
        files = [[f.number, f.record_bytes, f.rows, f.rows_crc, f.first, f.last, f.tombstones] for f in self.files]
        text = json.dumps(
            {
                "files": files,
                "covered": self.covered,
                "anchor": list(self.anchor),
                "next": self.next_number,
                "merged_ms": self.merged_ms,
                "lost": self.lost,
            }
        )
        return f"{zlib.crc32(text.encode()):08x}\n{text}".encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> Self:
        """Raises StoreFormatError if they are no manifest, or a damaged one."""
        checksum, _, text = data.decode("ascii", "replace").partition("\n")
        if checksum != f"{zlib.crc32(text.encode()):08x}":
            raise StoreFormatError(path, "checksum: the list of compacted files is damaged")
        try:
            document = json.loads(text)
            files = tuple(ListedFile(*(int(value) for value in row)) for row in document["files"])
            physical, size = document["anchor"]
            found = cls(
                files,
                int(document["covered"]),
                (int(physical), int(size)),
                int(document["next"]),
                int(document["merged_ms"]),
                int(document["lost"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise StoreFormatError(path, f"no list of compacted files: {error}") from error
        found._check(path)
        return found

    def _check(self, path: str) -> None:
        before = -1
        for file in self.files:
            is_sound = before < file.first <= file.last < self.covered <= _OFFSET_LIMIT
            if not is_sound or file.rows < 1 or not 0 <= file.number < self.next_number or file.record_bytes < 1:
                raise StoreFormatError(path, f"its files contradict each other at {file.number}")
            before = file.last
