"""SendSequenced and SendDelayedSequenced: sends whose messages are stored once, however often they are repeated.

The producer table is asked before anything is staged. The producer and its sequence are written into the records, so
every replica learns them from the log. A known batch is answered as it was stored, once it is as durable
as the broker promises: its first answer may be missing because it never was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, TypeVar

from ...model.errors import (
    CorruptRecordError,
    MessageIllegal,
    MessageNotFound,
    SequenceKnownInPart,
    StoreNotWriteable,
    ZenitError,
)
from ...model.properties import TIMER_OUT_MS
from ...model.queue import PhysicalOffset, QueueOffset
from ...model.route import TopicConfig
from ...model.sequence import check_producer_id, check_sequences
from ...record.kernel import decode_record, why_refused, write_sequences
from ...record.sys_flag import SEQUENCED
from ...remoting.commands import DelayedReply, SendDelayedSequenced, SendHalves, SendSequenced, SequencedReply
from ...remoting.delayed_places import NOWHERE, Place, encode_places
from ...remoting.server import Call
from ...store.message_store import Placed
from ..delay.delay_handler import DelayHandler
from ..lite.lite_sends import check_lite_batch
from ..state.admission import check_keyed, queues_to_create, takes_keyed
from ..state.producer_table import UNKNOWN, Key, Piece, ProducerEntry, whereabouts
from ..state.state_log import TOPICS
from ..transaction.transaction_handler import TransactionHandler
from .parts import Parts
from .send_handler import SendHandler

_Waiting = TypeVar("_Waiting", SendDelayedSequenced, SendHalves)
_Taken_contra = TypeVar("_Taken_contra", SendDelayedSequenced, SendHalves, contravariant=True)


class _Take(Protocol[_Taken_contra]):
    """Stages a batch of delayed messages, and its answer (DelayHandler.take)."""

    def __call__(
        self,
        call: Call[_Taken_contra],
        request: _Taken_contra,
        payload: bytearray,
        staged: list[tuple[bool, Placed]],
        *,
        flags: int = 0,
    ) -> None: ...


_UNKNOWN_PLACE = Place(NOWHERE, UNKNOWN, UNKNOWN)


class SequencedSendHandler:
    """Owned by the loop thread."""

    def __init__(
        self,
        parts: Parts,
        sends: SendHandler,
        delays: DelayHandler,
        halves: TransactionHandler,
        *,
        auto_create_queues: int,
    ) -> None:
        """`sends`: whose counters these sends use. `auto_create_queues`: the queues of a topic that a send creates; 0: none."""
        self._store = parts.store
        self._stage_batch = parts.store.stage
        self._state = parts.state
        self._table = parts.state.producer_table
        self._acknowledgements = parts.acknowledgements
        self._workers = parts.workers
        self._clock = parts.clock
        self._record_max = parts.config.store.record_bytes_max
        self._store_host = parts.store_host.encode()
        self._sends = sends
        self._delays = delays
        self._halves = halves
        self._auto_create_queues = auto_create_queues
        self._duplicates = 0

    def document(self) -> dict[str, int]:
        """For statistics: remembered sequences (of one producer in one queue each), repeated batches."""
        return {"sequences": len(self._table), "duplicate_batches": self._duplicates}

    # ---- messages for now

    def on_send(self, call: Call[SendSequenced]) -> None:
        """Stages a batch, or finds that it was stored. Raises the reason why it was refused; then nothing of it is staged."""
        request = call.request
        topic, queue_id = request.topic, request.queue_id
        queues = 0
        if takes_keyed(self._state.topic_table, topic, queue_id):
            check_keyed(topic, bytes(self._store.arena.view[call.begin : call.end]))
        elif not 0 <= queue_id < self._state.topic_table.write_queues.get(topic, 0):
            queues = queues_to_create(self._state.topic_table, topic, queue_id, self._auto_create_queues)
        key, known = self._check(request, has_gaps=request.has_gaps)
        if known is not None:
            self._acknowledgements.staged.append((call, self._known_reply(request, known), known.end, ()))
            return
        begin, end = call.begin, call.end
        if topic in self._state.topic_table.lite_parents:
            records = bytes(self._store.arena.view[begin:end])
            check_lite_batch(self._state.topic_table, topic, records, request.count)
        self._fill_in(self._store.arena.view, begin, end, request)
        try:
            placed = self._stage_batch(begin, end, topic, queue_id, request.count, True, SEQUENCED)
        except StoreNotWriteable:
            self._check_in_part(key, request.first_sequence)
            raise
        self._sends.count(topic, placed.count, end - begin)
        if not placed.pieces:  # otherwise it was larger than a segment: written piece by piece, and reported by the log
            first = request.first_sequence
            piece = Piece(first, first + placed.count - 1, placed.queue_offset, placed.physical_offset)
            self._table.stage(key, (piece,), placed.end, placed.store_timestamp_ms)
        reply_end = placed.end
        if queues:
            event = self._state.topic_table.event_set(TopicConfig(topic, read_queues=queues, write_queues=queues))
            reply_end = self._state.stage(self._store, TOPICS, event)
        reply = SequencedReply(
            queue_id,
            placed.queue_offset,
            placed.physical_offset,
            placed.store_timestamp_ms,
            self._store_host,
            placed.pieces,
        )
        self._acknowledgements.staged.append((call, reply, reply_end, ()))

    def _known_reply(self, request: SendSequenced, known: ProducerEntry) -> SequencedReply:
        """The place of the batch, as far as known: offsets if it is contiguous in its queue."""
        self._duplicates += 1
        pieces = whereabouts(known, request.first_sequence, request.count) or []
        positions = [self._position(request, piece) for piece in pieces]
        offset = at = UNKNOWN
        split: tuple[tuple[int, int], ...] = ()
        if pieces and UNKNOWN not in positions and _is_side_by_side(pieces):
            offset, at = pieces[0].queue_offset, positions[0]
            if len(pieces) > 1:
                split = tuple(
                    (piece.last - piece.first + 1, place) for piece, place in zip(pieces, positions, strict=True)
                )
        return SequencedReply(request.queue_id, offset, at, known.stored_ms, self._store_host, split, True, known.last)

    def _position(self, request: SendSequenced, piece: Piece) -> int:
        if piece.physical_offset != UNKNOWN or piece.waits:
            return piece.physical_offset
        found = self._store.position_of(request.topic, request.queue_id, QueueOffset(piece.queue_offset))
        return UNKNOWN if found is None else found

    # ---- messages for later

    def on_send_delayed(self, call: Call[SendDelayedSequenced]) -> None:
        """The same for messages of which some are delayed."""
        self._on_send_waiting(call, self._delays.take)

    def on_send_halves(self, call: Call[SendHalves]) -> None:
        """The same for messages that wait to be committed."""
        self._on_send_waiting(call, self._halves.take)

    def _on_send_waiting(self, call: Call[_Waiting], take: _Take[_Waiting]) -> None:
        request = call.request
        key, known = self._check(request, has_gaps=False)
        if known is not None:
            self._duplicates += 1
            self._acknowledgements.when_promised(known.end, partial(self._on_promised, call, known))
            return
        topics = self._state.topic_table
        if not 0 <= request.queue_id < topics.write_queues.get(request.topic, 0):
            # Refused before its records are read: those for a batch topic are not of a kind that can be filled in.
            queues_to_create(topics, request.topic, request.queue_id, self._auto_create_queues)
        payload = bytearray(call.loop.arena.view[call.begin : call.end])
        self._fill_in(payload, 0, len(payload), request)
        staged: list[tuple[bool, Placed]] = []
        try:
            take(call, request, payload, staged, flags=SEQUENCED)
        except StoreNotWriteable:
            self._note(key, request.first_sequence, staged)
            self._check_in_part(key, request.first_sequence)
            raise
        self._note(key, request.first_sequence, staged)

    def _note(self, key: Key, first: int, staged: Sequence[tuple[bool, Placed]]) -> None:
        """Messages were staged, as sequences from `first` on."""
        pieces = []
        for waits, placed in staged:
            last = first + placed.count - 1
            pieces.append(Piece(first, last, placed.queue_offset, placed.physical_offset, waits))
            first = last + 1
        if staged:
            last_placed = staged[-1][1]
            self._table.stage(key, pieces, last_placed.end, last_placed.store_timestamp_ms)

    def _on_promised(self, call: Call[_Waiting], known: ProducerEntry, error: ZenitError | None) -> None:
        """What an earlier try stored is durable (or will not be): a worker reads its places from the log."""
        if error is not None:
            call.loop.fail(call, error)
            return
        try:
            self._workers.run(call, partial(self._places, call, known), partial(self._answer, call))
        except ZenitError as busy:
            call.loop.fail(call, busy)

    def _answer(self, call: Call[_Waiting], places: list[Place]) -> None:
        request = call.request
        call.loop.reply(call, DelayedReply(request.queue_id, self._store_host), (encode_places(places),))

    def _places(self, call: Call[_Waiting], known: ProducerEntry) -> list[Place]:
        """Worker thread. The place of each message of the batch; all unknown if one is."""
        request = call.request
        places: list[Place] = []
        for piece in whereabouts(known, request.first_sequence, request.count) or ():
            at = piece.physical_offset
            for index in range(piece.last - piece.first + 1):
                try:
                    record = decode_record(self._store.record_at(PhysicalOffset(at)))
                except (MessageNotFound, CorruptRecordError):
                    return [_UNKNOWN_PLACE] * request.count
                due = record.properties.get(TIMER_OUT_MS, "") if piece.waits else ""
                offset = NOWHERE if piece.waits else piece.queue_offset + index
                places.append(Place(int(due) if due.isdigit() else NOWHERE, offset, at))
                at += record.size_bytes
        return places or [_UNKNOWN_PLACE] * request.count

    # ---- both

    def _check_in_part(self, key: Key, first: int) -> None:
        """A batch is refused, but its beginning stays if the disk had room for it. Raises SequenceKnownInPart: a sender that
        hears that nothing was stored may send it to another queue."""
        entry = self._table.entry(key)
        if entry is not None and entry.last >= first:
            raise SequenceKnownInPart(first, entry.last) from None

    def _check(
        self, request: SendSequenced | SendDelayedSequenced | SendHalves, *, has_gaps: bool
    ) -> tuple[Key, ProducerEntry | None]:
        first, count = request.first_sequence, request.count
        check_sequences(first, count)
        key = (check_producer_id(request.producer_id), request.topic, request.queue_id)
        return key, self._table.check(key, first, count, has_gaps=has_gaps, now_ms=self._clock.monotonic_ms())

    def _fill_in(
        self,
        data: bytearray | memoryview,
        begin: int,
        end: int,
        request: SendSequenced | SendDelayedSequenced | SendHalves,
    ) -> None:
        """Writes producer and sequence into the records. Raises MessageIllegal."""
        if begin >= end:
            raise MessageIllegal("a send without records")
        producer_id = request.producer_id.encode()
        done = write_sequences(data, begin, end, self._record_max, producer_id, request.first_sequence)
        if done <= 0:
            raise MessageIllegal(why_refused(done, data, begin, end))


def _is_side_by_side(pieces: list[Piece]) -> bool:
    """True if they are contiguous in the queue."""
    ends = [piece.queue_offset + piece.last - piece.first + 1 for piece in pieces]
    return all(end == piece.queue_offset for end, piece in zip(ends, pieces[1:], strict=False)) and not any(
        piece.waits for piece in pieces
    )
