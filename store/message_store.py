"""The message store: one directory, opened whole, written by one loop thread.

A turn of the loop stages batches where they lie in the arena, then commits: one write to the log, then units to the
queues, keys to the index, and the run to every other dispatcher, in that order.

    producer's batch -> arena -> stage: check, stamp -> commit: log | queues | index | state tables -> replies

Wires the parts: the log (commit_log), queues (queue_table), keys (key_index), reading (queue_reader), the start
(store_opening), what happens each second (upkeep). Loop thread; `query`, `record_at`, `offset_by_time` may be called by
workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

from ..model.arena import Arena
from ..model.clock import Clock
from ..model.errors import MessageIllegal, StoreNotWriteable, StorePoisoned
from ..model.ids import HostAddress
from ..model.names import check_topic
from ..model.properties import encode_properties
from ..model.queue import PhysicalOffset, QueueOffset
from .commit_log import CommitLog
from .config import StoreConfig
from .consume_queue import ConsumeQueue
from .dispatch import Dispatcher, Run
from .get_status import GetResult
from .key_index import KeyIndex, is_indexed
from .key_reader import KeyReader
from .queue_reader import QueueReader
from .queue_table import QueueTable, goes_to_queue
from .record_kernel import (
    BAD_BODY_SIZE,
    BAD_SIZE,
    REASONS,
    RECORD_OVERHEAD_BYTES,
    TERMINATOR_BYTES,
    RunKernel,
    batch_sizes,
    encode_record,
    index_topic_hash,
)
from .store_opening import Opened, open_store
from .upkeep import StoreEvent, Upkeep


@dataclass(slots=True)
class Placed:
    """Where a batch will be once it is committed: queue offsets from `queue_offset` on, bytes [physical_offset, end).

    `pieces`: ((count, physical offset), ...) of a batch that had to be split over segments. A reply that promises the
    disk waits until `flushed` >= `end`. Not frozen, because one is made for every request.
    """

    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    count: int
    end: int
    pieces: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """A moment's figures; offsets physical, `quarantined_bytes` in `quarantined_ranges` places."""

    begin_offset: int
    written_offset: int
    flushed_offset: int
    dispatched_offset: int
    segments: int
    queues: int
    index_files: int
    index_entries: int
    messages_staged: int
    quarantined_ranges: int
    quarantined_bytes: int
    checksum_entries_lost: int


class _Tail:
    """The end of a queue as staged: `next_offset` runs ahead of the queue's own until the commit."""

    __slots__ = ("next_offset", "queue", "queue_id", "topic", "topic_bytes", "topic_hash")

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self.topic = queue.topic
        self.queue_id = queue.queue_id
        self.topic_bytes = queue.topic.encode()
        self.topic_hash = index_topic_hash(self.topic_bytes)
        self.next_offset = queue.next_offset


