"""The state log: topics, groups, offsets, queue locks, query offsets, what is popped, users and producers' sequences, derived
from the log, and their snapshots under config/.

The log comes before the answer: a handler stages an event (`stage`), the commit writes it, and the dispatch of the commit
passes it to `on_run`, which alone changes the tables. A start loads the snapshots and replays the
records from where those end. Events name final values, so a replay from an earlier place ends in the same state.
Producers' sequences have no events: messages of any topic carry them. A dead letter says itself which lease it ends.

Threads: the loop stages and applies. A worker persists copies, each taken by one bytecode (dict.copy). `reflected`
is read before the copy, so a snapshot holds at least what it claims.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ...model.clock import Clock
from ...model.errors import StoreFormatError
from ...model.names import DEAD_LETTER_PREFIX, HALF_TOPIC, STATE_TOPICS, TIMER_TOPIC
from ...model.queue import PhysicalOffset
from ...model.topics.light_queues import lite_queue
from ...record.kernel import StoredMessage, decode_batch, sequenced_stretches
from ...record.new_record import NewRecord
from ...record.sys_flag import ENDS_WAIT, SEQUENCED
from ...store.opening.snapshot import read_snapshot, write_snapshot
from ...store.queues.dispatch import Run
from ..json_reply import encode_document
from ..pop.dead_letters import leases_ended_by
from ..security.security_table import FILE_NAME as SECURITY_FILE
from ..security.security_table import MERGED, SecurityTable
from ..waiting.copies import real_queue
from .group_table import GroupTable
from .offset_table import COMMITTED, RESET, STARTED, OffsetTable, offsets_of
from .pop_table import FILE_NAME as POPS_FILE
from .pop_table import POP_EVENTS, PopTable
from .producer_table import FILE_NAME as SEQUENCES_FILE
from .producer_table import Piece, ProducerTable
from .query_offsets import DROPPED, KEPT, QueryOffsets
from .queue_locks import LEASE_MS, LOCKED, RENEWED, UNLOCKED, QueueLockTable
from .topic_table import COLLECTED, DELETED, SET, Document, TopicTable
from .unknown_events import is_passed_over, unknown_event

if TYPE_CHECKING:
    from ...store.message_store import Placed

TOPICS, GROUPS, OFFSETS, LOCKS, QUERIES, POPS, SECURITY = STATE_TOPICS
SEQUENCES: Final = "#sequences"  # not a valid topic name: they have no topic

FILE_NAMES: Final = {
    LOCKS: "queueLocks.json",
    QUERIES: "queryOffsets.json",
    SEQUENCES: SEQUENCES_FILE,
    POPS: POPS_FILE,
    SECURITY: SECURITY_FILE,
    TOPICS: "topics.json",
    GROUPS: "subscriptionGroup.json",
    OFFSETS: "consumerOffset.json",
}
"""In the order in which they are written."""
LIGHT_OFFSETS_FILE: Final = "lmqConsumerOffset.json"
"""Where RocketMQ has the offsets of all groups if it has light queues (enableLmq)."""
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    TOPICS: (SET, DELETED, COLLECTED),
    GROUPS: (SET, DELETED),
    OFFSETS: (COMMITTED, RESET, STARTED),
    LOCKS: (LOCKED, UNLOCKED, RENEWED),
    QUERIES: (KEPT, DROPPED),
    POPS: POP_EVENTS,
    SECURITY: (MERGED,),
}
"""The events of each topic that this version knows (docs/formats/state-events.md)."""
LATER: Final = frozenset({LOCKS, QUERIES, SEQUENCES, POPS, SECURITY})
"""RocketMQ and some older brokers of ours do not have these: if such a file is missing beside others, the log that those
reflect has nothing of its kind."""
EVERYTHING: Final = PhysicalOffset(1 << 62)  # a snapshot by RocketMQ reflects the whole log beside it
INCARNATION_BITS: Final = 53  # the largest number that every JSON reader keeps exact
_STAGED_MAX: Final = 4096
_NOTHING: Final[tuple[bytes, Document]] = (b"", {})
_LAG_BYTES_MAX: Final = 256 << 20  # a snapshot is renewed before a replay would take more than about a second
PAUSES: Final = (
    20  # as long as writing the last one took: with 100,000 topics that is half a second, of the loop's interpreter
)
PAUSES_MIN: Final = 2
PAUSED_BYTES: Final = 1 << 30  # the log may grow so far between two snapshots; retention waits for them


Table = TopicTable | GroupTable | OffsetTable | QueueLockTable | QueryOffsets | ProducerTable | PopTable | SecurityTable


class RecordStage(Protocol):
    """Where events go: the message store."""

    def stage_record(self, record: NewRecord, *, frees_room: bool = ...) -> Placed: ...


def _no_work() -> int:
    """Where snapshots cost nothing."""
    return 0


def pauses_at(behind_bytes: int) -> float:
    """How many times as long as the last snapshot took is to pass until the next one, which has so much of the log to cover.

    Less the further it is behind: retention waits for snapshots, and whatever the load is, the log may not fill the disk.
    """
    return max(PAUSES * PAUSED_BYTES / max(behind_bytes, PAUSED_BYTES), PAUSES_MIN)


class StateLog:
    """The tables, derived from the log. A Dispatcher of the store, called for runs of `topics`, for those with sequences, and
    for those that end a wait: dead letters of pop groups are among them."""

    topics = frozenset(STATE_TOPICS)
    run_flags = SEQUENCED | ENDS_WAIT

    def __init__(
        self,
        directory: str,
        *,
        clock: Clock,
        persist_interval_ms: int,
        lock_lease_ms: int = LEASE_MS,
        producers: ProducerTable,
        cpu_ns: Callable[[], int] = _no_work,
    ) -> None:
        """Loads the snapshots below `directory`/config; `producers`: empty. `cpu_ns()`: what the calling thread has used.
        Raises StoreFormatError."""
        self.topic_table = TopicTable(_new_incarnation)
        self.group_table = GroupTable()
        self.offset_table = OffsetTable()
        self.queue_locks = QueueLockTable(lock_lease_ms)
        self.query_offsets = QueryOffsets()
        self.pop_table = PopTable()
        self.security_table = SecurityTable()
        self.producer_table = producers
        self.on_topic_changed: Callable[[str], None] = _nothing_of_it
        self.on_topic_deleted: Callable[[str, int], None] = _nothing_of  # and the end of its record in the log
        self.on_lite_collected: Callable[[list[str], int], None] = _nothing_of_these  # light queues, and that end
        self.on_taken_over: Callable[[int], None] = (
            _nothing_from  # RocketMQ wrote the offsets, and the log from there on
        )
        config = os.path.join(directory, "config")
        tables: dict[str, Table] = {
            TOPICS: self.topic_table,
            GROUPS: self.group_table,
            OFFSETS: self.offset_table,
            LOCKS: self.queue_locks,
            QUERIES: self.query_offsets,
            SEQUENCES: self.producer_table,
            POPS: self.pop_table,
            SECURITY: self.security_table,
        }
        self._files = tuple((topic, os.path.join(config, name), tables[topic]) for topic, name in FILE_NAMES.items())
        self._plain: dict[
            str, OffsetTable | QueueLockTable | QueryOffsets | SecurityTable
        ] = {  # whose events concern no other
            OFFSETS: self.offset_table,
            LOCKS: self.queue_locks,
            QUERIES: self.query_offsets,
            SECURITY: self.security_table,
        }
        self._staged_pops: dict[int, tuple[bytes, Document]] = {}  # by the end of the record: it need not be parsed
        self._clock = clock
        self._persist_interval_ms = persist_interval_ms
        self._persisted_at_ms = clock.monotonic_ms()
        self._cpu_ns = cpu_ns
        self._took_ms = 0.0  # CPU time of the last snapshots
        self._light_offsets = os.path.join(config, LIGHT_OFFSETS_FILE)
        self._loaded = {  # what each snapshot reflects
            topic: _load(self._file_of(topic, path), table) for topic, path, table in self._files
        }
        for table in (self.producer_table, self.pop_table):
            table.begin(now_ms=clock.now_ms(), monotonic_ms=clock.monotonic_ms())
        self._is_open = False
        oldest = min(reflected for topic, reflected in self._loaded.items() if topic not in LATER)
        for topic in LATER:
            if not os.path.exists(os.path.join(config, FILE_NAMES[topic])):
                self._loaded[topic] = oldest
        self._persisted = self._applied = min(self._loaded.values())
        self._copied: tuple[PhysicalOffset, PhysicalOffset, list[Document]] | None = (
            None  # reflected, holds up to, documents
        )
        self._flushed: Callable[[], int] = _everything
        self.is_closing = False  # the next persist is the last: it may not be postponed

    def _file_of(self, topic: str, path: str) -> str:
        """RocketMQ's file of offsets beside our own, if it has light queues and wrote last. One that we wrote for it, and that
        it has not written since, says nothing new."""
        if topic == OFFSETS and os.path.exists(self._light_offsets):
            theirs = read_snapshot(self._light_offsets)
            is_older = os.path.exists(path) and os.path.getmtime(path) > os.path.getmtime(self._light_offsets)
            if theirs is not None and theirs.reflected is None and not is_older:
                return self._light_offsets
        return path

    def stage(self, store: RecordStage, topic: str, event: Document) -> PhysicalOffset:
        """Stages an event (of one of `topics`); returns the end of its record, for which the reply waits.

        It is accepted on a disk over its watermark: without commits and deletions no space would ever be freed.
        """
        body = encode_document(event)
        end = PhysicalOffset(store.stage_record(NewRecord(topic, 0, body), frees_room=True).end)
        if topic == POPS:
            if len(self._staged_pops) >= _STAGED_MAX:
                self._staged_pops.clear()
            self._staged_pops[end] = body, event
        return end

    @property
    def applied(self) -> int:
        """All events below this physical offset are in the tables."""
        return self._applied

    def settle(self, log_begin: PhysicalOffset, log_end: PhysicalOffset) -> None:  # noqa: ARG002
        """Recovery found the log's end there; the log will be replayed."""
        self.producer_table.settle(log_end)

    def on_opened(self, written: PhysicalOffset, flushed: Callable[[], int] | None = None) -> None:
        """The store is open and replayed up to `written`; from here on the log gets events that no snapshot has.

        Snapshots that claim more (RocketMQ's, or ours if a power failure cut the log's end) are rewritten first, and
        RocketMQ's spare copies are set aside, because the log is newer from now on. `flushed()`: how much of the log is on the
        disk.
        """
        self._flushed = flushed or self._flushed
        self._is_open = True
        if max(self._loaded.values()) > written:
            self._applied = written
            if self._loaded[OFFSETS] == EVERYTHING:
                self.on_taken_over(self._loaded[POPS] if self._loaded[POPS] < EVERYTHING else 0)
            self._write(written)
            for _, path, _ in self._files:
                if os.path.exists(path + ".bak"):
                    os.rename(path + ".bak", path + ".rocketmq")
            for path in (self._light_offsets, self._light_offsets + ".bak"):
                if os.path.exists(path):
                    os.rename(path, self._light_offsets + ".rocketmq")
        self._loaded = dict.fromkeys(self._loaded, written)

    def on_run(self, run: Run) -> None:
        """Applies the events of a run that the tables do not hold yet."""
        if run.sys_flag & SEQUENCED and run.end > self._loaded[SEQUENCES]:
            self._on_sequences(run)
        if run.sys_flag & ENDS_WAIT and run.topic.startswith(DEAD_LETTER_PREFIX) and run.end > self._loaded[POPS]:
            for key, offset, name in leases_ended_by(run):
                self.pop_table.on_buried(key, offset, name)
        if run.topic in self._loaded:
            for message in cast(Iterable[StoredMessage], decode_batch(bytes(run.records))):
                version = {"counter": message.queue_offset + 1, "stateVersion": 0, "timestamp": message.stored_at_ms}
                end = PhysicalOffset(message.physical_offset + message.size_bytes)
                body, event = self._staged_pops.pop(end, _NOTHING) if run.topic == POPS else _NOTHING
                if body != message.body:  # somebody else's, or of a record that was never written
                    event = _event(run.topic, message.body, message.queue_offset)
                if is_passed_over(event, KINDS[run.topic]):
                    continue
                if run.topic == TOPICS:
                    self._on_topic_event(event, version, end)
                elif run.topic == GROUPS:
                    self._on_group_event(event, version, end)
                elif run.topic == POPS:
                    if end > self._loaded[POPS]:
                        self._on_pop_event(event)
                else:
                    if run.topic == OFFSETS and event.get("event") == RESET and end > self._loaded[POPS]:
                        self._on_reset(event)
                    if end > self._loaded[run.topic]:
                        self._plain[run.topic].on_event(event, version)
        self.advance(run.end)

    def _on_pop_event(self, event: Document) -> None:
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        self.pop_table.on_event(event, now_ms=now_ms, monotonic_ms=monotonic_ms, is_live=self._is_open)

    def _on_reset(self, event: Document) -> None:
        group, rows = offsets_of(event)
        for topic, queue_id, offset, _ in rows:
            self.pop_table.on_moved(group, topic, queue_id, offset)

    def advance(self, end: int) -> None:
        """All runs below `end` were dispatched; the store passes only those of the state topics."""
        if end > self._applied:
            self._applied = PhysicalOffset(end)
        if self.producer_table.staged:
            self.producer_table.on_written()

    def reflected(self) -> PhysicalOffset:
        """The physical offset that the snapshots reflect; EVERYTHING while they are RocketMQ's."""
        return self._persisted

    def persist(self) -> PhysicalOffset:
        """Writes the snapshots, unless they are young and a replay would be short. They cover only the flushed log: after a
        power failure no snapshot may mention messages that are gone. Worker thread.
        """
        return self._persist_up_to(self._flushed())

    def persist_confirmed(self, confirmed: PhysicalOffset) -> PhysicalOffset:
        """The same for a log that may still lose what is not confirmed."""
        return self._persist_up_to(min(confirmed, self._flushed()))

    def _persist_up_to(self, limit: int) -> PhysicalOffset:
        """Writes an earlier copy of the tables, once all of it is below `limit`."""
        if self.is_closing and self._applied <= limit:
            self._copied = None  # no later call will write what came since
        if self._copied is None and self._is_due():
            begun_ns, reflected = self._cpu_ns(), self._applied
            documents = [table.document() for _, _, table in self._files]
            self._copied = (reflected, self._applied, documents)  # the loop may have applied more meanwhile
            self._took_ms = (self._cpu_ns() - begun_ns) / 1e6
        if self._copied is not None and self._copied[1] <= limit:
            (reflected, _, documents), self._copied = self._copied, None
            begun_ns = self._cpu_ns()
            self._write_documents(documents, reflected)
            self._took_ms += (self._cpu_ns() - begun_ns) / 1e6
        return self._persisted

    def _is_due(self) -> bool:
        behind = self._applied - self._persisted
        age_ms = self._clock.monotonic_ms() - self._persisted_at_ms
        is_old = age_ms >= self._persist_interval_ms or behind > _LAG_BYTES_MAX
        return behind > 0 and (self.is_closing or (is_old and age_ms >= pauses_at(behind) * self._took_ms))

    def _write(self, reflected: PhysicalOffset) -> None:
        self._write_documents([table.document() for _, _, table in self._files], reflected)

    def _write_documents(self, documents: list[Document], reflected: PhysicalOffset) -> None:
        for (_, path, _), document in zip(self._files, documents, strict=True):
            write_snapshot(path, document, reflected)
        self._persisted = reflected
        self._persisted_at_ms = self._clock.monotonic_ms()

    def _on_sequences(self, run: Run) -> None:
        """Records the sequences of a run. A message that waits belongs to its final queue."""
        waits = run.topic in (TIMER_TOPIC, HALF_TOPIC)
        topic, queue_id = run.topic, run.queue_id
        heard_ms = self.producer_table.heard_at(
            run.store_timestamp_ms, now_ms=self._clock.now_ms(), monotonic_ms=self._clock.monotonic_ms()
        )
        for producer_id, first, last, index, begin, end in sequenced_stretches(run.records):
            if waits:
                first_message = cast(StoredMessage, decode_batch(bytes(run.records[begin:end]))[0])
                topic, queue_id = real_queue(first_message.properties)
            piece = Piece(first, last, run.queue_offset + index, run.begin + begin, waits)
            self.producer_table.on_stored(
                (producer_id, topic, queue_id), piece, run.begin + end, run.store_timestamp_ms, heard_ms
            )

    def _on_lite_collected(self, event: Document, end: PhysicalOffset) -> None:
        parent, names = event.get("topic"), event.get("liteTopics")
        if (
            not isinstance(parent, str)
            or not isinstance(names, list)
            or not all(isinstance(name, str) for name in names)
        ):
            raise unknown_event("topic", event)
        if end > self._loaded[POPS]:
            self.pop_table.on_lite_collected(parent, names)
        self.on_lite_collected([lite_queue(parent, name) for name in names], end)  # in any case, as with topics

    def _on_topic_event(self, event: Document, version: Document, end: PhysicalOffset) -> None:
        if event.get("event") == COLLECTED:
            self._on_lite_collected(event, end)
            return
        if end > self._loaded[TOPICS]:
            known = len(self.topic_table.configs)
            self.topic_table.on_event(event, version, end)
            if len(self.topic_table.configs) > known:
                self.offset_table.on_topic_made(event["topic"]["topicName"])
            self.on_topic_changed(event["topic"] if event.get("event") == DELETED else event["topic"]["topicName"])
        if event.get("event") == DELETED:
            if end > self._loaded[OFFSETS]:
                self.offset_table.on_topic_deleted(event["topic"])
            if end > self._loaded[LOCKS]:
                self.queue_locks.on_topic_deleted(event["topic"])
            if end > self._loaded[SEQUENCES]:
                self.producer_table.on_topic_deleted(event["topic"])
            if end > self._loaded[POPS]:
                self.pop_table.on_topic_deleted(event["topic"])
            self.on_topic_deleted(event["topic"], end)  # in any case: queues are not part of the snapshots

    def _on_group_event(self, event: Document, version: Document, end: PhysicalOffset) -> None:
        if end > self._loaded[GROUPS]:
            self.group_table.on_event(event, version)
        if event.get("event") == DELETED:
            if end > self._loaded[OFFSETS]:
                self.offset_table.on_group_deleted(event["group"])
            if end > self._loaded[LOCKS]:
                self.queue_locks.on_group_deleted(event["group"])
            if end > self._loaded[POPS]:
                self.pop_table.on_group_deleted(event["group"])


