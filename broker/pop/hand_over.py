"""What a pop group has of its queues, as RocketMQ's broker knows it: `zenit store hand-over`, and a store that comes back.

RocketMQ knows no message that is leased, or available again, between others that are done. It has the group's offset, behind
all that was ever handed out, and the group's retry topic for the others: `%RETRY%group_topic`, which its pops look into.

    hand over   copies of all that is not done --> the retry topic; offset of the group there = the first copy, in the queues =
                the first message that nobody looked at. Here the messages stay as they are
    come back   by the offsets that RocketMQ wrote: the messages whose copies were consumed are done, and the group goes on
                where it is now. What RocketMQ had leased when it stopped is available again (rocketmq_leases)

A copy says in POP_LEASE what it is of: `topic queue-id queue-offset`. RocketMQ copies that with the properties when it hands
the copy out again, so the last copy counts. A repetition writes nothing if the retry topic holds just what it should. What
RocketMQ put there itself stays: it is copied behind what is outdated, and then POP_LEASE names its place in the retry topic.

Ordered groups: their messages have to stay in their order, so the group begins at the first one that is not done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ...model.names import RETRY_PREFIX, retry_topic
from ...model.properties import FIRST_POP_TIME, POP_LEASE, SEQUENCE
from ...model.route import PERMISSION_READ_WRITE, TopicConfig
from ...model.topics.light_queues import is_light_queue
from ...record.kernel import StoredMessage
from ...record.new_record import NewRecord
from ...record.sys_flag import NOT_COPIED
from ...store.message_store import MessageStore
from ..state.admission import queue_count
from ..state.pop_queue import Name, PopQueue, indices
from ..state.pop_table import QueueKey
from ..state.retry_policy import RETRIES_MAX_MAX
from ..state.state_log import OFFSETS, TOPICS, StateLog
from .rocketmq_leases import leased_at_rocketmq, message_at, messages_of

Origin = tuple[str, int, int]
"""(topic, queue id, queue offset) of a message."""
Open = tuple[int, int, Name | None]
"""(queue offset, how often it was handed out, its check point or None) of a message that is not done."""


def hand_on_popped(store: MessageStore, state: StateLog) -> int:
    """Writes what RocketMQ is to know; returns how many messages its pops get from retry topics."""
    count = 0
    wanted: dict[tuple[str, str], dict[Origin, int]] = defaultdict(dict)
    offsets: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for (group, topic, queue_id), queue in sorted(state.pop_table.all_queues(), key=lambda pair: pair[0]):
        if queue_id >= queue_count(state.topic_table, topic):
            continue
        copies = wanted[group, topic]
        if _keeps_order(queue):
            offsets[group].append((topic, queue_id, queue.first_open()))
            continue
        copies |= {(topic, queue_id, offset): attempts for offset, attempts, _ in open_messages(queue)}
        offsets[group].append((topic, queue_id, queue.next))
    for (group, topic), copies in wanted.items():
        begin = _write_copies(store, state, group, topic, copies)
        if begin is not None:
            offsets[group].append((_retry_topic(group, topic), 0, begin))
        count += len(copies)
    table = state.offset_table
    for group, rows in offsets.items():
        higher = [(*row, table.era(group, *row[:2])) for row in rows if row[2] > table.offset(group, *row[:2])]
        if higher:
            state.stage(store, OFFSETS, table.event_committed(group, higher, forward_only=True))
    store.commit()
    return count


def settle_popped(store: MessageStore, state: StateLog, since: int) -> None:
    """RocketMQ has had the store: it wrote the log from `since` on, and the offsets. Before anything is popped."""
    table = state.offset_table
    leased = leased_at_rocketmq(store, table, since)
    consumed: dict[tuple[str, str], set[Origin]] = {}
    for key, queue in list(state.pop_table.all_queues()):
        group, topic, queue_id = key
        if is_light_queue(topic):
            continue  # settle_lites
        committed = table.offset(group, topic, queue_id)
        if queue.is_idle:
            continue  # it goes on at the group's offset
        if _keeps_order(queue):
            over = [(offset, name) for offset, _, name in open_messages(queue) if offset < committed]
        else:
            if (group, topic) not in consumed:
                consumed[group, topic] = _consumed(store, state, group, topic, leased)
            done = consumed[group, topic]
            over = [(offset, name) for offset, _, name in open_messages(queue) if (topic, queue_id, offset) in done]
        for offset, name in over:
            state.pop_table.on_buried(key, offset, name)
        queue.next = max(queue.next, committed)
    for key, offsets in leased.items():
        if not key[1].startswith(RETRY_PREFIX):
            state.pop_table.on_taken_back(key, offsets, next_offset=max(0, table.offset(*key)))


def _keeps_order(queue: PopQueue) -> bool:
    return queue.is_ordered and not queue.is_idle


def open_messages(queue: PopQueue) -> list[Open]:
    """Ascending. One that is leased counts as handed out once more."""
    found: list[Open] = [(offset, attempts, None) for offset, attempts in queue.available.items()]
    found += [
        (one.offsets[index], one.attempts_of(index) + 1, one.name)
        for one in queue.all_checkpoints()
        for index in indices(queue.open_bits(one))
    ]
    return sorted(found, key=lambda entry: entry[0])


# ---- the retry topic


def _retry_topic(group: str, topic: str) -> str:
    """Where RocketMQ's pops of this group and topic look, too."""
    return retry_topic(f"{group}_{topic}")


