"""Records that wait in the log: read when they are due, blocked by damage, kept past retention.

A `WaitDuty` says what happens to them: delayed messages are delivered, half messages are asked about. Damaged records:

    a replica may have it soon    -> due again each second
    no replica gave it in time    -> aside: the log keeps it -- repaired, however late --> due again
                                                 '- no replica has it --> lost: logged by name, the log need not keep it

Only a master that `leads` does anything. Loop thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import is_
from typing import Final, Protocol

from ...model.clock import Clock
from ...model.errors import (
    CorruptRecordError,
    MessageIllegal,
    MessageNotFound,
    OffsetOutOfRange,
    StoreFormatError,
    StoreNotWriteable,
    StorePoisoned,
)
from ...model.events.table import MESSAGE_HELD, MESSAGE_LOST
from ...model.events.telling import tell
from ...model.queue import PhysicalOffset
from ...record.kernel import StoredMessage, decode_record
from ...remoting.timers import Timer
from ...store.integrity.quarantine import Range
from ...store.message_store import MessageStore
from .waiting_index import WaitingIndex
from .waiting_table import LOOK_AHEAD_MS, Entry, WaitingTable
from .whole_ranges import WholeRanges

log = logging.getLogger(__name__)

WAKE_MS: Final = 50  # longest time between two reads of the clock, which may have been set
IDLE_MS: Final = LOOK_AHEAD_MS // 2  # the same while nothing waits: the window holds all that is due within that time
RETRY_MS: Final = 200  # while the store refuses writes
DAMAGED_RETRY_MS: Final = 1000  # while a replica may have the record
LOOK_BYTES: Final = 64 * 1024  # of the log, checked against its checksums at once
WINDOW_ENTRIES: Final = 2048
CARRY_COUNT: Final = 256
TURN_BYTES: Final = 256 << 10  # per turn of the loop; one message may exceed it

Found = tuple[StoredMessage, dict[str, str]]
"""A waiting record and its properties."""


class LoopTimers(Protocol):
    """The loop, as far as it is used here."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Calls it once, in the loop's thread."""


class WaitDuty(Protocol):
    """What happens to the waiting records of one kind. Every method may raise StoreNotWriteable, StorePoisoned."""

    def check(self, message: StoredMessage, properties: dict[str, str], due_ms: int) -> None:
        """Checks that a record is what the index entry says.

        Raises MessageNotFound if it is not, MessageIllegal if it cannot be used at all.
        """

    def act(self, now_ms: int) -> int:
        """Handles due entries; returns how many."""

    def carry(self, entry: Entry, found: Found) -> int:
        """Appends again a record that is to outlive its segment, or ends its wait; returns how many bytes it appended."""

    def give_up(self, entry: Entry) -> None:
        """Stages the end of a lost record's wait. Without it, slaves would keep the record's segment."""


