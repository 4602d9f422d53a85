"""Where a message must go: to the queue of its sharding key, or to one of its priority. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...model.errors import InvalidParameter
from ...model.message import Message

PRIORITY_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class Priority:
    """The queue with this number at one of the brokers, or their last one; 0 to 9."""

    value: int


Target = str | Priority
"""A sharding key, or a priority."""


def target_of(message: Message, sharding_key: str | None) -> Target | None:
    """None: any queue. Raises InvalidParameter."""
    if message.priority is None:
        return sharding_key
    if type(message.priority) is not int or not 0 <= message.priority <= PRIORITY_MAX:
        raise InvalidParameter("priority", message.priority, f"0 to {PRIORITY_MAX}")
    if sharding_key is not None:
        raise InvalidParameter("sharding_key", sharding_key, "none: the priority says which queue")
    return Priority(message.priority)
