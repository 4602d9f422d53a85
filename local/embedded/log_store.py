"""What the broker's handlers know as the message store, over one log a queue. Guarded by the engine's lock.

A batch is checked and stamped where it lies, and written at once: there is no other turn to share the write with. Events of the
state are applied at the end of the turn, as in a broker. Records are never replicated, so there is nothing to confirm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...broker.pop.dead_letters import leases_ended_by
from ...broker.state.pop_table import PopTable
from ...broker.state.state_log import POPS, StateLog
from ...model.arena import Arena
from ...model.clock import Clock
from ...model.errors import MessageIllegal, MessageNotFound
from ...model.get_status import GetStatus
from ...model.ids import HostAddress
from ...model.names import DEAD_LETTER_PREFIX, STATE_TOPICS, check_topic, is_routed_topic
from ...model.properties import encode_properties
from ...model.queue import PhysicalOffset, QueueOffset
from ...record.codes import BAD_BODY_SIZE, BAD_SIZE, BODY_CRC_AT
from ...record.kernel import RunKernel, UnitSelector, encode_record, why_refused
from ...record.new_record import NewRecord
from ...record.sys_flag import ENDS_WAIT
from ...store.config import StoreConfig
from ...store.get_result import GetResult, Search
from ...store.message_store import Placed
from ...store.queues.dispatch import Run
from .queue_log import QueueLog
from .queue_logs import QueueLogs
from .refusals import refuse_light

SEARCH_UNITS: Final = 1024
_NOTHING: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Appended:
    """Records that a turn appended to a queue, for those who intercept them."""

    topic: str
    records: bytes


class NoDamage:
    """There is no replica that could repair what is damaged, and nothing is quarantined: readers get what there is."""

    def add_all(self, _ranges: Sequence[tuple[int, int]], _why: str) -> None:
        """Nothing is noted."""

    def may_return(self, _at: int) -> bool:
        """Nobody has it."""
        return False


class LogStore:
    """`is_watched`: what is appended is kept for `take_appended`."""

    def __init__(
        self, logs: QueueLogs, state: StateLog, config: StoreConfig, *, host: HostAddress, clock: Clock, arena: Arena
    ) -> None:
        self.damage = NoDamage()
        self.is_watched = False
        self._logs, self._state, self._config, self._clock, self._arena = logs, state, config, clock, arena
        self._host = host.encode()
        self._kernel = RunKernel(
            store_host=self._host,
            record_max=config.record_bytes_max,
            body_max=config.body_bytes_max,
            index_keys=False,
        )
        self._selector = UnitSelector(config.pull_messages_max)
        self._events: list[Run] = []
        self._arrived: dict[tuple[str, int], None] = {}
        self._appended: list[Appended] = []

    # ---- appending

    def stage(
        self, begin: int, end: int, topic: str, queue_id: int, count: int, own: bool = False, flags: int = 0
    ) -> Placed:
        """Appends the batch in arena.view[begin:end]. Raises MessageIllegal, StoreNotWriteable, StorePoisoned."""
        placed = self._append(self._arena.view, begin, end, topic, queue_id, count, own, flags)
        self._arena.used = end
        return placed

    def stage_own(self, records: bytes, *, topic: str, queue_id: int, count: int, flags: int = 0) -> Placed:
        """Appends records that the engine made."""
        return self._append(memoryview(bytearray(records)), 0, len(records), topic, queue_id, count, True, flags)

    def stage_record(self, record: NewRecord, *, frees_room: bool = False) -> Placed:  # noqa: ARG002  # it needs little
        """Appends one record that the engine makes, or an event of the state."""
        is_event = record.topic in STATE_TOPICS
        log = self._logs.state if is_event else self._log(record.topic, record.queue_id)
        properties = record.properties if isinstance(record.properties, bytes) else encode_properties(record.properties)
        now_ms = self._clock.now_ms()
        encoded = encode_record(
            topic=record.topic.encode(),
            body=record.body,
            properties=properties,
            queue_id=record.queue_id,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp_ms=now_ms if record.born_timestamp_ms is None else record.born_timestamp_ms,
            born_host=self._host if record.born_host is None else record.born_host,
            store_timestamp_ms=0,
            store_host=bytes(len(self._host)),
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=record.prepared_transaction_offset,
        )
        buffer = bytearray(encoded)
        if record.body_crc is not None:
            buffer[BODY_CRC_AT : BODY_CRC_AT + 4] = record.body_crc.to_bytes(4, "big")
        flags = ENDS_WAIT if record.prepared_transaction_offset < 0 else 0
        return self._append_to(
            log, memoryview(buffer), 0, len(buffer), record.topic, record.queue_id, 1, own=True, flags=flags
        )

    def _log(self, topic: str, queue_id: int) -> QueueLog:
        if queue_id < 0:
            raise MessageIllegal(f"queue id {queue_id} is negative")
        return self._logs.get_or_create(check_topic(topic), queue_id)

    def _append(
        self, view: memoryview, begin: int, end: int, topic: str, queue_id: int, count: int, own: bool, flags: int
    ) -> Placed:
        return self._append_to(
            self._log(topic, queue_id), view, begin, end, topic, queue_id, count, own=own, flags=flags
        )

    def _append_to(
        self,
        log: QueueLog,
        view: memoryview,
        begin: int,
        end: int,
        topic: str,
        queue_id: int,
        count: int,
        *,
        own: bool,
        flags: int,
    ) -> Placed:
        self._logs.check_whole()
        log.make_room(end - begin)
        kernel, now_ms = self._kernel, self._clock.now_ms()
        queue_offset, physical = log.next_offset, log.end
        name = topic.encode() if log.mixed else log.topic_bytes
        kernel.clear()
        done = kernel.stamp(
            view,
            begin,
            end,
            name,
            log.topic_hash,
            count,
            queue_id,
            queue_offset,
            physical,
            now_ms,
            own,
            {},
            refuse_light,
        )
        if done <= 0:
            kernel.clear()
            raise self._refusal(done, view, begin, end)
        units = kernel.units[: kernel.units_end]
        kernel.clear()
        log.append(view[begin:end], units)
        if log.mixed or flags & ENDS_WAIT:
            self._events.append(_run(topic, queue_id, queue_offset, done, physical, now_ms, view[begin:end], flags))
        if not log.mixed:
            self._arrived[topic, queue_id] = None
            if self.is_watched and is_routed_topic(topic):
                self._appended.append(Appended(topic, bytes(view[begin:end])))
        return Placed(queue_offset, physical, now_ms, done, log.end)

    def _refusal(self, reason: int, view: memoryview, begin: int, end: int) -> MessageIllegal:
        limits = {BAD_SIZE: self._config.record_bytes_max, BAD_BODY_SIZE: self._config.body_bytes_max}
        text, limit = why_refused(reason, view, begin, end), limits.get(reason)
        return MessageIllegal(text if limit is None else f"{text} (limit {limit} bytes)")

    # ---- the end of a turn

    def dispatch(self) -> None:
        """Applies the events of the turn; the arena is free again."""
        while self._events:
            events, self._events = self._events, []
            for run in events:
                if run.topic.startswith(DEAD_LETTER_PREFIX):
                    self._note_buried(run)
                else:
                    self._state.on_run(run)
        self._arena.used = 0

    def _note_buried(self, run: Run) -> None:
        """A dead letter ends a lease, and says so itself; here the log of the state says so too, which alone is replayed."""
        for (group, topic, queue_id), offset, _ in leases_ended_by(run):
            self._state.stage(self, POPS, PopTable.event_ended(group, topic, [(queue_id, offset)]))

    def take_arrivals(self) -> list[tuple[str, int]]:
        """The queues with new messages since the last call."""
        arrived, self._arrived = list(self._arrived), {}
        return arrived

    def take_appended(self) -> list[Appended]:
        """What was appended since the last call."""
        appended, self._appended = self._appended, []
        return appended

    def replay(self, begin: int) -> None:
        """Gives the events from `begin` on to the state, once, at the opening. Raises StoreFormatError."""
        state_log, kernel = self._logs.state, self._kernel
        for file in state_log.files:
            segment = file.segment
            at = max(0, begin - segment.base_offset)
            while segment.base_offset + at < min(state_log.end, segment.end_offset):
                kernel.clear()
                physical = segment.base_offset + at
                if not kernel.scan(segment.map, at, state_log.segment_bytes, physical, False):
                    break
                records = segment.map[at : kernel.end]
                self._state.on_run(
                    _run(
                        kernel.topic.decode(),
                        kernel.queue_id,
                        kernel.queue_offset,
                        kernel.count,
                        physical,
                        kernel.store_timestamp_ms,
                        records,
                        0,
                    )
                )
                at = kernel.end
        kernel.clear()

    # ---- reading

    @property
    def written(self) -> PhysicalOffset:
        """The end of the log of the state."""
        return PhysicalOffset(self._logs.state.end)

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...] = (),
        search: Search | None = None,
    ) -> GetResult:
        """As `MessageStore.get_messages`."""
        log = self._logs.find(topic, queue_id)
        if log is None or log.next_offset == 0:
            is_missing = log is None
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE if is_missing else GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low, high = log.begin, log.next_offset
        if queue_offset < low:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if queue_offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
        if queue_offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, low if low == 0 else high, low, high)
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, queue_offset, low, high)
        count_max = min(max_messages, self._config.pull_messages_max)
        looked_at = SEARCH_UNITS if search else self._config.pull_units_max if codes else count_max
        units, file, behind = log.units_from(queue_offset, looked_at)
        if not units:
            return _lost(result, behind, log.end)
        selector, base, records = self._selector, file.segment.base_offset, file.segment.map
        bytes_max = min(max_bytes, self._config.pull_bytes_max)
        if search is None:
            matched = selector.select(units, 0, len(units), codes, count_max, bytes_max, log.end)
        else:
            condition = search.condition
            matched = selector.select_where(
                units, records, base, condition.names, condition.needs, condition.test, count_max, bytes_max, search.has_time
            )  # fmt: skip
        runs = selector.runs
        result.slices = [records[runs[2 * run] - base : runs[2 * run + 1] - base] for run in range(selector.run_count)]
        result.count = matched
        result.next_offset += selector.examined
        if matched:
            result.status = GetStatus.FOUND
        return result

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """As `MessageStore.min_offset`."""
        log = self._logs.find(topic, queue_id)
        return QueueOffset(0 if log is None else log.begin)

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """As `MessageStore.max_offset`."""
        log = self._logs.find(topic, queue_id)
        return QueueOffset(0 if log is None else log.next_offset)

    def has_light_queue(self, name: str) -> bool:
        """It has none. Raises EngineLacks."""
        return bool(refuse_light(name))

    def position_of(self, topic: str, queue_id: int, queue_offset: QueueOffset) -> PhysicalOffset | None:
        """As `MessageStore.position_of`."""
        log = self._logs.find(topic, queue_id)
        if log is None or not log.begin <= queue_offset < log.next_offset:
            return None
        units, _, _ = log.units_from(queue_offset, 1)
        return PhysicalOffset(int.from_bytes(units[:8], "big")) if units else None

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool) -> QueueOffset:
        """As `MessageStore.offset_by_time`."""
        log = self._logs.find(topic, queue_id)
        if log is None:
            return QueueOffset(0)
        low, high = log.begin, log.next_offset
        first = low
        while low < high:
            middle = (low + high) // 2
            stored_ms = log.stored_ms(middle)
            if stored_ms < timestamp_ms or (upper and stored_ms == timestamp_ms):
                low = middle + 1
            else:
                high = middle
        if not upper:
            return QueueOffset(low)
        return QueueOffset(low - 1 if low > first else 0)

    def record_at(self, physical_offset: PhysicalOffset) -> bytes:
        """As `MessageStore.record_at`."""
        log = self._logs.of_position(physical_offset)
        record = None if log is None else log.record_at(physical_offset)
        if record is None:
            raise MessageNotFound(f"physical offset {physical_offset}")
        return record

    # ---- damage: whoever doubts an answer gets it again

    def places_of(self, _topic: str, _queue_id: int, _begin: int, _end: int) -> list[tuple[int, int]]:
        """There are no checksums beside those of the bodies, which readers check themselves."""
        return []

    def damaged_in(self, _places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """See `places_of`."""
        return []

    def damaged_at(self, _offset: int) -> list[tuple[int, int]]:
        """See `places_of`."""
        return []

    def vouches_for(self, _begin: int, _end: int) -> bool:
        """The record is whole, or was as its sender made it."""
        return True


def _lost(result: GetResult, behind: int, end: int) -> GetResult:
    """The rest of a file that is damaged: readers go on behind it."""
    result.status = GetStatus.MESSAGES_LOST
    result.lost_from, result.next_offset = result.next_offset, behind
    result.lost = (end, end)
    return result


def _run(
    topic: str, queue_id: int, queue_offset: int, count: int, begin: int, now_ms: int, records: memoryview, flags: int
) -> Run:
    return Run(
        topic,
        queue_id,
        QueueOffset(queue_offset),
        count,
        PhysicalOffset(begin),
        PhysicalOffset(begin + len(records)),
        now_ms,
        _NOTHING,
        _NOTHING,
        _NOTHING,
        0,
        0,
        records,
        flags,
    )
