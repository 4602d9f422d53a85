"""The entries in the bytes of one checksum file. Pure.

    | entry | entry | ... | entry | gap, or zeros | zeros laid ahead ... |
     16 bytes each, ascending       where the entries end

Entries meet their neighbours: each append begins where the one before it ended. An entry with a rotten bit in its offset or
length misses the next one. So an entry that misses the next one, or that is the last and misses the one before, is `loose`:
if the log does not match it, that does not prove damage of the log. Either entries are missing there, or the entry itself has
rotted. An entry that its neighbours prove false is skipped.

A *gap* says that entries are missing from there on, though the log continues: a full disk cost them, a killed process had
not written them yet, or RocketMQ wrote that part. The next entry replaces it. Without a gap, bytes behind the last entry
were never flushed: entries reach the disk before a flush is reported.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final

from ...model.plain_dataclass import dataclass
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
    """An entry that is false, or loose. [begin, end): the part of the log between its neighbours, which it should
    cover; `end` None if it is the last."""

    slot: int
    raw: Raw
    begin: int
    end: int | None
    may_be_true: bool


@dataclass(frozen=True, slots=True)
class RottenEntry:
    """A slot that matches nothing, in the file of the segment that begins at `base`, for the append at `offset`. `right`:
    its right value, if that is certain."""

    base: int
    slot: int
    raw: Raw
    offset: int
    right: ChecksumEntry | None

    def __str__(self) -> str:
        return f"checksum/{self.base:020d} entry {self.slot}"


def raws_in(data: bytes) -> Iterator[Raw]:
    """The slots in a file's bytes, unchecked."""
    return ENTRY.iter_unpack(memoryview(data)[: len(data) - len(data) % ENTRY.size])


def entries_in(
    raws: Iterator[Raw], *, begin: int, limit: int, suspects: list[Suspect] | None = None
) -> Iterator[tuple[int, ChecksumEntry]]:
    """(slot, entry) of each entry that may be true, ascending; they cover bytes of the segment [begin, limit). `suspects` gets
    the doubtful ones, each before the entry behind it is yielded."""
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
    """True if an entry is false: by itself, or because the next one, which matches the one after it, contradicts it."""
    offset, length, _ = found
    end = offset + length
    if not length or offset < reached or end > limit:
        return True
    next_end = following[0] + following[1]
    is_before_next = _is_end(following) or end <= following[0]
    return not is_before_next and next_end <= limit and (next_end == after[0] or _is_end(after))


def slots_in(data: bytes, *, begin: int, limit: int) -> int:
    """The number of slots before a file's end: where the next entry belongs."""
    return max((slot + 1 for slot, _ in entries_in(raws_in(data), begin=begin, limit=limit)), default=0)


def has_gap(data: bytes, slots: int) -> bool:
    """True if the file says, behind its slots, that entries are missing."""
    at = slots * ENTRY.size
    return len(data) >= at + ENTRY.size and ENTRY.unpack_from(data, at)[1] == GAP_LENGTH


def pack_gap(offset: int) -> bytes:
    """The mark that entries are missing from `offset` on."""
    return ENTRY.pack(offset, GAP_LENGTH, 0)
