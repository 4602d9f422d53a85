"""The message store: one directory, opened whole, written by one loop thread.

A turn of the loop stages batches in place in the arena, then commits: one write to the log (from here on they may
be acknowledged), then units to the queues, keys to the index, and the run to every other dispatcher, in that order.

    producer's batch -> arena -> stage: check, stamp -> append: log -> replies -> dispatch: queues | index | state tables
    master's chunk ------------------> append_chunk: log, byte for byte -----------'

It wires the parts: a turn (staging), a chunk (chunk_reader, chunk_append), the log (commit_log), dispatch (run_dispatch),
the read limit (confirmation), reading (queue_reader, backward_reader, key_reader), the start (store_opening), upkeep each
second (upkeep), damage (damage, damaged_units).
Loop thread; other threads may call `query`, `page`, `record_at`, `offset_by_time` and `flush_all`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from ..metrics.histogram import Histogram
from ..model.arena import Arena
from ..model.clock import Clock
from ..model.errors import CorruptRecordError, MessageNotFound, OffsetOutOfRange, StorePoisoned
from ..model.ids import HostAddress
from ..model.queue import PhysicalOffset, QueueOffset
from ..model.topics.light_queues import is_light_queue, lite_prefix
from ..record.new_record import NewRecord
from .checksum.checksum_entry import RottenEntry
from .checksum.checksum_reader import ChecksumReader
from .compaction.compacted_query import CompactedQuery
from .compaction.compacted_queues import CompactedQueues
from .compaction.compaction import Compaction
from .config import StoreConfig
from .expiry import NOTHING
from .get_result import GetResult, Search
from .index.key_index import KeyIndex
from .index.key_reader import KeyReader
from .integrity.damage import Damage
from .integrity.damaged_units import DamagedUnits
from .integrity.log_check import Checked, LogChecker
from .integrity.quarantine import overlapping, overlaps
from .integrity.queue_check import QueueChecker, read_record
from .integrity.scrub_reader import ScrubReader, check_log
from .log.chunk_append import ChunkAppender
from .log.chunk_reader import LogChunk, read_chunk
from .log.commit_log import CommitLog
from .log.known_pages import KnownPages
from .log.segment import private_memory
from .log.staging import Placed as Placed  # the result of `stage`
from .log.staging import Staging
from .opening.store_opening import Opened, open_store, scanning_kernel
from .query import Page, StoreQuery
from .queues.backward_reader import BackwardReader
from .queues.batches.all_queues import minimum_of
from .queues.deleted_lights import DeletedLights
from .queues.dispatch import Dispatcher
from .queues.light_offsets import may_be_forgotten
from .queues.queue_engine import StoreQueues
from .queues.queue_places import FILLER_SIZE
from .queues.queue_reader import QueueReader
from .queues.run_dispatch import UNITS_WAIT, RunDispatch
from .retention_needs import LogHolds, Needs
from .store_event import StoreEvent
from .upkeep import Upkeep

RANGES_TOLD: Final = 10
LIGHTS_AT_ONCE: Final = 100  # light queues of a deleted parent that one tick removes, some 100 us each in files


class Stage(Protocol):
    """Stages a producer's batch; see `MessageStore.stage`."""

    def __call__(
        self, begin: int, end: int, topic: str, queue_id: int, count: int, own: bool = ..., flags: int = ...
    ) -> Placed: ...


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """The figures of one moment; offsets physical, `quarantined_bytes` in `quarantined_ranges` places.

    `first_quarantined`: the first RANGES_TOLD of them. `refuses_writes`: why no message is accepted; None if they are.
    `deletes_early`: why files are deleted before their age; None if they are not. `disk_use`: the share of the disk that is
    used, 0 to 1, when it was looked at last.
    """

    begin_offset: int
    written_offset: int
    flushed_offset: int
    dispatched_offset: int
    segments: int
    queues: int
    light_queues: int
    index_files: int
    index_entries: int
    messages_staged: int
    quarantined_ranges: int
    quarantined_bytes: int
    first_quarantined: tuple[tuple[int, int], ...]
    checksum_entries_lost: int
    refuses_writes: str | None
    deletes_early: str | None
    disk_use: float


