"""The index of half messages that are not decided: which records wait, and when they are to be asked about.

RocketMQ's own are known by what they lack: ours are sequenced, or end the wait of the record before. An op record of RocketMQ
tells the queue offset. Which half lies there is known while the log is read, here or on a replica that copies it; a replica
that was restarted meanwhile looks into the queue. At a start, when there is no queue to look into, the queue offset is kept
(`foreign_ends`), and `Transactions` ends that half once it leads. What RocketMQ asks about, or parks, it writes again and has
no op record for the one before: it is the same message there, so the later one ends the wait of the one before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ...model.clock import Clock
from ...model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from ...model.properties import HALF_OFFSET, REAL_TOPIC, UNIQUE_KEY
from ...record.kernel import StoredMessage, decode_batch
from ...record.sys_flag import SEQUENCED
from ...store.opening.snapshot import read_snapshot
from ...store.queues.dispatch import Run
from ...store.queues.queue_engine import goes_to_queue
from ...store.rocksdb_waits import BUFFER_BYTES, HALF_FOLDER, WaitStore
from ..waiting.ends import TRANSACTION_TOPICS, ends_half
from ..waiting.waiting_index import Change, WaitingIndex
from ..waiting.waiting_records import Found
from ..waiting.waiting_table import ENDED
from .half_records import is_own_op, numbers_in
from .half_rules import HalfRules

_ROCKETMQ_GROUP: Final = "CID_RMQ_SYS_TRANS"

QueueOffset = tuple[int, int]
"""(queue id, queue offset) in the half topic."""

_Name = tuple[str, str]
"""(real topic, unique id) of a message."""


class Halves:
    """A WaitKind: half messages. `foreign_ends`: where those lay that op records of RocketMQ's end, as far as they were not
    read again. `locate`: once the store is open, the physical offset of a queue offset in the half topic, None where the queue
    does not hold it. `on_halves`: called with the half messages of a run that begin to wait, each with its properties, and the
    bytes that they keep in memory."""

    topics = TRANSACTION_TOPICS

    def __init__(self, rules: HalfRules, directory: str) -> None:
        """`directory`: of the message store."""
        self._rules = rules
        self._done = _done_before(directory)
        self._seen: dict[QueueOffset, int] = {}  # physical offsets of those that RocketMQ wrote, and that wait
        self._places: dict[int, QueueOffset] = {}  # the other way round
        self._latest: dict[_Name, int] = {}  # the same physical offsets, by name
        self._names: dict[int, _Name] = {}  # the other way round
        self.foreign_ends: set[QueueOffset] = set()
        self.locate: Callable[[QueueOffset], int | None] = _nowhere
        self.on_halves: Callable[[Sequence[Found], int], None] = _unheard

    def changes(self, run: Run) -> Iterator[Change]:
        """Of each half message that begins to wait, or that an op record ends."""
        if not goes_to_queue(run.sys_flag):
            return
        halves: list[Found] = []
        for message in decode_batch(bytes(run.records)):
            offset, end = message.physical_offset, message.physical_offset + message.size_bytes
            if run.topic == HALF_OP_TOPIC:
                if not is_own_op(message.properties):
                    yield from ((end, half, ENDED) for half in self._foreign_ended(message.queue_id, message.body))
            elif run.topic in (HALF_TOPIC, UNDECIDED_TOPIC):
                properties = message.properties
                due_ms = self._rules.due_of(run.topic, properties, run.store_timestamp_ms)
                if due_ms is None:
                    continue
                if is_foreign(message):
                    if run.topic == HALF_TOPIC and self.is_done((message.queue_id, message.queue_offset)):
                        continue
                    yield from ((end, before, ENDED) for before in self._written_before(message))
                    if run.topic == HALF_TOPIC:
                        place = message.queue_id, message.queue_offset
                        self._seen[place], self._places[offset] = offset, place
                if run.topic == HALF_TOPIC:
                    halves.append((message, properties))
                yield end, offset, due_ms
        if halves:
            self.on_halves(halves, len(run.records))

    def is_done(self, place: QueueOffset) -> bool:
        """Whether RocketMQ has seen to what lay there when it stopped last: it has decided it, or written it again."""
        return place[1] < self._done.get(place[0], 0)

    def _written_before(self, message: StoredMessage) -> list[int]:
        """Physical offsets of what RocketMQ wrote this message as before, and did not end otherwise: one, or none."""
        offset, properties = message.physical_offset, message.properties
        name = properties.get(REAL_TOPIC, ""), properties.get(UNIQUE_KEY, "")
        if not name[1]:
            return []
        before = self._latest.get(name)
        if before is not None:
            self._forget(before)
        self._latest[name], self._names[offset] = offset, name
        return [] if before is None else [before]

    def _forget(self, offset: int) -> None:
        """It waits no longer."""
        place, name = self._places.pop(offset, None), self._names.pop(offset, None)
        if place is not None:
            self._seen.pop(place, None)
        if name is not None:
            self._latest.pop(name, None)

    def _foreign_ended(self, queue_id: int, body: bytes) -> list[int]:
        """Physical offsets of the halves that RocketMQ's op record ends, as far as they were read."""
        ended = []
        for number in numbers_in(body.decode("ascii", "replace")):
            offset = self._seen.get((queue_id, number))
            if offset is None:  # a replica that was restarted while it copied the log
                offset = self.locate((queue_id, number))
            if offset is not None:
                self._forget(offset)
                ended.append(offset)
            elif not self.is_done((queue_id, number)):
                self.foreign_ends.add((queue_id, number))
        return ended

    def is_end(self, topic: str, sys_flag: int, offset: int) -> bool:
        """See WaitKind."""
        self._forget(offset)
        return ends_half(topic, sys_flag)


def _nowhere(_place: QueueOffset) -> int | None:
    return None


def _unheard(_halves: Sequence[Found], _size_bytes: int) -> None:
    pass


def is_foreign(message: StoredMessage) -> bool:
    """Whether RocketMQ wrote this half message: ours are sequenced, or say where their first record began and end the wait of
    the one before. A copy that RocketMQ made of ours has the properties of ours, but ends no wait."""
    is_first = message.prepared_transaction_offset >= 0
    return not message.sys_flag & SEQUENCED and (is_first or HALF_OFFSET not in message.properties)


def _done_before(directory: str) -> dict[int, int]:
    """{queue id: first offset that RocketMQ had not seen to} in the half topic: what it asks about, it writes again at the
    end, and has no op record for the one before. Empty where it wrote no such file, or knows no transaction."""
    snapshot = read_snapshot(os.path.join(directory, "config", "consumerOffset.json"))
    table = {} if snapshot is None else snapshot.document.get("offsetTable", {})
    offsets = table.get(f"{HALF_TOPIC}@{_ROCKETMQ_GROUP}", {}) if isinstance(table, dict) else {}
    if not isinstance(offsets, dict):
        return {}
    return {int(queue): offset for queue, offset in offsets.items() if queue.isdigit() and isinstance(offset, int)}


def open_half_index(directory: str, halves: Halves, *, clock: Clock, buffer_bytes: int = BUFFER_BYTES) -> WaitingIndex:
    """Of the message store in `directory`. `buffer_bytes`: of its store's memory. Raises StoreLocked, StoreFormatError,
    OSError."""
    return WaitingIndex(directory, WaitStore(directory, HALF_FOLDER, buffer_bytes=buffer_bytes), halves, clock=clock)
