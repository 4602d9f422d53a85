"""What the bytes of one checksum file say. Pure.

    | entry | entry | ... | entry | gap, or zeros | zeros laid ahead ... |
     16 bytes each, ascending       where the entries end

Entries meet their neighbours: each append begins where the one before it ended. A bit of its offset or its length that has
rotted lets an entry miss the next one. So one that misses it, or that is the last and misses the one before, is `loose`:
where the log does not agree with it, nothing is known to be wrong with the log. Entries are missing there, or it has rotted
itself. One that cannot be true beside its neighbours is passed over.

A *gap* says that entries are missing from there on, though the log goes on: a full disk cost them, a killed process had
not written them yet, or RocketMQ wrote that part. The next entry takes its place. Without one, what follows the last entry
was never flushed: entries reach the disk before anybody is told so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

from ...model.queue import PhysicalOffset

ENTRY: Final = struct.Struct(">QII")
GAP_LENGTH: Final = 0xFFFF_FFFF  # in place of a length
Raw = tuple[int, int, int]
_ZEROS: Final[Raw] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class ChecksumEntry:
    """One append: bytes [offset, offset + length) of the commit log had this CRC-32. `is_loose`: see above."""

    offset: PhysicalOffset
    length: int
    crc: int
    is_loose: bool = False

    @property
    def end(self) -> PhysicalOffset:
        """Just past the append."""
        return PhysicalOffset(self.offset + self.length)


@dataclass(frozen=True, slots=True)
class Suspect:
    """An entry that cannot be true, or is loose. [begin, end): what lies between its neighbours in the log, which it should
    cover; `end` None where it is the last."""

    slot: int
    raw: Raw
    begin: int
    end: int | None
    may_be_true: bool


@dataclass(frozen=True, slots=True)
class RottenEntry:
    """A slot that agrees with nothing, in the file of the segment that begins at `base`, of the append at `offset`. `right`:
    what it was, where that is sure."""

    base: int
    slot: int
    raw: Raw
    offset: int
    right: ChecksumEntry | None

    def __str__(self) -> str:
        return f"checksum/{self.base:020d} entry {self.slot}"


def raws_in(data: bytes) -> Iterator[Raw]:
    """The slots that a file's bytes hold, whatever they say."""
    return ENTRY.iter_unpack(memoryview(data)[: len(data) - len(data) % ENTRY.size])


def entries_in(
    raws: Iterator[Raw], *, begin: int, limit: int, suspects: list[Suspect] | None = None
) -> Iterator[tuple[int, ChecksumEntry]]:
    """(slot, entry) of each entry that may be true, ascending; they cover bytes of the segment [begin, limit). `suspects` gets
    those that are doubtful, each before the entry behind it is given."""
    raws = chain(raws, repeat(_ZEROS))
    reached, slot = begin, 0
    found, following = next(raws), next(raws)
    while found != _ZEROS and found[1] != GAP_LENGTH:
        after = next(raws)
        offset, length, crc = found
        is_wrong = _is_wrong(found, following, after, reached, limit)
        is_met = offset == reached if _is_end(following) else offset + length == following[0]
        if suspects is not None and (is_wrong or not is_met):
            suspects.append(Suspect(slot, found, reached, None if _is_end(following) else following[0], not is_wrong))
        if not is_wrong:
            yield slot, ChecksumEntry(PhysicalOffset(offset), length, crc, not is_met)
            reached = offset + length
        slot += 1
        found, following = following, after


def _is_end(raw: Raw) -> bool:
    return raw == _ZEROS or raw[1] == GAP_LENGTH


def _is_wrong(found: Raw, following: Raw, after: Raw, reached: int, limit: int) -> bool:
    """Whether an entry cannot be true: not by itself, or not beside the next one, which agrees with the one after it."""
    offset, length, _ = found
    end = offset + length
    if not length or offset < reached or end > limit:
        return True
    next_end = following[0] + following[1]
    is_before_next = _is_end(following) or end <= following[0]
    return not is_before_next and next_end <= limit and (next_end == after[0] or _is_end(after))


def slots_in(data: bytes, *, begin: int, limit: int) -> int:
    """How many slots of a file lie before its end: where the next entry belongs."""
    return max((slot + 1 for slot, _ in entries_in(raws_in(data), begin=begin, limit=limit)), default=0)


def has_gap(data: bytes, slots: int) -> bool:
    """Whether behind its slots the file says that entries are missing."""
    at = slots * ENTRY.size
    return len(data) >= at + ENTRY.size and ENTRY.unpack_from(data, at)[1] == GAP_LENGTH


def pack_gap(offset: int) -> bytes:
    """What says that entries are missing from `offset` on."""
    return ENTRY.pack(offset, GAP_LENGTH, 0)
