"""How far each producer's sequence has come in each queue, so that what is sent twice is stored once. Pure; loop thread.

The log says it: a record names its producer and its sequence (model.sequence), and whoever replays the log, a slave or a
restart, has the same table. For a batch `[first, first + count)` of a producer whose last sequence in the queue is `last`:

    first == last + 1            new: it is stored. With gaps: any first > last
    first + count - 1 <= last    all known: answered as stored, nothing is written
    first <= last                known in part: refused, telling `last`; the sender goes on behind it
    else                         a hole: refused. A producer that is not known begins at 0

What was staged in this turn of the loop and is not dispatched yet counts as stored (`stage`), until `on_written`.

Bounded: an entry is dropped when nothing has come for `retention_ms` of the log's time, and the oldest when there are
more than `entries_max`. To forget one that may still be tried again would be to store it twice, so while the table is full
of entries younger than QUIET_MS, producers that it does not know are told to come again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..model.errors import BrokerBusy, OutOfOrderSequence, SequenceKnownInPart, StoreFormatError
from ..model.sequence import NO_SEQUENCE
from .topic_table import Document

QUIET_MS: Final = 600_000
BUSY_RETRY_MS: Final = 500
PIECES_MAX: Final = 5
UNKNOWN: Final = -1  # an offset
FILE_NAME: Final = "producerSequences.json"

Key = tuple[str, str, int]
"""(producer id, topic, queue id): where the messages belong, also while they wait for their time."""


class Piece(NamedTuple):
    """Sequences [first, last] that lie side by side: from `queue_offset` on, the first record at byte `physical_offset`.

    `waits`: they wait for their time, and `queue_offset` is of the queue where they do.
    """

    first: int
    last: int
    queue_offset: int
    physical_offset: int
    waits: bool = False


class Entry(NamedTuple):
    """What is known of one producer in one queue. `end`: behind its last record in the log; `stored_ms`: when that came.

    `pieces`: where the newest of it lies, the last one last.
    """

    last: int
    end: int
    stored_ms: int
    pieces: tuple[Piece, ...]


def advanced(entry: Entry | None, piece: Piece, end: int, stored_ms: int) -> Entry | None:
    """The entry once `piece` is in the log; None where it was before (or nothing behind it was missing)."""
    if entry is None:
        return Entry(piece.last, end, stored_ms, (piece,))
    if piece.last <= entry.last:
        return None
    known = entry.last - piece.first + 1
    if known > 0:  # told before of its first ones
        piece = Piece(entry.last + 1, piece.last, piece.queue_offset + known, UNKNOWN, piece.waits)
    return Entry(piece.last, end, stored_ms, (*entry.pieces, piece)[-PIECES_MAX:])


def whereabouts(entry: Entry, first: int, count: int) -> list[Piece] | None:
    """Where the sequences [first, first + count) lie, piece by piece; None where that is not known of all of them.

    The physical offset of one that does not begin its piece is UNKNOWN.
    """
    found = []
    for piece in entry.pieces:
        begin, last = max(first, piece.first), min(first + count - 1, piece.last)
        if begin <= last:
            skipped = begin - piece.first
            at = UNKNOWN if skipped else piece.physical_offset
            found.append(Piece(begin, last, piece.queue_offset + skipped, at, piece.waits))
    return found if sum(piece.last - piece.first + 1 for piece in found) == count else None


class ProducerTable:
    """The entries, in the order in which the log last had something of them. `staged`: what this turn adds to them."""

    def __init__(self, *, retention_ms: int, entries_max: int) -> None:
        self._retention_ms = retention_ms
        self._entries_max = entries_max
        self._entries: dict[Key, Entry] = {}  # values are replaced, never changed
        self.staged: dict[Key, Entry] = {}
        self._rest: Document = {}

    def __len__(self) -> int:
        return len(self._entries)

    # ---- questions

    def entry(self, key: Key) -> Entry | None:
        """What is known, with what is staged."""
        return self.staged.get(key) or self._entries.get(key)

    def check(self, key: Key, first: int, count: int, *, has_gaps: bool, now_ms: int) -> Entry | None:
        """Whether a batch is to be stored (None), or is known already (the entry that says so). `now_ms`: since the epoch.

        Raises OutOfOrderSequence, SequenceKnownInPart, BrokerBusy: nothing of it may be stored.
        """
        entry = self.entry(key)
        if entry is None:
            if first and not has_gaps:
                raise OutOfOrderSequence(first, NO_SEQUENCE)
            self._check_room(now_ms)
            return None
        if first > entry.last:
            if first > entry.last + 1 and not has_gaps:
                raise OutOfOrderSequence(first, entry.last)
            return None
        if first + count - 1 <= entry.last:
            return entry
        raise SequenceKnownInPart(first, entry.last)

    def _check_room(self, now_ms: int) -> None:
        if len(self._entries) + len(self.staged) < self._entries_max:
            return
        oldest = next(iter(self._entries.values()), None)
        if oldest is None or now_ms - oldest.stored_ms < QUIET_MS:
            raise BrokerBusy(BUSY_RETRY_MS, f"{self._entries_max} producer sequences are remembered")

    # ---- a turn of the loop

    def stage(self, key: Key, pieces: Sequence[Piece], end: int, stored_ms: int) -> None:
        """What `check` let pass is staged, and will be in the log when the turn ends."""
        entry = self.entry(key)
        for piece in pieces:
            entry = advanced(entry, piece, end, stored_ms) or entry
        if entry is not None:
            self.staged[key] = entry

    def on_written(self) -> None:
        """All that was staged is in the log, and was told from there."""
        self.staged.clear()

    # ---- the log

    def on_stored(self, key: Key, piece: Piece, end: int, stored_ms: int) -> None:
        """The log has these sequences; it may say so again after a start."""
        entry = advanced(self._entries.get(key), piece, end, stored_ms)
        if entry is None:
            return
        self._entries.pop(key, None)
        self._entries[key] = entry
        while len(self._entries) > self._entries_max or self._oldest_ms() < stored_ms - self._retention_ms:
            del self._entries[next(iter(self._entries))]

    def _oldest_ms(self) -> int:
        return next(iter(self._entries.values())).stored_ms

    def settle(self, log_end: int) -> None:
        """The log ends there, before it is replayed: an entry that says more than it does is not to be believed.

        A snapshot may say more where a disk lost what it had said to have.
        """
        for key in [key for key, entry in self._entries.items() if entry.end > log_end]:
            del self._entries[key]

    def on_topic_deleted(self, topic: str) -> None:
        """Its queues are gone: one of that name begins anew."""
        for key in [key for key in self._entries if key[1] == topic]:
            del self._entries[key]

    # ---- the snapshot

    def load(self, document: Mapping[str, Any]) -> None:
        """Takes what a snapshot holds. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name != "producers"}
        try:
            for producer_id, topic, queue_id, last, end, stored_ms, pieces in document.get("producers") or ():
                self._entries[str(producer_id), str(topic), int(queue_id)] = Entry(
                    int(last), int(end), int(stored_ms), tuple(_piece(*fields) for fields in pieces)
                )
        except (TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError(FILE_NAME, f"producers: {error}") from error

    def document(self) -> Document:
        """What the snapshot is to hold. Any thread."""
        rows = [[*key, *entry] for key, entry in self._entries.copy().items()]
        return {**self._rest, "producers": rows}


def _piece(first: int, last: int, queue_offset: int, physical_offset: int, waits: bool) -> Piece:
    return Piece(int(first), int(last), int(queue_offset), int(physical_offset), bool(waits))
