"""Chooses which of a file's unsynced pages a power failure takes: any, not only the last. Pure.

A kernel writes pages back in any order. So each page written since the last sync is on the disk as it was after any of its
writes, or before the first of them, independently of earlier pages in the file. Half of the pages keep all; of the others a
first part of the writes is kept, drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

PAGE_BYTES: Final = 4096

UndoRecord = tuple[int, int, int, bytes]
"""A write: (offset, length, size of the file before, bytes before; empty if all were zero)."""


def keeps_its_size(records: Sequence[UndoRecord], size_bytes: int) -> bool:
    """Whether the file always had this size, as a preallocated one: only then are its pages independent."""
    return all(record[2] == size_bytes for record in records)


def pages_taken_back(records: Sequence[UndoRecord], chance: random.Random) -> list[tuple[int, bytes]]:
    """(offset, bytes) to be written to the file one after another. `records`: oldest first."""
    writes_of: dict[int, list[int]] = {}
    for number, (offset, length, _, _) in enumerate(records):
        for page in range(offset // PAGE_BYTES, -(-(offset + length) // PAGE_BYTES)):
            writes_of.setdefault(page, []).append(number)
    found = []
    for page, numbers in sorted(writes_of.items()):
        kept = len(numbers) if chance.random() < 0.5 else chance.randint(0, len(numbers))
        for number in reversed(numbers[kept:]):
            offset, length, _, old = records[number]
            begin, end = max(offset, page * PAGE_BYTES), min(offset + length, (page + 1) * PAGE_BYTES)
            found.append((begin, old.ljust(length, b"\0")[begin - offset : end - offset]))
    return found
