"""Delayed messages of one broker: taking them, delivering them when they are due, carrying them past retention.

A message that waits is a record in rmq_sys_wheel_timer. The record by which its wait ends names it in its header (-1 - the
physical offset): its copy in the real topic, the same record once more at the log's end (retention takes the old one), or
one that says it was taken back. Whoever has that record in its log knows that the wait is over, so there is nothing that
a crash or a change of master could leave half done. Only a master that `leads` delivers. Loop thread.

    record damaged, a replica may have it soon -> due again each second
    no replica gave it in time                 -> aside, the log keeps it -- mended, however late --> due again
                                                    '- no replica has it --> lost: told by name, the log need not keep it
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import is_
from typing import Final, Protocol

from ...model.clock import Clock
from ...model.errors import (
    CorruptRecordError,
    MessageIllegal,
    MessageNotFound,
    MessageTooLarge,
    OffsetOutOfRange,
    StoreFormatError,
    StoreNotWriteable,
    StorePoisoned,
)
from ...model.names import SCHEDULE_TOPIC, TIMER_TOPIC, check_topic
from ...model.properties import TIMER_DELETES, TIMER_DELIVER_MS, TIMER_OUT_MS, UNIQUE_KEY, decode_properties
from ...model.queue import PhysicalOffset
from ...record.kernel import StoredMessage, decode_record
from ...record.new_record import NewRecord
from ...record.sys_flag import ENDS_WAIT
from ...store.integrity.quarantine import Range
from ...store.message_store import MessageStore, Placed
from .pace import Pace
from .rewriting import delivered_record, handed_record, rolled_record
from .timer_index import TimerIndex
from .timing import (
    RECALL_BODY,
    WAITING_NAMES,
    due_of,
    handed_out_ms,
    is_ours,
    real_queue,
    recall_properties,
    waiting_properties,
)
from .waiting_table import Entry
from .whole_ranges import WholeRanges

log = logging.getLogger(__name__)

WAKE_MS: Final = 50  # at most between two looks at the clock, which may have been set
RETRY_MS: Final = 200  # once the store takes nothing
DAMAGED_RETRY_MS: Final = 1000  # while a replica may have the record
TURN_BYTES: Final = 256 << 10  # one message more
TURN_MS: Final = 3  # after this the rest is left to the next turn, however few they were
LOOK_BYTES: Final = 64 * 1024  # of the log, held to its checksums at once
LOOKS: Final = 32  # messages between two looks at the clock
WINDOW_ENTRIES: Final = 2048
CARRY_COUNT: Final = 256
FOREIGN_MAX: Final = 1000
_COPIES_MAX: Final = 16
_ALL_TIME: Final = 1 << 62
_UNKNOWN: Final = "none"  # in place of a message id or a topic

_WAITING_TEXTS: Final = frozenset(name.decode() for name in WAITING_NAMES)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A record on its way to its queue, and the entry whose wait it ends."""

    entry: Entry
    record: bytes


class DelayTimers(Protocol):
    """What calls back later: the loop."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> object:
        """Calls it once, in the loop's thread."""


