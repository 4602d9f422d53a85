"""The state of a broker, read from its store without it: for `zenit store stats` offsets of groups, what waits and what is
leased; for `zenit store export` the settings of topics. Nothing is written.

Beside a running broker it is a look at something that moves: queues that are read later may know more than those before.
"""

from __future__ import annotations

from typing import Any, Final

from ...model.clock import SystemClock
from ...model.names import DEAD_LETTER_PREFIX, STATE_TOPICS
from ...model.queue import PhysicalOffset, QueueOffset
from ...record.kernel import StoredMessage
from ...record.sys_flag import ENDS_WAIT
from ...store.config import StoreConfig
from ...store.offline.offline import open_queues
from ...store.offline.offline_log import DamagedRange, OfflineLog, open_log, read_checked, tried_again
from ...store.offline.store_size import store_size
from ...store.queues.dispatch import Run
from ..state.offset_table import OffsetTable
from ..state.producer_table import ProducerTable
from ..state.state_log import StateLog

_NOTHING: Final = memoryview(b"")


def store_statistics(directory: str) -> dict[str, Any]:
    """The document. Raises StoreFormatError, OSError."""
    return tried_again(lambda: _statistics(directory))


def _statistics(directory: str) -> dict[str, Any]:
    with open_queues(directory) as opened:
        pending = opened.pending.report(directory)
        state, is_whole = _state_of(directory, opened.store)
        return store_size(directory, opened) | {
            "state_is_whole": is_whole,
            "groups": _groups(state.offset_table),
            "waiting": {
                "delayed": len(pending.delayed) + len(pending.timed),
                "undecided_transactions": len(pending.undecided),
                "leased": sum(queue.leased for _, queue in state.pop_table.all_queues()),
            },
        }


def topic_settings(directory: str) -> dict[str, dict[str, Any]]:
    """{topic: {"queues", "order", "permission", "attributes"}} of a store. Raises StoreFormatError, OSError."""
    with open_log(directory, StoreConfig()) as store:
        state, _ = _state_of(directory, store)
    return {
        name: {
            "queues": config.write_queues,
            "order": config.order,
            "permission": config.permission,
            "attributes": dict(config.attributes),
        }
        for name, config in state.topic_table.configs.items()
    }


def _state_of(directory: str, store: OfflineLog) -> tuple[StateLog, bool]:
    """The state by its snapshots and the log behind them, and whether all of that could be read."""
    producers = ProducerTable(retention_ms=0, entries_max=0)  # their messages are not passed to it
    state = StateLog(directory, clock=SystemClock(), persist_interval_ms=0, producers=producers)
    is_whole = True
    for piece in read_checked(store, state.reflected()):
        if isinstance(piece, DamagedRange):
            is_whole = False
            continue
        for message in piece:
            if message.physical_offset >= state.reflected() and _is_of_state(message):
                state.on_run(_run(message))
    return state, is_whole


def _is_of_state(message: StoredMessage) -> bool:
    return message.topic in STATE_TOPICS or message.topic.startswith(DEAD_LETTER_PREFIX)


def _run(message: StoredMessage) -> Run:
    """A run of one record. The tables look at its records only."""
    begin = message.physical_offset
    return Run(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=QueueOffset(message.queue_offset),
        count=1,
        begin=PhysicalOffset(begin),
        end=PhysicalOffset(begin + message.size_bytes),
        store_timestamp_ms=message.stored_at_ms,
        units=_NOTHING,
        hashes=_NOTHING,
        key_offsets=_NOTHING,
        keys_begin=0,
        keys_end=0,
        records=memoryview(message.record),
        sys_flag=ENDS_WAIT if message.prepared_transaction_offset < 0 else 0,
    )


def _groups(offsets: OffsetTable) -> dict[str, dict[str, dict[str, int]]]:
    """{group: {topic: {queue id: committed offset}}}."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for group in sorted(offsets.groups()):
        for topic, queue_id, offset in offsets.committed(group):
            found.setdefault(group, {}).setdefault(topic, {})[str(queue_id)] = offset
    return found
