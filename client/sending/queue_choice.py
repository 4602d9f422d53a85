"""Which queue a message or batch goes to. Pure.

Without a sharding key: the queues in turn, with healthy brokers first. With one: always the queue that the key's hash
selects, even while that queue is unavailable. With a priority: one queue of each broker, these in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...model.queue import MessageQueue
from ...model.route import PERMISSION_WRITE, TopicRoute
from ...model.tag_hash import java_hash


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


def shard_queue(layout: Sequence[MessageQueue], sharding_key: str) -> MessageQueue:
    """The queue of a key: Java's hashCode of it modulo the number of queues, as in RocketMQ's selector by hash."""
    value = java_hash(sharding_key)
    remainder = abs(value) % len(layout)
    return layout[remainder]
