"""A message queue's name, and the two kinds of offset that must never be mixed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NewType

PhysicalOffset = NewType("PhysicalOffset", int)  # byte in a broker's commit log
QueueOffset = NewType("QueueOffset", int)  # n-th message of one queue


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of one topic at one replica group; ordered by topic, broker name, queue id.

    `incarnation`: which life of the topic is meant there, where that is known: a topic that was deleted and made again has
    another one. 0 = not said. `era`: since which reset of the group a consumer has the queue; 0 = there was none, -1 = not
    said. Two names of one queue are equal, whatever they say of these.
    """

    topic: str
    broker_name: str
    queue_id: int
    incarnation: int = field(default=0, compare=False, repr=False)
    era: int = field(default=-1, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
