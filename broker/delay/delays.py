"""Delayed messages of one broker: accepts them, delivers them when they are due, keeps them past retention.

A waiting message is a record in rmq_sys_wheel_timer. The record that ends the wait names it in its header (-1 - the
physical offset): its copy in the real topic, the same record again at the end of the log (retention deletes the old one),
or a record that recalls it. A broker that has that record in its log knows that the wait ended, so a crash or a change of
master cannot leave it half done. Only a master that `leads` delivers. Loop thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...model.clock import Clock
from ...model.errors import (
    CorruptRecordError,
    MessageIllegal,
    MessageNotFound,
    MessageTooLarge,
    StoreNotWriteable,
)
from ...model.names import SCHEDULE_TOPIC, TIMER_TOPIC, check_topic
from ...model.properties import TIMER_DELETES, TIMER_DELIVER_MS, TIMER_OUT_MS, UNIQUE_KEY, decode_properties
from ...record.kernel import StoredMessage, decode_record
from ...record.new_record import NewRecord
from ...record.sys_flag import ENDS_WAIT
from ...store.message_store import MessageStore, Placed
from ..waiting.copies import real_queue
from ..waiting.waiting_index import WaitingIndex
from ..waiting.waiting_records import TURN_BYTES, Found, LoopTimers, WaitingRecords
from ..waiting.waiting_table import Entry, WaitingTable
from .pace import Pace
from .rewriting import delivered_record, handed_record, rolled_record
from .timing import (
    RECALL_BODY,
    WAITING_NAMES,
    DelayRules,
    due_of,
    handed_out_ms,
    is_ours,
    recall_properties,
    waiting_properties,
)

log = logging.getLogger(__name__)

TURN_MS: Final = 3  # after this time the rest waits for the next turn, even if few were delivered
LOOKS: Final = 32  # messages between two reads of the clock
FOREIGN_MAX: Final = 1000
_COPIES_MAX: Final = 16
_ALL_TIME: Final = 1 << 62
_UNKNOWN: Final = "none"  # instead of a message id or a topic

_WAITING_TEXTS: Final = frozenset(name.decode() for name in WAITING_NAMES)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy for a queue, and the entry whose wait it ends."""

    entry: Entry
    record: bytes


