"""Flips single bits of log records in the files of a running broker, like a disk with bit rot.

A seed chooses records that begin at or above the log's begin and end at or below `limit`; in each, one bit is flipped,
anywhere. The pages are dropped from the page cache, so the next reader reads the disk.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ....record.codes import MAGIC_BLANK
from ....store.log.commit_log import COMMIT_LOG_FOLDER
from ..log_compare import HEAD

RECORDS: Final = 12


def rot(store: str, *, limit: int, seed: int, count: int = RECORDS) -> list[int]:
    """Flips a bit in each of `count` records below `limit`, an offset of the log; returns their begins, ascending.

    Fewer if there are fewer records, or if retention deletes a file meanwhile. Raises OSError.
    """
    chance = random.Random(seed)
    folder = os.path.join(store, COMMIT_LOG_FOLDER)
    records = [
        (os.path.join(folder, name), int(name), at, size_bytes)
        for name in sorted(os.listdir(folder))
        if name.isdigit() and int(name) < limit
        for at, size_bytes in _records(os.path.join(folder, name), limit - int(name))
    ]
    chosen = sorted(chance.sample(records, min(count, len(records))))
    turned = []
    for path, base, at, size_bytes in chosen:
        with suppress(FileNotFoundError):
            _turn(path, at + chance.randrange(size_bytes), 1 << chance.randrange(8))
            turned.append(base + at)
    return turned


def _records(path: str, limit: int) -> Iterator[tuple[int, int]]:
    """(position, size) of each record of a segment that ends at or below `limit`."""
    try:
        with open(path, "rb") as file:
            segment = file.read(limit)
    except FileNotFoundError:  # retention was faster
        return
    at = 0
    while at + HEAD.size <= len(segment):
        size_bytes, magic = HEAD.unpack_from(segment, at)
        if size_bytes < HEAD.size or magic == MAGIC_BLANK or at + size_bytes > len(segment):
            return
        yield at, size_bytes
        at += size_bytes


def _turn(path: str, at: int, bit: int) -> None:
    with open(path, "r+b", buffering=0) as file:
        (byte,) = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes((byte ^ bit,)), at)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
