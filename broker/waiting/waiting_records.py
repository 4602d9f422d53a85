"""Records that wait in the log: read when their time comes, held up by damage, carried past retention.

What is done with them is a `WaitDuty`: delayed messages are delivered, half messages are asked about.

    record damaged, a replica may have it soon -> due again each second
    no replica gave it in time                 -> aside, the log keeps it -- mended, however late --> due again
                                                    '- no replica has it --> lost: told by name, the log need not keep it

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
from ...model.queue import PhysicalOffset
from ...record.kernel import StoredMessage, decode_record
from ...store.integrity.quarantine import Range
from ...store.message_store import MessageStore
from .waiting_index import WaitingIndex
from .waiting_table import Entry, WaitingTable
from .whole_ranges import WholeRanges

log = logging.getLogger(__name__)

WAKE_MS: Final = 50  # at most between two looks at the clock, which may have been set
RETRY_MS: Final = 200  # once the store takes nothing
DAMAGED_RETRY_MS: Final = 1000  # while a replica may have the record
LOOK_BYTES: Final = 64 * 1024  # of the log, held to its checksums at once
WINDOW_ENTRIES: Final = 2048
CARRY_COUNT: Final = 256
TURN_BYTES: Final = 256 << 10  # one message more

Found = tuple[StoredMessage, dict[str, str]]
"""A record that waits, and its properties."""


class LoopTimers(Protocol):
    """What calls back later: the loop."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> object:
        """Calls it once, in the loop's thread."""


class WaitDuty(Protocol):
    """What is done with what waits. All of it may raise StoreNotWriteable, StorePoisoned."""

    def check(self, message: StoredMessage, properties: dict[str, str], due_ms: int) -> None:
        """Raises MessageNotFound where this is not what the index means by an entry, MessageIllegal where nobody can make
        anything of it."""

    def act(self, now_ms: int) -> int:
        """Sees to what is due; returns how many entries that were."""

    def carry(self, entry: Entry, found: Found) -> int:
        """Appends again what is to outlive its segment, or ends its wait; returns the bytes that were appended."""

    def give_up(self, entry: Entry) -> None:
        """Stages that a record which is lost waits no longer: slaves know of nothing else that lets their segments go."""


class WaitingRecords:
    """Of one index. `forgotten`: how many were given up since the start, because they are not what the index took them for."""

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
        """`on_damaged`: nothing is done until the index is opened again. `what`: waits here, for the logs."""
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
        self._expired_below = 0  # what was given up below is gone here, and to be ended in the slaves' logs
        self._damage_seen: tuple[Sequence[Range], ...] = ()
        self._whole = WholeRanges()

    @property
    def table(self) -> WaitingTable:
        """What waits."""
        return self._index.table

    def start(self) -> None:
        """From here on it looks at the clock by itself."""
        self._loop.call_later(0, self._on_wake)

    # ---- its time

    def _on_wake(self) -> None:
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
            elif self._was_leading:
                self._was_leading = False
                self.table.forget_window()
        except StoreNotWriteable:
            delay_ms = RETRY_MS
        except StorePoisoned:
            return  # the store has told the broker, which ends
        except StoreFormatError as error:
            log.warning("what is due cannot be told what=%s error=%s", self._what, error)
        if self._index.is_damaged:
            self._on_damaged()
            return
        self._loop.call_later(delay_ms, self._on_wake)

    def _act(self) -> int:
        """Returns when to come again, ms."""
        now_ms, table = self._clock.now_ms(), self.table
        table.look_ahead(now_ms, count_max=WINDOW_ENTRIES)
        done = self._duty.act(now_ms)
        due_ms = table.next_due_ms()
        if due_ms is None:
            return WAKE_MS
        return min(max(due_ms - now_ms, 0 if done else 5), WAKE_MS)

    def take_due(self, now_ms: int, *, count_max: int) -> list[Entry]:
        """Entries that are due, and whose record is confirmed, earliest first, each once."""
        return self.table.take_due(now_ms, count_max=count_max, below=self._store.confirm_offset)

    # ---- reading

    def read(self, entry: Entry, *, is_taken: bool) -> Found | None:
        """The record that the index means; None, and the entry forgotten, where the log has something else there. Where its
        bytes have rotted and a replica may give them back, an entry that was taken is due again soon; else it is set aside.
        None too while it is not confirmed: another master may not have it."""
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
                log.warning("a %s is held up by damage due_ms=%s offset=%s reason=%s", self._what, *entry, error)
                self.table.set_aside(entry)
                self._damage_seen = ()
            else:
                self.forget(entry, str(error))
            return None
        return message, properties

    def _look_again(self, entry: Entry) -> None:
        """An entry whose record could not be read is due again, unless its wait was ended meanwhile: it may have been carried
        on, or ended by who led for a moment. The index may have forgotten that end by now, so its store is asked."""
        with suppress(StoreFormatError):  # it is made anew then, and all that waits with it
            if self.table.is_waiting(entry[1], entry[0]):
                self.table.put_back([entry])

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
                    log.error(
                        "a %s is lost: its record is damaged, and no replica has it due_ms=%s offset=%s",
                        *(self._what, due_ms, offset),
                    )
        table.lose(lost)

    def forget(self, entry: Entry, why: str) -> None:
        """Nothing is done with it: nobody waits for it until the next start."""
        log.warning("a %s is given up due_ms=%s offset=%s reason=%s", self._what, *entry, why)
        self.table.forget(entry[1])
        self.forgotten += 1

    # ---- retention

    def clear_below(self, offset: int) -> bool:
        """Whether nothing below `offset` waits; else a master begins to append it again. See MessageStore.keep_waiting.

        What was given up does not hold the log. A master notes in it then that this waits no longer: its slaves know of nothing
        else that would let their own segments go. Not before, since a replica or an operator may yet bring it back.
        """
        try:
            if not self.table.has_below(offset):
                self._expired_below = max(self._expired_below, offset)
                return True
        except StoreFormatError:  # nothing goes before the index is whole again
            return False
        self._carry_below = max(self._carry_below, offset)
        return False

    def _carry(self) -> None:
        """Appends again some of what waits in segments that are to go."""
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
        """Ends the waits of some of what was given up in segments that are gone. Raises StoreNotWriteable, StorePoisoned."""
        entries = self.table.given_up_below(self._expired_below, count_max=CARRY_COUNT)
        if not entries:
            self._expired_below = 0
        for entry in entries:
            self._duty.give_up(entry)

    # ---- for operators

    def document(self) -> dict[str, int | None]:
        """For statistics. `damaged`: of those that wait, how many are held up by damage; `lost`: of these, how many have no
        whole record anywhere."""
        return {
            "waiting": self.table.count,
            "first_due_ms": self.table.first_due_ms(),
            "damaged": len(self.table.aside),
            "lost": len(self.table.lost & self.table.aside.keys()),
        }
