"""The records of simulated logs: fixed size, so that logs are compared as bytes and torn ones are seen.

number 4 | epoch 4 | producer 2 | queue 2 | sequence 4 | queue offset 4 | magic 4
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LAYOUT: Final = struct.Struct(">IIHHIII")
MAGIC: Final = 0x5A454E49
RECORD: Final = LAYOUT.size
SEGMENT: Final = 16 * RECORD


@dataclass(frozen=True, slots=True)
class SimulatedRecord:
    """`number`: unlike any other's. `sequence`: of the producer's messages. `queue_offset`: n-th of its queue."""

    number: int
    epoch: int
    producer: int
    queue: int
    sequence: int
    queue_offset: int

    def encode(self) -> bytes:
        """Its bytes."""
        return LAYOUT.pack(self.number, self.epoch, self.producer, self.queue, self.sequence, self.queue_offset, MAGIC)


def decode(data: bytes | bytearray, begin: int) -> SimulatedRecord:
    """The record at `begin`, which is whole."""
    *fields, magic = LAYOUT.unpack_from(data, begin)
    assert magic == MAGIC, f"no record at {begin}"
    return SimulatedRecord(*fields)


def whole_end(data: bytearray, begin: int) -> int:
    """Where the whole records from `begin` on end."""
    end = begin
    while end + RECORD <= len(data) and data[end + RECORD - 4 : end + RECORD] == b"ZENI":
        end += RECORD
    return end


def has_record(data: bytearray, begin: int) -> bool:
    """Whether a whole record lies behind the one that should be at `begin`."""
    return any(data[at - 4 : at] == b"ZENI" for at in range(begin + 2 * RECORD, len(data) + 1, RECORD))


def next_record(data: bytearray, begin: int) -> int:
    """Where the first whole record behind the one that should be at `begin` begins; there is one (`has_record`)."""
    at = begin + RECORD
    while data[at + RECORD - 4 : at + RECORD] != b"ZENI":
        at += RECORD
    return at


def records_in(data: bytearray, begin: int, end: int) -> Iterator[SimulatedRecord]:
    """The records of [begin, end), all whole."""
    return (decode(data, at) for at in range(begin, end, RECORD))


def cut_at(begin: int, limit: int) -> int:
    """The end of the last whole record in [begin, limit); at least of the first."""
    return max(begin + RECORD, limit // RECORD * RECORD)
