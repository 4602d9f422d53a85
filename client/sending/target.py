"""Where a message must go: to the queue of its sharding key, of its lite topic, a given one, or one of its priority. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...model.errors import InvalidParameter, MessageIllegal
from ...model.message import Message

PRIORITY_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class Priority:
    """The queue with this number at one of the brokers, or their last one; 0 to 9."""

    value: int


@dataclass(frozen=True, slots=True)
class LiteTarget:
    """The queue of these lite topics: a batch's are in one queue."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GivenQueue:
    """The queue that the sender names: clients of a proxy choose theirs themselves."""

    broker_name: str
    queue_id: int


OwnTarget = str | LiteTarget | GivenQueue
"""A target that has one queue."""

Target = OwnTarget | Priority
"""A sharding key, lite topics, a given queue, or a priority."""


def target_of_all(messages: Sequence[Message], sharding_key: str | None) -> Target | None:
    """Of a batch. Raises InvalidParameter, MessageIllegal."""
    names = dict.fromkeys(message.lite_topic for message in messages)
    if None not in names:
        target_of(messages[0], sharding_key)
        return LiteTarget(tuple(name for name in names if name is not None))
    if len(names) > 1:
        raise MessageIllegal("a batch has messages with a lite topic and without one")
    return target_of(messages[0], sharding_key)


def target_of(message: Message, sharding_key: str | None) -> Target | None:
    """None: any queue. Raises InvalidParameter."""
    if message.lite_topic is not None:
        for name, other in (("sharding_key", sharding_key), ("priority", message.priority)):
            if other is not None:
                raise InvalidParameter(name, other, "none: the lite topic says which queue")
        return LiteTarget((message.lite_topic,))
    if message.priority is None:
        return sharding_key
    if type(message.priority) is not int or not 0 <= message.priority <= PRIORITY_MAX:
        raise InvalidParameter("priority", message.priority, f"0 to {PRIORITY_MAX}")
    if sharding_key is not None:
        raise InvalidParameter("sharding_key", sharding_key, "none: the priority says which queue")
    return Priority(message.priority)
