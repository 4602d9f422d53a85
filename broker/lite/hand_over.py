"""How far groups are in lite topics, as RocketMQ's broker knows it: `zenit store hand-over`, and a store that comes back.

RocketMQ keeps a group's offset in the lite topic's light queue, and nothing of single messages once it has stopped. So a group
goes on at its first message that is not acknowledged: what it had acknowledged behind that comes again. Where a group has no
offset RocketMQ begins at the end, here it begins at the first message: so a group that is bound to the parent gets an offset
in each of its lite topics. RocketMQ gives nothing to a group that is not bound.

With light queues on, RocketMQ has the offsets of all groups in a file of its own, `lmqConsumerOffset.json`: of groups whose
own names are those of light queues in one table, of others in another.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...model.topics.light_queues import is_light_queue, lite_prefix, lite_topic_of
from ...model.topics.lite_settings import BIND_TOPIC, is_lite_parent
from ...store.message_store import MessageStore
from ...store.opening.snapshot import read_snapshot, write_snapshot
from ..pop.hand_over import open_messages, settle_popped
from ..state.offset_table import LIGHT_GROUPS_TABLE, OFFSETS_TABLE
from ..state.state_log import FILE_NAMES, LIGHT_OFFSETS_FILE, OFFSETS, StateLog

ROWS_AT_ONCE: Final = 1_000  # of one event: some 100 bytes each


@dataclass(frozen=True, slots=True)
class HandedLites:
    """`again`: acknowledged messages that come again. `unbound`: groups that RocketMQ gives nothing of lite topics."""

    again: int
    unbound: tuple[str, ...]


def hand_on_lites(store: MessageStore, state: StateLog) -> HandedLites:
    """Writes the offsets that groups have in lite topics by what they have popped; those that are there already are passed
    over."""
    table, documents = state.offset_table, state.group_table.documents
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    again = 0
    for (group, name, _), queue in sorted(state.pop_table.all_queues(), key=lambda pair: pair[0]):
        if _is_of_parent(state, name):
            first = max(queue.first_open(), table.offset(group, name, 0) if queue.is_idle else 0)
            again += queue.next - first - len(open_messages(queue)) if first < queue.next else 0
            offsets[group][name] = first
    lights = sorted(store.light_queues())
    unbound = []
    for group in sorted(documents.keys() | offsets.keys()):
        bound = str(_attributes(documents.get(group, {})).get(BIND_TOPIC) or "")
        if offsets.get(group) and not bound:
            unbound.append(group)
        begin = lite_prefix(bound)
        for name in lights if bound else ():
            if name.startswith(begin) and name not in offsets[group] and table.offset(group, name, 0) < 0:
                offsets[group][name] = int(store.min_offset(name, 0))
    for group, of_group in offsets.items():
        rows = [
            (name, 0, offset, table.era(group, name, 0))
            for name, offset in of_group.items()
            if offset > table.offset(group, name, 0)
        ]
        for first in range(0, len(rows), ROWS_AT_ONCE):
            state.stage(store, OFFSETS, table.event_committed(group, rows[first : first + ROWS_AT_ONCE]))
            store.commit()
    return HandedLites(again, tuple(unbound))


def settle_groups(store: MessageStore, state: StateLog, since: int) -> None:
    """What groups have popped, of plain queues and of lite topics: see settle_popped."""
    settle_popped(store, state, since)
    settle_lites(state)


def settle_lites(state: StateLog) -> None:
    """RocketMQ has had the store, and wrote the offsets."""
    pops = state.pop_table
    for group in sorted(state.offset_table.groups()):
        for name, queue_id, committed in state.offset_table.committed(group):
            if not _is_of_parent(state, name):
                continue
            key = group, name, queue_id
            queue = pops.queue(key)
            if queue is None:
                pops.on_taken_back(key, (), next_offset=committed)
                continue
            for offset, _, checkpoint in open_messages(queue):
                if offset < committed:
                    pops.on_buried(key, offset, checkpoint)
            queue.next = max(queue.next, committed)


def write_light_offsets(directory: str, *, has_lights: bool) -> None:
    """RocketMQ's file, from ours; none if it will not look for it. Once the store is closed."""
    folder = os.path.join(directory, "config")
    path, own = os.path.join(folder, LIGHT_OFFSETS_FILE), read_snapshot(os.path.join(folder, FILE_NAMES[OFFSETS]))
    for stale in (path, path + ".bak"):
        if os.path.exists(stale):
            os.unlink(stale)
    if has_lights and own is not None and own.reflected is not None:
        write_snapshot(path, rocketmq_document(own.document), own.reflected)


def rocketmq_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The offsets in the two tables of RocketMQ."""
    light: dict[str, int] = {}
    plain: dict[str, Any] = {}
    for pair, offsets in document[OFFSETS_TABLE].items():
        if is_light_queue(pair.partition("@")[2]):
            light[pair] = max(offsets.values())
        else:
            plain[pair] = offsets
    return {**document, LIGHT_GROUPS_TABLE: light, OFFSETS_TABLE: plain}


def _is_of_parent(state: StateLog, name: str) -> bool:
    lite = lite_topic_of(name) if is_light_queue(name) else None
    config = None if lite is None else state.topic_table.configs.get(lite[0])
    return config is not None and is_lite_parent(config.attributes)


def _attributes(document: Mapping[str, Any]) -> Mapping[str, Any]:
    attributes = document.get("attributes")
    return attributes if isinstance(attributes, Mapping) else {}
