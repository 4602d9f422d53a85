"""Light queues: queues with names of their own and no settings; a message goes there beside its topic's queue. Pure.

A message names them in one property, and the broker writes its offset in each of them into another, in the same order:

    INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b    INNER_MULTI_QUEUE_OFFSET=5,17

The record is in the log once. As a consume queue a light queue is queue 0 of the topic that its name is. The light queue of a
*lite topic* has its parent's name in its own: `%LMQ%$parent$lite` (RocketMQ 5.5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..errors import InvalidName, InvalidParameter
from ..names import DEAD_LETTER_PREFIX, RETRY_PREFIX, check_topic, is_system_topic
from ..properties import ENTRY_SEPARATOR, NAME_SEPARATOR, encode_properties

LIGHT_PREFIX: Final = "%LMQ%"
LIGHT_QUEUES: Final = "INNER_MULTI_DISPATCH"
LIGHT_OFFSETS: Final = "INNER_MULTI_QUEUE_OFFSET"
LITE_TOPIC: Final = "__LITE_TOPIC"
"""The property that holds a message's lite topic."""

LIGHT_SEPARATOR: Final = ","
LIGHT_QUEUES_MAX: Final = 64
"""The most light queues that one message goes into."""

LIGHT_LENGTH_MAX: Final = 255
LITE_LENGTH_MAX: Final = 64
OFFSET_DIGITS: Final = 19  # of each offset, with zeros before it

_LIGHT = re.compile(r"%LMQ%[%|$a-zA-Z0-9_-]+", re.ASCII)
_LITE = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)


def is_light_queue(topic: str) -> bool:
    """True for the name of a light queue, right or wrong."""
    return topic.startswith(LIGHT_PREFIX)


def takes_light_queues(topic: str) -> bool:
    """Whether the light queues count that a record of this topic names.

    They do not where a message waits (for its time, for its transaction) or comes again: it goes there once.
    """
    return not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) and not is_system_topic(topic)


def check_light_queue(name: str) -> str:
    """Returns the name; raises InvalidName if it breaks the rule."""
    if not len(LIGHT_PREFIX) < len(name) <= LIGHT_LENGTH_MAX or _LIGHT.fullmatch(name) is None:
        raise InvalidName(
            "light queue", name, f"%LMQ% and letters, digits, _ - % | $, at most {LIGHT_LENGTH_MAX} in all"
        )
    return name


def check_queue_topic(topic: str) -> str:
    """Returns the topic of a message queue, which may be a light one; raises InvalidName if it breaks the rule."""
    return check_light_queue(topic) if isinstance(topic, str) and is_light_queue(topic) else check_topic(topic)


def light_room(count: int) -> str:
    """The value of LIGHT_OFFSETS in a record that is sent: the broker writes the offsets over it."""
    return LIGHT_SEPARATOR.join(["0" * OFFSET_DIGITS] * count)


_ROOM_ENTRY: Final = f"{ENTRY_SEPARATOR}{LIGHT_OFFSETS}{NAME_SEPARATOR}{light_room(1)}{ENTRY_SEPARATOR}"


def light_properties(names: Sequence[str]) -> dict[str, str]:
    """The properties of a message that goes into these light queues. Raises InvalidName, InvalidParameter."""
    if not 1 <= len(names) <= LIGHT_QUEUES_MAX or len(set(names)) != len(names):
        raise InvalidParameter("light_queues", f"{len(names)} names", f"1 to {LIGHT_QUEUES_MAX} different ones")
    for name in names:
        check_light_queue(name)
    return {LIGHT_QUEUES: LIGHT_SEPARATOR.join(names), LIGHT_OFFSETS: light_room(len(names))}


def check_lite_topic(name: str) -> str:
    """Returns the name; raises InvalidName if it breaks the rule."""
    if not isinstance(name, str) or not 1 <= len(name) <= LITE_LENGTH_MAX or _LITE.fullmatch(name) is None:
        raise InvalidName("lite topic", str(name), f"letters, digits, _ and -, 1 to {LITE_LENGTH_MAX} of them")
    return name


def lite_queue(parent: str, lite_topic: str) -> str:
    """The light queue of a lite topic. Both names are checked."""
    return f"{LIGHT_PREFIX}${parent}${lite_topic}"


def lite_prefix(parent: str) -> str:
    """What the light queues of all its lite topics begin with."""
    return f"{LIGHT_PREFIX}${parent}$"


def lite_topic_of(queue: str) -> tuple[str, str] | None:
    """(parent, lite topic) of a light queue; None if it is not a lite topic's."""
    parts = queue.split("$")
    if len(parts) != 3 or parts[0] != LIGHT_PREFIX or not parts[1] or not parts[2]:
        return None
    return parts[1], parts[2]


def settled_topic(topic: str) -> str:
    """The topic whose settings count: the parent of a lite topic's light queue, else the topic itself."""
    found = lite_topic_of(topic) if is_light_queue(topic) else None
    return topic if found is None else found[0]


def routed_topic(topic: str) -> str:
    """The topic whose route leads there: the parent of a lite topic's light queue; LIGHT_PREFIX for another light queue,
    because any broker may have it."""
    found = settled_topic(topic)
    return LIGHT_PREFIX if is_light_queue(found) else found


def light_entries(topic: str, lite_topic: str | None, light_queues: Sequence[str]) -> bytes:
    """The encoded properties of a message that goes into a lite topic, into light queues, or into both. Raises InvalidName,
    InvalidParameter."""
    if lite_topic is not None and not light_queues:  # of very many messages
        queue = lite_queue(topic, check_lite_topic(lite_topic))
        return (
            f"{LITE_TOPIC}{NAME_SEPARATOR}{lite_topic}{ENTRY_SEPARATOR}{LIGHT_QUEUES}{NAME_SEPARATOR}{queue}{_ROOM_ENTRY}"
        ).encode()
    if isinstance(light_queues, str) or not all(isinstance(name, str) for name in light_queues):
        raise InvalidParameter("light_queues", light_queues, 'a sequence of names, as ("%LMQ%a",)')
    if lite_topic is None:
        return encode_properties(light_properties(light_queues))
    queue = lite_queue(topic, check_lite_topic(lite_topic))
    return encode_properties({LITE_TOPIC: lite_topic, **light_properties((queue, *light_queues))})
