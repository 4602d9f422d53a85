"""Which sends name lite topics as they must: those to a lite parent each name one, of that parent, and no others do.

Before a batch is staged its records are only searched for the name of the property, since that costs little; that each light
queue which it names may be written is asked by the store while it stages them (`LiteWriters.check`). Pure; loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...model.errors import LiteQuotaExceeded, LiteTopicMissing, NotLiteParent
from ...model.topics.light_queues import LITE_TOPIC, lite_topic_of
from ..state.topic_table import TopicTable

_MARK: Final = LITE_TOPIC.encode() + b"\x01"


def check_lite_batch(topics: TopicTable, topic: str, records: bytes, count: int) -> None:
    """Of a batch for a lite parent. Raises LiteTopicMissing."""
    if topic in topics.lite_parents and records.count(_MARK) < count:
        raise LiteTopicMissing(topic)


def check_waiting_batch(topics: TopicTable, topic: str, records: bytes | bytearray, count: int) -> None:
    """Of a batch that waits elsewhere before it comes into the topic. Raises LiteTopicMissing, NotLiteParent."""
    found = records.count(_MARK)
    if topic in topics.lite_parents:
        if found < count:
            raise LiteTopicMissing(topic)
    elif found:
        raise NotLiteParent(topic)


class LiteWriters:
    """What may be written, and how many lite topics each parent has: as of the last scan, and those that have come since."""

    def __init__(self, topics: TopicTable, has_queue: Callable[[str], bool], *, topics_max: int) -> None:
        self._topics = topics
        self._has_queue = has_queue
        self._topics_max = topics_max
        self._counts: dict[str, int] = {}

    def check(self, topic: str, queue: str) -> None:
        """A message of the topic names this light queue. Raises NotLiteParent, LiteQuotaExceeded."""
        lite = lite_topic_of(queue)
        if lite is None:
            return
        if lite[0] != topic or topic not in self._topics.lite_parents:
            raise NotLiteParent(topic)
        if not self._has_queue(queue):
            count = self._counts.get(topic, 0)
            if count >= self._topics_max:
                raise LiteQuotaExceeded(f"lite topics of {topic} at this broker", self._topics_max, "lite_topics_max")
            self._counts[topic] = count + 1

    def on_scanned(self, counts: dict[str, int]) -> None:
        """So many each parent has."""
        self._counts = dict(counts)
