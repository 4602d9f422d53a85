"""What waits, by due time: an ordered store that follows the log, and in memory the changes it does not have yet. Pure.

    log      ... | waits P1 | ends P0 | waits P2 |          each is one change, in the order of the log
    store    holds the changes below `reflected`
    journal  the later changes: a worker writes those that may be written (`take`), then the loop drops them (`settle`)
    window   what is due soon, earliest first: all that waits and is due before `horizon`, from both store and journal

An entry is (due time, physical offset of the waiting record). The next read of the store begins at the horizon, so it never
scans delivered entries again. An entry whose record is damaged is set *aside*: it is in no window, and waits until its
record is whole, or is *lost*. The loop owns the table; the worker may call `take`, whose copy of the list is atomic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import Final, Protocol

Entry = tuple[int, int]
"""(due, ms since the epoch; physical offset of the waiting record)."""

ENDED: Final = -1  # in place of the due time in a change: the wait ends

LOOK_AHEAD_MS: Final = 1000

_START: Final[Entry] = (0, 0)
_NEVER_MS: Final = (1 << 63) - 1
_SEARCH_STEP: Final = 100


class OrderedStore(Protocol):
    """The durable part of the table (store/rocksdb_waits)."""

    reflected: int
    count: int

    def due_of(self, offset: int) -> int | None:
        """When the record at this offset is due; None if it does not wait."""

    def due_from(self, due_ms: int, offset: int, *, until_ms: int, count_max: int) -> list[Entry]:
        """Entries from this one on, due up to `until_ms`, by due time."""

    def below(self, offset: int, *, count_max: int, begin: int = 0) -> list[int]:
        """Offsets of waiting records, from `begin` on and below `offset`, in the order of the log."""


class WaitingTable:
    """The waits of one broker. `count`: how many there are."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._journal: list[
            tuple[int, int, int]
        ] = []  # (end of the record that makes the change, due or ENDED, offset)
        self._fresh: dict[int, int] = {}  # {offset: due} of waits that the store may not have yet
        self._ended: set[int] = set()  # offsets whose wait has ended, which the store may not know yet
        self._ending: set[int] = set()  # offsets whose end is staged in this turn of the loop
        self._window: list[Entry] = []
        self._in_window: dict[int, int] = {}  # {offset: due}; other entries of the heap are outdated
        self._horizon: Entry = _START
        self._forgotten: dict[int, int] = {}  # {offset: due} of entries that were given up; ENDED once they are
        self._aside: dict[int, int] = {}  # {offset: due} of records that cannot be read now
        self._lost: frozenset[int] = frozenset()  # offsets, a subset of those aside
        self.count = store.count

    # ---- changes from the log

    def on_waits(self, offset: int, due_ms: int, end: int) -> None:
        """The record [offset, end) waits until `due_ms`."""
        self._journal.append((end, due_ms, offset))
        self._fresh[offset] = due_ms
        self.count += 1
        if (due_ms, offset) < self._horizon:
            self._enter(due_ms, offset)

    def on_ended(self, offset: int, end: int) -> None:
        """The wait of the record at `offset` ended, by the record that ends at `end`."""
        self._journal.append((end, ENDED, offset))
        self._fresh.pop(offset, None)
        self._ending.discard(offset)
        self._ended.add(offset)
        self._aside.pop(offset, None)
        if offset in self._forgotten:
            self._forgotten[offset] = ENDED
        self._in_window.pop(offset, None)
        self.count = max(0, self.count - 1)

    # ---- the store catches up

    @property
    def journal_length(self) -> int:
        """How many changes are not known to be in the store."""
        return len(self._journal)

    def take(self, limit: int) -> list[tuple[int, int, int]]:
        """(end, due or ENDED, offset) of the changes made below byte `limit` of the log that the store lacks. Worker thread."""
        reflected = self._store.reflected
        return [change for change in self._journal.copy() if reflected < change[0] <= limit]

    def settle(self) -> None:
        """Drops the changes that the store has now."""
        reflected, journal = self._store.reflected, self._journal
        held = 0
        for end, due_ms, offset in journal:
            if end > reflected:
                break
            held += 1
            if due_ms == ENDED:
                self._ended.discard(offset)
            else:
                self._fresh.pop(offset, None)
        del journal[:held]
        if held and not journal:
            self.count = self._store.count

    # ---- due entries

    def forget_window(self) -> None:
        """Empties the window: another broker delivers now. It is read again when this one leads again."""
        self._window.clear()
        self._in_window.clear()
        self._ending.clear()
        self._aside.clear()
        self._lost = frozenset()
        self._horizon = _START

    def look_ahead(self, now_ms: int, *, count_max: int) -> None:
        """Fills the window up to at least half of LOOK_AHEAD_MS from now, or to `count_max` entries."""
        until_ms = now_ms + LOOK_AHEAD_MS
        if self._horizon[0] > now_ms + LOOK_AHEAD_MS // 2 or len(self._in_window) >= count_max:
            return
        found = self._store.due_from(*self._horizon, until_ms=until_ms, count_max=count_max)
        before = self._horizon
        self._horizon = (until_ms + 1, 0) if len(found) < count_max else (found[-1][0], found[-1][1] + 1)
        for due_ms, offset in found:
            if offset not in self._ended:
                self._enter(due_ms, offset)
        for offset, due_ms in self._fresh.items():
            if before <= (due_ms, offset) < self._horizon:
                self._enter(due_ms, offset)

    def _enter(self, due_ms: int, offset: int) -> None:
        if not (offset in self._in_window or offset in self._aside or offset in self._ending):
            self._in_window[offset] = due_ms
            heappush(self._window, (due_ms, offset))

    def _first(self) -> Entry | None:
        window, held = self._window, self._in_window
        while window and window[0][1] not in held:
            heappop(window)
        return window[0] if window else None

    def take_due(self, now_ms: int, *, count_max: int, below: int) -> list[Entry]:
        """At most `count_max` due entries, earliest first, each once.

        Entries whose record is not below the byte `below` (what is confirmed) stay in the window.
        """
        taken: list[Entry] = []
        kept: list[Entry] = []
        while len(taken) + len(kept) < count_max:
            first = self._first()
            if first is None or first[0] > now_ms:
                break
            heappop(self._window)
            (taken if first[1] < below else kept).append(first)
        for entry in kept:
            heappush(self._window, entry)
        for _, offset in taken:
            del self._in_window[offset]
        return taken

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Puts entries back that were taken and could not be delivered now."""
        for due_ms, offset in entries:
            if offset not in self._ended:
                self._enter(due_ms, offset)

    def on_end_staged(self, offset: int) -> None:
        """A record that ends the wait of the one at `offset` is staged; `on_ended` follows once it is in the log."""
        self._ending.add(offset)
        self._in_window.pop(offset, None)

    def next_due_ms(self) -> int | None:
        """When to act next: at the due time of the window's first entry, else at the end of the window; None if nothing
        waits.
        """
        first = self._first()
        if first is not None:
            return first[0]
        return self._horizon[0] if self.count else None

    def forget(self, entry: Entry) -> None:
        """Gives the entry up: it is ignored until the next start."""
        due_ms, offset = entry
        self._forgotten[offset] = due_ms
        self._ended.add(offset)
        self._fresh.pop(offset, None)
        self._in_window.pop(offset, None)

    # ---- entries that cannot be read now

    @property
    def aside(self) -> Mapping[int, int]:
        """{offset: due} of the entries set aside."""
        return self._aside

    @property
    def lost(self) -> frozenset[int]:
        """The offsets of those aside that count as gone for good."""
        return self._lost

    def set_aside(self, entry: Entry) -> None:
        """Sets an entry with a damaged record aside: it is due again only after `take_back`.

        Until then the log must keep the record.
        """
        due_ms, offset = entry
        self._in_window.pop(offset, None)
        self._aside[offset] = due_ms

    def lose(self, offsets: Iterable[int]) -> None:
        """Marks exactly these of the entries aside as gone for good, as far as is known: the log need not keep their
        records.
        """
        self._lost = frozenset(offsets)

    def take_back(self, offset: int) -> None:
        """Makes an entry due again whose record was damaged and may be readable now: at its old due time, or at once if
        that has passed.
        """
        self._lost -= {offset}
        self.put_back([(self._aside.pop(offset), offset)])

    # ---- questions

    def due_of(self, offset: int) -> int | None:
        """When the record at `offset` is due; None if it does not wait, or if a staged record ends its wait."""
        if offset in self._ended or offset in self._ending:
            return None
        due_ms = self._fresh.get(offset)
        return self._store.due_of(offset) if due_ms is None else due_ms

    def given_up_due_of(self, offset: int) -> int | None:
        """When the record at `offset` was due, if it was forgotten and nothing staged ends it."""
        due_ms = self._forgotten.get(offset, ENDED)
        return None if due_ms == ENDED or offset in self._ending else due_ms

    def is_waiting(self, offset: int, due_ms: int) -> bool:
        """Whether the record at `offset` waits until `due_ms`, and no staged record ends its wait."""
        return self.due_of(offset) == due_ms

    def entries(self, begin: int, *, count_max: int) -> list[Entry]:
        """The first `count_max` waiting entries at or above the offset `begin`, in the order of the log."""
        held = self._store.below(_NEVER_MS, count_max=count_max + len(self._ended), begin=begin)
        offsets = sorted({*held, *(offset for offset in self._fresh if offset >= begin)})
        found = ((self.due_of(offset), offset) for offset in offsets)
        return list(islice(((due_ms, offset) for due_ms, offset in found if due_ms is not None), count_max))

    def below(self, offset: int, *, count_max: int) -> list[Entry]:
        """Some of the waiting records below `offset`, as the store has them; it may not know of the latest ends yet."""
        count_max += len(self._aside) + len(self._ending)
        found = [
            at
            for at in self._store.below(offset, count_max=count_max)
            if at not in self._ended and at not in self._ending and at not in self._aside
        ]
        return [(due_ms, at) for at in found if (due_ms := self._store.due_of(at)) is not None]

    def has_below(self, offset: int) -> bool:
        """Whether the store has an entry below `offset` whose record the log must keep."""
        found = self._store.below(offset, count_max=len(self._forgotten) + len(self._lost) + 1)
        return any(at not in self._forgotten and at not in self._lost for at in found)

    def given_up_below(self, offset: int, *, count_max: int) -> list[Entry]:
        """Some of the store's entries below `offset` that were given up and that no record in the journal ends, staged or
        not.
        """
        given_up = self._forgotten.keys() | self._lost
        found = self._store.below(offset, count_max=len(given_up))
        given_up -= self._ending | {at for _, due_ms, at in self._journal if due_ms == ENDED}
        entries = [(due_ms, at) for at in found if at in given_up and (due_ms := self._store.due_of(at)) is not None]
        return entries[:count_max]

    def first_due_ms(self) -> int | None:
        """The earliest due time of all; None if nothing waits."""
        known = [*self._fresh.values(), *self._in_window.values()]
        at = self._horizon
        while True:
            found = self._store.due_from(*at, until_ms=_NEVER_MS, count_max=_SEARCH_STEP)
            first = next((due_ms for due_ms, offset in found if offset not in self._ended), None)
            if first is not None:
                known.append(first)
            if first is not None or len(found) < _SEARCH_STEP:
                return min(known, default=None)
            at = (found[-1][0], found[-1][1] + 1)
