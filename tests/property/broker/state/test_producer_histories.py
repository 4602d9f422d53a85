"""Whatever is tried again, reordered, torn by a crash or replayed: each sequence is in the queue once, in order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.broker.state.producer_table import Piece, ProducerTable, whereabouts
from zenitmq.model.errors import OutOfOrderSequence, SequenceKnownInPart, ZenitError

SIZE = 100  # bytes a record

# A try of a batch: who, first sequence, count, and how much of it a crash leaves (None: no crash).
TRIES = st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(1, 6), st.one_of(st.none(), st.integers(0, 6)))


def new_table() -> ProducerTable:
    return ProducerTable(retention_ms=1 << 40, entries_max=100)


@dataclass
class Queue:
    """A queue of a log, and the broker's table of it."""

    records: list[tuple[str, int]] = field(default_factory=list)
    table: ProducerTable = field(default_factory=new_table)

    def tell(self, table: ProducerTable, begin: int, end: int) -> None:
        """As a dispatch does: stretches of one producer's consecutive sequences."""
        while begin < end:
            producer, first = self.records[begin]
            stop = begin + 1
            while stop < end and self.records[stop] == (producer, first + stop - begin):
                stop += 1
            piece = Piece(first, first + stop - begin - 1, begin, begin * SIZE)
            table.on_stored((producer, "t", 0), piece, stop * SIZE, 0, 0)
            begin = stop

    def attempt(self, producer: str, first: int, count: int, *, has_gaps: bool, kept: int | None) -> None:
        key = (producer, "t", 0)
        mine = [sequence for name, sequence in self.records if name == producer]
        last = mine[-1] if mine else -1
        expected: type[ZenitError] | None = None
        if first > last + 1 and not has_gaps:
            expected = OutOfOrderSequence
        elif first <= last < first + count - 1:
            expected = SequenceKnownInPart
        if expected is not None:
            with pytest.raises(expected) as refused:
                self.table.check(key, first, count, has_gaps=has_gaps, now_ms=0)
            assert refused.value.args == (first, last)
            return
        if self.table.check(key, first, count, has_gaps=has_gaps, now_ms=0) is not None:
            assert first + count - 1 <= last
            self.check_whereabouts(producer, first, count)
            return
        assert first > last
        begin = len(self.records)
        stored = count if kept is None else min(kept, count)
        self.records += [(producer, first + index) for index in range(stored)]
        if kept is None:
            self.table.stage(key, (Piece(first, first + count - 1, begin, begin * SIZE),), len(self.records) * SIZE, 0)
            self.tell(self.table, begin, len(self.records))
            self.table.on_written()
        else:  # the broker died of it; the next one has what the log has
            self.table = new_table()
            self.tell(self.table, 0, len(self.records))

    def check_whereabouts(self, producer: str, first: int, count: int) -> None:
        entry = self.table.entry((producer, "t", 0))
        assert entry is not None
        for piece in whereabouts(entry, first, count) or ():
            found = self.records[piece.queue_offset : piece.queue_offset + piece.last - piece.first + 1]
            assert found == [(producer, sequence) for sequence in range(piece.first, piece.last + 1)]


@given(st.lists(TRIES, max_size=40), st.booleans())
def test_each_sequence_is_stored_once_and_in_order(
    tries: list[tuple[str, int, int, int | None]], has_gaps: bool
) -> None:
    queue = Queue()
    for producer, first, count, kept in tries:
        queue.attempt(producer, first, count, has_gaps=has_gaps, kept=kept)
    for name in "ab":
        sequences = [sequence for producer, sequence in queue.records if producer == name]
        assert sequences == sorted(set(sequences))
        if not has_gaps:
            assert sequences == list(range(len(sequences)))


@given(st.lists(TRIES, max_size=40), st.integers(0, 200), st.integers(0, 200))
def test_a_snapshot_and_a_replay_from_further_back_end_in_the_same_state(
    tries: list[tuple[str, int, int, int | None]], taken_at: int, replayed_from: int
) -> None:
    queue = Queue()
    for producer, first, count, kept in tries:
        queue.attempt(producer, first, count, has_gaps=True, kept=kept)
    end = len(queue.records)
    whole, early = new_table(), new_table()
    queue.tell(whole, 0, end)
    queue.tell(early, 0, min(taken_at, end))
    again = new_table()
    again.load(json.loads(json.dumps(early.document())))
    queue.tell(again, min(replayed_from, taken_at, end), end)
    for name in "ab":
        key = (name, "t", 0)
        entries = [table.entry(key) for table in (whole, again, queue.table)]
        assert [entry and (entry.last, entry.end) for entry in entries] == [
            entries[0] and (entries[0].last, entries[0].end)
        ] * 3
