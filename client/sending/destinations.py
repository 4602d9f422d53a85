"""Chooses the queue of a topic's next batch, from the known routes and recent experience with each broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from ...model.clock import monotonic_ms
from ...model.errors import MessageIllegal, NoRoute
from ...model.queue import MessageQueue
from ...model.route import TopicRoute
from ..connection.route_cache import RouteCache
from .latency_fault import LatencyFault
from .outgoing import check_sharding_key
from .queue_choice import choose_queue, interleave, lite_topic_queue, priority_queues, shard_layout, shard_queue
from .target import GivenQueue, LiteTarget, OwnTarget, Priority, Target


class _Ring:
    """The queues of one topic in turn; replaced when its route changes."""

    __slots__ = ("_of_priorities", "brokers", "queues", "route", "turn")

    def __init__(self, route: TopicRoute, turn: int) -> None:
        self.route = route
        self.queues = interleave(route.write_queues())
        self.brokers = len({queue.broker_name for queue in self.queues})
        self.turn = turn
        self._of_priorities: dict[int, list[MessageQueue]] = {}

    def of_priority(self, priority: Priority) -> list[MessageQueue]:
        """Those of its queues that take messages of a priority."""
        queues = self._of_priorities.get(priority.value)
        if queues is None:
            queues = self._of_priorities[priority.value] = priority_queues(self.queues, priority.value)
        return queues


class Destinations:
    """One producer's choice of queues. Any thread may call."""

    def __init__(self, routes: RouteCache, fault: LatencyFault) -> None:
        self._routes = routes
        self._fault = fault
        self._rings: dict[str, _Ring] = {}
        self._layouts: dict[str, tuple[TopicRoute, tuple[MessageQueue, ...]]] = {}
        self._layout_lock = threading.Lock()

    def next_queue(
        self,
        topic: str,
        target: Target | None = None,
        *,
        avoid: str | None = None,
        has_room: Callable[[str], bool] | None = None,
    ) -> MessageQueue:
        """The next queue in turn of those of the target: a sharding key has only one. `avoid`: the broker that failed last.

        Raises NoRoute if no queue is writable, InvalidParameter.
        """
        if target is not None and not isinstance(target, Priority):
            return self.own_queue(topic, target)
        ring = self._ring(topic)
        ring.turn += 1
        queues = ring.queues if target is None else ring.of_priority(target)
        if ring.brokers == 1:
            return queues[ring.turn % len(queues)]
        now = monotonic_ms()
        quiet = self._fault.is_quiet

        def is_fit(broker_name: str) -> bool:
            return (quiet or self._fault.is_available(broker_name, now)) and (has_room is None or has_room(broker_name))

        fit = None if quiet and has_room is None else is_fit
        return choose_queue(queues, ring.turn, avoid=avoid, fit=fit)

    def queues_in_turn(
        self,
        topic: str,
        target: Target | None = None,
        *,
        avoid: str | None = None,
        has_room: Callable[[str], bool] | None = None,
    ) -> Iterator[MessageQueue]:
        """As many choices of `next_queue` as the topic has queues. Raises as it does."""
        count = 1 if isinstance(target, OwnTarget) else len(self._ring(topic).queues)
        for _ in range(count):
            yield self.next_queue(topic, target, avoid=avoid, has_room=has_room)

    def own_queue(self, topic: str, target: OwnTarget) -> MessageQueue:
        """The one queue of a target. Raises as `sharded_queue` does; MessageIllegal for lite topics of several queues."""
        if isinstance(target, GivenQueue):
            return MessageQueue(topic, target.broker_name, target.queue_id)
        if not isinstance(target, LiteTarget):
            return self.sharded_queue(topic, target)
        layout = self._layout(topic)
        first, *others = target.names
        queue = lite_topic_queue(layout, first)
        for other in others:
            if lite_topic_queue(layout, other) != queue:
                raise MessageIllegal(
                    f"a batch is of one queue, lite topics {first} and {other} of {topic} are of two: use send_async"
                )
        return queue

    def sharded_queue(self, topic: str, sharding_key: str) -> MessageQueue:
        """The queue of a sharding key. Raises InvalidParameter; NoRoute if the topic's queues are not known."""
        check_sharding_key(sharding_key)
        return shard_queue(self._layout(topic), sharding_key)

    def _layout(self, topic: str) -> tuple[MessageQueue, ...]:
        route = self._routes.cached(topic)
        known = self._layouts.get(topic)
        if route is not None and (known is None or known[0] is not route):
            with self._layout_lock:
                before = self._layouts.get(topic)
                known = self._layouts[topic] = route, shard_layout(route, () if before is None else before[1])
        if known is None or not known[1]:
            raise NoRoute(topic, "no queue takes messages")
        return known[1]

    def address_of(self, queue: MessageQueue) -> str:
        """The address of the queue's master. Raises NoRoute."""
        return self._routes.address_of(queue.topic, queue.broker_name)

    def has_other_broker(self, topic: str, broker_name: str) -> bool:
        """Whether another broker takes messages of the topic now."""
        ring = self._rings.get(topic)
        return ring is not None and any(queue.broker_name != broker_name for queue in ring.queues)

    def _ring(self, topic: str) -> _Ring:
        route = self._routes.cached(topic)
        ring = self._rings.get(topic)
        if route is None:
            raise NoRoute(topic, "no broker that has it is registered (see zenit status)")
        if ring is None or ring.route is not route:
            ring = self._rings[topic] = _Ring(route, ring.turn if ring is not None else monotonic_ms() & 0xFFFF)
        if not ring.queues:
            raise NoRoute(topic, "no broker that is up takes messages for it")
        return ring