class Delays:
    """A DelayStage. `delivered`, `discarded` count since the start."""

    def __init__(
        self,
        store: MessageStore,
        index: TimerIndex,
        loop: DelayTimers,
        clock: Clock,
        *,
        leads: Callable[[], bool],
        on_damaged: Callable[[], None],
        queues_of: Callable[[str], int],
        made_at: Callable[[str], int],
        pace: Pace,
        store_host_bytes: int,
    ) -> None:
        """`on_damaged`: nothing is delivered until the index is opened again. `queues_of`: how many queues a topic has; 0:
        there is none. `made_at`: where the record that created a topic ends in the log; 0 = not known. `store_host_bytes`: of
        the host that this broker writes into records, 8 or 20."""
        self.rules = index.rules
        self.delivered = 0
        self.discarded = 0
        self._store = store
        self._index = index
        self._table = index.table
        self._loop = loop
        self._clock = clock
        self._leads = leads
        self._on_damaged = on_damaged
        self._queues_of = queues_of
        self._made_at = made_at
        self._pace = pace
        self._host_bytes = store_host_bytes
        self._was_leading = False
        self._carry_below = 0
        self._expired_below = 0  # what was given up below is gone here, and to be ended in the slaves' logs
        self._damage_seen: tuple[Sequence[Range], ...] = ()
        self._whole = WholeRanges()
        self._foreign: dict[tuple[str, str], int] = {}  # of RocketMQ's, ended by us: where the log ended then

    def start(self) -> None:
        """From here on it looks at the clock by itself."""
        self._loop.call_later(0, self._on_wake)

    # ---- taking

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
        """Stages that the record at `offset` waits no longer and is not delivered. Raises StoreNotWriteable, StorePoisoned."""
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
        """Whether the record at `offset` is still to be delivered, at `due_ms`: nothing that ends its wait is staged either."""
        return self._table.is_waiting(offset, due_ms)

    # ---- delivering

    def _on_wake(self) -> None:
        delay_ms = WAKE_MS
        try:
            if self._leads():
                self._was_leading = True
                self._look_aside()
                delay_ms = self._deliver()
                if self._carry_below:
                    self._carry()
                if self._expired_below:
                    self._end_given_up()
            elif self._was_leading:
                self._was_leading = False
                self._table.forget_window()
        except StoreNotWriteable:
            delay_ms = RETRY_MS
        except StorePoisoned:
            return  # the store has told the broker, which ends
        except StoreFormatError as error:
            log.warning("what is due cannot be told error=%s", error)
        if self._index.is_damaged:
            self._on_damaged()
            return
        self._loop.call_later(delay_ms, self._on_wake)

    def _deliver(self) -> int:
        """Stages what is due and may go now; returns when to come again, ms."""
        now_ms, table = self._clock.now_ms(), self._table
        table.look_ahead(now_ms, count_max=WINDOW_ENTRIES)
        allowed = self._pace.allowed(self._clock.monotonic_ms())
        entries = table.take_due(now_ms, count_max=allowed, below=self._store.confirm_offset)
        if entries:
            self._pace.spend(self._deliver_all(entries))
        due_ms = table.next_due_ms()
        if due_ms is None:
            return WAKE_MS
        return min(max(due_ms - now_ms, 0 if entries else 5), WAKE_MS)

    def _deliver_all(self, entries: list[Entry]) -> int:
        """Groups copies by queue, so that each queue's are one run; returns how many entries were seen to."""
        queues: dict[tuple[str, int], list[_Copy]] = {}
        size = done = 0
        began_ms = self._clock.monotonic_ms()
        for entry in entries:
            is_late = done % LOOKS == LOOKS - 1 and self._clock.monotonic_ms() - began_ms >= TURN_MS
            if size >= TURN_BYTES or is_late:
                break
            done += 1
            found = self._waiting_message(entry, is_taken=True)
            if found is not None:
                message, properties = found
                topic, queue_id = real_queue(properties)
                if self._is_wanted(message, properties, topic):
                    queue = topic, queue_id % self._queues_of(topic)  # made anew since, it may have fewer
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
        """Raises StoreNotWriteable, StorePoisoned; what was not staged is due again then."""
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
            if len(copies) == 1:  # no limit let it in once that is lower now
                self._forget(copies[0].entry, str(error))
                return
            for at, copy in enumerate(copies):
                try:
                    self._stage(topic, queue_id, [copy])
                except StoreNotWriteable:
                    del copies[:at]
                    raise

    def _waiting_message(self, entry: Entry, *, is_taken: bool) -> tuple[StoredMessage, dict[str, str]] | None:
        """The record that the index means, and its properties; None, and the entry forgotten, where the log has something
        else there. Where its bytes have rotted and a replica may give them back, an entry that was taken is due again soon;
        else it is set aside."""
        due_ms, offset = entry
        try:
            message = decode_record(self._store.record_at(PhysicalOffset(offset)))
            properties = message.properties
            known = due_of(message.topic, properties, due_ms)
            if known != due_ms or not self._is_as_sent(message):
                raise MessageNotFound(f"a record that waits until {due_ms} at {offset}")
            real_queue(properties)
            if not self._is_whole(offset):
                raise CorruptRecordError(offset, message.size_bytes, "checksum")
        except (MessageNotFound, CorruptRecordError, MessageIllegal) as error:
            damage = self._store.damage
            if damage.may_return(offset):
                if is_taken:
                    self._loop.call_later(DAMAGED_RETRY_MS, lambda: self._look_again(entry))
            elif damage.quarantine.ranges_in(offset, offset + 1):
                log.warning("a delayed message is held up by damage due_ms=%s offset=%s reason=%s", *entry, error)
                self._table.set_aside(entry)
                self._damage_seen = ()
            else:
                self._forget(entry, str(error))
            return None
        return message, properties

    def _look_again(self, entry: Entry) -> None:
        """An entry whose record could not be read is due again, unless its wait was ended meanwhile: it may have been carried
        on, or delivered by who led for a moment. The index may have forgotten that end by now, so its store is asked."""
        with suppress(StoreFormatError):  # it is made anew then, and all that waits with it
            if self._table.is_waiting(entry[1], entry[0]):
                self._table.put_back([entry])

    def _is_as_sent(self, message: StoredMessage) -> bool:
        """Whether the body has its checksum, or came without: its append's entry says so then."""
        begin = message.physical_offset
        return message.body_crc_matches or self._store.vouches_for(begin, begin + message.size_bytes)

    def _is_whole(self, offset: int) -> bool:
        """Whether the append of the record at `offset` agrees with its checksum: nothing else vouches for its properties.
        Raises MessageNotFound where it has expired."""
        now_ms, damage = self._clock.monotonic_ms(), self._store.damage
        if self._whole.has(offset, now_ms):
            return True
        try:
            looked_at = damage.look(offset, LOOK_BYTES)
        except OffsetOutOfRange as error:
            raise MessageNotFound(f"physical offset {offset}") from error
        if looked_at is not None:
            self._whole.add(*looked_at)
        return looked_at is not None or not damage.quarantine.ranges_in(offset, offset + 1)

    def _look_aside(self) -> None:
        """What was set aside is due again once its record is whole, and lost once no replica has it. Where the damage is as it
        was, there is nothing to do."""
        table, quarantine = self._table, self._store.damage.quarantine
        damage = quarantine.ranges, quarantine.awaited, quarantine.sought
        if not table.aside or (all(map(is_, damage, self._damage_seen)) and self._damage_seen):
            return
        self._damage_seen = damage
        lost = []
        for offset, due_ms in list(table.aside.items()):
            if not quarantine.ranges_in(offset, offset + 1):
                table.take_back(offset)
            elif not quarantine.may_come_back(offset, offset + 1):
                lost.append(offset)
                if offset not in table.lost:
                    log.error(
                        "a delayed message is lost: its record is damaged, and no replica has it due_ms=%s offset=%s",
                        *(due_ms, offset),
                    )
        table.lose(lost)

    def _forget(self, entry: Entry, why: str) -> None:
        log.warning("what waits is not delivered due_ms=%s offset=%s reason=%s", *entry, why)
        self._table.forget(entry[1])
        self.discarded += 1

    def _discard(self, entry: Entry, properties: Mapping[str, str], topic: str) -> None:
        try:
            self.stage_end(entry[1], topic, properties.get(UNIQUE_KEY, _UNKNOWN), entry[0])
        except StoreNotWriteable:
            self._table.put_back([entry])
            return
        self.discarded += 1

    # ---- what RocketMQ left

    def _is_wanted(self, message: StoredMessage, properties: Mapping[str, str], topic: str) -> bool:
        """Whether it is to be delivered: its topic is still there, not another one that was made later, and RocketMQ did not
        deliver it or take it back.

        What is carried past retention lies behind the topic again: so it is asked of that too, before it is carried.
        """
        if not self._queues_of(topic):
            log.warning(
                "what waited for a topic that is gone is dropped topic=%s message=%s", topic, message.message_id
            )
            return False
        if message.physical_offset < self._made_at(topic):
            log.warning(
                "what waited for a topic that was deleted, and made anew since, is dropped topic=%s message=%s",
                *(topic, message.message_id),
            )
            return False
        unique = properties.get(UNIQUE_KEY)
        if unique is None or not self._may_have_copy(message, properties):
            return True
        return (topic, unique) not in self._foreign and not self._has_copy(topic, unique, message.physical_offset)

    def _may_have_copy(self, message: StoredMessage, properties: Mapping[str, str]) -> bool:
        """Whether RocketMQ may have delivered it, which nothing names: its own, and any that waited while it had the store."""
        is_own = message.topic != SCHEDULE_TOPIC and is_ours(properties)
        return not is_own or message.physical_offset < self._store.foreign_end

    def _has_copy(self, topic: str, unique: str, offset: int) -> bool:
        """Whether its copy follows it in the log, or a record that takes it back."""
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
        """The index of keys does not tell of a copy that is not confirmed yet."""
        if len(self._foreign) >= FOREIGN_MAX:
            confirmed = self._store.confirm_offset
            self._foreign = {key: end for key, end in self._foreign.items() if end >= confirmed}
        self._foreign[topic, unique] = self._store.written

    # ---- retention

    def clear_below(self, offset: int) -> bool:
        """Whether nothing below `offset` waits; else a master begins to append it again. See MessageStore.keep_waiting.

        What was given up does not hold the log. A master notes in it then that this waits no longer: its slaves know of nothing
        else that would let their own segments go. Not before, since a replica or an operator may yet bring it back.
        """
        try:
            if not self._table.has_below(offset):
                self._expired_below = max(self._expired_below, offset)
                return True
        except StoreFormatError:  # nothing goes before the index is whole again
            return False
        self._carry_below = max(self._carry_below, offset)
        return False

    def _carry(self) -> None:
        """Appends again some of what waits in segments that are to go."""
        entries = self._table.below(self._carry_below, count_max=CARRY_COUNT)
        if not entries and not self._table.has_below(self._carry_below):
            self._carry_below = 0
        size = 0
        for entry in entries:
            if size >= TURN_BYTES:
                return
            found = self._waiting_message(entry, is_taken=False)
            if found is not None:
                size += self._carry_one(entry, *found)

    def _carry_one(self, entry: Entry, message: StoredMessage, properties: dict[str, str]) -> int:
        topic, _ = real_queue(properties)
        if not self._is_wanted(message, properties, topic):
            self._discard(entry, properties, topic)
            return 0
        try:
            record = rolled_record(message, entry[0], self._host_bytes)
            self._store.stage_own(record, topic=TIMER_TOPIC, queue_id=0, count=1, flags=ENDS_WAIT)
            self._table.on_end_staged(entry[1])
        except (MessageTooLarge, MessageIllegal) as error:
            self._forget(entry, str(error))
            return 0
        return len(record)

    def _end_given_up(self) -> None:
        """Ends the waits of some of what was given up in segments that are gone. Raises StoreNotWriteable, StorePoisoned."""
        entries = self._table.given_up_below(self._expired_below, count_max=CARRY_COUNT)
        if not entries:
            self._expired_below = 0
        for due_ms, offset in entries:
            self.stage_end(offset, _UNKNOWN, _UNKNOWN, due_ms)

    # ---- for a broker of RocketMQ

    def hand_on(self, entry: Entry, read_ms: int, handed: set[tuple[str, str]]) -> Placed | None:
        """Stages the same message for RocketMQ to deliver, which goes on reading its wheel at `read_ms`; None where it is not
        to be delivered: its topic is gone, or RocketMQ has delivered it, taken it back, or written it twice while it waited.
        `handed`: (topic, unique id) of those that RocketMQ may have written and that are handed on; grows.

        Raises CorruptRecordError (its record cannot be read), MessageTooLarge, MessageIllegal, StorePoisoned,
        StoreNotWriteable.
        """
        found = self._waiting_message(entry, is_taken=False)
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

    def document(self) -> dict[str, int | None]:
        """For statistics. `damaged`: of those that wait, how many are held up by damage; `lost`: of these, how many have no
        whole record anywhere."""
        return {
            "waiting": self._table.count,
            "first_due_ms": self._table.first_due_ms(),
            "delivered": self.delivered,
            "discarded": self.discarded,
            "damaged": len(self._table.aside),
            "lost": len(self._table.lost & self._table.aside.keys()),
        }


def message_recalled(record: bytes, topic: str, deliver_at_ms: int) -> Entry | None:
    """The entry of a record that waits for `topic` and was to be delivered then; None where it is another one.

    It is due earlier where it was handed to RocketMQ meanwhile, whose times are whole seconds.
    """
    message = decode_record(record)
    properties = decode_properties(message.properties_as_stored)
    due_ms = due_of(message.topic, properties, deliver_at_ms)
    if due_ms is None or str(deliver_at_ms) not in (properties.get(TIMER_OUT_MS), properties.get(TIMER_DELIVER_MS)):
        return None
    return (due_ms, message.physical_offset) if real_queue(properties)[0] == topic else None
