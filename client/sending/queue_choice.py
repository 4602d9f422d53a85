"""Which queue a message or batch goes to. Pure.

Without a sharding key: the queues in turn, with healthy brokers first. With one: always the queue that the key's hash
selects, even while that queue is unavailable. With a priority: one queue of each broker, these in turn. Of a lite topic: the
queue of a broker that the name's hash selects, such that a broker more or less moves as few lite topics as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

from ...model.queue import MessageQueue
from ...model.route import PERMISSION_WRITE, TopicRoute
from ...model.tag_hash import java_hash

_ODD: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1


def choose_queue(
    queues: Sequence[MessageQueue],
    turn: int,
    *,
    avoid: str | None = None,
    fit: Callable[[str], bool] | None = None,
) -> MessageQueue:
    """The next queue from `turn` on whose broker is fit and is not `avoid`; if there is none, the best of the rest.

    `queues`: sorted by broker, not empty. `avoid`: the broker that failed last. `fit` None: all are.
    """
    count = len(queues)
    first = queues[turn % count]
    if fit is None and avoid is None:
        return first
    other = None
    for step in range(count):
        queue = queues[(turn + step) % count]
        if queue.broker_name == avoid:
            continue
        if fit is None or fit(queue.broker_name):
            return queue
        if other is None:
            other = queue
    return other if other is not None else first


def interleave(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Orders the queues so that neighbours are on different brokers: in turn, they spread the load over all."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        by_broker.setdefault(queue.broker_name, []).append(queue)
    depth = max((len(group) for group in by_broker.values()), default=0)
    return [group[row] for row in range(depth) for group in by_broker.values() if row < len(group)]


def priority_queues(queues: Sequence[MessageQueue], priority: int) -> list[MessageQueue]:
    """One queue of each broker: the one with the number `priority`, or its last. `queues`: all that take messages."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        by_broker.setdefault(queue.broker_name, []).append(queue)
    return [group[min(priority, len(group) - 1)] for group in by_broker.values()]


def shard_layout(route: TopicRoute, known: tuple[MessageQueue, ...] = ()) -> tuple[MessageQueue, ...]:
    """The queues over which sharding keys are spread: all writable ones, whether their broker is up or not.

    `known`: the layout so far. An absent broker keeps its queues, and keys wait for them. A present one has the queues that
    it lists, perhaps fewer than before if its topic was recreated. If the layout changes, so do the queues of keys (as they
    must).
    """
    there = {data.broker_name for data in route.queues}
    queues = {queue for queue in known if queue.broker_name not in there}
    for data in route.queues:
        if data.permission & PERMISSION_WRITE:
            queues.update(MessageQueue(route.topic, data.broker_name, number) for number in range(data.write_queues))
    return known if queues == set(known) else tuple(sorted(queues))


def lite_topic_queue(layout: Sequence[MessageQueue], lite_topic: str) -> MessageQueue:
    """The queue of a lite topic. Each broker draws a number for the name, and the highest has it: if one of n + 1 brokers comes
    or goes, one in n + 1 lite topics moves, to it or from it. Among its queues the hash selects."""
    value = crc32(lite_topic.encode())
    first = layout[0].broker_name
    if layout[-1].broker_name == first:
        return layout[value % len(layout)]
    chosen = max({queue.broker_name for queue in layout}, key=lambda name: (_draw(value, name), name))
    queues = [queue for queue in layout if queue.broker_name == chosen]
    return queues[value % len(queues)]


def _draw(value: int, broker_name: str) -> int:
    drawn = (value ^ crc32(broker_name.encode())) * _ODD & _MASK
    return (drawn ^ drawn >> 32) * _ODD & _MASK


def shard_queue(layout: Sequence[MessageQueue], sharding_key: str) -> MessageQueue:
    """The queue of a key: Java's hashCode of it modulo the number of queues, as in RocketMQ's selector by hash."""
    value = java_hash(sharding_key)
    remainder = abs(value) % len(layout)
    return layout[remainder]
