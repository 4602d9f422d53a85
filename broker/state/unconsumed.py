"""Retention's view of groups: the first offsets that they have yet to consume. A group that has committed in a topic has yet
to consume the topic's other queues. System topics are left out: their readers keep their own records. So are compacted ones:
what a group has yet to consume of them stays in compacted files, as far as it is of use. Pure; loop thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...model.names import is_system_topic
from ...model.route import TopicConfig
from ...store.retention_needs import Need
from .offset_table import OffsetTable


class Unconsumed:
    """The `Needs` (store/retention_needs) of all groups."""

    def __init__(self, offsets: OffsetTable, topics: Mapping[str, TopicConfig]) -> None:
        self._offsets = offsets
        self._topics = topics

    @property
    def revision(self) -> int:
        """Grows with each group that begins in a topic or moves back."""
        return self._offsets.revision

    def since(self, revision: int | None) -> Iterator[Need]:
        """The first offset of each (topic, queue) that some group has yet to consume, one for each group."""
        for topic, group in self._offsets.pairs_since(revision):
            config = self._topics.get(topic)
            offsets = self._offsets.in_topic(topic, group)
            if config is not None and offsets is not None and not _is_free(config):
                for queue_id in range(config.read_queues):
                    yield topic, queue_id, offsets.get(queue_id, 0)

    def first(self, topic: str, queue_id: int) -> int | None:
        """The lowest of all groups."""
        config = self._topics.get(topic)
        if config is None or config.is_compacted:
            return None
        found = (self._offsets.in_topic(topic, group) for group in self._offsets.groups_in(topic))
        return min((offsets.get(queue_id, 0) for offsets in found if offsets is not None), default=None)


def _is_free(config: TopicConfig) -> bool:
    """Whether retention does not ask who has yet to consume the topic."""
    return config.is_compacted or is_system_topic(config.name)
