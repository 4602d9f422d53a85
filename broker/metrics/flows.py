"""Messages and bytes by topic, and by topic and consumer group, since the start. Pure.

The loop counts batches, not messages, so that a topic's numbers cost one look-up a batch. Other threads read: a row is a list
of two numbers that only grow. What is deleted leaves with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...metrics.histogram import SIZE_BOUNDS_BYTES, Histogram

NOBODY: Final = ""
"""The group of readers that name none, or one that is not known."""

Flow = list[int]
"""[messages, bytes]."""


class Flows:
    """`incoming`: by topic; `outgoing`: by (topic, group); `sizes`: of messages that came in."""

    __slots__ = ("_groups", "incoming", "outgoing", "sizes")

    def __init__(self, groups: Collection[str]) -> None:
        """`groups`: those that are known; looked at when a pair is met first."""
        self._groups = groups
        self.incoming: dict[str, Flow] = {}
        self.outgoing: dict[tuple[str, str], Flow] = {}
        self.sizes = Histogram(SIZE_BOUNDS_BYTES)

    def took(self, topic: str, count: int, size_bytes: int) -> None:
        """A producer's batch was staged."""
        flow = self.incoming.get(topic)
        if flow is None:
            flow = self.incoming[topic] = [0, 0]
        flow[0] += count
        flow[1] += size_bytes
        self.sizes.observe(size_bytes // count, count)

    def gave(self, topic: str, group: str, count: int, size_bytes: int) -> None:
        """A consumer got so many messages."""
        flow = self.outgoing.get((topic, group))
        if flow is None:
            known = group if group in self._groups else NOBODY
            flow = self.outgoing.setdefault((topic, known), [0, 0])
        flow[0] += count
        flow[1] += size_bytes

    def forget_topic(self, topic: str) -> None:
        """It was deleted."""
        self.incoming.pop(topic, None)
        for pair in [pair for pair in self.outgoing if pair[0] == topic]:
            del self.outgoing[pair]

    def forget_unknown(self) -> None:
        """Groups that were deleted leave."""
        groups = self._groups
        for pair in [pair for pair in self.outgoing if pair[1] not in groups and pair[1] != NOBODY]:
            del self.outgoing[pair]