def _write_copies(
    store: MessageStore, state: StateLog, group: str, topic: str, wanted: dict[Origin, int]
) -> int | None:
    """Where the group is to go on in the retry topic; None where there is none. `wanted`: {origin: attempts}; those that cannot
    be read are taken out."""
    name = _retry_topic(group, topic)
    if not wanted and name not in state.topic_table.configs:
        return None
    end = int(store.max_offset(name, 0))
    begin = min(end, max(int(store.min_offset(name, 0)), state.offset_table.offset(group, name, 0)))
    held = [(_origin(message), message) for message in messages_of(store, name, 0, begin)]
    own = {origin: message for origin, message in held if origin[0] == name}
    live = wanted.keys() | own.keys()
    if len(held) == len(live) and live == {origin for origin, _ in held}:
        return begin
    if name not in state.topic_table.configs:
        config = TopicConfig(name, read_queues=1, write_queues=1, permission=PERMISSION_READ_WRITE)
        state.stage(store, TOPICS, state.topic_table.event_set(config))
    for origin, message in own.items():
        store.stage_record(_copy(message, name, origin, message.reconsume_times))
    for origin, attempts in list(wanted.items()):
        original = message_at(store, *origin)
        if original is None:
            del wanted[origin]
            continue
        store.stage_record(_copy(original, name, origin, original.reconsume_times + attempts))
        store.commit()
    store.commit()
    return end


def _copy(message: StoredMessage, name: str, origin: Origin, attempts: int) -> NewRecord:
    properties = {key: value for key, value in message.properties.items() if key != SEQUENCE}
    properties.setdefault(FIRST_POP_TIME, str(message.stored_at_ms))
    return NewRecord(
        topic=name,
        queue_id=0,
        body=message.body_as_stored,
        properties={**properties, POP_LEASE: " ".join(map(str, origin))},
        flag=message.flag,
        sys_flag=message.sys_flag & ~NOT_COPIED,
        born_timestamp_ms=message.born_at_ms,
        born_host=message.born_host,
        reconsume_times=min(attempts, RETRIES_MAX_MAX),
        body_crc=message.body_crc,
    )


def _consumed(
    store: MessageStore, state: StateLog, group: str, topic: str, leased: Mapping[QueueKey, set[int]]
) -> set[Origin]:
    """Of the group's messages in the topic: those whose last copy in the retry topic is consumed."""
    name = _retry_topic(group, topic)
    reached, held = state.offset_table.offset(group, name, 0), leased.get((group, name, 0), set())
    begin = int(store.min_offset(name, 0))
    last = {_origin(message): message.queue_offset for message in messages_of(store, name, 0, begin)}
    return {origin for origin, offset in last.items() if offset < reached and offset not in held}


def _origin(message: StoredMessage) -> Origin:
    """What a message of a retry topic is a copy of, as far as a hand-over wrote it; else itself."""
    topic, *words = message.properties.get(POP_LEASE, "").split(" ")
    if topic and len(words) == 2 and all(word.isascii() and word.isdecimal() for word in words):
        return topic, int(words[0]), int(words[1])
    return message.topic, message.queue_id, message.queue_offset
