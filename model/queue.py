"""A message queue's name, and the two kinds of offset that must never be mixed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NewType

PhysicalOffset = NewType("PhysicalOffset", int)  # byte in a broker's commit log
QueueOffset = NewType("QueueOffset", int)  # n-th message of one queue


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of one topic at one replica group; ordered by topic, broker name, queue id.

    `incarnation`: distinguishes the topic from a deleted one of the same name; 0 = not given. `era`: the number of resets
    of the group before the consumer began in this queue; 0 = there was none, -1 = not given. Both are ignored in
    comparisons.
    """

    topic: str
    broker_name: str
    queue_id: int
    incarnation: int = field(default=0, compare=False, repr=False)
    era: int = field(default=-1, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