def state_files(directory: str) -> dict[str, bytes]:
    """{name: content} of the snapshots under `directory`/config, for a slave to begin with. Raises OSError."""
    found = {}
    for name in FILE_NAMES.values():
        path = os.path.join(directory, "config", name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                found[name] = file.read()
    return found


def _load(path: str, table: Table) -> PhysicalOffset:
    """Loads a snapshot into its table; returns the offset it reflects: NOTHING if there is no file. Raises StoreFormatError."""
    snapshot = read_snapshot(path)
    if snapshot is None:
        return PhysicalOffset(0)
    table.load(snapshot.document)
    return EVERYTHING if snapshot.reflected is None else snapshot.reflected


def _event(topic: str, body: bytes, queue_offset: int) -> dict[str, Any]:
    try:
        event = json.loads(body)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise StoreFormatError(topic, f"the event at queue offset {queue_offset} is no JSON") from error
    if not isinstance(event, dict):
        raise StoreFormatError(topic, f"the event at queue offset {queue_offset} is no object")
    return event


def _everything() -> int:
    """Used until the store is open."""
    return EVERYTHING


def _new_incarnation() -> int:
    """The end of a topic's record would not do as its incarnation: in a new store another topic may end there."""
    return secrets.randbits(INCARNATION_BITS) or 1


def _nothing_from(end: int) -> None:
    """Used until the service has wired it."""


def _nothing_of_it(topic: str) -> None:
    """Used until the service has wired it."""


def _nothing_of_these(queues: list[str], at: int) -> None:
    """Used until the service has wired it."""


def _nothing_of(topic: str, at: int) -> None:
    """Used until the service has wired it."""
