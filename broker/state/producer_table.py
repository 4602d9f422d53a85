"""The last sequence of each producer in each queue, so that a repeated batch is stored once. Pure; loop thread.

It is derived from the log: a record names its producer and its sequence (model.sequence), so a slave or a
restart that replays the log has the same table. For a batch `[first, first + count)` of a producer whose last sequence
in the queue is `last`:

    first == last + 1            new: it is stored. With gaps: any first > last
    first + count - 1 <= last    known: answered as stored, nothing is written
    first <= last                known in part: refused with `last`; the sender continues behind it
    else                         a gap: refused. An unknown producer begins at 0

A batch that was staged in this turn of the loop and is not dispatched yet counts as stored (`stage`), until `on_written`.

Bounded: an entry is dropped after `retention_ms` of silence, and the oldest ones if there are more than `entries_max`.
Silence is measured on this process's monotonic clock: a wall clock that was wrong for a moment, here or at the master that
stored the messages, neither drops nor keeps an entry. At a start, and in a replay, the wall clock counts for half of
`retention_ms` at most. To drop an entry whose batch may still be repeated would store that batch twice. So while the table
is full of entries younger than QUIET_MS, unknown producers get BrokerBusy. Producers with a name of their own, such as
the Spark sink's tasks, may repeat a batch after hours: their entries are counted apart, `entries_max` more of them, and none
displaces another before `retention_ms` have passed.
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

_NAME_MARK: Final = "/"  # in the id of a producer with a name of its own; ids made by the client have none

Key = tuple[str, str, int]
"""(producer id, topic, queue id): the final queue of the messages, also while they wait."""


class Piece(NamedTuple):
    """Adjacent sequences [first, last]: from `queue_offset` on, the first record at byte `physical_offset`.

    `waits`: they wait for their time or their commit, and `queue_offset` is in the queue where they wait.
    """

    first: int
    last: int
    queue_offset: int
    physical_offset: int
    waits: bool = False


class ProducerEntry(NamedTuple):
    """The state of one producer in one queue. `end`: behind its last record in the log; `stored_ms`: its store time, by the
    broker's clock; `heard_ms`: the same, monotonic, and never before that of an older entry of the table.

    `pieces`: the places of its newest messages, the last one last.
    """

    last: int
    end: int
    stored_ms: int
    pieces: tuple[Piece, ...]
    heard_ms: int = 0


def advanced(
    entry: ProducerEntry | None, piece: Piece, end: int, stored_ms: int, heard_ms: int = 0
) -> ProducerEntry | None:
    """The entry after `piece` is in the log; None if it already was (or nothing behind it was missing)."""
    if entry is None:
        return ProducerEntry(piece.last, end, stored_ms, (piece,), heard_ms)
    if piece.last <= entry.last:
        return None
    known = entry.last - piece.first + 1
    if known > 0:  # its first ones were reported before
        piece = Piece(entry.last + 1, piece.last, piece.queue_offset + known, UNKNOWN, piece.waits)
    return ProducerEntry(piece.last, end, stored_ms, (*entry.pieces, piece)[-PIECES_MAX:], heard_ms)


def whereabouts(entry: ProducerEntry, first: int, count: int) -> list[Piece] | None:
    """The places of the sequences [first, first + count), piece by piece; None if some are unknown.

    If one does not begin its piece, its physical offset is UNKNOWN.
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
    """The entries, in the order of their last records in the log: those of ordinary producers, and those of names.
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
        """The entry, including what is staged."""
        return self.staged.get(key) or self._like(key).get(key)

    def check(self, key: Key, first: int, count: int, *, has_gaps: bool, now_ms: int) -> ProducerEntry | None:
        """None if a batch is to be stored; the entry that shows it if it is already known. `now_ms`: monotonic.

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
            return  # the usual case, without a look at staged batches
        if len(entries) + sum(self._like(staged) is entries for staged in self.staged) < self._entries_max:
            return
        kept_ms = self._retention_ms if entries is self._named else QUIET_MS
        if not entries or now_ms - _longest_silent_ms(entries) < kept_ms:
            raise BrokerBusy(
                BUSY_RETRY_MS, f"{self._entries_max} producer sequences are remembered: see producer_states_max"
            )

    # ---- a turn of the loop

    def stage(self, key: Key, pieces: Sequence[Piece], end: int, stored_ms: int) -> None:
        """A batch that `check` allowed is staged, and will be in the log when the turn ends."""
        entry = self.entry(key)
        for piece in pieces:
            entry = advanced(entry, piece, end, stored_ms) or entry
        if entry is not None:
            self.staged[key] = entry

    def on_written(self) -> None:
        """Everything staged is in the log, and was dispatched."""
        self.staged.clear()

    # ---- the log

    def heard_at(self, stored_ms: int, *, now_ms: int, monotonic_ms: int) -> int:
        """The monotonic time of `stored_ms`, as far as the wall clock `now_ms` can be trusted."""
        return monotonic_ms - min(max(0, now_ms - stored_ms), self._retention_ms // 2)

    def on_stored(self, key: Key, piece: Piece, end: int, stored_ms: int, heard_ms: int) -> None:
        """The log has these sequences; a start may report them again. `heard_ms`: see `heard_at`."""
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
        """The log ends there, before its replay: entries that say more than the log are dropped.

        A snapshot may say more if a disk lost what it had reported as synced.
        """
        for entries in (self._ordinary, self._named):
            for key in [key for key, entry in entries.items() if entry.end > log_end]:
                del entries[key]

    def on_topic_deleted(self, topic: str) -> None:
        """The topic's queues are deleted: a new topic of that name begins anew."""
        for entries in (self._ordinary, self._named):
            for key in [key for key in entries if key[1] == topic]:
                del entries[key]

    # ---- the snapshot

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content. Raises StoreFormatError."""
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
        """Sets the times of loaded entries from the snapshot's. `now_ms`: since the epoch."""
        for entries in (self._ordinary, self._named):
            heard_ms = 0
            for key, entry in entries.items():
                known_ms = self.heard_at(entry.stored_ms, now_ms=now_ms, monotonic_ms=monotonic_ms)
                heard_ms = max(heard_ms, known_ms)
                entries[key] = entry._replace(heard_ms=heard_ms)
            self._heard_ms = max(self._heard_ms, heard_ms)

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        rows = [
            [*key, *entry[:4]] for entries in (self._ordinary, self._named) for key, entry in entries.copy().items()
        ]
        return {**self._rest, "producers": rows}


def _longest_silent_ms(entries: Mapping[Key, ProducerEntry]) -> int:
    """When the producer with the longest silence was last heard."""
    return next(iter(entries.values())).heard_ms


def _piece(first: int, last: int, queue_offset: int, physical_offset: int, waits: bool) -> Piece:
    return Piece(int(first), int(last), int(queue_offset), int(physical_offset), bool(waits))
