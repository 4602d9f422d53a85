"""Prepares a closed store for a broker of RocketMQ: `zenit store hand-over`.

RocketMQ reads the queue of its timer topic from where `config/timercheck` says, and treats every record there as a waiting
message: it does not know our records that end a wait. So each message that still waits is written again at the end of the
log, and RocketMQ begins at the first of these. It would ask about each half message that no op record names: so those that
were decided or written again are named, where the broker has not done that yet.

    mark         the file `handing-over` says that this has begun
    open         the store, as a broker opens it; from here on it counts as not closed
    waits        each waiting message again, in the form that RocketMQ delivers; that ends its old wait
    halves       each waiting half message again, so that RocketMQ's own copies of it are no sends of our producers; op
                 records of those that wait no longer
    pops         copies of what pop groups have yet to handle, where RocketMQ's pops find them (pop/hand_over)
    lite topics  offsets of groups, and the file in which RocketMQ looks for them (lite/hand_over)
    topics       the retry topic of each group that has none: RocketMQ's tools ask for it
    close        the store, flushed completely
    wheel        RocketMQ's own timer files are deleted, `delayOffset.json` and `timercheck` are written
    log          zeros behind the end, no spare files (store/hand_over)
    unmark

After a kill at any point it is run again from the top: messages that were already handed on wait in the log like any other,
and are written again. If the records from `timercheck` on are exactly what waits, a run writes nothing.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NoReturn

from ...model.clock import Clock
from ...model.errors import (
    CorruptRecordError,
    MessageIllegal,
    MessageNotFound,
    MessageTooLarge,
    StoreFormatError,
    StoreInGroup,
)
from ...model.ids import HostAddress
from ...model.names import HALF_OP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ...model.queue import PhysicalOffset, QueueOffset
from ...model.route import CLEANUP_ATTRIBUTE
from ...model.topics.light_queues import is_light_queue
from ...record.kernel import decode_record
from ...record.sys_flag import ENDS_WAIT, SEQUENCED
from ...store.compaction.compacted_queues import compacted_queues
from ...store.config import RECORD_BYTES_LIMIT, StoreConfig, parse_delay_levels
from ...store.index.key_index import INDEX_FOLDER, find_index_sizes
from ...store.log.commit_log import COMMIT_LOG_FOLDER
from ...store.log.segment import list_segments, sync_directory
from ...store.message_store import MessageStore
from ...store.offline.convert import convert_store
from ...store.offline.hand_over import hand_over_store
from ...store.offline.offline import dump_store
from ...store.opening.small_file import SYSTEM_FILES
from ...store.opening.snapshot import write_snapshot
from ...store.opening.store_files import StoreLock, read_abort
from ...store.opening.store_opening import find_segment_bytes
from ...store.queues.batches.batch_queue import BATCH_UNIT_BYTES
from ...store.queues.batches.batch_table import BATCH_FOLDER
from ...store.queues.engine_choice import FILE, ROCKSDB, engine_of, topics_with_queues
from ...store.queues.queue_table import find_queue_file_bytes
from ...store.rocksdb_waits import TIMER_FOLDER, WaitStore
from ..delay.delays import Delays
from ..delay.pace import Pace
from ..delay.timer_index import open_timer_index
from ..delay.timing import DelayRules, rocketmq_read_ms
from ..lite.hand_over import HandedLites, hand_on_lites, settle_groups, write_light_offsets
from ..pop.hand_over import hand_on_popped
from ..repair.stored_state import topic_settings
from ..replication.replica_files import ReplicaFiles
from ..state.admission import queue_count
from ..state.producer_table import ProducerTable
from ..state.redelivery_topics import wanted_retry_topic
from ..state.state_log import TOPICS, StateLog
from ..transaction.half_index import Halves, open_half_index
from ..transaction.half_records import carried_record, ended_note, numbers_in, rollback_record
from ..transaction.half_rules import HalfRules
from ..waiting.copies import real_queue
from ..waiting.waiting_index import EVERYTHING, WaitingIndex
from .group_membership import check_is_store

MARK_FILE: Final = "handing-over"
CHECK_FILE: Final = "timercheck"
COMMIT_BYTES: Final = 256 << 10
PERSIST_BYTES: Final = 16 << 20  # of the log: how much of the index of what waits is held in memory at most
FLUSH_TIMEOUT_MS: Final = 600_000
MESSAGE_BYTES_MAX: Final = (4 << 20) + (
    64 << 10
)  # what our largest message takes as a record, where nothing else is set
NAMED_AT_ONCE: Final = 250  # half messages by one op record, whose body RocketMQ keeps below 4 KiB
LIGHT_QUEUES_OF_ROCKETMQ: Final = 20_000  # as many it takes unless it is told
RECORD_ROOM_BYTES: Final = 1 << 10  # what RocketMQ adds to a message's properties when it delivers it

_CHECK: Final = struct.Struct(">7Q")
_CHECK_BYTES: Final = 4096  # RocketMQ maps a page
_NO_LIMIT: Final = 1 << 62

Report = Callable[[int, int], None]
"""Told (messages handed on, of how many)."""


def _nothing(_done: int, _total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class _Handed:
    """`first`: queue offset of the first of them in the timer topic. `levels`: where each queue of the schedule topic ends.
    `is_told`: an earlier run has written RocketMQ's files about just these."""

    first: int
    is_told: bool
    count: int
    over: int
    damaged: int
    popped: int
    retry_topics: int
    levels: dict[int, int]
    record_bytes_max: int
    lites: HandedLites