class Delays:
    """The DelayStage of a broker. `delivered`, `discarded` count since the start."""

    def __init__(
        self,
        store: MessageStore,
        index: WaitingIndex,
        loop: LoopTimers,
        clock: Clock,
        rules: DelayRules,
        *,
        leads: Callable[[], bool],
        on_damaged: Callable[[], None],
        queues_of: Callable[[str], int],
        made_at: Callable[[str], int],
        pace: Pace,
        store_host_bytes: int,
    ) -> None:
        """`on_damaged`: called when the index must be opened again; nothing is delivered until then.

        `queues_of`: how many queues a topic has; 0: there is no such topic. `made_at`: the end, in the log, of the record
        that created a topic; 0 = not known. `store_host_bytes`: of the host that this broker writes into records, 8 or 20.
        """
        self.rules = rules
        self.delivered = 0
        self._dropped = 0
        self._store = store
        self._clock = clock
        self._waiting = WaitingRecords(
            store, index, loop, clock, self, leads=leads, on_damaged=on_damaged, what="delayed message"
        )
        self._queues_of = queues_of
        self._made_at = made_at
        self._pace = pace
        self._host_bytes = store_host_bytes
        self._foreign: dict[tuple[str, str], int] = {}  # {(topic, unique id): log end then}, delivered by us

    def start(self) -> None:
        """Starts checking the clock."""
        self._waiting.start()

    @property
    def discarded(self) -> int:
        """How many were not delivered since the start: their topic is gone, or the log had something else there."""
        return self._dropped + self._waiting.forgotten

    @property
    def _table(self) -> WaitingTable:
        return self._waiting.table

    # ---- accepting

    def stage_delayed(self, record: NewRecord, deliver_at_ms: int) -> Placed:
        """See DelayStage."""
        now_ms = self._clock.now_ms()
        self.rules.check(deliver_at_ms, now_ms)
        given = decode_properties(record.properties) if isinstance(record.properties, bytes) else record.properties
        own = {name: value for name, value in given.items() if name not in _WAITING_TEXTS}
        if deliver_at_ms <= now_ms:
            return self._store.stage_record(replace(record, properties=own))
        own |= waiting_properties(check_topic(record.topic), record.queue_id, deliver_at_ms)
        return self._store.stage_record(replace(record, topic=TIMER_TOPIC, queue_id=0, properties=own))

    def stage_end(self, offset: int, topic: str, message_id: str, due_ms: int) -> Placed:
        """Stages the end of the wait of the record at `offset`, without a delivery. Raises StoreNotWriteable, StorePoisoned."""
        placed = self._store.stage_record(
            NewRecord(
                topic=TIMER_TOPIC,
                queue_id=0,
                body=RECALL_BODY,
                properties=recall_properties(topic, message_id, due_ms),
                prepared_transaction_offset=-1 - offset,
            )
        )
        self._table.on_end_staged(offset)
        return placed

    def is_waiting(self, offset: int, due_ms: int) -> bool:
        """Whether the record at `offset` is still to be delivered, at `due_ms`; false if a staged record ends its wait."""
        return self._table.is_waiting(offset, due_ms)

    # ---- delivering

    def check(self, message: StoredMessage, properties: dict[str, str], due_ms: int) -> None:
        """See WaitDuty."""
        if due_of(message.topic, properties, due_ms) != due_ms:
            raise MessageNotFound(f"a record that waits until {due_ms} at {message.physical_offset}")
        real_queue(properties)

    def act(self, now_ms: int) -> int:
        """See WaitDuty: stages the due messages that may be delivered now."""
        allowed = self._pace.allowed(self._clock.monotonic_ms())
        entries = self._waiting.take_due(now_ms, count_max=allowed)
        if not entries:
            return 0
        self._pace.spend(self._deliver_all(entries))
        return len(entries)

    def _deliver_all(self, entries: list[Entry]) -> int:
        """Stages copies grouped by queue, so that each queue's are one run; returns how many entries were handled."""
        queues: dict[tuple[str, int], list[_Copy]] = {}
        size = done = 0
        began_ms = self._clock.monotonic_ms()
        for entry in entries:
            is_late = done % LOOKS == LOOKS - 1 and self._clock.monotonic_ms() - began_ms >= TURN_MS
            if size >= TURN_BYTES or is_late:
                break
            done += 1
            found = self._waiting.read(entry, is_taken=True)
            if found is not None:
                message, properties = found
                topic, queue_id = real_queue(properties)
                if self._is_wanted(message, properties, topic):
                    queue = topic, queue_id % self._queues_of(topic)  # a recreated topic may have fewer queues
                    if self._may_have_copy(message, properties):
                        self._note_foreign(topic, properties.get(UNIQUE_KEY, ""))
                    copy = _Copy(entry, delivered_record(message, *queue, self._host_bytes))
                    size += len(copy.record)
                    queues.setdefault(queue, []).append(copy)
                else:
                    self._discard(entry, properties, topic)
        self._table.put_back(entries[done:])
        self._stage_queues(queues)
        return done

    def _stage_queues(self, queues: dict[tuple[str, int], list[_Copy]]) -> None:
        """Raises StoreNotWriteable, StorePoisoned; entries that were not staged are due again then."""
        while queues:
            (topic, queue_id), copies = next(iter(queues.items()))
            try:
                self._stage(topic, queue_id, copies)
            except StoreNotWriteable:
                for waiting in queues.values():
                    self._table.put_back(copy.entry for copy in waiting)
                raise
            del queues[topic, queue_id]

    def _stage(self, topic: str, queue_id: int, copies: list[_Copy]) -> None:
        try:
            self._store.stage_own(
                b"".join([copy.record for copy in copies]),
                topic=topic,
                queue_id=queue_id,
                count=len(copies),
                flags=ENDS_WAIT,
            )
            self.delivered += len(copies)
            for copy in copies:
                self._table.on_end_staged(copy.entry[1])
        except MessageIllegal as error:
            if len(copies) == 1:  # it fitted the limits of its time, but not today's
                self._waiting.forget(copies[0].entry, str(error))
                return
            for at, copy in enumerate(copies):
                try:
                    self._stage(topic, queue_id, [copy])
                except StoreNotWriteable:
                    del copies[:at]
                    raise

    def _discard(self, entry: Entry, properties: Mapping[str, str], topic: str) -> None:
        try:
            self.stage_end(entry[1], topic, properties.get(UNIQUE_KEY, _UNKNOWN), entry[0])
        except StoreNotWriteable:
            self._table.put_back([entry])
            return
        self._dropped += 1

    # ---- what RocketMQ left

    def _is_wanted(self, message: StoredMessage, properties: Mapping[str, str], topic: str) -> bool:
        """Whether it is to be delivered: its topic still exists, was not recreated after it, and RocketMQ neither delivered
        nor recalled it.

        A record that is appended again, for retention, would be newer than a recreated topic: so this is asked before that
        too.
        """
        if not self._queues_of(topic):
            log.warning(
                "what waited for a topic that is gone is dropped topic=%s message=%s", topic, message.message_id
            )
            return False
        if message.physical_offset < self._made_at(topic):
            log.warning(
                "a message that waited for a deleted topic, which was created again since, is dropped topic=%s message=%s",
                *(topic, message.message_id),
            )
            return False
        unique = properties.get(UNIQUE_KEY)
        if unique is None or not self._may_have_copy(message, properties):
            return True
        return (topic, unique) not in self._foreign and not self._has_copy(topic, unique, message.physical_offset)

    def _may_have_copy(self, message: StoredMessage, properties: Mapping[str, str]) -> bool:
        """Whether RocketMQ may have delivered it without a record that names it: one of its own, or any that waited while
        RocketMQ had the store.
        """
        is_own = message.topic != SCHEDULE_TOPIC and is_ours(properties)
        return not is_own or message.physical_offset < self._store.foreign_end

    def _has_copy(self, topic: str, unique: str, offset: int) -> bool:
        """Whether a later copy of it is in the log, or a record that recalls it."""
        for where in (topic, TIMER_TOPIC):
            for record in self._store.query(
                where, unique, max_messages=_COPIES_MAX, begin_ms=0, end_ms=_ALL_TIME, unique=True
            ):
                found = decode_record(record)
                if where == topic and found.physical_offset > offset:
                    return True
                if where == TIMER_TOPIC and TIMER_DELETES in found.properties:
                    return True
        return False

    def _note_foreign(self, topic: str, unique: str) -> None:
        """Remembers a copy of ours, because the key index does not find it before it is confirmed."""
        if len(self._foreign) >= FOREIGN_MAX:
            confirmed = self._store.confirm_offset
            self._foreign = {key: end for key, end in self._foreign.items() if end >= confirmed}
        self._foreign[topic, unique] = self._store.written

    # ---- retention

    def clear_below(self, offset: int) -> bool:
        """See WaitingRecords."""
        return self._waiting.clear_below(offset)

    def carry(self, entry: Entry, found: Found) -> int:
        """See WaitDuty."""
        message, properties = found
        topic, _ = real_queue(properties)
        if not self._is_wanted(message, properties, topic):
            self._discard(entry, properties, topic)
            return 0
        try:
            record = rolled_record(message, entry[0], self._host_bytes)
            self._store.stage_own(record, topic=TIMER_TOPIC, queue_id=0, count=1, flags=ENDS_WAIT)
            self._table.on_end_staged(entry[1])
        except (MessageTooLarge, MessageIllegal) as error:
            self._waiting.forget(entry, str(error))
            return 0
        return len(record)

    def give_up(self, entry: Entry) -> None:
        """See WaitDuty."""
        self.stage_end(entry[1], _UNKNOWN, _UNKNOWN, entry[0])

    # ---- for a broker of RocketMQ

    def hand_on(self, entry: Entry, read_ms: int, handed: set[tuple[str, str]]) -> Placed | None:
        """Stages the same message for RocketMQ to deliver, which continues reading its wheel at `read_ms`.

        None if it is not to be delivered: its topic is gone, or RocketMQ has delivered it, recalled it, or written it twice
        while it waited. `handed`: (topic, unique id) of the messages staged so that RocketMQ
        may have written; this call adds its own.

        Raises CorruptRecordError (its record cannot be read), MessageTooLarge, MessageIllegal, StorePoisoned,
        StoreNotWriteable.
        """
        found = self._waiting.read(entry, is_taken=False)
        if found is None:
            raise CorruptRecordError(entry[1], 0, "it cannot be read whole")
        message, properties = found
        topic, _ = real_queue(properties)
        if not self._is_wanted(message, properties, topic):
            return None
        unique = properties.get(UNIQUE_KEY)
        if unique is not None and self._may_have_copy(message, properties):
            if (topic, unique) in handed:
                return None
            handed.add((topic, unique))
        out_ms = handed_out_ms(message.topic, properties, entry[0], read_ms)
        record = handed_record(message, out_ms, self._host_bytes)
        placed = self._store.stage_own(record, topic=TIMER_TOPIC, queue_id=0, count=1, flags=ENDS_WAIT)
        self._table.on_end_staged(entry[1])
        return placed

    # ---- for operators

    @property
    def waiting_count(self) -> int:
        """How many wait. Any thread."""
        return self._waiting.table.count

    @property
    def next_due_ms(self) -> int | None:
        """When the first of them is due, as far as it was looked ahead; None if nothing waits."""
        due_ms = self._waiting.table.next_due_ms()
        return due_ms or None

    @property
    def damaged_count(self) -> int:
        """Those that damage keeps from being delivered. Any thread."""
        return len(self._waiting.table.aside)

    def document(self) -> dict[str, int | None]:
        """For statistics: those of WaitingRecords, and the counts of delivered and discarded messages."""
        return {**self._waiting.document(), "delivered": self.delivered, "discarded": self.discarded}


def message_recalled(record: bytes, topic: str, deliver_at_ms: int) -> Entry | None:
    """The entry of a record that waits for `topic` with this delivery time; None if it is another record.

    Its due time is earlier if it was handed to RocketMQ meanwhile, whose times are whole seconds.
    """
    message = decode_record(record)
    properties = decode_properties(message.properties_as_stored)
    due_ms = due_of(message.topic, properties, deliver_at_ms)
    if due_ms is None or str(deliver_at_ms) not in (properties.get(TIMER_OUT_MS), properties.get(TIMER_DELIVER_MS)):
        return None
    return (due_ms, message.physical_offset) if real_queue(properties)[0] == topic else None
