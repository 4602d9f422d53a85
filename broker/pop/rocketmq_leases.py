"""What RocketMQ's broker had leased when it stopped, from the records by which it remembers that.

Each pop puts a check point (tag `ck`) into the timer topic, due when the lease ends, and each acknowledgement an `ack` or
`bAck`. When they are due they come to the revive topic, where its group handles them: what is not acknowledged is copied
to the retry topic. So a message is leased if no check point behind the group's offset was handled, and no record
acknowledges it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from ...model.errors import CorruptRecordError, MessageNotFound
from ...model.names import TIMER_TOPIC
from ...model.properties import REAL_TOPIC, TAGS
from ...model.queue import QueueOffset
from ...record.kernel import StoredMessage, decode_record
from ...store.message_store import MessageStore
from ..state.offset_table import OffsetTable
from ..state.pop_table import QueueKey

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
CHECK_POINT: Final = "ck"
ACKNOWLEDGED: Final = "ack"
ALL_ACKNOWLEDGED: Final = "bAck"

_Name = tuple[str, str, int, int, int]
"""(group, topic, queue id, first offset, time of the pop) of a check point."""


class _Records:
    """What the records say. `leased`: {check point: offsets}; `handled`: those that RocketMQ has seen to."""

    def __init__(self) -> None:
        self.leased: dict[_Name, list[int]] = {}
        self.handled: set[_Name] = set()
        self.acknowledged: dict[_Name, set[int]] = defaultdict(set)

    def note(self, message: StoredMessage, *, is_handled: bool) -> None:
        """A record that cannot be understood says nothing."""
        tag = message.properties.get(TAGS)
        try:
            said: dict[str, Any] = json.loads(message.body)
            name = str(said["c"]), str(said["t"]), int(said["q"]), int(said["so"]), int(said["pt"])
            if tag == CHECK_POINT:
                distances = said.get("d") or range(int(said["n"]))
                bits = int(said.get("bm", 0))
                self.leased[name] = [name[3] + int(far) for at, far in enumerate(distances) if not bits >> at & 1]
                if is_handled:
                    self.handled.add(name)
            elif tag == ACKNOWLEDGED:
                self.acknowledged[name].add(int(said["ao"]))
            elif tag == ALL_ACKNOWLEDGED:
                self.acknowledged[name].update(map(int, said["aol"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return


def leased_at_rocketmq(store: MessageStore, offsets: OffsetTable, since: int) -> dict[QueueKey, set[int]]:
    """{(group, topic, queue id): queue offsets}; a topic may be a retry topic. By the records from `since` in the log on."""
    revive = {topic: ids for topic, ids in store.queues().items() if topic.startswith(REVIVE_PREFIX)}
    records = _Records()
    for topic, ids in revive.items():
        for queue_id in ids:
            handled = offsets.offset(REVIVE_GROUP, topic, queue_id)
            for message in messages_of(store, topic, queue_id, _first_since(store, topic, queue_id, since)):
                records.note(message, is_handled=message.queue_offset < handled)
    for message in messages_of(store, TIMER_TOPIC, 0, _first_since(store, TIMER_TOPIC, 0, since)):
        if message.properties.get(REAL_TOPIC, "").startswith(REVIVE_PREFIX):
            records.note(message, is_handled=False)
    found: dict[QueueKey, set[int]] = defaultdict(set)
    for name, leased in records.leased.items():
        if name not in records.handled:
            found[name[:3]].update(set(leased) - records.acknowledged.get(name, set()))
    return {key: those for key, those in found.items() if those}


def messages_of(store: MessageStore, topic: str, queue_id: int, begin: int) -> Iterator[StoredMessage]:
    """Of a queue from an offset on, as far as they can be read."""
    for offset in range(begin, int(store.max_offset(topic, queue_id))):
        message = message_at(store, topic, queue_id, offset)
        if message is not None:
            yield message


def message_at(store: MessageStore, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
    """None if it cannot be read."""
    position = store.position_of(topic, queue_id, QueueOffset(offset))
    try:
        return None if position is None else decode_record(store.record_at(position))
    except (CorruptRecordError, MessageNotFound):
        return None


def _first_since(store: MessageStore, topic: str, queue_id: int, since: int) -> int:
    """The first offset of a queue whose record begins at `since` in the log, or behind it."""
    low, high = int(store.min_offset(topic, queue_id)), int(store.max_offset(topic, queue_id))
    while low < high:
        middle = (low + high) // 2
        position = store.position_of(topic, queue_id, QueueOffset(middle))
        if position is None or position < since:
            low = middle + 1
        else:
            high = middle
    return low