class WaitingRecords:
    """The waiting records of one index.

    `forgotten`: how many were given up since the start because the log had something else there.
    """

    def __init__(
        self,
        store: MessageStore,
        index: WaitingIndex,
        loop: LoopTimers,
        clock: Clock,
        duty: WaitDuty,
        *,
        leads: Callable[[], bool],
        on_damaged: Callable[[], None],
        what: str,
    ) -> None:
        """`on_damaged`: called when the index must be opened again; nothing is done until then. `what`: their name in logs."""
        self.forgotten = 0
        self._store = store
        self._index = index
        self._loop = loop
        self._clock = clock
        self._duty = duty
        self._leads = leads
        self._on_damaged = on_damaged
        self._what = what
        self._was_leading = False
        self._carry_below = 0
        self._expired_below = (
            0  # waits given up below this offset are gone here, and must still be ended in the slaves' logs
        )
        self._damage_seen: tuple[Sequence[Range], ...] = ()
        self._whole = WholeRanges()
        self._asleep: Timer | None = None  # the next wake, while nothing waits
        index.on_changed = self._on_changed

    @property
    def table(self) -> WaitingTable:
        """What waits."""
        return self._index.table

    def start(self) -> None:
        """Starts checking the clock."""
        self._loop.call_later(0, self._on_wake)

    # ---- when they are due

    def _on_changed(self) -> None:
        """A wait has begun or ended: it is looked at now, however late the next wake was to be."""
        if self._asleep is not None:
            self._asleep.cancel()
            self._asleep = None
            self._loop.call_later(0, self._on_wake)

    def _on_wake(self) -> None:
        self._asleep = None
        delay_ms = WAKE_MS
        try:
            if self._leads():
                self._was_leading = True
                self._look_aside()
                delay_ms = self._act()
                if self._carry_below:
                    self._carry()
                if self._expired_below:
                    self._end_given_up()
                if self._carry_below or self._expired_below:
                    delay_ms = min(delay_ms, WAKE_MS)
            else:
                if self._was_leading:
                    self._was_leading = False
                    self.table.forget_window()
                if not self.table.count:
                    delay_ms = IDLE_MS
        except StoreNotWriteable:
            delay_ms = RETRY_MS
        except StorePoisoned:
            return  # the store has told the broker, which stops
        except StoreFormatError as error:
            log.warning("what is due cannot be told what=%s error=%s", self._what, error)
        if self._index.is_damaged:
            self._on_damaged()
            return
        timer = self._loop.call_later(delay_ms, self._on_wake)
        if delay_ms == IDLE_MS:
            self._asleep = timer

    def _act(self) -> int:
        """Returns the delay until the next call, ms."""
        now_ms, table = self._clock.now_ms(), self.table
        table.look_ahead(now_ms, count_max=WINDOW_ENTRIES)
        done = self._duty.act(now_ms)
        due_ms = table.next_due_ms()
        if due_ms is None:
            return IDLE_MS
        return min(max(due_ms - now_ms, 0 if done else 5), WAKE_MS)

    def take_due(self, now_ms: int, *, count_max: int) -> list[Entry]:
        """Entries that are due and whose record is confirmed, earliest first, each once."""
        return self.table.take_due(now_ms, count_max=count_max, below=self._store.confirm_offset)

    # ---- reading

    def read(self, entry: Entry, *, is_taken: bool) -> Found | None:
        """The record that an index entry refers to, or None.

        None if the log has something else there (then the entry is forgotten); if it is not confirmed yet, since another
        master may not have it; if its bytes are damaged. A damaged entry that was taken is due again soon while a replica
        may return the bytes; otherwise it is set aside.
        """
        due_ms, offset = entry
        if offset >= self._store.confirm_offset:
            return None
        try:
            message = decode_record(self._store.record_at(PhysicalOffset(offset)))
            properties = message.properties
            self._duty.check(message, properties, due_ms)
            if not self._is_as_sent(message):
                raise MessageNotFound(f"a record that waits until {due_ms} at {offset}")
            if not self._is_whole(offset):
                raise CorruptRecordError(offset, message.size_bytes, "checksum")
        except (MessageNotFound, CorruptRecordError, MessageIllegal) as error:
            damage = self._store.damage
            if damage.may_return(offset):
                if is_taken:
                    self._loop.call_later(DAMAGED_RETRY_MS, lambda: self._look_again(entry))
            elif damage.quarantine.ranges_in(offset, offset + 1):
                tell(log, MESSAGE_HELD, what=self._what, due_ms=due_ms, offset=offset, why=error)
                self.table.set_aside(entry)
                self._damage_seen = ()
            else:
                self.forget(entry, str(error))
            return None
        return message, properties

    def _look_again(self, entry: Entry) -> None:
        """Makes an entry due again whose record could not be read, unless its wait ended meanwhile: the record may have
        been appended again, or another broker may have led for a moment and ended it. The journal may have dropped that
        end by now, so the store is asked.
        """
        with suppress(StoreFormatError):  # then the index is rebuilt, with all waits in it
            if self.table.is_waiting(entry[1], entry[0]):
                self.table.put_back([entry])

    def _is_as_sent(self, message: StoredMessage) -> bool:
        """Whether the body matches its CRC, or came with a wrong one: then the checksum entry of its append says so."""
        begin = message.physical_offset
        return message.body_crc_matches or self._store.vouches_for(begin, begin + message.size_bytes)

    def _is_whole(self, offset: int) -> bool:
        """Whether the append of the record at `offset` matches its checksum: nothing else protects the record's properties.

        Raises MessageNotFound if it has expired.
        """
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
        """Makes entries that were set aside due again once their record is whole, or lost once no replica has it.

        Does nothing while the damage is unchanged.
        """
        table, quarantine = self.table, self._store.damage.quarantine
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
                    why = "its record is damaged, and no replica has it"
                    tell(log, MESSAGE_LOST, what=self._what, due_ms=due_ms, offset=offset, why=why)
        table.lose(lost)

    def forget(self, entry: Entry, why: str) -> None:
        """Gives an entry up: it is ignored until the next start."""
        if self.table.given_up_due_of(entry[1]) is not None:
            return
        tell(log, MESSAGE_LOST, what=self._what, due_ms=entry[0], offset=entry[1], why=why)
        self.table.forget(entry)
        self.forgotten += 1

    # ---- retention

    def clear_below(self, offset: int) -> bool:
        """Whether nothing below `offset` waits; if something does, a master begins to append it again. See
        MessageStore.keep_waiting.

        Records that were given up do not hold the log. A master then appends an end of their waits, because nothing else
        lets its slaves delete their own segments. It does so only once its own segment may go: until then a replica or an
        operator may still bring the record back.
        """
        try:
            if not self.table.has_below(offset):
                self._expired_below = max(self._expired_below, offset)
                return True
        except StoreFormatError:  # no segment is deleted until the index is whole again
            return False
        self._carry_below = max(self._carry_below, offset)
        return False

    def _carry(self) -> None:
        """Appends again some of the waiting records whose segments are about to expire."""
        entries = self.table.below(self._carry_below, count_max=CARRY_COUNT)
        if not entries and not self.table.has_below(self._carry_below):
            self._carry_below = 0
        size = 0
        for entry in entries:
            if size >= TURN_BYTES:
                return
            found = self.read(entry, is_taken=False)
            if found is not None:
                size += self._duty.carry(entry, found)

    def _end_given_up(self) -> None:
        """Ends the waits of some records that were given up and whose segments are deleted.

        Raises StoreNotWriteable, StorePoisoned.
        """
        entries = self.table.given_up_below(self._expired_below, count_max=CARRY_COUNT)
        if not entries:
            self._expired_below = 0
        for entry in entries:
            self._duty.give_up(entry)

    # ---- for operators

    def document(self) -> dict[str, int | None]:
        """For statistics.

        `damaged`: waiting records that are blocked by damage; `lost`: those of them without a whole copy anywhere.
        """
        return {
            "waiting": self.table.count,
            "first_due_ms": self.table.first_due_ms(),
            "damaged": len(self.table.aside),
            "lost": len(self.table.lost & self.table.aside.keys()),
        }