def request_arena(config: StoreConfig) -> Arena:
    """The arena into which a server receives requests, for a store with this configuration."""
    return Arena(config.drain_bytes, config.frame_bytes_max, private_memory)


class MessageStore:
    """A store directory; a context manager. Opens RocketMQ's stores too."""

    def __init__(
        self,
        directory: str,
        config: StoreConfig,
        *,
        store_host: HostAddress,
        clock: Clock,
        on_flushed: Callable[[], None],
        on_poisoned: Callable[[StorePoisoned], None],
        dispatchers: Sequence[Dispatcher] = (),
        arena: Arena | None = None,
    ) -> None:
        """`on_flushed` is called by the flush thread, `on_poisoned` by any thread in which the disk failed.
        `dispatchers`: called
        after queues and index, in this order; a TopicDispatcher only for its topics. `arena`: the one of the server
        (`request_arena`); without a server the store has its own.
        """
        self.arena = arena or request_arena(config)
        self._config = config
        self._clock = clock
        self.is_sync = config.flush_mode == "sync"  # whether each commit requests a flush; a group may change its mode
        self._store_host = store_host.encode()
        self._log_holds = LogHolds()
        self._on_poisoned = on_poisoned
        self._on_flushed = on_flushed
        self._directory = directory
        self._dispatchers = tuple(dispatchers)
        self._is_replaying = False
        self._log: CommitLog
        self._queues: StoreQueues
        self._index: KeyIndex | None = None
        self._dispatch: RunDispatch
        self._staging: Staging
        self._appender: ChunkAppender
        self._reader: QueueReader
        self._keys: KeyReader
        self._backward: BackwardReader
        self._upkeep: Upkeep
        self.compacted: CompactedQueues
        self._compacted_query: CompactedQuery
        self.compaction: Compaction
        self.damage: Damage
        self.damaged_units: DamagedUnits
        self._deleted_lights: DeletedLights
        self._opened: Opened
        self._life = ExitStack()

    # ---- life

    def __enter__(self) -> Self:
        """Locks, opens, recovers and starts the store. Raises StoreLocked, StoreFormatError, StorePoisoned, OSError."""
        with ExitStack() as started:
            open_store(
                self._directory,
                self._config,
                clock=self._clock,
                dispatchers=self._dispatchers,
                on_flushed=self._on_flushed,
                on_poisoned=self._on_poisoned,
                adopt=self._adopt,
                started=started,
            )
            started.callback(self.compaction.close)
            self._is_replaying = False
            self._staging.refresh()
            self._life = started.pop_all()
        return self

    def _adopt(self, opened: Opened) -> None:
        """Adopts the opened parts before the replay, since dispatchers may call back (`delete_topic`)."""
        self._is_replaying = True
        self._opened = opened
        self._upkeep = opened.upkeep
        self._upkeep.expiry.log_floor = self._log_floor
        self._log, self._queues, self._index = opened.log, opened.queues, opened.index
        self._confirmation = confirmation = opened.confirmation
        self._dispatch = RunDispatch(opened, confirmation)
        self._staging = Staging(
            self.arena, self._config, opened, self._dispatch, store_host=self._store_host, now_ms=self._clock.now_ms
        )
        self._appender = ChunkAppender(self._config, opened, self._dispatch)
        self.compacted = compacted = CompactedQueues(self._directory)
        self._deleted_lights = DeletedLights(self._directory, opened.queues, opened.log.written)
        self._reader = QueueReader(
            opened.log,
            opened.queues,
            self._config,
            confirmation=confirmation,
            quarantine=opened.quarantine,
            compacted=compacted,
        )
        self.damage = Damage(
            self._directory,
            opened.log,
            opened.queues,
            opened.quarantine,
            opened.upkeep,
            kernel=scanning_kernel(self._config, opened.log.segment_bytes),
            checker=self.log_checker(),
        )
        self.damaged_units = DamagedUnits(
            opened.log, opened.queues, opened.quarantine, confirmation, self.queue_checker()
        )
        self._keys = KeyReader(opened.log, opened.index, confirmation=confirmation, quarantine=opened.quarantine)
        self._backward = BackwardReader(
            opened.log, opened.queues, self._reader, confirmation=confirmation, quarantine=opened.quarantine
        )
        self._compacted_query = CompactedQuery(compacted)
        self.compaction = Compaction(
            self._config,
            log=opened.log,
            queues=opened.queues,
            confirmation=confirmation,
            quarantine=opened.quarantine,
            compacted=compacted,
            damaged_in=self.damaged_in,
            found_damage=self.damage.add_all,
        )
        self.keep_waiting(self.compaction.clear_below)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Flushes, persists and closes; the store counts as cleanly closed if nothing failed."""
        self._life.close()

    # ---- positions

    @property
    def written(self) -> PhysicalOffset:
        """Everything below is in the log."""
        return self._log.written

    @property
    def segment_bytes(self) -> int:
        """The size of its log files, as it was created, whatever the settings say now."""
        return self._log.segment_bytes

    @property
    def begin(self) -> PhysicalOffset:
        """The first byte that retention has kept."""
        return self._log.begin

    @property
    def flushed(self) -> PhysicalOffset:
        """Everything below was made durable, by this process or by the last one if that stopped cleanly."""
        return self._log.flushed

    @property
    def foreign_end(self) -> PhysicalOffset:
        """The end of the log when a broker of RocketMQ last wrote to this store; 0 if none has."""
        return self._opened.foreign_end

    @property
    def sync_pending_ms(self) -> int:
        """How long the present sync has taken so far; 0 if none is running. Any thread."""
        return self._log.sync_pending_ms

    @property
    def flush_times(self) -> Histogram:
        """How long each sync took. Any thread may read it."""
        return self._log.flush_times

    @property
    def unread_deleted(self) -> int:
        """Messages that were deleted, since the start, though somebody had yet to read them. Any thread."""
        return self._upkeep.expiry.unread_deleted

    def stored_ms(self, offset: int) -> int | None:
        """When the record at a physical offset was stored; None if the log has none there, or the disk cannot read it. It
        waits for the disk: any thread but the loop."""
        return self._log.stored_ms(offset)

    @property
    def lacks_room(self) -> bool:
        """True if nothing can be appended because the disk has no room for it or for what must follow it."""
        return self._log.lacks_room or self._dispatch.is_blocked

    @property
    def refusal(self) -> str | None:
        """Why no message is accepted now, and what to do; None if the next one may be."""
        if self._upkeep.is_refusing:
            return self._upkeep.too_full
        return UNITS_WAIT if self._dispatch.is_blocked else self._log.refusal

    def request_flush(self) -> None:
        """Requests a sync of everything written so far; `on_flushed` is called when `flushed` has moved."""
        self._log.request_flush(self._log.written)

    def flush_all(self, timeout_ms: int) -> PhysicalOffset:
        """Makes the whole log durable, in any flush mode; returns its end. Blocks: any thread but the loop.

        Raises FlushTimeout, StorePoisoned.
        """
        written = self._log.written
        self._log.wait_flushed(written, timeout_ms)
        return written

    @property
    def confirm_offset(self) -> PhysicalOffset:
        """Where reads stop: at the end of the log, unless `confirm` was ever called."""
        return self._confirmation.end(self._log.written)

    def confirm(self, offset: int) -> None:
        """Everything below may be read; a lower offset than before changes nothing, one above the end applies later.

        The first call makes the store a replicated one: from then on nothing unconfirmed is read, reported as arrived,
        returned as a queue's end or put into a state snapshot. So it is due right after opening.
        """
        self._confirmation.confirm(offset, written=self._log.written, queues=self._queues.listed)

    @property
    def remembered_confirm(self) -> int:
        """The confirm offset in the last process's checkpoint; 0 if there is none. If the log ends below it, it
        has lost bytes since."""
        return self._confirmation.remembered

    def forget_remembered_confirm(self) -> None:
        """A controller has registered a possible loss: from now on the checkpoint stores this process's confirm offset.

        If the log had lost bytes below the old one, the change is durable on return, because other bytes may take their place
        after a forced election. It blocks on the disk then.
        """
        self._upkeep.forget_remembered_confirm()

    @property
    def waits_above_end(self) -> bool:
        """True if a pull behind a queue's end waits, as at a slave: its master may have more. Otherwise it is illegal."""
        return self._reader.waits_above_end

    @waits_above_end.setter
    def waits_above_end(self, waits: bool) -> None:
        self._reader.waits_above_end = waits

    # ---- staging

    @property
    def stage(self) -> Stage:
        """`stage(begin, end, topic, queue_id, count)` stages a producer's batch that is in arena.view[begin:end], begin ==
        arena.used: checks and stamps it in place. A frequent caller fetches the function once, while the store is open.
        `own`: the records may contain what a client may not set; `flags`: of the run, for the dispatchers.

        Moves arena.used to `end`. Raises InvalidName, MessageIllegal, StoreNotWriteable, StorePoisoned; arena.used is
        unchanged then.
        """
        return self._staging.stage

    @property
    def stage_batch(self) -> Callable[[int, int, str, int, int], Placed]:
        """`stage_batch(begin, end, topic, queue_id, count)` stages the one record in arena.view[begin:end] that holds a
        producer's batch of `count` messages, for a batch queue.

        As `stage`; raises MessageIllegal too if the queue has plain records.
        """
        return self._staging.stage_batch

    def stage_record(self, record: NewRecord, *, frees_room: bool = False) -> Placed:
        """Stages one record that the broker itself makes. `frees_room`: it may allow files to be deleted (a commit,
        the deletion of a topic or group), so a disk over `disk_refuse_ratio` still accepts it while it has any room.

        Raises InvalidName, MessageIllegal, MessageTooLarge, StoreNotWriteable, StorePoisoned.
        """
        return self._staging.stage_record(record, frees_room=frees_room)

    def stage_own(self, records: bytes, *, topic: str, queue_id: int, count: int, flags: int = 0) -> Placed:
        """Stages contiguous visible records of one queue that the broker made, its own fields zero, all or none.

        `flags`: ENDS_WAIT if some of them end the wait of other records, SEQUENCED if some have it. Raises
        InvalidName, MessageIllegal (also if they are more than a segment holds), StoreNotWriteable, StorePoisoned.
        """
        return self._staging.stage_own(records, topic=topic, queue_id=queue_id, count=count, flags=flags)

    # ---- committing

    def commit(self) -> None:
        """Writes and dispatches everything staged; the arena is free again. Raises StorePoisoned."""
        self.append()
        self.dispatch()

    def append(self) -> None:
        """The first half of a commit: everything staged is in the log, and may be acknowledged as far as the log decides.

        `dispatch` then updates queues, index and state, before anything is read; more may be staged and appended until then.
        Raises StorePoisoned.
        """
        if not self._staging.is_empty:
            self._staging.append()
            if self.is_sync:
                self._log.request_flush(self._log.written)

    def dispatch(self) -> None:
        """The second half, of all that was appended; the arena is free again. Raises StorePoisoned."""
        self._staging.dispatch()
        self.arena.used = 0

    def take_arrivals(self) -> list[tuple[str, int]]:
        """The queues in which more may be read than at the last call."""
        return self._dispatch.take_arrivals()

    # ---- replicas

    def chunk(self, begin: int, bytes_max: int, *, limit: int | None = None) -> LogChunk:
        """The log from `begin` on, for a slave (chunk_reader); nothing at or behind `limit`.

        Raises OffsetOutOfRange (retention was faster, or above the end), RemoteProtocolError if `begin` is
        within a record, CorruptRecordError: then the damage is quarantined, or the caller must ask again.
        """
        up_to = self._log.written if limit is None else limit
        try:
            chunk = read_chunk(self._log, begin, bytes_max=bytes_max, limit=up_to, quarantined=self.damage.unsendable)
        except CorruptRecordError:
            segment_end = begin - begin % self._log.segment_bytes + self._log.segment_bytes
            self.damage.in_chunk(begin, min(begin + bytes_max, up_to, self._log.written, segment_end), is_doubted=True)
            raise
        if self.damage.in_chunk(chunk.begin, chunk.end):
            raise CorruptRecordError(begin, chunk.end - begin)
        return chunk

    def chunk_end(self, begin: int, bytes_max: int) -> PhysicalOffset:
        """The end of `chunk` without its bytes. Raises OffsetOutOfRange, CorruptRecordError."""
        up_to, unsendable = self._log.written, self.damage.unsendable
        return read_chunk(self._log, begin, bytes_max=bytes_max, limit=up_to, quarantined=unsendable).end

    def append_chunk(self, data: bytes | memoryview, begin: int, end: int, *, crc: int | None = None) -> None:
        """A slave's commit: appends the bytes of its master's chunk [begin, end) at the same place, and dispatches
        them in the order of the log. Nothing may be staged. A dispatcher may call `delete_topic` meanwhile.

        `crc`: CRC-32 of `data` if the caller has checked it.

        Raises OffsetOutOfRange (`begin` is not the end of this log), CorruptRecordError (damage), StoreNotWriteable:
        nothing was appended then. Raises StorePoisoned.
        """
        assert self._staging.is_empty
        self._appender.append(memoryview(data), begin, end, crc=crc, before_dispatch=self._staging.forget_tails)
        self._staging.refresh()
        if self.is_sync:
            self._log.request_flush(self._log.written)

    def queue_minimums(self, begin: int) -> dict[tuple[str, int], int]:
        """The first offset of each queue whose record is at or behind `begin`: a slave that begins there needs it. Of a batch
        queue -1 - its first offset."""
        keys = self._queues.listed()
        found = {key: self._queues.get(*key) for key in keys}
        return {key: minimum_of(queue, PhysicalOffset(begin)) for key, queue in found.items() if queue is not None}

    def log_checker(self) -> LogChecker:
        """Another reader, for a thread of its own. Once the store is open."""
        log = self._log
        checksums = ChecksumReader(log.checksums.directory, log.segment_bytes, write_out=log.write_entries)
        return LogChecker(scanning_kernel(self._config, log.segment_bytes), checksums, log.segment_bytes)

    def queue_checker(self) -> QueueChecker:
        """Another checker, for a thread of its own. Once the store is open."""
        kernel = scanning_kernel(self._config, self._log.segment_bytes)
        return QueueChecker(self._log, kernel, self._queues.source())

    def set_entries_right(self, rotten: Iterable[RottenEntry]) -> tuple[RottenEntry, ...]:
        """Repairs damaged checksum entries whose right value is certain; returns the others. A worker's.

        Raises OSError.
        """
        return tuple(one for one in rotten if not self._log.checksums.set_right(one))

    def check(self, checker: LogChecker, begin: int, *, bytes_max: int, limit: int) -> Checked:
        """Checks the log from `begin` on, where the last check ended, for a scrub (log_check, scrub_reader). A worker's.

        Raises OffsetOutOfRange (retention was faster), OSError.
        """
        return check_log(self._log, checker, begin, bytes_max=bytes_max, limit=limit)

    def places_of(self, topic: str, queue_id: int, begin: int, end: int) -> list[tuple[int, int]]:
        """The places of the messages [begin, end) of a queue in the log, [begin, end) each."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return []
        units = (queue.unit(at)[:2] for at in range(max(begin, queue.first_offset), min(end, queue.next_offset)))
        return [(at, at + size) for at, size in units if size != FILLER_SIZE]

    def damaged_in(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The damaged ranges of the appends that contain these places. Any thread; expired places are left out."""
        checker, seen_to = self.log_checker(), 0
        found: list[tuple[int, int]] = []
        for begin, end in places:
            try:
                while seen_to < end:
                    at = max(begin, seen_to)
                    checked = self.check(checker, at, bytes_max=end - at, limit=self._log.written)
                    found += checked.damaged
                    seen_to = checked.end
            except (OffsetOutOfRange, OSError):
                continue
        return found

    def read_log(self, physical: int, size: int) -> bytes | None:
        """What the log has there; None if that cannot be a record, or cannot be read. Any thread."""
        return read_record(self._log, physical, size)

    def damaged_at(self, offset: int) -> list[tuple[int, int]]:
        """The damaged ranges of the append with the byte at `offset`, which a client may have named. The append is checked
        from its begin, by its checksum entry; without an entry nothing is found. Any thread."""
        return self.damaged_in([(entry.offset, entry.end) for entry in self.log_checker().appends(offset, offset + 1)])

    def vouches_for(self, begin: int, end: int) -> bool:
        """True if checksum entries confirm that the bytes [begin, end) are those that were appended, whatever they hold. Any
        thread. Raises StorePoisoned."""
        try:
            with ScrubReader(self._log, begin) as reader:
                return self.log_checker().vouches_for(reader.read, begin, end)
        except (OffsetOutOfRange, OSError):
            return False

    def whole_again(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The quarantined rotten ranges that begin in [begin, end) and match their checksum entries. Any thread."""
        rotten = overlapping(self.damage.quarantine.rotten, begin, end)
        return [(low, high) for low, high in rotten if begin <= low and self.vouches_for(low, high)]

    def holds(self, begin: int, data: bytes) -> bool:
        """True if the log has these very bytes at `begin`, damaged or not; False if they have expired, or the disk
        cannot read them."""
        try:
            return bytes(self._log.read(begin, begin + len(data))) == data
        except (OffsetOutOfRange, OSError):
            return False

    def copy_of_range(self, begin: int, end: int) -> tuple[bytes, bool]:
        """Bytes [begin, end) of the log, whole appends or records of one segment, for another replica, and whether they match
        our checksums. Any thread.

        Raises OffsetOutOfRange (retention was faster), CorruptRecordError if the disk cannot read them.
        """
        checker, at, is_whole = self.log_checker(), begin, True
        with ScrubReader(self._log, begin) as reader:
            while at < end and is_whole:
                checked = checker.check(reader.read, at, bytes_max=end - at, limit=self._log.written)
                is_whole = not overlaps(checked.damaged, begin, end)
                at = checked.end
            try:
                data = reader.read(begin, end)
            except OSError as error:
                raise CorruptRecordError(begin, end - begin, "the disk cannot read it") from error
        if begin < self._log.begin:  # the bytes read may be of another segment by now
            raise OffsetOutOfRange("commit log", begin, self._log.begin, self._log.written)
        return data, is_whole

    @property
    def is_poisoned(self) -> bool:
        """True if the disk has failed: nothing written since counts."""
        return self._log.poisoned is not None

    # ---- reading

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
        """Records from `queue_offset` on as views of the log; `codes`: wanted tag hashes, none for all; or a `search`."""
        return self._reader.get_messages(
            topic,
            queue_id,
            queue_offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            codes=codes,
            confirm_offset=self.confirm_offset,
            search=search,
        )

    def compacted_read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...] = (),
        search: Search | None = None,
    ) -> Callable[[], GetResult] | None:
        """What `get_messages` does where only compacted files have the message; None elsewhere. It waits for the disk, in any
        thread."""
        return self._reader.compacted_read(
            topic, queue_id, queue_offset, max_messages=max_messages, max_bytes=max_bytes, codes=codes, search=search
        )

    @property
    def known_pages(self) -> KnownPages:
        """The parts of the log that pulls may touch."""
        return self._reader.pages

    @property
    def has_compacted(self) -> bool:
        """Whether there are compacted files."""
        return bool(self.compacted.manifests)

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The first message the queue still holds; 0 where there is no queue."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return QueueOffset(0)
        return QueueOffset(self.compacted.begin(queue.key, queue.min_offset(self._log.begin)))

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The offset behind the queue's last message that may be read; 0 where there is no queue."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return QueueOffset(0)
        return QueueOffset(max(queue.min_offset(self._log.begin), self._confirmation.next_offset(queue)))

    def position_of(self, topic: str, queue_id: int, queue_offset: QueueOffset) -> PhysicalOffset | None:
        """The place of a queue's message in the log, readable yet or not; None if the queue does not hold it."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset(self._log.begin) <= queue_offset < queue.next_offset:
            return None
        return PhysicalOffset(queue.unit(queue_offset)[0])

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool) -> QueueOffset:
        """The first message stored at or after a time, or the last at or before it (`upper`). Any thread."""
        found = self._reader.offset_by_time(topic, queue_id, timestamp_ms, upper=upper)
        key = topic, queue_id
        if key not in self.compacted.manifests:
            return found
        low = self._reader.first_in_log(topic, queue_id)
        if not upper:
            first = self.compacted.first_stored_from(key, timestamp_ms, low)
            return found if first is None else QueueOffset(first)
        return found or QueueOffset(self.compacted.last_stored_to(key, timestamp_ms, low) or 0)

    def query(
        self, topic: str, key: str, *, max_messages: int, begin_ms: int, end_ms: int, unique: bool
    ) -> list[bytes]:
        """Whole records in the log of a topic under a key (or unique id) stored in [begin_ms, end_ms], newest first. Any
        thread."""
        return self._keys.query(topic, key, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms, unique=unique)

    def page(self, query: StoreQuery, queue_ids: Iterable[int], has_time: Callable[[], bool]) -> Page:
        """The next page of a query, newest first: by key from the index, else from these queues. Any thread.

        It looks at one record at least, then while `has_time`. Raises SystemFault.
        """
        log_begin = self._log.begin
        ids = tuple(queue_ids)
        page = self._keys.page(query, has_time) if query.key else self._backward.page(query, ids, has_time)
        return self._compacted_query.go_on(page, log_begin, ids, has_time)

    def record_at(self, physical_offset: PhysicalOffset) -> bytes:
        """The whole record that begins there. Any thread. Raises MessageNotFound, CorruptRecordError (damaged)."""
        try:
            return self._keys.record_at(physical_offset)
        except MessageNotFound:
            record = self._compacted_query.record_at(physical_offset)
            if record is None:
                raise
            return record

    def queues(self) -> dict[str, tuple[int, ...]]:
        """{topic: queue ids that exist}; light queues are not among them."""
        table: dict[str, tuple[int, ...]] = {}
        for topic, queue_id in self._queues.listed():
            if not is_light_queue(topic):
                table[topic] = (*table.get(topic, ()), queue_id)
        return table

    def check_lights(self, check: Callable[[str, str], None]) -> None:
        """`check(topic, light queue)`: raises a ZenitError if no client's message of the topic may name it. Asked once a
        turn, and again where records of another topic came between."""
        self._staging.check_light = check

    def has_light_queue(self, name: str) -> bool:
        """Whether it has, or had, a message that the log still has."""
        return name in self._queues.lights

    def is_light_queue_gone(self, name: str, queue_offset: int) -> bool:
        """Whether it is not there, and made anew by a message it would begin no lower than at this offset."""
        return not self.has_light_queue(name) and may_be_forgotten(queue_offset, self._log.begin)

    def light_queues(self) -> list[str]:
        """The names of all light queues, in no order; copied at each call."""
        return list(self._queues.lights)

    # ---- upkeep

    def delete_topic(self, topic: str, at: int) -> None:
        """Deletes the queues of a topic, for an event whose record ends at byte `at` of the log; the topic's own records
        stay in the log until they expire.

        While that event may still be cut from the log, the queues are set aside (deleted_queues), and those of its lite
        topics stay (deleted_lights). During a replay: only if the queues do not already reflect it. Raises OSError.
        """
        if self._is_replaying and at <= self._opened.queues_reflected:
            return
        self._staging.write()
        self.compacted.forget_topic(topic, at)
        if self._is_replaying or at > self.confirm_offset:
            self._queues.set_topic_aside(topic, at)
        else:
            self._queues.delete_topic(topic)
        self._staging.forget_topic(topic)
        self._confirmation.forget(topic)
        if self._is_replaying or at > self.confirm_offset:
            self._deleted_lights.note(topic, at)
        else:
            begin = lite_prefix(topic)
            self.delete_light_queues([name for name in self.light_queues() if name.startswith(begin)], at)

    def delete_light_queue(self, name: str) -> None:
        """Removes a light queue's units; their records stay in the log until they expire. A replay from before this, and a
        queue made again from the log, have them again. The next message gets an offset that was never used. Raises OSError.
        """
        self._staging.write()
        self._queues.delete_light(name, self.confirm_offset)
        self._confirmation.forget_queue((name, 0))

    def delete_light_queues(self, names: Iterable[str], at: int) -> None:
        """The same of several, for an event whose record ends at byte `at` of the log. During a replay: only if the
        queues do not already reflect it. Raises OSError."""
        if self._is_replaying and at <= self._opened.queues_reflected:
            return
        for name in names:
            if self.has_light_queue(name):
                self.delete_light_queue(name)

    def set_limits(self, config: StoreConfig) -> None:
        """From now on these limits of retention and of the disk count. Loop thread."""
        self._upkeep.set_limits(config)

    def protect(self, needs: Needs) -> None:
        """What groups have yet to consume; retention keeps it."""
        self._upkeep.expiry.protect(needs)

    def hold(self, needs: Needs) -> None:
        """What readers read now; retention keeps it while the disk has room."""
        self._upkeep.expiry.hold(needs)

    def hold_log(self, holder: str, offset: PhysicalOffset, lease_ms: int) -> None:
        """Retention keeps the log from there on for so long, while the disk has room. A holder has one hold. Loop thread."""
        self._log_holds.take(holder, offset, self._clock.monotonic_ms() + lease_ms)

    def renew_log_hold(self, holder: str, lease_ms: int) -> None:
        """For so long from now on; nothing if it has none."""
        self._log_holds.renew(holder, self._clock.monotonic_ms() + lease_ms)

    def _log_floor(self) -> int:
        floor = self._log_holds.floor(self._clock.monotonic_ms())
        return NOTHING if floor is None else floor

    def keep_waiting(self, *clear_below: Callable[[int], bool]) -> None:
        """`clear_below(offset)`: True if no record below this physical offset waits any more. It is called
        before segments are deleted; while it is False they stay, and it makes sure that the waiting records are appended again.
        """
        self._upkeep.expiry.keep_waiting(*clear_below)

    def on_tick(self, now_ms: int) -> list[StoreEvent]:
        """Called about each second: retention and checkpoints, slow parts in a worker. Returns what an operator should see."""
        events = [*self._upkeep.on_tick(now_ms), *self.compaction.on_tick(now_ms)]
        self.damage.forget_expired()
        if self._deleted_lights.is_due(self.confirm_offset):
            self._staging.write()
            self._deleted_lights.delete_some(LIGHTS_AT_ONCE, self.confirm_offset)
        if self._staging.is_empty:
            self._staging.refresh()
        return events

    @property
    def has_upkeep_left(self) -> bool:
        """True if `on_tick` should be called again soon: it does only as much at a time as the loop can wait for."""
        return self._upkeep.expiry.is_unfinished or self._deleted_lights.is_due(self.confirm_offset)

    def statistics(self) -> StoreStatistics:
        """The figures of this moment."""
        quarantined = self._opened.quarantine.ranges
        return StoreStatistics(
            begin_offset=self._log.begin,
            written_offset=self._log.written,
            flushed_offset=self._log.flushed,
            dispatched_offset=self._upkeep.dispatched(),
            segments=len(self._log.segments()),
            queues=self._queues.count - len(self._queues.lights),
            light_queues=len(self._queues.lights),
            index_files=0 if self._index is None else self._index.file_count,
            index_entries=0 if self._index is None else self._index.entry_count,
            messages_staged=self._dispatch.messages,
            quarantined_ranges=len(quarantined),
            first_quarantined=quarantined[:RANGES_TOLD],
            quarantined_bytes=sum(end - begin for begin, end in quarantined),
            checksum_entries_lost=self._log.checksums.entries_lost,
            refuses_writes=self.refusal,
            deletes_early=self._upkeep.deletes_early,
            disk_use=self._upkeep.disk_use,
        )
