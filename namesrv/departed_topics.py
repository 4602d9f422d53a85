"""The topics of brokers that are no longer registered. Pure.

They tell a topic that nobody serves at present from one that was never there. A broker that registers again says itself
what it has. Nothing is kept over a restart of the name server. At most `brokers_max` brokers and `topics_max` topics are
remembered; the broker that left first is forgotten first.
"""

from __future__ import annotations

from collections.abc import Iterable


class DepartedTopics:
    """Owned by the route table."""

    def __init__(self, *, brokers_max: int, topics_max: int) -> None:
        self._brokers_max = brokers_max
        self._topics_max = topics_max
        self._topics: dict[str, frozenset[str]] = {}  # by broker name, the latest that left last
        self._count = 0  # of topics, over all brokers

    def on_departed(self, broker_name: str, topics: Iterable[str]) -> None:
        """The last member of that name has left or died."""
        self.on_registered(broker_name)
        self._topics[broker_name] = frozenset(topics)
        self._count += len(self._topics[broker_name])
        while len(self._topics) > self._brokers_max or self._count > self._topics_max:
            self.on_registered(next(iter(self._topics)))

    def on_registered(self, broker_name: str) -> None:
        """It is there again, and has told which topics it has."""
        self._count -= len(self._topics.pop(broker_name, ()))

    def on_delete_topic(self, topic: str) -> None:
        """Nobody is to have it any more."""
        for name, topics in self._topics.items():
            if topic in topics:
                self._topics[name] = topics - {topic}
                self._count -= 1

    def broker_of(self, topic: str) -> str | None:
        """The broker that had it when it left; the first in the order of names where there are several, None where none is."""
        return min((name for name, topics in self._topics.items() if topic in topics), default=None)
