"""The index of delayed messages: which records wait for a time, and until when.

When we take over a RocketMQ store, its `delayOffset.json` says which messages of its schedule topic were delivered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from ...model.clock import Clock
from ...model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...record.kernel import decode_batch
from ...store.opening.snapshot import read_snapshot
from ...store.queues.dispatch import Run
from ...store.queues.queue_engine import goes_to_queue
from ...store.rocksdb_waits import BUFFER_BYTES, TIMER_FOLDER, WaitStore
from ..waiting.ends import ends_delay
from ..waiting.waiting_index import Change, WaitingIndex
from .timing import DelayRules, due_of

TOPICS: Final = frozenset({TIMER_TOPIC, SCHEDULE_TOPIC})


class _Timers:
    """The WaitKind of delayed messages."""

    topics = TOPICS

    def __init__(self, rules: DelayRules, delivered: Mapping[int, int]) -> None:
        """`delivered`: {queue of the schedule topic: first offset that RocketMQ had not delivered}."""
        self._rules = rules
        self._delivered = delivered

    def changes(self, run: Run) -> Iterator[Change]:
        """A change for each message that begins to wait."""
        if not goes_to_queue(run.sys_flag):
            return
        schedule_due_ms = run.store_timestamp_ms + self._rules.level_delay_ms(run.queue_id)
        delivered = self._delivered.get(run.queue_id, 0) if run.topic == SCHEDULE_TOPIC else 0
        for message in decode_batch(bytes(run.records)):
            if message.queue_offset >= delivered:
                due_ms = due_of(run.topic, message.properties, schedule_due_ms)
                if due_ms is not None:
                    offset = message.physical_offset
                    yield offset + message.size_bytes, offset, due_ms

    def is_end(self, topic: str, sys_flag: int, offset: int) -> bool:
        """See WaitKind."""
        return ends_delay(topic, sys_flag, offset)


def open_timer_index(
    directory: str, rules: DelayRules, *, clock: Clock, buffer_bytes: int = BUFFER_BYTES
) -> WaitingIndex:
    """Opens the index of the message store in `directory`. `buffer_bytes`: memory of its own store.

    Raises StoreLocked, StoreFormatError, OSError.
    """
    kind = _Timers(rules, _delivered_before(directory))
    return WaitingIndex(directory, WaitStore(directory, TIMER_FOLDER, buffer_bytes=buffer_bytes), kind, clock=clock)


def _delivered_before(directory: str) -> Mapping[int, int]:
    """Empty if RocketMQ wrote no such file."""
    snapshot = read_snapshot(os.path.join(directory, "config", "delayOffset.json"))
    table = {} if snapshot is None else snapshot.document.get("offsetTable", {})
    if not isinstance(table, dict):
        return {}
    return {int(level) - 1: offset for level, offset in table.items() if level.isdigit() and isinstance(offset, int)}
