"""How far each producer's sequence has come in each queue, so that what is sent twice is stored once. Pure; loop thread.

The log says it: a record names its producer and its sequence (model.sequence), and whoever replays the log, a slave or a
restart, has the same table. For a batch `[first, first + count)` of a producer whose last sequence in the queue is `last`:

    first == last + 1            new: it is stored. With gaps: any first > last
    first + count - 1 <= last    all known: answered as stored, nothing is written
    first <= last                known in part: refused, telling `last`; the sender goes on behind it
    else                         a hole: refused. A producer that is not known begins at 0

What was staged in this turn of the loop and is not dispatched yet counts as stored (`stage`), until `on_written`.

Bounded: an entry is dropped when nothing has come for `retention_ms`, and the oldest when there are more than `entries_max`.
Silence is counted on this process's monotonic clock: a wall clock that was wrong for a moment, here or at the master that
stored the messages, drops nothing and keeps nothing. At a start, and in a replay, what the wall clock says counts for half of
`retention_ms` at most. To forget one that may still be tried again would be to store it twice, so while the table is full
of entries younger than QUIET_MS, producers that it does not know are told to come again. Who has a name of its own, as the
Spark sink's tasks have, may come again after hours: such entries are counted apart, `entries_max` more of them, and none makes
room for another before `retention_ms` have passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...model.errors import BrokerBusy, OutOfOrderSequence, SequenceKnownInPart, StoreFormatError
from ...model.sequence import NO_SEQUENCE
from .topic_table import Document

QUIET_MS: Final = 600_000
BUSY_RETRY_MS: Final = 500
PIECES_MAX: Final = 5
UNKNOWN: Final = -1  # an offset
FILE_NAME: Final = "producerSequences.json"

_NAME_MARK: Final = (
    "/"  # in the id of who has a name of its own; an idempotent producer's, made by the client, has none
)

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


class ProducerEntry(NamedTuple):
    """What is known of one producer in one queue. `end`: behind its last record in the log; `stored_ms`: when that came, as the
    broker's clock said; `heard_ms`: the same, monotonic, and never before what is older in the table.

    `pieces`: where the newest of it lies, the last one last.
    """

    last: int
    end: int
    stored_ms: int
    pieces: tuple[Piece, ...]
    heard_ms: int = 0


def advanced(
    entry: ProducerEntry | None, piece: Piece, end: int, stored_ms: int, heard_ms: int = 0
) -> ProducerEntry | None:
    """The entry once `piece` is in the log; None where it was before (or nothing behind it was missing)."""
    if entry is None:
        return ProducerEntry(piece.last, end, stored_ms, (piece,), heard_ms)
    if piece.last <= entry.last:
        return None
    known = entry.last - piece.first + 1
    if known > 0:  # told before of its first ones
        piece = Piece(entry.last + 1, piece.last, piece.queue_offset + known, UNKNOWN, piece.waits)
    return ProducerEntry(piece.last, end, stored_ms, (*entry.pieces, piece)[-PIECES_MAX:], heard_ms)


def whereabouts(entry: ProducerEntry, first: int, count: int) -> list[Piece] | None:
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
    """The entries, in the order in which the log last had something of them: those of ordinary producers, and those of names.
    `staged`: what this turn adds to both."""

    def __init__(self, *, retention_ms: int, entries_max: int) -> None:
        self._retention_ms = retention_ms
        self._entries_max = entries_max
        self._ordinary: dict[Key, ProducerEntry] = {}  # values are replaced, never changed
        self._named: dict[Key, ProducerEntry] = {}
        self.staged: dict[Key, ProducerEntry] = {}
        self._heard_ms = 0  # the newest of all
        self._rest: Document = {}

    def __len__(self) -> int:
        return len(self._ordinary) + len(self._named)

    def _like(self, key: Key) -> dict[Key, ProducerEntry]:
        """The entries among which this one counts."""
        return self._named if _NAME_MARK in key[0] else self._ordinary

    # ---- questions

    def entry(self, key: Key) -> ProducerEntry | None:
        """What is known, with what is staged."""
        return self.staged.get(key) or self._like(key).get(key)

    def check(self, key: Key, first: int, count: int, *, has_gaps: bool, now_ms: int) -> ProducerEntry | None:
        """Whether a batch is to be stored (None), or is known already (the entry that says so). `now_ms`: monotonic.

        Raises OutOfOrderSequence, SequenceKnownInPart, BrokerBusy: nothing of it may be stored.
        """
        entry = self.entry(key)
        if entry is None:
            if first and not has_gaps:
                raise OutOfOrderSequence(first, NO_SEQUENCE)
            self._check_room(key, now_ms)
            return None
        if first > entry.last:
            if first > entry.last + 1 and not has_gaps:
                raise OutOfOrderSequence(first, entry.last)
            return None
        if first + count - 1 <= entry.last:
            return entry
        raise SequenceKnownInPart(first, entry.last)

    def _check_room(self, key: Key, now_ms: int) -> None:
        entries = self._like(key)
        if len(entries) + len(self.staged) < self._entries_max:
            return  # as ever, without a look at what is staged
        if len(entries) + sum(self._like(staged) is entries for staged in self.staged) < self._entries_max:
            return
        kept_ms = self._retention_ms if entries is self._named else QUIET_MS
        if not entries or now_ms - _longest_silent_ms(entries) < kept_ms:
            raise BrokerBusy(
                BUSY_RETRY_MS, f"{self._entries_max} producer sequences are remembered: see producer_states_max"
            )

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

    def heard_at(self, stored_ms: int, *, now_ms: int, monotonic_ms: int) -> int:
        """The monotonic time of what was stored at `stored_ms`, as far as the wall clock `now_ms` is to be believed."""
        return monotonic_ms - min(max(0, now_ms - stored_ms), self._retention_ms // 2)

    def on_stored(self, key: Key, piece: Piece, end: int, stored_ms: int, heard_ms: int) -> None:
        """The log has these sequences; it may say so again after a start. `heard_ms`: see `heard_at`."""
        entries = self._like(key)
        self._heard_ms = max(self._heard_ms, heard_ms)
        entry = advanced(entries.get(key), piece, end, stored_ms, self._heard_ms)
        if entry is None:
            return
        entries.pop(key, None)
        entries[key] = entry
        while len(entries) > self._entries_max:
            del entries[next(iter(entries))]
        for kind in (self._ordinary, self._named):
            while kind and _longest_silent_ms(kind) < self._heard_ms - self._retention_ms:
                del kind[next(iter(kind))]

    def settle(self, log_end: int) -> None:
        """The log ends there, before it is replayed: an entry that says more than it does is not to be believed.

        A snapshot may say more where a disk lost what it had said to have.
        """
        for entries in (self._ordinary, self._named):
            for key in [key for key, entry in entries.items() if entry.end > log_end]:
                del entries[key]

    def on_topic_deleted(self, topic: str) -> None:
        """Its queues are gone: one of that name begins anew."""
        for entries in (self._ordinary, self._named):
            for key in [key for key in entries if key[1] == topic]:
                del entries[key]

    # ---- the snapshot

    def load(self, document: Mapping[str, Any]) -> None:
        """Takes what a snapshot holds. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name != "producers"}
        try:
            for producer_id, topic, queue_id, last, end, stored_ms, pieces in document.get("producers") or ():
                key = str(producer_id), str(topic), int(queue_id)
                self._like(key)[key] = ProducerEntry(
                    int(last), int(end), int(stored_ms), tuple(_piece(*fields) for fields in pieces)
                )
        except (TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError(FILE_NAME, f"producers: {error}") from error

    def begin(self, *, now_ms: int, monotonic_ms: int) -> None:
        """What was loaded was heard when the snapshot says. `now_ms`: since the epoch."""
        for entries in (self._ordinary, self._named):
            heard_ms = 0
            for key, entry in entries.items():
                known_ms = self.heard_at(entry.stored_ms, now_ms=now_ms, monotonic_ms=monotonic_ms)
                heard_ms = max(heard_ms, known_ms)
                entries[key] = entry._replace(heard_ms=heard_ms)
            self._heard_ms = max(self._heard_ms, heard_ms)

    def document(self) -> Document:
        """What the snapshot is to hold. Any thread."""
        rows = [
            [*key, *entry[:4]] for entries in (self._ordinary, self._named) for key, entry in entries.copy().items()
        ]
        return {**self._rest, "producers": rows}


def _longest_silent_ms(entries: Mapping[Key, ProducerEntry]) -> int:
    """When the one that has been silent for longest was heard."""
    return next(iter(entries.values())).heard_ms


def _piece(first: int, last: int, queue_offset: int, physical_offset: int, waits: bool) -> Piece:
    return Piece(int(first), int(last), int(queue_offset), int(physical_offset), bool(waits))
