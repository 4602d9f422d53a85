"""Half messages of one broker: deciding them, asking about them, parking those that nobody decides.

A half message is a record that waits (broker/waiting): until somebody decides it, or until it is to be asked about. Whatever
ends that names the record in the log: the committed message, the op record of a rollback, the half itself written once more.
So what became of a transaction is what the log says, and a replay says the same. Only a master that `leads` acts. Loop thread,
but for `find`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from ...model.clock import Clock
from ...model.errors import (
    BrokerBusy,
    InvalidParameter,
    MessageIllegal,
    MessageNotFound,
    MessageTooLarge,
    TopicNotFound,
    TransactionDecided,
    TransactionNotFound,
)
from ...model.handles.transaction import Resolution, TransactionId, TransactionState
from ...model.names import HALF_TOPIC, UNDECIDED_TOPIC
from ...model.plain_dataclass import dataclass
from ...model.properties import HALF_SENDER, PRODUCER_GROUP, REAL_TOPIC, UNIQUE_KEY
from ...record.kernel import StoredMessage, decode_record
from ...record.sys_flag import ENDS_WAIT, TRANSACTION_COMMIT, TRANSACTION_MASK
from ...remoting.delayed_places import NOWHERE, Place
from ...store.message_store import MessageStore, Placed
from ..waiting.blocks import blocks
from ..waiting.copies import real_queue
from ..waiting.waiting_index import WaitingIndex
from ..waiting.waiting_records import DAMAGED_RETRY_MS, TURN_BYTES, Found, LoopTimers, WaitingRecords
from ..waiting.waiting_table import Entry, WaitingTable
from .half_cache import HalfCache
from .half_index import Halves, is_foreign
from .half_records import (
    OP_BODY_BYTES_MAX,
    asked_record,
    carried_record,
    check_times,
    committed_record,
    ended_note,
    first_offset,
    parked_record,
    rollback_record,
    shown_record,
)
from .half_rules import HalfRules

log = logging.getLogger(__name__)

ASKED_PER_TURN: Final = 64
OP_INTERVAL_MS: Final = 3000  # RocketMQ's transactionOpBatchInterval
DECIDED_MAX: Final = 100_000
FOREIGN_AT_ONCE: Final = 256
MOVED_MAX: Final = 100_000
UNCONFIRMED_RETRY_MS: Final = 20
_COPIES_MAX: Final = 64
_ALL_TIME: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Question:
    """What becomes of a transaction? `half_offset`, `end`: where its half message begins and ends now. `sender`: its
    HALF_SENDER property. `record`: the message, as its producer is shown it."""

    group: str
    which: TransactionId
    half_offset: int
    end: int
    sender: str
    record: bytes


Ask = Callable[[Question], None]
"""Asks a producer of the group, once the half message is confirmed as it is now."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a transaction. Offsets are of the committed message, -1 where there is none. `end`: of the record in the
    log that says so."""

    state: TransactionState
    queue_id: int = -1
    queue_offset: int = -1
    physical_offset: int = -1
    end: int = 0


@dataclass(frozen=True, slots=True)
class Traces:
    """What the index of keys tells of a transaction. `halves`: physical offsets of its half message's records, the parked one
    among them. One that was written again a moment ago may be missing."""

    committed: Outcome | None
    halves: tuple[int, ...]


class Transactions:
    """A WaitDuty. `committed`, `rolled_back`, `asked`, `parked` count since the start."""

    def __init__(
        self,
        store: MessageStore,
        index: WaitingIndex,
        halves: Halves,
        loop: LoopTimers,
        clock: Clock,
        rules: HalfRules,
        *,
        leads: Callable[[], bool],
        on_damaged: Callable[[], None],
        queues_of: Callable[[str], int],
        made_at: Callable[[str], int],
        ask: Ask,
        settle_ms: int,
        broker_name: str,
        store_host_bytes: int,
    ) -> None:
        """The arguments are as Delays has them. `ask`: does nothing where nobody of the group is connected. `settle_ms`: nobody
        is asked so soon after this broker began to lead, because producers have yet to come back."""
        self.committed = self.rolled_back = self.asked = self.parked = 0
        self._store = store
        self._halves = halves
        self._clock = clock
        self._rules = rules
        self._waiting = WaitingRecords(
            store, index, loop, clock, self, leads=leads, on_damaged=on_damaged, what="half message"
        )
        self._queues_of = queues_of
        self._made_at = made_at
        self._ask = ask
        self._broker_name = broker_name
        self._host_bytes = store_host_bytes
        self._decided: OrderedDict[int, tuple[TransactionId, Outcome]] = OrderedDict()  # by the half's first offset
        self._moved: OrderedDict[int, int] = (
            OrderedDict()
        )  # by that too: where a half that was written again begins now
        self._foreign_begin = 0  # below, what RocketMQ had decided is ended
        self._is_foreign_ended = self._is_foreign_unread = False
        self._recent = HalfCache()
        halves.on_halves = self._keep
        self._leads = leads
        self._noted: list[int] = []  # queue offsets of halves that wait no longer, for RocketMQ's op records
        self._noted_ms = 0
        self._settle_ms = settle_ms
        self._leads_since_ms: int | None = None  # monotonic

    def start(self) -> None:
        """From here on it looks at the clock by itself."""
        self._waiting.start()

    def stage_halves(
        self, records: Sequence[bytes], staged: list[tuple[bool, Placed]], *, block_bytes: int, flags: int
    ) -> list[Place]:
        """Stages half messages; returns where each is. `staged`, `flags`: see DelayHandler.take. Raises MessageIllegal,
        StoreNotWriteable."""
        places: list[Place] = []
        for part in blocks([len(record) for record in records], block_bytes):
            block = records[part]
            placed = self._store.stage_own(b"".join(block), topic=HALF_TOPIC, queue_id=0, count=len(block), flags=flags)
            staged.append((True, placed))
            at = int(placed.physical_offset)
            for record in block:
                places.append(Place(NOWHERE, NOWHERE, at))
                at += len(record)
        return places

    def _keep(self, halves: Sequence[Found], size_bytes: int) -> None:
        """These are in the log."""
        if self._leads():
            self._recent.keep(halves, size_bytes)

    def on_deposed(self) -> None:
        """Another master decides: what was staged here and not confirmed may never have been."""
        self._leads_since_ms = None
        self._decided.clear()
        self._moved.clear()
        self._foreign_begin, self._is_foreign_ended, self._is_foreign_unread = 0, False, False
        self._noted.clear()
        self._recent.clear()

    @property
    def _table(self) -> WaitingTable:
        return self._waiting.table

    # ---- deciding

    def decide(self, which: TransactionId, resolution: Resolution, group: str | None, *, hint: int) -> Outcome | None:
        """Ends a transaction, or says what became of it; None: `find` may know.

        `group`: of the producer that decides; None = an operator, who may decide what is parked. `hint`: where its half message
        may begin now, -1 where that is not known. Raises InvalidParameter (another broker's, another group's), TopicNotFound,
        TransactionDecided, BrokerBusy (its record is damaged, a replica may have it), StoreNotWriteable, StorePoisoned.
        """
        if which.broker_name != self._broker_name:
            raise InvalidParameter("transaction_id", which.broker_name, f"one of broker {self._broker_name}")
        for offset in dict.fromkeys((which.half_offset, hint, self._moved.get(which.half_offset, -1))):
            found = self._pending(which, offset)
            if found is not None:
                return self._end(which, resolution, group, found)
        known = self._decided.get(which.half_offset)
        if known is None or known[0] != which:
            return None
        return self._agreed(which, resolution, known[1])

    def _pending(self, which: TransactionId, offset: int) -> Found | None:
        """The half message's record at `offset`, where it waits; also where nobody is asked about it any more, because it
        cannot be written again."""
        table = self._table
        due_ms = table.due_of(offset) if offset >= 0 else None
        if due_ms is None:
            due_ms = table.given_up_due_of(offset)
        if due_ms is None:
            return None
        found = self._recent_at(offset) or self._waiting.read((due_ms, offset), is_taken=False)
        if found is None:
            if table.due_of(offset) is None:
                return None  # it was not what the index took it for
            raise self._busy(offset)
        message, properties = found
        if not _is_of(which, message, properties):
            return None
        if self._is_ended_by_rocketmq(message):
            self._roll_back(message)
            return None
        return found

    def _recent_at(self, offset: int) -> Found | None:
        """One that was stored here a moment ago, and is confirmed."""
        return self._recent.take(offset) if offset < self._store.confirm_offset else None

    def _busy(self, offset: int) -> BrokerBusy:
        """Why a half message that waits cannot be read now."""
        if offset >= self._store.confirm_offset:
            return BrokerBusy(UNCONFIRMED_RETRY_MS, "the half message was written again, and is not confirmed yet")
        return BrokerBusy(DAMAGED_RETRY_MS, "the half message is damaged, a replica may have it whole")

    def _end(self, which: TransactionId, resolution: Resolution, group: str | None, found: Found) -> Outcome:
        message, properties = found
        if group is not None and group != properties.get(PRODUCER_GROUP, ""):
            raise InvalidParameter("group", group, "the producer group that sent the message")
        if group is not None and message.topic == UNDECIDED_TOPIC:
            raise TransactionDecided(which.encode(), TransactionState.PARKED.value)
        if resolution is Resolution.COMMIT:
            outcome = self._commit(message, properties)
        else:
            outcome = Outcome(TransactionState.ROLLED_BACK, end=self._roll_back(message))
        self._remember(which, outcome)
        return outcome

    def _commit(self, message: StoredMessage, properties: dict[str, str]) -> Outcome:
        topic, queue_id = real_queue(properties)
        if not self._is_wanted(message, properties, topic):
            raise TopicNotFound(topic)
        queue_id %= self._queues_of(topic)  # created again since, it may have fewer
        record = committed_record(message, topic, queue_id, self._host_bytes)
        placed = self._store.stage_own(record, topic=topic, queue_id=queue_id, count=1, flags=ENDS_WAIT)
        self._on_ended(message)
        self.committed += 1
        return Outcome(
            TransactionState.COMMITTED, queue_id, placed.queue_offset, placed.physical_offset, int(placed.end)
        )

    def _roll_back(self, message: StoredMessage) -> int:
        """Returns where the record that says so ends."""
        queue_offset = message.queue_offset if message.topic == HALF_TOPIC else None
        placed = self._store.stage_record(rollback_record(message.physical_offset, queue_offset))
        self._table.on_end_staged(message.physical_offset)
        self.rolled_back += 1
        return int(placed.end)

    def _on_ended(self, message: StoredMessage) -> None:
        """What is staged ends this record's wait, and is no op record: RocketMQ has yet to be told."""
        self._table.on_end_staged(message.physical_offset)
        if message.topic == HALF_TOPIC:
            self._noted.append(message.queue_offset)

    def _remember(self, which: TransactionId, outcome: Outcome) -> None:
        self._moved.pop(which.half_offset, None)
        self._decided[which.half_offset] = which, outcome
        if len(self._decided) > DECIDED_MAX:
            self._decided.popitem(last=False)

    def _on_moved(self, message: StoredMessage, properties: dict[str, str], offset: int) -> None:
        """Its half message was written again, at `offset`, which the index of keys may have yet to learn."""
        self._on_ended(message)
        self._moved[first_offset(message, properties)] = offset
        if len(self._moved) > MOVED_MAX:
            self._moved.popitem(last=False)

    @staticmethod
    def _agreed(which: TransactionId, resolution: Resolution, outcome: Outcome) -> Outcome:
        """The outcome. Raises TransactionDecided where it is not the one that is wanted."""
        wanted = TransactionState.COMMITTED if resolution is Resolution.COMMIT else TransactionState.ROLLED_BACK
        if outcome.state is not wanted:
            raise TransactionDecided(which.encode(), outcome.state.value)
        return outcome

    # ---- what became of it

    def find(self, which: TransactionId) -> Traces:
        """What the index of keys tells. Any thread, and it takes a while."""
        parked = [m for m in self._found(UNDECIDED_TOPIC, which.message_id) if _is_of(which, m, m.properties)]
        halves = [m for m in self._found(HALF_TOPIC, which.message_id) if _is_of(which, m, m.properties)]
        offsets = tuple(message.physical_offset for message in (*parked, *halves))
        committed = None
        for message in self._found(which.topic, which.message_id):
            if message.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT and _is_copy_of(message, offsets):
                place = message.queue_id, message.queue_offset, message.physical_offset
                committed = Outcome(TransactionState.COMMITTED, *place)
        return Traces(committed, offsets)

    def _found(self, topic: str, message_id: str) -> list[StoredMessage]:
        if not message_id:
            return []  # nothing is found by that
        records = self._store.query(
            topic, message_id, max_messages=_COPIES_MAX, begin_ms=0, end_ms=_ALL_TIME, unique=True
        )
        return [decode_record(record) for record in records]

    def decide_found(self, which: TransactionId, resolution: Resolution, group: str | None, traces: Traces) -> Outcome:
        """Goes on with what `find` told. Raises as `decide` does, and TransactionNotFound."""
        for offset in traces.halves or (-1,):
            outcome = self.decide(which, resolution, group, hint=offset)
            if outcome is not None:
                return outcome
        if traces.committed is not None:
            return self._agreed(which, resolution, traces.committed)
        if not traces.halves or any(self._table.given_up_due_of(offset) is not None for offset in traces.halves):
            raise TransactionNotFound(which.encode())
        return self._agreed(which, resolution, Outcome(TransactionState.ROLLED_BACK))

    # ---- asking

    def check(self, message: StoredMessage, properties: dict[str, str], due_ms: int) -> None:  # noqa: ARG002
        """See WaitDuty."""
        if message.topic not in (HALF_TOPIC, UNDECIDED_TOPIC):
            raise MessageNotFound(f"a half message at {message.physical_offset}")
        real_queue(properties)

    def act(self, now_ms: int) -> int:
        """See WaitDuty: asks about what is due, and parks what was asked about often enough."""
        if self._halves.foreign_ends and not self._is_foreign_ended:
            return self._end_foreign()
        self._note_ended(now_ms)
        if not self._is_settled():
            return 0
        entries = self._waiting.take_due(now_ms, count_max=ASKED_PER_TURN)
        size = done = 0
        try:
            for entry in entries:
                if size >= TURN_BYTES:
                    break
                found = self._waiting.read(entry, is_taken=True)
                if found is not None:
                    size += self._ask_or_park(entry, found)
                done += 1
        finally:
            self._table.put_back(entries[done:])
        return done

    def _is_settled(self) -> bool:
        """Whether producers have had the time to come back since this broker began to lead."""
        now_ms = self._clock.monotonic_ms()
        if self._leads_since_ms is None:
            self._leads_since_ms = now_ms
        return now_ms - self._leads_since_ms >= self._settle_ms

    def _ask_or_park(self, entry: Entry, found: Found) -> int:
        """Returns the bytes that were staged. Raises StoreNotWriteable."""
        message, properties = found
        topic, queue_id = real_queue(properties)
        if self._is_ended_by_rocketmq(message):
            self._roll_back(message)
            return 0
        if not self._is_wanted(message, properties, topic):
            return self._drop(message, topic)
        checks = check_times(properties)
        is_over = self._rules.is_over(properties)
        try:
            if is_over:
                record, target = parked_record(message, self._host_bytes), UNDECIDED_TOPIC
            else:
                record, target = asked_record(message, checks + 1, self._host_bytes), HALF_TOPIC
            placed = self._store.stage_own(record, topic=target, queue_id=0, count=1, flags=ENDS_WAIT)
        except (MessageTooLarge, MessageIllegal) as error:  # there is no room for what is noted in it
            self._waiting.forget(entry, str(error))
            return 0
        self._on_moved(message, properties, int(placed.physical_offset))
        which = TransactionId(
            self._broker_name, topic, first_offset(message, properties), properties.get(UNIQUE_KEY, "")
        )
        group = properties.get(PRODUCER_GROUP, "")
        if is_over:
            self.parked += 1
            log.warning(
                "a transaction is parked, nobody decided it topic=%s group=%s message=%s checks=%d id=%s",
                *(topic, group, which.message_id, checks, which.encode()),
            )
        else:
            self.asked += 1
            sender = properties.get(HALF_SENDER, "")
            shown = shown_record(message, topic, queue_id)
            self._ask(Question(group, which, int(placed.physical_offset), int(placed.end), sender, shown))
        return len(record)

    def _is_wanted(self, message: StoredMessage, properties: dict[str, str], topic: str) -> bool:
        """Whether its topic is still there, and is not another one that was made later."""
        return bool(self._queues_of(topic)) and first_offset(message, properties) >= self._made_at(topic)

    def _drop(self, message: StoredMessage, topic: str) -> int:
        log.warning("a half message is rolled back: its topic is gone topic=%s message=%s", topic, message.message_id)
        self._roll_back(message)
        return 0

    # ---- for RocketMQ, and what it left

    def _note_ended(self, now_ms: int) -> None:
        """RocketMQ knows by an op record only that a half message was committed, or written again."""
        if not self._noted:
            self._noted_ms = now_ms
            return
        is_full = sum(len(str(offset)) + 1 for offset in self._noted[:OP_BODY_BYTES_MAX]) >= OP_BODY_BYTES_MAX
        if is_full or now_ms - self._noted_ms >= OP_INTERVAL_MS or now_ms < self._noted_ms:
            self._store.stage_record(ended_note(self._noted))
            self._noted, self._noted_ms = [], now_ms

    def _end_foreign(self) -> int:
        """Ends some of what RocketMQ had decided, of halves that lie so far back that they were not read again. Returns how
        many were looked at. Nobody is asked about any half message before this is through."""
        entries = self._table.entries(self._foreign_begin, count_max=FOREIGN_AT_ONCE)
        for entry in entries:
            found = self._waiting.read(entry, is_taken=False)
            if found is None:
                self._is_foreign_unread = True  # damaged: it is held to `foreign_ends` once it is whole
            elif self._is_ended_by_rocketmq(found[0]):
                self._roll_back(found[0])
            self._foreign_begin = entry[1] + 1
        if len(entries) < FOREIGN_AT_ONCE:
            self._is_foreign_ended = True
            if not self._is_foreign_unread:
                self._halves.foreign_ends.clear()
        return max(1, len(entries))

    def _is_ended_by_rocketmq(self, message: StoredMessage) -> bool:
        """Whether an op record of RocketMQ's ends this record that waits, or it wrote the message once more, or parked it."""
        place = message.queue_id, message.queue_offset
        if message.topic == HALF_TOPIC and place in self._halves.foreign_ends:
            return True
        if not is_foreign(message) and message.physical_offset >= self._store.foreign_end:
            return False  # RocketMQ has not had it
        if message.topic == HALF_TOPIC and self._halves.is_done(place):
            return True
        properties = message.properties
        unique = properties.get(UNIQUE_KEY, "")
        return any(
            one.physical_offset > message.physical_offset
            and is_foreign(one)
            and one.properties.get(REAL_TOPIC) == properties.get(REAL_TOPIC)
            for topic in (HALF_TOPIC, UNDECIDED_TOPIC)
            for one in self._found(topic, unique)
        )

    # ---- retention

    def clear_below(self, offset: int) -> bool:
        """See WaitingRecords."""
        return self._waiting.clear_below(offset)

    def carry(self, entry: Entry, found: Found) -> int:
        """See WaitDuty."""
        message, properties = found
        topic, _ = real_queue(properties)
        if self._is_ended_by_rocketmq(message):
            self._roll_back(message)
            return 0
        if not self._is_wanted(message, properties, topic):
            return self._drop(message, topic)
        try:
            record = carried_record(message, self._host_bytes)
            placed = self._store.stage_own(record, topic=message.topic, queue_id=0, count=1, flags=ENDS_WAIT)
        except (MessageTooLarge, MessageIllegal) as error:
            self._waiting.forget(entry, str(error))
            return 0
        self._on_moved(message, properties, int(placed.physical_offset))
        return len(record)

    def give_up(self, entry: Entry) -> None:
        """See WaitDuty."""
        self._store.stage_record(rollback_record(entry[1], None))
        self._table.on_end_staged(entry[1])

    # ---- for operators

    def listed(self, begin: int, count_max: int) -> list[Entry]:
        """Half messages that wait, parked ones among them, from the physical offset `begin` on."""
        return self._table.entries(begin, count_max=count_max)

    def found_at(self, entry: Entry) -> Found | None:
        """The record of one that is listed; None where it cannot be read now, or RocketMQ had decided it."""
        found = self._waiting.read(entry, is_taken=False)
        return None if found is not None and self._is_ended_by_rocketmq(found[0]) else found

    @property
    def waiting_count(self) -> int:
        """How many wait. Any thread."""
        return self._waiting.table.count

    @property
    def next_due_ms(self) -> int | None:
        """When the first of them is due, as far as it was looked ahead; None if nothing waits."""
        due_ms = self._waiting.table.next_due_ms()
        return due_ms or None

    def document(self) -> dict[str, int | None]:
        """For statistics: those of WaitingRecords, and what became of the others."""
        return {
            **self._waiting.document(),
            "committed": self.committed,
            "rolled_back": self.rolled_back,
            "asked": self.asked,
            "parked": self.parked,
        }


def _is_of(which: TransactionId, message: StoredMessage, properties: dict[str, str]) -> bool:
    """Whether this record is one of that transaction's half message."""
    return (
        first_offset(message, properties) == which.half_offset
        and properties.get(UNIQUE_KEY, "") == which.message_id
        and real_queue(properties)[0] == which.topic
    )


def _is_copy_of(message: StoredMessage, halves: tuple[int, ...]) -> bool:
    """Whether what was committed names one of these records of its half message: RocketMQ by its physical offset, we as
    everything that ends a wait. Where the log has kept none of them, we take it for the one."""
    cause = message.prepared_transaction_offset
    return (-1 - cause if cause < 0 else cause) in halves or (cause < 0 and not halves)
