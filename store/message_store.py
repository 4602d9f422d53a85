"""The message store: one directory, opened whole, written by one loop thread.

A turn of the loop stages batches where they lie in the arena, then commits: one write to the log (from here on they may
be acknowledged), then units to the queues, keys to the index, and the run to every other dispatcher, in that order.

    producer's batch -> arena -> stage: check, stamp -> append: log -> replies -> dispatch: queues | index | state tables

Wires the parts: a turn (staging), the log (commit_log), queues (queue_table), keys (key_index), reading (queue_reader,
key_reader), the start (store_opening), what happens each second (upkeep). Loop thread; `query`, `record_at` and
`offset_by_time` may be called by workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from ..model.arena import Arena
from ..model.clock import Clock
from ..model.errors import StorePoisoned
from ..model.ids import HostAddress
from ..model.queue import PhysicalOffset, QueueOffset
from .commit_log import CommitLog
from .config import StoreConfig
from .dispatch import Dispatcher
from .get_status import GetResult
from .key_index import KeyIndex
from .key_reader import KeyReader
from .queue_reader import QueueReader
from .queue_table import QueueTable
from .staging import Placed as Placed  # what `stage` answers
from .staging import Staging
from .store_opening import Opened, open_store
from .upkeep import StoreEvent, Upkeep


class Stage(Protocol):
    """What stages a producer's batch; see `MessageStore.stage`."""

    def __call__(self, begin: int, end: int, topic: str, queue_id: int, count: int) -> Placed: ...


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
        queues and index, in this order; a TopicDispatcher only of its topics.
        """
        self.arena = Arena(config.drain_bytes, config.frame_bytes_max)
        self._config = config
        self._clock = clock
        self._is_sync = config.flush_mode == "sync"
        self._store_host = store_host.encode()
        self._on_poisoned = on_poisoned
        self._on_flushed = on_flushed
        self._directory = directory
        self._dispatchers = tuple(dispatchers)
        self._replaying_at: int | None = None
        self._log: CommitLog
        self._queues: QueueTable
        self._index: KeyIndex | None = None
        self._staging: Staging
        self._reader: QueueReader
        self._keys: KeyReader
        self._upkeep: Upkeep
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
                on_replay=self._on_replay,
                adopt=self._adopt,
                started=started,
            )
            self._replaying_at = None
            self._staging.refresh()
            self._life = started.pop_all()
        return self

    def _adopt(self, opened: Opened) -> None:
        """Takes the opened parts before the replay, since dispatchers may call back (`delete_topic`)."""
        self._opened = opened
        self._upkeep = opened.upkeep
        self._log, self._queues, self._index = opened.log, opened.queues, opened.index
        self._staging = Staging(
            self.arena, self._config, opened, store_host=self._store_host, now_ms=self._clock.now_ms
        )
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

    @property
    def stage(self) -> Stage:
        """`stage(begin, end, topic, queue_id, count)` takes a producer's batch that lies in arena.view[begin:end], begin ==
        arena.used: checks and stamps it there. Whoever stages often asks for it once, while the store is open.

        Moves arena.used to `end`. Raises InvalidName, MessageIllegal, StoreNotWriteable, StorePoisoned; arena.used is
        unchanged then.
        """
        return self._staging.stage

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

        Raises InvalidName, MessageIllegal, MessageTooLarge, StoreNotWriteable, StorePoisoned.
        """
        return self._staging.stage_record(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=properties,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
            reconsume_times=reconsume_times,
            prepared_transaction_offset=prepared_transaction_offset,
        )

    # ---- committing

    def commit(self) -> None:
        """Writes all that is staged and dispatches it; the arena is free again. Raises StorePoisoned."""
        self.append()
        self.dispatch()

    def append(self) -> None:
        """The first half of a commit: all that is staged is in the log, and with it every promise that the log keeps.

        What follows from it (queues, index, state) is done by `dispatch`, before anything else is staged or read. Raises
        StorePoisoned.
        """
        if not self._staging.is_empty:
            self._staging.append()
            if self._is_sync:
                self._log.request_flush(self._log.written)

    def dispatch(self) -> None:
        """The second half; the arena is free again. Raises StorePoisoned."""
        self._staging.dispatch()
        self.arena.used = 0

    def take_arrivals(self) -> list[tuple[str, int]]:
        """The queues that got messages since the last call."""
        return self._staging.take_arrivals()

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
        self._staging.write()
        self._queues.delete_topic(topic)
        self._staging.forget_topic(topic)

    def protect(self, provider: Callable[[], Mapping[tuple[str, int], int]]) -> None:
        """`provider`: the first offset of each (topic, queue) that some group has yet to consume; retention keeps those."""
        self._upkeep.protect(provider)

    def on_tick(self, now_ms: int) -> list[StoreEvent]:
        """About each second: retention and checkpoints, their slow parts in a worker. Returns what an operator should see."""
        events = self._upkeep.on_tick(now_ms)
        if self._staging.is_empty:
            self._staging.refresh()
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
            messages_staged=self._staging.messages,
            quarantined_ranges=len(quarantined),
            quarantined_bytes=sum(end - begin for begin, end in quarantined),
            checksum_entries_lost=self._log.checksums.entries_lost,
        )
