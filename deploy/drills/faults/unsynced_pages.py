"""Chooses which of a file's unsynced pages a power failure takes: any, not only the last. Pure.

A kernel writes a page back when it likes. So each page that was written since the last sync is on the disk as it was after
any of its writes, or before the first of them; what came before it in the file says nothing about it. Half of the pages
keep all, of the others a first part of the writes is kept, drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

PAGE_BYTES: Final = 4096

UndoRecord = tuple[int, int, int, bytes]
"""(offset, length, size of the file before, bytes that were there before; none where all were zero) of a write."""


def keeps_its_size(records: Sequence[UndoRecord], size_bytes: int) -> bool:
    """Whether the file was as long all the while, as one that is allocated ahead: only then are its pages on their own."""
    return all(record[2] == size_bytes for record in records)


def pages_taken_back(records: Sequence[UndoRecord], chance: random.Random) -> list[tuple[int, bytes]]:
    """(offset, bytes) to be written one after another into the file. `records`: oldest first."""
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
