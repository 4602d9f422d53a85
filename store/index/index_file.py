"""One index file: a hash table on disk from key hashes to physical offsets, RocketMQ's layout (`docs/formats/index_file.md`).

    header 40 | slots: 4 bytes each | entries: 20 bytes each, entry 0 never used

A slot holds the number of its newest entry, and an entry that of the former one in the same slot. We keep two quirks of
RocketMQ: the count begins at 1; a new file's header holds the end values of the file before until the first
entry comes, and that entry's time difference is counted from there.

The loop thread inserts, any thread searches: `index_insert` and `index_search` run under the GIL, each as one step.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import astuple, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from ...model.errors import StoreFormatError
from ...record.codes import ENTRY_BYTES, INDEX_HEADER_BYTES
from ...record.kernel import index_insert, index_search
from ...record.layout import INDEX_ENTRY, INDEX_HEADER
from ..log.segment import MappedFile, disk_error

if TYPE_CHECKING:
    import numpy as np

SLOT_BYTES: Final = 4
_SAMPLED: Final = 4096  # entries examined to determine a file's slot count
_ENTRIES_PER_SLOT: Final = (4, 2, 1, 3, 5, 6, 8, 10, 16, 20)
_DIFFERENCE_MAX: Final = 0x7FFFFFFF


@cache
def _entry_type() -> np.dtype[np.void]:
    import numpy as np  # only an opening needs it

    return np.dtype([("hash", ">u4"), ("offset", ">i8"), ("difference", ">i4"), ("previous", ">u4")])


def index_file_bytes(slots: int, entries: int) -> int:
    """The size of an index file."""
    return INDEX_HEADER_BYTES + SLOT_BYTES * slots + ENTRY_BYTES * entries


@dataclass(slots=True)
class IndexHeader:
    """The content of the first 40 bytes. Times in ms, offsets physical; `count`: number of the next entry.

    Never changed once it is made, since other threads read it; not frozen, because one is made for every put.
    """

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots_used: int = 0
    count: int = 1


class IndexFile:
    """One mapped index file."""

    __slots__ = ("_count_max", "_file", "entries", "header", "path", "slots")

    def __init__(self, path: str, *, slots: int, entries: int, writable: bool = True) -> None:
        """Raises StoreFormatError if size, header or first entry do not fit, OSError."""
        self._file = MappedFile(path, index_file_bytes(slots, entries), writable=writable)
        self.path = path
        self.slots = slots
        self.entries = entries
        self._count_max = entries  # the limit of the header's count
        values = list(INDEX_HEADER.unpack_from(self._file.map))
        values[5] = max(values[5], 1)
        self.header = IndexHeader(*values)
        if self.header.count > entries:
            self._file.close()
            raise StoreFormatError(path, f"its header counts {self.header.count} entries where {entries} fit")
        if not 0 <= self.header.slots_used <= slots:
            self._file.close()
            raise StoreFormatError(path, f"its header counts {self.header.slots_used} used slots of {slots}")
        if not self.is_unused and self.entry_offset(1) != self.header.begin_offset:
            first = self.entry_offset(1)
            self._file.close()
            raise StoreFormatError(
                path, f"its header begins at {self.header.begin_offset}, its first entry is of {first}"
            )

    @property
    def room(self) -> int:
        """The number of entries that still fit."""
        return self._count_max - self.header.count

    def reserve(self) -> None:
        """Fills the holes of the file before anything is inserted: RocketMQ's files have holes, and a write to one through the
        map, on a full disk, ends the process. Raises StoreNotWriteable (no room), StorePoisoned, OSError."""
        try:
            self._file.reserve()
        except OSError as error:
            raise disk_error(error, f"filling the holes of {self.path}") from error

    def seal(self) -> None:
        """Nothing is inserted from here on."""
        self._count_max = self.header.count

    @property
    def is_unused(self) -> bool:
        """True if no entry was ever inserted."""
        return self.header.count <= 1

    def set_header(self, header: IndexHeader) -> None:
        """Writes the header."""
        INDEX_HEADER.pack_into(self._file.map, 0, *astuple(header))
        self.header = header

    def prime(self, before: IndexHeader) -> None:
        """Copies the end values of the file before, as RocketMQ does for a new file."""
        end_ms, end = before.end_timestamp_ms, before.end_offset
        self.set_header(IndexHeader(end_ms, end_ms, end, end))

    def put(self, hashes: memoryview, offsets: memoryview, begin: int, end: int, store_timestamp_ms: int) -> None:
        """Inserts keys [begin, end), all of records with one store time; there must be `room`."""
        header = self.header
        first_ms, first_offset = header.begin_timestamp_ms, header.begin_offset
        opened, number = 0, header.count
        if number <= 1:
            opened = self._insert(
                hashes, offsets, begin, begin + 1, number, store_timestamp_ms - first_ms if first_ms else 0
            )
            first_ms, first_offset = store_timestamp_ms, offsets[begin]
            begin, number = begin + 1, number + 1
        if begin < end:
            opened += self._insert(hashes, offsets, begin, end, number, store_timestamp_ms - first_ms)
        number += end - begin
        used = header.slots_used + opened
        last_offset = offsets[end - 1]
        INDEX_HEADER.pack_into(self._file.map, 0, first_ms, store_timestamp_ms, first_offset, last_offset, used, number)
        self.header = IndexHeader(first_ms, store_timestamp_ms, first_offset, last_offset, used, number)

    def _insert(
        self, hashes: memoryview, offsets: memoryview, begin: int, end: int, number: int, difference_ms: int
    ) -> int:
        difference_s = min(max(difference_ms, 0) // 1000, _DIFFERENCE_MAX)
        return int(index_insert(self._file.map, self.slots, number, hashes, offsets, begin, end, difference_s))

    def search(
        self, key_hash: int, *, begin_ms: int, end_ms: int, below: int, behind: int, steps_max: int, found_max: int
    ) -> tuple[list[int], int, int, bool]:
        """Physical offsets under `below` for a hash, newest first, at about that time: to the second, and hashes collide.

        And the last entry examined, its offset (0, 0 if none was), and whether `steps_max` or `found_max` ended the search.
        `behind`: such an entry of an earlier search; it is tested, so any number may be given.
        """
        header = self.header
        view = self._file.map  # pins it; empty if the expired file is being deleted: nothing is found then
        if self.is_unused or not len(view) or header.begin_offset >= below:
            return [], 0, 0, False
        if end_ms < header.begin_timestamp_ms or begin_ms > header.end_timestamp_ms + 999:
            return [], 0, 0, False
        earliest_s = (begin_ms - header.begin_timestamp_ms) // 1000 - 1
        latest_s = (end_ms - header.begin_timestamp_ms) // 1000 + 1
        found, last, has_more = index_search(
            view, self.slots, header.count, key_hash, earliest_s, latest_s, found_max, below, behind, steps_max
        )
        return found, last, INDEX_ENTRY.unpack_from(view, self._entry_at(last))[1] if last else 0, has_more

    def keys_at_end(self) -> int:
        """How many of the last entries belong to the last record: more of its keys may be missing after a crash."""
        number = self.header.count - 1
        while number > 0 and self.entry_offset(number) == self.header.end_offset:
            number -= 1
        return self.header.count - 1 - number

    def _entry_at(self, number: int) -> int:
        return INDEX_HEADER_BYTES + SLOT_BYTES * self.slots + ENTRY_BYTES * number

    def count_below(self, offset: int) -> int:
        """Number of the first entry whose record is not below `offset`; entries ascend by offset.

        All entries below `offset` must have reached the disk. If a power failure kept others from it, the old bytes are there:
        zeros, or entries of an expired file, which are below all of this one.
        """
        first, numbers = self.header.begin_offset, range(1, self.header.count)
        return 1 + bisect_left(numbers, x=True, key=lambda number: not first <= self.entry_offset(number) < offset)

    def entry_offset(self, number: int) -> int:
        """The physical offset in an entry."""
        return int(INDEX_ENTRY.unpack_from(self._file.map, self._entry_at(number))[1])

    def cut(self, count: int, end_timestamp_ms: int) -> None:
        """Keeps the entries below number `count`, the last of which has that time; rebuilds the slots from them.

        After a crash the slots may refer to entries that never reached the disk: the entries decide.
        """
        import numpy as np

        entries = self._entries_array(1, count)
        slots = np.zeros(self.slots, dtype=">u4")
        slots[entries["hash"] % self.slots] = np.arange(1, count, dtype=np.uint32)  # of equal slots the last one stays
        at = INDEX_HEADER_BYTES
        self._file.map[at : at + SLOT_BYTES * self.slots] = slots.tobytes()
        used = int(np.count_nonzero(slots))
        last_offset = self.entry_offset(count - 1) if count > 1 else self.header.begin_offset
        self.set_header(
            replace(
                self.header, end_timestamp_ms=end_timestamp_ms, end_offset=last_offset, slots_used=used, count=count
            )
        )

    def populate_slots(self) -> None:
        """Touches the pages of header and slots, off the GIL, so that the first keys need not."""
        self._file.populate(0, INDEX_HEADER_BYTES + SLOT_BYTES * self.slots, writing=True)

    def populate_entries(self, begin: int, end: int) -> None:
        """The same for entries [begin, end), as far as they exist."""
        last = min(end, self.entries)
        if begin < last and self._file.map:
            self._file.populate(self._entry_at(begin), self._entry_at(last), writing=True)

    def _entries_array(self, begin: int, end: int) -> np.ndarray:
        import numpy as np

        return np.frombuffer(self._file.map, dtype=_entry_type(), count=end - begin, offset=self._entry_at(begin))

    def chains_hold(self) -> bool:
        """True if entries are on the chains of the slots that their hashes name: False for a wrong slot count.

        After a power failure the slots may refer to more entries than the header.
        """
        import numpy as np

        count = self.header.count
        entries = self._entries_array(1, min(count, _SAMPLED))
        slot_of = entries["hash"] % self.slots
        previous = entries["previous"].astype(np.int64)
        if np.any(previous > np.arange(len(entries))):
            return False
        linked = previous > 0
        if np.any(slot_of[linked] != slot_of[previous[linked] - 1]):
            return False
        slots = np.frombuffer(self._file.map, dtype=">u4", count=self.slots, offset=INDEX_HEADER_BYTES)
        newest = slots[slot_of]
        return bool(np.all(newest > np.arange(len(entries))) and np.all(newest < self.entries))

    def open_fd(self) -> int:
        """A descriptor for making the entries durable (`fdatasync`)."""
        return self._file.open_fd()

    def close(self) -> bool:
        """Unmaps the file; False if a search still uses it."""
        return self._file.close()


def find_slot_count(path: str, size_bytes: int, *, slots: int, entries: int) -> tuple[int, int] | None:
    """(slots, entries) of an existing file: the expected ones if they fit, otherwise those that match its chains; or None.

    Raises OSError.
    """
    candidates = [(slots, entries)] if index_file_bytes(slots, entries) == size_bytes else []
    for ratio in _ENTRIES_PER_SLOT:
        count, rest = divmod(size_bytes - INDEX_HEADER_BYTES, SLOT_BYTES + ENTRY_BYTES * ratio)
        if rest == 0 and count > 0:
            candidates.append((count, count * ratio))
    for slot_count, entry_count in candidates:
        try:
            file = IndexFile(path, slots=slot_count, entries=entry_count, writable=False)
        except StoreFormatError:
            continue
        try:
            if file.chains_hold():
                return slot_count, entry_count
        finally:
            file.close()
    return None