# tail, queue offset, count, begin, end, time, units begin, units end, keys begin, keys end, arena begin, sysFlag
_Staged = tuple[_Tail, int, int, int, int, int, int, int, int, int, int, int]


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
    ) -> None:
        """`on_flushed` is called by the flush thread, `on_poisoned` wherever the disk failed. `dispatchers`: told after
        queues and index, in this order; one with `topics` (a set) and `advance(end)` is told runs of those topics only.
        """
        self.arena = Arena(config.drain_bytes, config.frame_bytes_max)
        self._memory = self.arena.memory
        self._config = config
        self._clock = clock
        self._now_ms = clock.now_ms
        self._store_host = store_host.encode()
        self._on_poisoned = on_poisoned
        self._on_flushed = on_flushed
        self._directory = directory
        self._dispatchers = tuple(dispatchers)
        self._kernel = RunKernel(
            store_host=self._store_host,
            record_max=config.record_bytes_max,
            body_max=config.body_bytes_max,
            index_keys=config.index_enabled,
            index_tags=config.index_tags,
        )
        self._tails: dict[tuple[str, int], _Tail] = {}
        self._staged: list[_Staged] = []
        self._staged_end = 0  # physical; of what is staged, else of the log
        self._staged_room = -1  # bytes that may be staged before the segment must roll
        self._staged_ms = 0
        self._is_uniform = True  # all that is staged has one store time and plain records
        self._arrivals: dict[tuple[str, int], None] = {}
        self._messages_staged = 0
        self._replaying_at: int | None = None
        self._log: CommitLog
        self._queues: QueueTable
        self._index: KeyIndex | None = None
        self._reader: QueueReader
        self._keys: KeyReader
        self._upkeep: Upkeep
        self._opened: Opened
        self._life = ExitStack()

    # ---- life

    def __enter__(self) -> Self:
        """Locks, opens, recovers and starts the store. Raises StoreLocked, StoreFormatError, StorePoisoned, OSError."""
        with ExitStack() as started:
            opened = open_store(
                self._directory,
                self._config,
                clock=self._clock,
                dispatchers=self._dispatchers,
                on_flushed=self._on_flushed,
                on_poisoned=self._on_poisoned,
                on_replay=self._on_replay,
                adopt=self._adopt,
                started=started,
            )
            self._replaying_at = None
            self._upkeep = opened.upkeep
            self._after_write()
            self._life = started.pop_all()
        return self

    def _adopt(self, opened: Opened) -> None:
        """Takes the opened parts before the replay, since dispatchers may call back (`delete_topic`)."""
        self._opened = opened
        self._log, self._queues, self._index = opened.log, opened.queues, opened.index
        self._reader = QueueReader(opened.log, opened.queues, self._config, quarantined=opened.quarantined)
        self._keys = KeyReader(opened.log, opened.index, quarantined=opened.quarantined)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Flushes, persists and closes; the store counts as cleanly closed where nothing failed."""
        self._life.close()

    def _on_replay(self, begin: int) -> None:
        self._replaying_at = begin

    # ---- positions

    @property
    def written(self) -> PhysicalOffset:
        """Everything below is in the log."""
        return self._log.written

    @property
    def flushed(self) -> PhysicalOffset:
        """Everything below is on disk."""
        return self._log.flushed

    @property
    def confirm_offset(self) -> PhysicalOffset:
        """Where reads stop."""
        return self._log.written

    # ---- staging

    def stage(self, begin: int, end: int, *, topic: str, queue_id: int, count: int) -> Placed:
        """Takes a producer's batch that lies in arena.view[begin:end], begin == arena.used: checks and stamps it there.

        Moves arena.used to `end`. Raises MessageIllegal, StoreNotWriteable, StorePoisoned; arena.used is unchanged then.
        """
        tail = self._tails.get((topic, queue_id)) or self._tail(topic, queue_id)
        size = end - begin
        if size > self._staged_room:
            if size + TERMINATOR_BYTES > self._log.segment_bytes:
                return self._stage_split(tail, begin, end, count)
            self._make_room(size)
        now_ms = self._now_ms()
        physical = self._staged_end
        kernel = self._kernel
        units_begin, keys_begin = kernel.units_end, kernel.keys_end
        queue_offset = tail.next_offset
        done = kernel.stamp(
            self._memory,
            begin,
            end,
            tail.topic_bytes,
            tail.topic_hash,
            count,
            tail.queue_id,
            queue_offset,
            physical,
            now_ms,
        )
        if done <= 0:
            raise self._refusal(done)
        if now_ms != self._staged_ms:
            self._is_uniform = not self._staged
            self._staged_ms = now_ms
        tail.next_offset = queue_offset + done
        self._staged.append(
            (tail, queue_offset, done, physical, physical + size, now_ms, units_begin, kernel.units_end, keys_begin,
             kernel.keys_end, begin, 0)
        )  # fmt: skip
        self._staged_end = physical + size
        self._staged_room -= size
        self.arena.used = end
        return Placed(queue_offset, physical, now_ms, done, physical + size)

    def stage_record(
        self,
        *,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: Mapping[str, str] | bytes = b"",
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp_ms: int | None = None,
        born_host: bytes | None = None,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> Placed:
        """Takes one record that the broker itself makes. `properties`: a mapping, or encoded.

        Raises MessageIllegal, MessageTooLarge, StoreNotWriteable, StorePoisoned.
        """
        tail = self._tails.get((topic, queue_id)) or self._tail(topic, queue_id)
        encoded = properties if isinstance(properties, bytes) else encode_properties(properties)
        now_ms = self._now_ms()
        is_visible = goes_to_queue(sys_flag)
        record = bytearray(
            encode_record(
                topic=tail.topic_bytes,
                body=body,
                properties=encoded,
                queue_id=queue_id,
                flag=flag,
                queue_offset=tail.next_offset if is_visible else 0,
                sys_flag=sys_flag,
                born_timestamp_ms=now_ms if born_timestamp_ms is None else born_timestamp_ms,
                born_host=self._store_host if born_host is None else born_host,
                store_timestamp_ms=now_ms,
                store_host=self._store_host,
                reconsume_times=reconsume_times,
                prepared_transaction_offset=prepared_transaction_offset,
            )
        )
        size = len(record)
        if size > self._config.record_bytes_max or size + TERMINATOR_BYTES > self._log.segment_bytes:
            raise self._refusal(BAD_SIZE)
        if size > self._staged_room or self.arena.used + size > len(self._memory):
            self._make_room(size)
        physical, begin = self._staged_end, self.arena.used
        record[28:36] = physical.to_bytes(8, "big")
        self._memory[begin : begin + size] = record
        kernel = self._kernel
        units_begin, keys_begin = kernel.units_end, kernel.keys_end
        if kernel.scan(self._memory, begin, begin + size, physical, False, 1) != 1:
            raise self._refusal(kernel.status)
        queue_offset = tail.next_offset
        self._is_uniform = not self._staged or (self._is_uniform and now_ms == self._staged_ms)
        self._is_uniform = self._is_uniform and kernel.sys_flag & 0xC == 0
        self._staged_ms = now_ms
        tail.next_offset += is_visible
        self._staged.append(
            (tail, queue_offset, 1, physical, physical + size, now_ms, units_begin, kernel.units_end, keys_begin,
             kernel.keys_end, begin, kernel.sys_flag)
        )  # fmt: skip
        self._staged_end = physical + size
        self._staged_room -= size
        self.arena.used = begin + size
        return Placed(queue_offset, physical, now_ms, 1, physical + size)

    def _tail(self, topic: str, queue_id: int) -> _Tail:
        check_topic(topic)
        if queue_id < 0:
            raise MessageIllegal(f"queue id {queue_id} is negative")
        tail = self._tails[topic, queue_id] = _Tail(self._queues.get_or_create(topic, queue_id))
        return tail

    def _make_room(self, size: int) -> None:
        """Commits what is staged and sees to it that `size` bytes fit behind. Raises StoreNotWriteable."""
        self._write()
        if not self.arena.used or self.arena.used + size > len(self._memory):
            self.arena.used = 0
        self._upkeep.check_writeable()
        if self._is_blocked():
            raise StoreNotWriteable("disk full: queue units or index keys wait")
        self._staged_end = self._log.place(size)
        self._staged_room = self._log.room_bytes

    def _refusal(self, reason: int) -> MessageIllegal:
        limits = {BAD_SIZE: self._config.record_bytes_max, BAD_BODY_SIZE: self._config.body_bytes_max}
        limit = limits.get(reason)
        text = REASONS.get(reason, REASONS[BAD_SIZE])
        return MessageIllegal(text if limit is None else f"{text} (limit {min(limit, self._log.segment_bytes)} bytes)")

    def _stage_split(self, tail: _Tail, begin: int, end: int, count: int) -> Placed:
        """A batch larger than a segment: checked whole, then written piece by piece at once."""
        self._make_room(RECORD_OVERHEAD_BYTES)
        kernel = self._kernel
        done = kernel.stamp(
            self._memory, begin, end, tail.topic_bytes, tail.topic_hash, count, tail.queue_id, 0, 0, self._now_ms()
        )
        kernel.clear()
        if done <= 0:
            raise self._refusal(done)
        room = self._log.segment_bytes - TERMINATOR_BYTES
        cuts, at = [begin], begin
        for size in batch_sizes(bytearray(self.arena.view[begin:end]), end - begin):
            if size > room:
                raise self._refusal(BAD_SIZE)
            if at + size - cuts[-1] > room:
                cuts.append(at)
            at += size
        cuts.append(end)
        placed: list[Placed] = []
        for piece_begin, piece_end in pairwise(cuts):
            pieces = batch_sizes(bytearray(self.arena.view[piece_begin:piece_end]), piece_end - piece_begin)
            self.arena.used = piece_begin
            placed.append(
                self.stage(piece_begin, piece_end, topic=tail.topic, queue_id=tail.queue_id, count=len(pieces))
            )
            self._write()
        first = placed[0]
        return Placed(
            first.queue_offset,
            first.physical_offset,
            first.store_timestamp_ms,
            done,
            placed[-1].end,
            tuple((piece.count, piece.physical_offset) for piece in placed),
        )

    # ---- committing

    def commit(self) -> None:
        """Writes all that is staged and dispatches it; the arena is free again. Raises StorePoisoned."""
        if self._staged:
            self._write()
            if self._config.flush_mode == "sync":
                self._log.request_flush(self._log.written)
        self.arena.used = 0

    def _write(self) -> None:
        staged = self._staged
        if not staged:
            return
        first, last = staged[0], staged[-1]
        begin = first[10]
        self._log.append((self.arena.view[begin : begin + last[4] - first[3]],))
        try:
            self._dispatch(staged)
        except OSError as error:
            raise self._log.poison(f"queues or index: {error.strerror or error}") from error
        finally:
            staged.clear()
            self._kernel.clear()
            self._after_write()

    def _is_blocked(self) -> bool:
        return self._queues.is_blocked or (self._index is not None and self._index.is_blocked)

    def _after_write(self) -> None:
        """What is staged next begins where the log ends."""
        self._staged_end = self._log.written
        self._staged_room = -1 if self._upkeep.is_refusing or self._is_blocked() else self._log.room_bytes
        self._is_uniform = True

    def _dispatch(self, staged: list[_Staged]) -> None:
        units = memoryview(self._kernel.units)
        end = staged[-1][4]
        if len(staged) == 1 or not self._is_uniform:
            for tail, queue_offset, _, _, _, now_ms, units_begin, units_end, _, _, _, flags in staged:
                if goes_to_queue(flags):
                    self._queues.put(tail.queue, queue_offset, units[units_begin:units_end], now_ms)
                    self._arrivals[tail.queue.key] = None
        else:
            self._put_grouped(staged, units)
        self._queues.advance(end)
        if self._index is not None:
            self._index_staged(self._index, staged)
            self._index.advance(end)
        for run in staged:
            self._messages_staged += run[2]
        if self._opened.others:
            self._tell_others(staged, units, end)

    def _put_grouped(self, staged: list[_Staged], units: memoryview) -> None:
        """One write for each queue: the runs of a queue follow one another in it, if not in the log."""
        parts: dict[_Tail, list[memoryview]] = {}
        firsts: dict[_Tail, int] = {}
        for run in staged:
            tail = run[0]
            if tail in parts:
                parts[tail].append(units[run[6] : run[7]])
            else:
                parts[tail] = [units[run[6] : run[7]]]
                firsts[tail] = run[1]
        now_ms = staged[0][5]
        for tail, views in parts.items():
            self._queues.put(tail.queue, firsts[tail], views[0] if len(views) == 1 else b"".join(views), now_ms)
            self._arrivals[tail.queue.key] = None

    def _index_staged(self, index: KeyIndex, staged: list[_Staged]) -> None:
        hashes, offsets = self._kernel.hashes, self._kernel.key_offsets
        if self._is_uniform:
            if staged[0][8] < staged[-1][9]:
                index.put(hashes, offsets, staged[0][8], staged[-1][9], staged[0][5])
            return
        for run in staged:
            if run[8] < run[9] and is_indexed(run[11]):
                index.put(hashes, offsets, run[8], run[9], run[5])

    def _tell_others(self, staged: list[_Staged], units: memoryview, end: int) -> None:
        for dispatcher, topics, advance in self._opened.others:
            for tail, queue_offset, count, begin, run_end, now_ms, ub, ue, kb, ke, at, flags in staged:
                if topics is None or tail.topic in topics:
                    dispatcher.on_run(
                        Run(tail.topic, tail.queue_id, QueueOffset(queue_offset), count, PhysicalOffset(begin),
                            PhysicalOffset(run_end), now_ms, units[ub:ue], self._kernel.hashes, self._kernel.key_offsets,
                            kb, ke, self.arena.view[at : at + run_end - begin], flags)
                    )  # fmt: skip
            if advance is not None:
                advance(end)

    def take_arrivals(self) -> list[tuple[str, int]]:
        """The queues that got messages since the last call."""
        arrivals = list(self._arrivals)
        self._arrivals.clear()
        return arrivals

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
    ) -> GetResult:
        """Records from `queue_offset` on as views of the log; `codes`: tag hashes wanted, none for all."""
        return self._reader.get_messages(
            topic,
            queue_id,
            queue_offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            codes=codes,
            confirm_offset=self.confirm_offset,
        )

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The first message the queue still holds; 0 where there is no queue."""
        queue = self._queues.get(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.min_offset(self._log.begin)

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The offset of the queue's next message; 0 where there is no queue."""
        queue = self._queues.get(topic, queue_id)
        return QueueOffset(0 if queue is None else queue.next_offset)

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool) -> QueueOffset:
        """The first message stored at or after a time, or the last at or before it (`upper`). Any thread."""
        return self._reader.offset_by_time(topic, queue_id, timestamp_ms, upper=upper)

    def query(
        self, topic: str, key: str, *, max_messages: int, begin_ms: int, end_ms: int, unique: bool
    ) -> list[bytes]:
        """Whole records of a topic under a key (or unique id) stored in [begin_ms, end_ms], newest first. Any thread."""
        return self._keys.query(topic, key, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms, unique=unique)

    def record_at(self, physical_offset: PhysicalOffset) -> bytes:
        """The whole record that begins there. Any thread. Raises MessageNotFound, CorruptRecordError (damaged)."""
        return self._keys.record_at(physical_offset)

    def queues(self) -> dict[str, tuple[int, ...]]:
        """{topic: queue ids that exist}."""
        table: dict[str, tuple[int, ...]] = {}
        for topic, queue_id in self._queues.listed():
            table[topic] = (*table.get(topic, ()), queue_id)
        return table

    # ---- upkeep

    def delete_topic(self, topic: str) -> None:
        """Deletes the queues of a topic; its records stay in the log until they expire.

        During a replay: only where the queues do not already reflect it. Raises OSError.
        """
        if self._replaying_at is not None and self._replaying_at < self._opened.queues_reflected:
            return
        self._write()
        self._queues.delete_topic(topic)
        for key in [key for key in self._tails if key[0] == topic]:
            del self._tails[key]

    def protect(self, provider: Callable[[], Mapping[tuple[str, int], int]]) -> None:
        """`provider`: the first offset of each (topic, queue) that some group has yet to consume; retention keeps those."""
        self._upkeep.protect(provider)

    def on_tick(self, now_ms: int) -> list[StoreEvent]:
        """About each second: retention and checkpoints, their slow parts in a worker. Returns what an operator should see."""
        events = self._upkeep.on_tick(now_ms)
        if not self._staged:
            self._after_write()
        return events

    def statistics(self) -> StoreStatistics:
        """A moment's figures."""
        quarantined = self._reader.quarantined
        return StoreStatistics(
            begin_offset=self._log.begin,
            written_offset=self._log.written,
            flushed_offset=self._log.flushed,
            dispatched_offset=self._upkeep.dispatched(),
            segments=len(self._log.segments()),
            queues=len(self._queues.listed()),
            index_files=0 if self._index is None else self._index.file_count,
            index_entries=0 if self._index is None else self._index.entry_count,
            messages_staged=self._messages_staged,
            quarantined_ranges=len(quarantined),
            quarantined_bytes=sum(end - begin for begin, end in quarantined),
            checksum_entries_lost=self._log.checksums.entries_lost,
        )
