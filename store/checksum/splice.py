"""Combines two copies of one append, each with damage of its own, into the right bytes. Pure.

At each place where they differ one of them is right; only the checksum of the append tells which. So all
combinations are tried: rotten disks have few such places, and close ones count as one. A wrong combination passes by chance
once in 2^32, so a few dozen of them are safe.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from ...record.crc32 import crc32

NEAR_BYTES: Final = 64  # differing bytes this close are of one place
PLACES_MAX: Final = 5
BYTES_MAX: Final = 4 << 20  # of a copy: the loop waits meanwhile

_DIFFERENT: Final = re.compile(rb"[^\0]+")

Place = tuple[int, int]


def spliced(ours: bytes, theirs: bytes, crc: int) -> bytes | None:
    """The common original of two copies, by its CRC-32; None if no combination has it, they differ in
    too many places, or are too long."""
    if len(ours) != len(theirs) or len(ours) > BYTES_MAX:
        return None
    places = differing(ours, theirs)
    if places is None:
        return None
    for choice in product((ours, theirs), repeat=len(places)):
        tried = bytearray(ours)
        for (begin, end), copy in zip(places, choice, strict=True):
            tried[begin:end] = copy[begin:end]
        if crc32(tried) == crc:
            return bytes(tried)
    return None


def differing(ours: bytes, theirs: bytes) -> list[Place] | None:
    """Where two copies of equal length differ, [begin, end) each, ascending; None if these are more than PLACES_MAX."""
    difference = (int.from_bytes(ours, "little") ^ int.from_bytes(theirs, "little")).to_bytes(len(ours), "little")
    places: list[Place] = []
    for found in _DIFFERENT.finditer(difference):
        begin, end = found.span()
        if places and begin - places[-1][1] < NEAR_BYTES:
            places[-1] = (places[-1][0], end)
        elif len(places) == PLACES_MAX:
            return None
        else:
            places.append((begin, end))
    return places
