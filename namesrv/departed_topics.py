"""The topics of brokers that are no longer registered. Pure.

They distinguish a topic that nobody serves at present from one that never existed. A broker that registers again reports
its topics itself. Nothing survives a restart of the name server. At most `brokers_max` brokers and `topics_max` topics are
remembered; the broker that left first is forgotten first.
"""

from __future__ import annotations

from collections.abc import Iterable


class DepartedTopics:
    """Owned by the route table."""

    def __init__(self, *, brokers_max: int, topics_max: int) -> None:
        self._brokers_max = brokers_max
        self._topics_max = topics_max
        self._topics: dict[str, frozenset[str]] = {}  # by broker name, in the order of leaving
        self._count = 0  # topics of all brokers

    def on_departed(self, broker_name: str, topics: Iterable[str]) -> None:
        """The last member of that name has left or died."""
        self.on_registered(broker_name)
        self._topics[broker_name] = frozenset(topics)
        self._count += len(self._topics[broker_name])
        while len(self._topics) > self._brokers_max or self._count > self._topics_max:
            self.on_registered(next(iter(self._topics)))

    def on_registered(self, broker_name: str) -> None:
        """The broker has registered again, with its topics."""
        self._count -= len(self._topics.pop(broker_name, ()))

    def on_delete_topic(self, topic: str) -> None:
        """The topic was deleted."""
        for name, topics in self._topics.items():
            if topic in topics:
                self._topics[name] = topics - {topic}
                self._count -= 1

    def broker_of(self, topic: str) -> str | None:
        """The broker that had the topic when it left; the first by name if there are several, None if there is none."""
        return min((name for name, topics in self._topics.items() if topic in topics), default=None)
