"""The properties of a failed message on its way: to the group's retry topic, to its dead letters, and back. Pure.

    trades ---> %RETRY%group ---> %RETRY%group ... ---> %DLQ%group ---> trades again (redrive)

The body and the sender's properties do not change; a few of RocketMQ's properties do, here. An *origin* is where the
message was sent first: its topic, and the offset message id that it had there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from .plain_dataclass import dataclass
from .properties import (
    DEAD_LETTER_MESSAGE_ID,
    DEAD_LETTER_REASON,
    DEAD_LETTER_TOPIC,
    ORIGIN_MESSAGE_ID,
    PROPERTIES_BYTES_MAX,
    RETRY_TOPIC,
    UNIQUE_KEY,
    encode_properties,
)

REASON_BYTES_MAX: Final = 1024

OF_ONE_DELIVERY: Final = frozenset(
    """DELAY TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
    TIMER_ROLL_TIMES TIMER_DEL_UNIQKEY REAL_TOPIC REAL_QID WAIT RECONSUME_TIME MAX_RECONSUME_TIMES CONSUME_START_TIME
    TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET MIN_OFFSET MAX_OFFSET POP_CK POP_CK_OFFSET 1ST_POP_TIME PSEQ POP_LEASE
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET""".split()
)
"""Properties of one delivery of a message; the next delivery must not inherit them. A copy goes into no light queue."""

_MADE_ON_THE_WAY: Final = OF_ONE_DELIVERY | {
    RETRY_TOPIC,
    ORIGIN_MESSAGE_ID,
    DEAD_LETTER_TOPIC,
    DEAD_LETTER_MESSAGE_ID,
    DEAD_LETTER_REASON,
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message was sent first. `message_id`: its offset message id there."""

    topic: str
    message_id: str


def origin_of(topic: str, message_id: str, properties: Mapping[str, str]) -> Origin:
    """The origin of a message in `topic` with the offset message id `message_id`."""
    if not is_retry_topic(topic):
        return Origin(topic, message_id)
    return Origin(properties.get(RETRY_TOPIC) or topic, properties.get(ORIGIN_MESSAGE_ID) or message_id)


def dead_letter_origin(message_id: str, properties: Mapping[str, str]) -> Origin:
    """The origin of a dead letter; its topic is "" if unknown."""
    return Origin(
        properties.get(DEAD_LETTER_TOPIC) or properties.get(RETRY_TOPIC) or "",
        properties.get(DEAD_LETTER_MESSAGE_ID) or properties.get(ORIGIN_MESSAGE_ID) or message_id,
    )


def dead_letter_group(topic: str) -> str | None:
    """The group whose dead letters a topic holds; None for any other topic."""
    group = topic.removeprefix(DEAD_LETTER_PREFIX)
    return group if group and group != topic else None


def dead_letter_topic(group: str) -> str:
    """The topic of the messages that a group gave up."""
    return DEAD_LETTER_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    """Whether it is a topic for messages on their way back to a group."""
    return topic.startswith(RETRY_PREFIX)


def retry_properties(properties: Mapping[str, str], origin: Origin) -> dict[str, str]:
    """The properties of a message that comes again later."""
    return {**_as_sent(properties), RETRY_TOPIC: origin.topic, ORIGIN_MESSAGE_ID: origin.message_id}


def dead_letter_properties(properties: Mapping[str, str], origin: Origin, reason: str) -> dict[str, str]:
    """The properties of a message that is given up. The reason is cut to REASON_BYTES_MAX bytes, and to the available room.

    Raises MessageTooLarge if there is no room for the origin.
    """
    letter = {
        **retry_properties(properties, origin),
        DEAD_LETTER_TOPIC: origin.topic,
        DEAD_LETTER_MESSAGE_ID: origin.message_id,
    }
    room = PROPERTIES_BYTES_MAX - len(encode_properties(letter)) - len(DEAD_LETTER_REASON) - 2
    text = cut_text(reason, min(REASON_BYTES_MAX, room))
    return {**letter, DEAD_LETTER_REASON: text} if text else letter


def redriven_properties(properties: Mapping[str, str], origin: Origin) -> dict[str, str]:
    """The properties of a dead letter that is sent again: as its first sender set them, with its unique id.

    If it has no unique id it keeps its first offset message id, so that it can be recognized as the same message.
    """
    kept = _as_sent(properties)
    return kept if UNIQUE_KEY in kept else {**kept, ORIGIN_MESSAGE_ID: origin.message_id}


def cut_text(text: str, bytes_max: int) -> str:
    """A text that a property may hold: no separators, at most so many bytes of UTF-8, no character cut in two."""
    plain = text.replace("\x01", " ").replace("\x02", " ")
    return plain.encode("utf-8", "replace")[: max(0, bytes_max)].decode("utf-8", "ignore")


def _as_sent(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in _MADE_ON_THE_WAY}
