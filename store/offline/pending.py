"""Waiting messages in a store that RocketMQ or we wrote: delayed messages, timed messages, undecided transactions.

They are in system topics, with their real topic and queue in properties. The broker that wrote them recorded what is not yet
due or decided: RocketMQ as positions in `config/`, and as end-of-transaction records in the log; we in the record that ends a
wait, which names the one that waited.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ...model.get_status import GetStatus
from ...model.names import HALF_OP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, UNDECIDED_TOPIC
from ...model.properties import REAL_QUEUE_ID, REAL_TOPIC, TIMER_DELETES, TIMER_OUT_MS, UNIQUE_KEY
from ...model.queue import PhysicalOffset
from ...record.kernel import StoredMessage, decode_batch, decode_record
from ...record.layout import UNIT
from ...record.sys_flag import SEQUENCED
from ..index.key_reader import KeyReader
from ..opening.snapshot import read_snapshot
from ..queues.queue_engine import QueueEngine
from ..queues.queue_reader import QueueReader

_PULL_MESSAGES: Final = 1024
_PULL_BYTES: Final = 1 << 20
_ALL_TIME: Final = 1 << 62
_TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
_COPIES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """One waiting message. `due_ms`: when it is to be delivered; 0 for a transaction. `queue_offset`: where it waits."""

    topic: str
    queue_id: int
    message_id: str
    due_ms: int
    waits_in: str
    queue_offset: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class Pending:
    """All waiting messages, each kind in the order of its queue."""

    delayed: tuple[PendingMessage, ...]
    timed: tuple[PendingMessage, ...]
    undecided: tuple[PendingMessage, ...]

    def document(self) -> dict[str, Any]:
        """The same as JSON-shaped values."""
        return asdict(self)


class PendingReader:
    """Reads one open store. Loop thread, or the only thread of a tool."""

    def __init__(
        self, queues: QueueEngine, reader: QueueReader, keys: KeyReader, *, confirm_offset: PhysicalOffset
    ) -> None:
        self._queues = queues
        self._reader = reader
        self._keys = keys
        self._confirm_offset = confirm_offset

    def report(self, directory: str) -> Pending:
        """The waiting messages; `directory`: of the store, whose config/ says how far RocketMQ came. Raises OSError."""
        config = os.path.join(directory, "config")
        delays = _table(os.path.join(config, "delayOffset.json"))
        offsets = _table(os.path.join(config, "consumerOffset.json"))
        half = offsets.get(f"{HALF_TOPIC}@{_TRANSACTION_GROUP}", {})
        return Pending(
            delayed=tuple(self._delayed({int(level): int(offset) for level, offset in delays.items()})),
            timed=tuple(self._timed()),
            undecided=tuple(self._undecided({int(queue): int(offset) for queue, offset in half.items()})),
        )

    def _messages(self, topic: str, queue_id: int, begin: int) -> Iterator[StoredMessage]:
        while True:
            found = self._reader.get_messages(
                topic, queue_id, begin, max_messages=_PULL_MESSAGES, max_bytes=_PULL_BYTES, codes=(),
                confirm_offset=self._confirm_offset,
            )  # fmt: skip
            if found.status in (GetStatus.OFFSET_TOO_SMALL, GetStatus.MESSAGES_LOST):
                begin = found.next_offset
                continue
            if found.misplaced is not None:  # it has expired meanwhile, or its unit is damaged
                begin = found.misplaced + 1
                continue
            if found.status != GetStatus.FOUND:
                return
            for view in found.slices:
                yield from (one for one in decode_batch(bytes(view)) if (one.topic, one.queue_id) == (topic, queue_id))
            begin = found.next_offset

    def _queue_ids(self, topic: str) -> list[int]:
        return [queue_id for name, queue_id in self._queues.listed() if name == topic]

    def _delayed(self, delivered: Mapping[int, int]) -> Iterator[PendingMessage]:
        """`delivered`: {delay level: first queue offset not delivered}."""
        for queue_id in self._queue_ids(SCHEDULE_TOPIC):
            queue = self._queues.get(SCHEDULE_TOPIC, queue_id)
            assert queue is not None
            for message in self._messages(SCHEDULE_TOPIC, queue_id, delivered.get(queue_id + 1, 0)):
                if not self._is_delivered(message):
                    yield _pending(message, due_ms=UNIT.unpack(queue.read(message.queue_offset, 1))[2])

    def _timed(self) -> Iterator[PendingMessage]:
        for queue_id in self._queue_ids(TIMER_TOPIC):
            ended = {  # taken back, or carried on by a later record
                -1 - message.prepared_transaction_offset
                for message in self._messages(TIMER_TOPIC, queue_id, 0)
                if message.prepared_transaction_offset < 0
            }
            for message in self._messages(TIMER_TOPIC, queue_id, 0):
                properties = message.properties
                is_message = TIMER_DELETES not in properties and message.physical_offset not in ended
                if is_message and not self._is_delivered(message):
                    yield _pending(message, due_ms=int(properties.get(TIMER_OUT_MS, "0")))

    def _is_delivered(self, message: StoredMessage) -> bool:
        """True if its copy is in its real topic: a kill may have lost RocketMQ's own record of that."""
        properties = message.properties
        copies = self._keys.query(
            properties.get(REAL_TOPIC, ""), properties.get(UNIQUE_KEY, ""), max_messages=1,
            begin_ms=0, end_ms=_ALL_TIME, unique=True,
        )  # fmt: skip
        return any(decode_record(copy).physical_offset > message.physical_offset for copy in copies)

    def _undecided(self, consumed: Mapping[int, int]) -> Iterator[PendingMessage]:
        """What is parked among them. `consumed`: {half queue: offset before which all that RocketMQ wrote are decided}."""
        decided: set[tuple[int, int]] = set()  # (half queue, queue offset)
        ended: set[int] = set()  # physical offsets
        for message in self._all_messages(HALF_OP_TOPIC):
            decided |= {(message.queue_id, int(word)) for word in message.body.split(b",") if word.isdigit()}
            ended.add(-1 - message.prepared_transaction_offset)
        latest: dict[tuple[str, str], int] = {}  # of each that RocketMQ wrote, perhaps again: its last record
        for message in (*self._all_messages(HALF_TOPIC), *self._all_messages(UNDECIDED_TOPIC)):
            ended.add(-1 - message.prepared_transaction_offset)
            name = _name(message)
            latest[name] = max(latest.get(name, 0), message.physical_offset)
        for message in (*self._all_messages(HALF_TOPIC), *self._all_messages(UNDECIDED_TOPIC)):
            is_half = message.topic == HALF_TOPIC
            is_over = message.physical_offset in ended
            if is_half:
                is_over = is_over or (message.queue_id, message.queue_offset) in decided
            if not message.sys_flag & SEQUENCED:  # RocketMQ's, or handed over to it
                is_over = is_over or (bool(_name(message)[1]) and latest[_name(message)] != message.physical_offset)
                if message.prepared_transaction_offset >= 0:
                    is_over = is_over or (is_half and message.queue_offset < consumed.get(message.queue_id, 0))
            if not is_over and not self._is_committed(message):
                yield _pending(message, due_ms=0)

    def _all_messages(self, topic: str) -> Iterator[StoredMessage]:
        for queue_id in self._queue_ids(topic):
            yield from self._messages(topic, queue_id, 0)

    def _is_committed(self, message: StoredMessage) -> bool:
        """True if the message in its real topic says that it ends the wait of this one."""
        topic, unique = _name(message)
        copies = self._keys.query(topic, unique, max_messages=_COPIES_MAX, begin_ms=0, end_ms=_ALL_TIME, unique=True)
        cause = -1 - message.physical_offset
        return any(decode_record(copy).prepared_transaction_offset == cause for copy in copies)


def _name(message: StoredMessage) -> tuple[str, str]:
    return message.properties.get(REAL_TOPIC, ""), message.properties.get(UNIQUE_KEY, "")


def _pending(message: StoredMessage, *, due_ms: int) -> PendingMessage:
    properties = message.properties
    return PendingMessage(
        topic=properties.get(REAL_TOPIC, message.topic),
        queue_id=int(properties.get(REAL_QUEUE_ID, message.queue_id)),
        message_id=message.message_id,
        due_ms=due_ms,
        waits_in=message.topic,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
    )


def _table(path: str) -> dict[str, Any]:
    """The offsetTable of a state file; empty if there is none."""
    snapshot = read_snapshot(path)
    table = {} if snapshot is None else snapshot.document.get("offsetTable", {})
    return table if isinstance(table, dict) else {}