def hand_over(
    directory: str,
    config: StoreConfig,
    *,
    clock: Clock,
    report: Report = _nothing,
    converting: Report = _nothing,
    dry_run: bool = False,
) -> dict[str, Any]:
    """{"log_end", "segment_bytes", "spare_files", "converted", "waiting", "over", "damaged", "popped", "retry_topics",
    "lite_again", "lite_unbound", "broker_conf"}: `converted`: how many queues were rows of RocksDB, and are files now;
    `waiting`: how many delayed messages are handed on; `over`: how many waited still but are not to be delivered; `damaged`:
    how many cannot be read, so that they stay here; `popped`: how many messages pop groups had in hand, or had given back;
    `lite_again`: how many messages of lite topics come again though they are acknowledged; `lite_unbound`: groups that
    RocketMQ gives no lite topics; `broker_conf`: {name: value} of the settings that RocketMQ's broker needs.

    `config`: what its broker was started with. `report`, `converting`: of the delayed messages, and of the units of queues.
    `dry_run`: changes nothing; "waiting" is what the index of what waits holds. Raises StoreInGroup, StoreLocked where a broker
    has it open, StoreFormatError where it is no store or it was not closed, StoreNotWriteable, StorePoisoned, OSError.
    """
    _check(directory)
    address = _address(directory)
    if dry_run:
        with StoreLock(directory):
            waiting = _count_waiting(directory)
        found = hand_over_store(directory, dry_run=True)
        counts = {"converted": 0, "waiting": waiting, "over": 0, "damaged": 0, "popped": 0, "retry_topics": 0}
        lites: dict[str, Any] = {"lite_again": 0, "lite_unbound": []}
        return {
            **found,
            **counts,
            **lites,
            "broker_conf": _broker_conf(directory, config, address, found["segment_bytes"], 0),
        }
    converted = 0
    if engine_of(directory) == ROCKSDB:
        converted = convert_store(directory, FILE, config, report=converting)["queues"]
    config = replace(config, consume_queue=FILE)
    mark = os.path.join(directory, MARK_FILE)
    SYSTEM_FILES.replace(mark, b"")
    read_ms = rocketmq_read_ms(clock.now_ms())
    handed = _rewrite_waits(directory, config, address, clock, read_ms, report)
    _write_wheel(directory, handed, read_ms)
    write_light_offsets(directory, has_lights=any(map(is_light_queue, topics_with_queues(directory))))
    found = hand_over_store(directory)
    SYSTEM_FILES.remove(mark)
    return {
        **found,
        "converted": converted,
        "waiting": handed.count,
        "over": handed.over,
        "damaged": handed.damaged,
        "popped": handed.popped,
        "retry_topics": handed.retry_topics,
        "lite_again": handed.lites.again,
        "lite_unbound": list(handed.lites.unbound),
        "broker_conf": _broker_conf(directory, config, address, found["segment_bytes"], handed.record_bytes_max),
    }


def _check(directory: str) -> None:
    check_is_store(directory)
    found = ReplicaFiles.membership(directory)
    if found.is_member:
        raise StoreInGroup(directory, found.group_id, found.epoch)
    with StoreLock(directory):
        is_ours = os.path.exists(os.path.join(directory, MARK_FILE))
        if read_abort(directory) is not None and not is_ours:
            raise StoreFormatError(directory, "its broker was not stopped cleanly; start it once more, and stop it")
    compacted = {topic for topic, _ in compacted_queues(directory)}
    compacted |= {
        topic
        for topic, settings in topic_settings(directory).items()
        if settings["attributes"].get(CLEANUP_ATTRIBUTE) == "COMPACTION"
    }
    if compacted:
        names = ", ".join(sorted(compacted))
        raise StoreFormatError(
            directory,
            f"RocketMQ would not read its compacted topics ({names}), which it keeps in files of its own: export them (zenit"
            f" store export {directory} --to FILE --topic T), delete them (zenit topic delete T), stop the broker and run this"
            " again; then send what was exported with a producer of RocketMQ",
        )


