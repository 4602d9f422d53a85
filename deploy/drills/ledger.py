"""The records of a drill: messages with checksums, acknowledgements, and what is stored at the end. Pure.

    body    producer u16 | sequence u64 | run u32 | filler | CRC-32 of all that        little-endian

A *message* is (producer, sequence), a *place* is (queue, queue offset). Both fit one 64-bit number, so that millions of
them are compared as columns. One run uses one topic; the *number* of a queue includes the replica group.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[Any]
Numbers = npt.NDArray[np.uint64]

HEAD: Final = struct.Struct("<HQI")
TAIL: Final = struct.Struct("<I")
BODY_BYTES_MIN: Final = HEAD.size + TAIL.size
FILLER_TURN: Final = 251  # fillers of consecutive messages begin at different bytes

ACKNOWLEDGED: Final = np.dtype(
    [
        ("sequence", "<u8"),
        ("queue_offset", "<u8"),
        ("physical_offset", "<u8"),
        ("time_ns", "<u8"),  # monotonic time of the reply
        ("checksum", "<u4"),  # CRC-32 of the sent body
        ("producer", "<u2"),
        ("queue", "<u2"),  # its number
    ]
)
"""A row per message whose send returned; the file of a load process is these rows, one after another."""

ACKNOWLEDGED_ROW: Final = struct.Struct("<QQQQIHH")

STORED: Final = np.dtype(
    [
        ("sequence", "<u8"),
        ("queue_offset", "<u8"),
        ("physical_offset", "<u8"),
        ("checksum", "<u4"),  # CRC-32 of the body as read
        ("producer", "<u2"),
        ("queue", "<u2"),
    ]
)
"""A row per message that a replica returned when everything was read."""

STORED_ROW: Final = struct.Struct("<QQQIHH")

QUEUES_MAX: Final = 1024
"""The most queues of a topic in one group."""

NOBODY: Final = 0xFFFF
"""The producer of a body with a wrong checksum."""


class Bodies:
    """Makes the bodies of one producer. One thread."""

    def __init__(self, run: int, producer: int, body_bytes: int) -> None:
        """`run`: 32 bits that differ from those of other runs. `body_bytes`: at least BODY_BYTES_MIN."""
        self._run, self._producer = run, producer
        self._filler_bytes = body_bytes - BODY_BYTES_MIN
        self._pool = bytes((producer * 7 + k * k) & 0xFF for k in range(self._filler_bytes + FILLER_TURN))

    def make(self, sequence: int) -> bytes:
        """The body of one message; always the same for the same number."""
        begin = sequence % FILLER_TURN
        content = HEAD.pack(self._producer, sequence, self._run) + self._pool[begin : begin + self._filler_bytes]
        return content + TAIL.pack(zlib.crc32(content))


def read_body(body: bytes, run: int) -> tuple[int, int]:
    """(producer, sequence) of a body; (NOBODY, 0) if it is of another run, or damaged."""
    if len(body) < BODY_BYTES_MIN:
        return NOBODY, 0
    producer, sequence, its_run = HEAD.unpack_from(body)
    (checksum,) = TAIL.unpack_from(body, len(body) - TAIL.size)
    if its_run != run or zlib.crc32(memoryview(body)[: -TAIL.size]) != checksum:
        return NOBODY, 0
    return producer, sequence


def queue_number(group: int, queue_id: int) -> int:
    """A queue of replica group number `group` (by name), as one number of 16 bits."""
    return group * QUEUES_MAX + queue_id


def of_group(rows: Table, group: int) -> Table:
    """The rows with queues of that group."""
    kept: Table = rows[rows["queue"] // QUEUES_MAX == group]
    return kept


def by_producer(rows: Table) -> tuple[Numbers, ...]:
    """The times of each producer's acknowledgements; `rows` of ACKNOWLEDGED, by time."""
    return tuple(rows["time_ns"][rows["producer"] == producer] for producer in np.unique(rows["producer"]))


def messages_of(rows: Table) -> Numbers:
    """Each row's message as one number."""
    return _joined(rows["producer"], rows["sequence"])


def places_of(rows: Table) -> Numbers:
    """Each row's place as one number; ascending within a queue."""
    return _joined(rows["queue"], rows["queue_offset"])


def distinct(numbers: Numbers) -> Numbers:
    """Each number once, ascending.

    By a sort: the hash table of `np.unique` takes twenty times as long for numbers in runs, as these are.
    """
    listed = np.sort(numbers, kind="stable")
    is_new = np.ones(len(listed), dtype=np.bool_)
    is_new[1:] = listed[1:] != listed[:-1]
    kept: Numbers = listed[is_new]
    return kept


def are_in(numbers: Numbers, known: Numbers) -> npt.NDArray[np.bool_]:
    """For each number whether it is one of `known`, which are `distinct`."""
    if not len(known):
        return np.zeros(len(numbers), dtype=np.bool_)
    at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[at] == numbers
    return found


def split(number: int) -> tuple[int, int]:
    """The reverse for one number: (producer, sequence) or (queue, queue offset)."""
    return number >> 48, number & 0xFFFF_FFFF_FFFF


def _joined(high: Table, low: Table) -> Numbers:
    joined: Numbers = (high.astype(np.uint64) << np.uint64(48)) | low
    return joined
