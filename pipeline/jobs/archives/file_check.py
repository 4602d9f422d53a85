"""Checks one file of an archive against its manifest: the work of a task of `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ....record.crc32 import crc32 as checksum
from .archive_tree import ArchiveTree
from .manifest import ArchivedFile, FileRange
from .row_runs import joined, runs

CHUNK_BYTES: Final = 1 << 20
PLACE_COLUMNS: Final = ["broker", "queueId", "queueOffset"]


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The content of a file: its rows' offsets in their order. `problem`: what is wrong with it, "" if nothing is."""

    path: str
    topic: str
    ranges: tuple[FileRange, ...]
    problem: str = ""


def check_file(root: str, file: ArchivedFile) -> FileCheck:
    """Reads a file twice: as bytes, for their CRC-32, and as rows."""
    path = ArchiveTree(root).place(file.path)
    ranges: list[FileRange] = []
    problem = ""
    try:
        size_bytes, crc32 = _bytes_of(path)
        if (size_bytes, crc32) != (file.size_bytes, file.crc32):
            problem = f"{size_bytes} bytes of CRC-32 {crc32:08x}, not {file.size_bytes} of {file.crc32:08x}"
        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(columns=PLACE_COLUMNS):
                for _, _, run in runs(batch):
                    joined(ranges, run)
    except FileNotFoundError:
        problem = "it is missing"
    except (OSError, pa.ArrowException) as error:
        problem = problem or f"it cannot be read: {' '.join(str(error).split())[:200]}"
    if not problem and tuple(ranges) != file.ranges:
        problem = "its rows are not those that its manifest lists"
    return FileCheck(file.path, file.topic, tuple(ranges), problem)


def _bytes_of(path: str) -> tuple[int, int]:
    """(size, CRC-32)."""
    size_bytes = crc32 = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            size_bytes += len(chunk)
            crc32 = checksum(chunk, crc32)
    return size_bytes, crc32