def _address(directory: str) -> HostAddress | None:
    """Of the broker that wrote the newest segment; None where the log is empty."""
    segment_bytes = find_segment_bytes(directory) or 0
    for base in reversed(list_segments(os.path.join(directory, COMMIT_LOG_FOLDER), segment_bytes)):
        with closing(dump_store(directory, base)) as records:
            for message in records:
                host = message.store_host
                return HostAddress(host[:-4], int.from_bytes(host[-4:], "big"))
    return None


def _count_waiting(directory: str) -> int:
    if not os.path.isdir(os.path.join(directory, TIMER_FOLDER)):
        return 0
    with closing(WaitStore(directory, TIMER_FOLDER)) as store:
        return store.count


# ---- the log


class _NoTimers:
    """Nothing is due while the store is handed over."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> NoReturn:
        """Nothing asks for it: only what is being delivered is looked at again."""
        raise AssertionError((delay_ms, callback))


class _Waits:
    """What waits in one store, while it is rewritten."""

    def __init__(self, store: MessageStore, index: WaitingIndex, delays: Delays) -> None:
        self._store = store
        self._index = index
        self._delays = delays
        self._persisted = store.written
        self.settle()
        table = index.table
        self.entries = table.below(EVERYTHING, count_max=_NO_LIMIT)

    def settle(self) -> None:
        """The index holds all that the log says."""
        self._store.commit()
        self._store.flush_all(FLUSH_TIMEOUT_MS)
        self._index.persist()
        self._index.table.settle()
        self._persisted = self._store.written

    def first_handed(self, directory: str) -> int | None:
        """Where RocketMQ begins to read, if from there on the queue holds just what waits; else None."""
        first = _reads_from(directory)
        if first is None:
            return None
        end = self._store.max_offset(TIMER_TOPIC, 0)
        if end - first != len(self.entries) or first < self._store.min_offset(TIMER_TOPIC, 0):
            return None
        queued = {self._store.position_of(TIMER_TOPIC, 0, QueueOffset(at)) for at in range(first, end)}
        return first if queued == {offset for _, offset in self.entries} else None

    def hand_on(self, read_ms: int, report: Report) -> tuple[int, int, int, int, int]:
        """(queue offset of the first that is written, how many are, are over, are damaged; the largest record, bytes)."""
        store, first = self._store, int(self._store.max_offset(TIMER_TOPIC, 0))
        handed: set[tuple[str, str]] = set()
        count = over = damaged = unwritten = largest = 0
        for done, entry in enumerate(self.entries):
            report(done, len(self.entries))
            try:
                placed = self._delays.hand_on(entry, read_ms, handed)
            except (CorruptRecordError, MessageTooLarge, MessageIllegal):
                damaged += 1
                continue
            if placed is None:
                over += 1
                continue
            count += 1
            size = placed.end - placed.physical_offset
            largest = max(largest, size)
            unwritten += size
            if unwritten >= COMMIT_BYTES:
                store.commit()
                unwritten = 0
            if store.written - self._persisted >= PERSIST_BYTES:
                self.settle()
        store.commit()
        report(len(self.entries), len(self.entries))
        return first, count, over, damaged, largest


def _rewrite_waits(
    directory: str, config: StoreConfig, address: HostAddress | None, clock: Clock, read_ms: int, report: Report
) -> _Handed:
    config = replace(
        config,
        consume_queue=FILE,  # whatever follows it would not know what RocketMQ writes
        index_enabled=config.index_enabled and os.path.isdir(os.path.join(directory, INDEX_FOLDER)),
        preallocate_segments=0,
        recycle_segments=0,
        body_bytes_max=RECORD_BYTES_LIMIT - (1 << 20),  # whatever was taken once
        record_bytes_max=RECORD_BYTES_LIMIT,
        frame_bytes_max=RECORD_BYTES_LIMIT + (1 << 20),
    )
    levels_ms = parse_delay_levels(config.delay_levels)
    with ExitStack() as opened:
        state = StateLog(
            directory,
            clock=clock,
            persist_interval_ms=0,
            producers=ProducerTable(retention_ms=_NO_LIMIT, entries_max=_NO_LIMIT),  # what it holds is kept
        )
        rules = DelayRules(levels_ms, _NO_LIMIT)
        index = opened.enter_context(closing(open_timer_index(directory, rules, clock=clock)))
        halves = Halves(HalfRules(timeout_ms=0, interval_ms=0, checks_max=0), directory)
        half_index = opened.enter_context(closing(open_half_index(directory, halves, clock=clock)))
        store = MessageStore(
            directory,
            config,
            store_host=address or HostAddress.parse("127.0.0.1", 0),
            clock=clock,
            on_flushed=_ignore,
            on_poisoned=_ignore,
            dispatchers=(state, index, half_index),
        )
        state.on_topic_deleted = store.delete_topic
        state.on_taken_over = partial(settle_groups, store, state)
        opened.enter_context(store)
        state.on_opened(store.written, lambda: store.flushed)
        for one in (index, half_index):
            one.on_opened(lambda: store.flushed)
            one.is_closing = True
        state.is_closing = True
        host_bytes = 20 if address is not None and len(address.ip) > 4 else 8
        delays = Delays(
            store,
            index,
            _NoTimers(),
            clock,
            rules,
            leads=lambda: True,
            on_damaged=lambda: None,
            queues_of=lambda topic: queue_count(state.topic_table, topic),
            made_at=state.topic_table.made_at,
            pace=Pace(per_second=1, per_turn=1),
            store_host_bytes=host_bytes,
        )
        waits = _Waits(store, index, delays)
        told = waits.first_handed(directory)
        if told is None:
            first, count, over, damaged, largest = waits.hand_on(read_ms, report)
        else:
            first, count, over, damaged = told, len(waits.entries), 0, 0
            largest = max((len(store.record_at(PhysicalOffset(at))) for _, at in waits.entries), default=0)
        _rewrite_halves(store, half_index, state, host_bytes)
        _name_ended_halves(store, half_index)
        popped = hand_on_popped(store, state)
        lites = hand_on_lites(store, state)
        topics = _make_retry_topics(store, state)
        store.flush_all(FLUSH_TIMEOUT_MS)
        levels = {
            queue_id + 1: int(store.max_offset(SCHEDULE_TOPIC, queue_id))
            for queue_id in store.queues().get(SCHEDULE_TOPIC, ())
        }
        return _Handed(first, told is not None, count, over, damaged, popped, topics, levels, largest, lites)


def _rewrite_halves(store: MessageStore, index: WaitingIndex, state: StateLog, host_bytes: int) -> None:
    """Each half message that waits as its producer sent it, again; those of a topic that is gone are rolled back."""
    topics = state.topic_table
    for _, offset in index.table.entries(0, count_max=_NO_LIMIT):
        try:
            message = decode_record(store.record_at(PhysicalOffset(offset)))
            if not message.sys_flag & SEQUENCED:
                continue
            topic, _ = real_queue(message.properties)
            if not queue_count(topics, topic) or offset < topics.made_at(topic):
                store.stage_record(rollback_record(offset, message.queue_offset))
            else:
                record = carried_record(message, host_bytes)
                store.stage_own(record, topic=message.topic, queue_id=0, count=1, flags=ENDS_WAIT)
        except (CorruptRecordError, MessageNotFound, MessageTooLarge, MessageIllegal):
            continue  # it stays as it is: RocketMQ cannot read it either, or has no room for its properties
        store.commit()


def _name_ended_halves(store: MessageStore, index: WaitingIndex) -> None:
    """Op records of the half messages that wait no longer and that none names."""
    begin, end = (int(at) for at in (store.min_offset(HALF_TOPIC, 0), store.max_offset(HALF_TOPIC, 0)))
    named = bytearray(max(0, end - begin))
    for at in range(int(store.min_offset(HALF_OP_TOPIC, 0)), int(store.max_offset(HALF_OP_TOPIC, 0))):
        for number in _named_by(store, QueueOffset(at)):
            if begin <= number < end:
                named[number - begin] = True
    waiting = {offset for _, offset in index.table.entries(0, count_max=_NO_LIMIT)}
    ended = [
        at
        for at in range(begin, end)
        if not named[at - begin] and store.position_of(HALF_TOPIC, 0, QueueOffset(at)) not in waiting
    ]
    for first in range(0, len(ended), NAMED_AT_ONCE):
        store.stage_record(ended_note(ended[first : first + NAMED_AT_ONCE]))
        store.commit()


def _named_by(store: MessageStore, at: QueueOffset) -> list[int]:
    """Queue offsets of half messages that an op record names; none where it cannot be read."""
    position = store.position_of(HALF_OP_TOPIC, 0, at)
    try:
        return (
            []
            if position is None
            else numbers_in(decode_record(store.record_at(position)).body.decode("ascii", "replace"))
        )
    except (CorruptRecordError, MessageNotFound):
        return []


def _ignore(_error: object = None) -> None:
    """Whoever waits for the disk is told by the exception itself."""


def _make_retry_topics(store: MessageStore, state: StateLog) -> int:
    """Returns how many were missing, or had too few queues."""
    made = 0
    documents = state.group_table.documents
    for group in sorted(documents.keys() | state.offset_table.groups()):
        config = wanted_retry_topic(state.topic_table.configs, group, documents.get(group, {}))
        if config is not None:
            state.stage(store, TOPICS, state.topic_table.event_set(config))
            made += 1
    store.commit()
    return made


# ---- RocketMQ's own files


def _write_wheel(directory: str, handed: _Handed, read_ms: int) -> None:
    """RocketMQ begins its wheel anew, at the first record that was handed on. Once the log says that every old wait is over."""
    if handed.is_told:
        return
    folder = os.path.join(directory, "config")
    shutil.rmtree(os.path.join(directory, "timerlog"), ignore_errors=True)
    stale = [os.path.join(directory, name) for name in os.listdir(directory) if name.startswith("timerwheel")]
    stale += [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("timermetrics")]
    for path in stale:
        os.unlink(path)
    sync_directory(directory)
    sync_directory(folder)
    if handed.levels:
        table = {str(level): end for level, end in sorted(handed.levels.items())}
        version = {"counter": 1, "stateVersion": 0, "timestamp": read_ms}
        write_snapshot(
            os.path.join(folder, "delayOffset.json"), {"offsetTable": table, "dataVersion": version}, _NO_LIMIT
        )
    at = _CHECK.pack(read_ms, 0, handed.first, handed.first, 0, read_ms, 0)
    SYSTEM_FILES.replace(os.path.join(folder, CHECK_FILE), at.ljust(_CHECK_BYTES, b"\x00"))


def _reads_from(directory: str) -> int | None:
    """Where RocketMQ begins to read the queue of its timer topic; None where no hand-over says so, or it has begun since."""
    data = SYSTEM_FILES.read(os.path.join(directory, "config", CHECK_FILE), _CHECK.size)
    if data is None or len(data) < _CHECK.size or os.path.exists(os.path.join(directory, "timerlog")):
        return None
    return int(_CHECK.unpack(data)[2])


def _broker_conf(
    directory: str, config: StoreConfig, address: HostAddress | None, segment_bytes: int, record_bytes_max: int
) -> dict[str, str]:
    """The settings of RocketMQ's broker that must be as they are here, or that its defaults would break."""
    queue_bytes = None if engine_of(directory) == ROCKSDB else find_queue_file_bytes(directory)  # of a dry run
    batch_bytes = find_queue_file_bytes(directory, BATCH_FOLDER, BATCH_UNIT_BYTES)
    index = find_index_sizes(directory, slots=config.index_slots, entries=config.index_entries)
    path = os.path.abspath(directory)
    settings = {
        "storePathRootDir": path,
        "storePathCommitLog": os.path.join(path, COMMIT_LOG_FOLDER),
        "mappedFileSizeCommitLog": str(segment_bytes),
        "maxMessageSize": str(max(config.record_bytes_max, record_bytes_max + RECORD_ROOM_BYTES)),
        "timerWheelEnable": "true",
        "recallMessageEnable": "true",
    }
    if index is not None:
        settings["maxHashSlotNum"], settings["maxIndexNum"] = map(str, index)
    if queue_bytes is not None:
        settings["mappedFileSizeConsumeQueue"] = str(queue_bytes)
    lights = sum(map(is_light_queue, topics_with_queues(directory)))
    if lights:
        settings["enableLmq"] = settings["enableMultiDispatch"] = "true"
        settings["maxLmqConsumeQueueNum"] = str(max(LIGHT_QUEUES_OF_ROCKETMQ, 2 * lights))
    if batch_bytes is not None:
        settings["mapperFileSizeBatchConsumeQueue"] = str(batch_bytes)
    if address is not None:
        settings["brokerIP1"] = str(address).rpartition(":")[0]
        settings["listenPort"] = str(address.port)
    return settings
