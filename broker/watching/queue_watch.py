"""Watches: the idle queues of consumers that have very many of them, and who is to hear that something came. Pure.

    a consumer adds queues --add--> watched --an arrival--> ready --take_ready--> told in one answer, and no longer watched

One request a broker takes the place of a long poll a queue: what arrives costs those that watch its queue, and an answer
costs what is ready, however many queues are watched. A consumer numbers its requests. If one did not come, or the broker has
forgotten, it begins a new watch with all its queues. Loop thread.

Of a watch that is forgotten the queues are let go in parts (`clear`): a million at once would hold up everybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from ...model.errors import BrokerBusy

Waiting = TypeVar("Waiting")
QueueKey = tuple[str, int]

WATCHES_MAX: Final = 10_000
FORGET_MS: Final = 60_000
"""A watch of which nobody asked for so long is forgotten."""
RETRY_MS: Final = 1_000
_CLEARED_WITH_EACH: Final = 4  # new one: so what is to be cleared never grows, however fast watches are begun anew


@dataclass(slots=True)
class _WatchedQueues(Generic[Waiting]):
    number: int
    heard_ms: int
    queues: dict[QueueKey, None] = field(default_factory=dict)
    ready: dict[QueueKey, None] = field(default_factory=dict)
    waiting: Waiting | None = None
    deadline_ms: int = 0


class QueueWatches(Generic[Waiting]):
    """All watches of one broker. `count`: of watched queues; one that two consumers watch counts twice."""

    def __init__(self, *, queues_max: int, watches_max: int = WATCHES_MAX) -> None:
        self._queues_max = queues_max
        self._watches_max = watches_max
        self._watches: dict[str, _WatchedQueues[Waiting]] = {}
        self._watchers: dict[str, dict[int, tuple[str, ...]]] = {}  # by topic and queue id; of those forgotten, too
        self._left: deque[tuple[str, dict[QueueKey, None]]] = deque()  # the queues of those
        self.count = 0

    @property
    def watches(self) -> int:
        """How many consumers watch."""
        return len(self._watches)

    def follow(self, name: str, number: int, now_ms: int) -> bool:
        """The request `number` of a watch is here; 1 begins it. False if the one before it is not known.

        Raises BrokerBusy if there are too many watches.
        """
        watch = self._watches.get(name)
        if number == 1:
            if watch is None and len(self._watches) >= self._watches_max:
                raise BrokerBusy(RETRY_MS, f"{len(self._watches)} consumers watch queues")
            if watch is not None:
                self._forget(name)
            self._watches[name] = _WatchedQueues(1, now_ms)
            return True
        if watch is None or watch.number != number - 1:
            return False
        watch.number, watch.heard_ms = number, now_ms
        return True

    def add(self, name: str, key: QueueKey, *, is_ready: bool) -> None:
        """Watches a queue. `is_ready`: there is something already. Raises BrokerBusy if too many are watched."""
        watch = self._watches[name]
        if is_ready:
            self._unwatch(name, watch, key)
            watch.ready[key] = None
        elif key not in watch.queues:
            if self.count >= self._queues_max:
                raise BrokerBusy(RETRY_MS, f"{self.count} queues are watched (watched_queues_max)")
            watch.ready.pop(key, None)
            watch.queues[key] = None
            watchers = self._watchers.setdefault(key[0], {})
            names = watchers.get(key[1], ())
            if name not in names:
                watchers[key[1]] = (*names, name)
            self.count += 1
            self.clear(_CLEARED_WITH_EACH)

    def remove(self, name: str, key: QueueKey) -> None:
        """Its consumer does not read it any more."""
        watch = self._watches[name]
        watch.ready.pop(key, None)
        self._unwatch(name, watch, key)

    def on_arrivals(self, keys: Iterable[QueueKey]) -> list[str]:
        """More may be read in these queues. Returns the watches that have something to tell to a request that waits."""
        told: dict[str, None] = {}
        for topic, queue_id in keys:
            watchers = self._watchers.get(topic)
            names = () if watchers is None else watchers.pop(queue_id, ())
            if watchers is not None and not watchers:
                del self._watchers[topic]
            key = topic, queue_id
            for name in names:
                watch = self._watches.get(name)
                if watch is None or key not in watch.queues:
                    continue
                del watch.queues[key]
                self.count -= 1
                watch.ready[key] = None
                if watch.waiting is not None:
                    told[name] = None
        return list(told)

    def on_topic_deleted(self, topic: str) -> list[str]:
        """The same for the queues of a topic that is gone: who pulls from them is told so."""
        return self.on_arrivals([(topic, queue_id) for queue_id in self._watchers.get(topic, ())])

    def take_ready(self, name: str, count_max: int) -> list[QueueKey]:
        """What is to be told next."""
        ready = self._watches[name].ready
        keys = [key for key, _ in zip(ready, range(count_max), strict=False)]
        for key in keys:
            del ready[key]
        return keys

    def park(self, name: str, waiting: Waiting, deadline_ms: int) -> Waiting | None:
        """A request waits for what is ready. Returns the one that waited before it."""
        watch = self._watches[name]
        before, watch.waiting, watch.deadline_ms = watch.waiting, waiting, deadline_ms
        return before

    def unpark(self, name: str) -> Waiting | None:
        """The request that waits; it no longer does."""
        watch = self._watches.get(name)
        if watch is None:
            return None
        waiting, watch.waiting = watch.waiting, None
        return waiting

    def unpark_all(self, now_ms: int) -> list[Waiting]:
        """All requests that wait; they no longer do."""
        found = []
        for watch in self._watches.values():
            if watch.waiting is not None:
                found.append(watch.waiting)
                watch.waiting, watch.heard_ms = None, now_ms
        return found

    def expired(self, now_ms: int) -> list[Waiting]:
        """The requests whose time is over. Forgets watches of which nobody asked for long."""
        over = []
        for name, watch in list(self._watches.items()):
            if watch.waiting is not None and now_ms >= watch.deadline_ms:
                over.append(watch.waiting)
                watch.waiting, watch.heard_ms = None, now_ms
            elif watch.waiting is None and now_ms - watch.heard_ms >= FORGET_MS:
                self._forget(name)
        return over

    def clear(self, count: int) -> bool:
        """Lets so many queues go of the watches that are forgotten. Returns whether some are left."""
        while self._left and count > 0:
            name, queues = self._left[0]
            for _ in range(min(count, len(queues))):
                key, _ = queues.popitem()
                count -= 1
                watch = self._watches.get(name)
                if watch is None or key not in watch.queues:  # else the next watch of this name has it
                    self._unlink(name, key)
            if not queues:
                self._left.popleft()
        return bool(self._left)

    def _forget(self, name: str) -> None:
        watch = self._watches.pop(name)
        self.count -= len(watch.queues)
        if watch.queues:
            self._left.append((name, watch.queues))

    def _unwatch(self, name: str, watch: _WatchedQueues[Waiting], key: QueueKey) -> None:
        if key not in watch.queues:
            return
        del watch.queues[key]
        self.count -= 1
        self._unlink(name, key)

    def _unlink(self, name: str, key: QueueKey) -> None:
        watchers = self._watchers.get(key[0], {})
        names = tuple(other for other in watchers.get(key[1], ()) if other != name)
        if names:
            watchers[key[1]] = names
        elif watchers.pop(key[1], None) is not None and not watchers:
            del self._watchers[key[0]]
