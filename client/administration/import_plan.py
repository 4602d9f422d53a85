"""How exported messages are sent again: which are, as what, and in which batches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...model.export_line import ExportedMessage
from ...model.message import BODY_BYTES_MAX, Message
from ...model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system_topic
from ...model.properties import KEYS, PRIORITY, RESERVED, TAGS, decode_properties
from ...model.topics.light_queues import (
    LIGHT_QUEUES,
    LIGHT_SEPARATOR,
    LITE_TOPIC,
    is_light_queue,
    lite_topic_of,
)

IMPORT_ORIGIN: Final = "IMPORT_ORIGIN"  # orders:3/1234
IMPORT_MESSAGE_ID: Final = "IMPORT_MESSAGE_ID"
_BATCH_MESSAGES: Final = 256
_PRIORITIES: Final = frozenset(map(str, range(10)))
"""Others, which no producer of ours sets, say nothing of the queue."""


@dataclass(frozen=True, slots=True)
class Lot:
    """Messages of one queue or one lite topic, in its order, to be stored in one queue next to each other. `sharding_key`: None
    where the lite topic's name, or the priority, says which queue."""

    topic: str
    sharding_key: str | None
    messages: Sequence[Message]


def is_imported(topic: str) -> bool:
    """False for topics that no producer sends to: the system's, and the copies in retry and dead-letter topics."""
    return not is_system_topic(topic) and not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def queues_needed(topics: Mapping[str, Mapping[str, Any]], highest: Mapping[str, int]) -> dict[str, int]:
    """{topic: how many queues it is made with}: as many as it had, and one for each queue that has messages."""
    return {
        topic: max(queue_id + 1, _number(topics.get(topic, {}).get("queues")))
        for topic, queue_id in highest.items()
        if is_imported(topic)
    }


def message_of(exported: ExportedMessage) -> Message:
    """What is sent: the producer's own part, to the same lite topic and light queues, with the same priority, and in two
    properties where it lay and its former id."""
    properties = decode_properties(exported.properties)
    lite_topic, priority = properties.get(LITE_TOPIC), properties.get(PRIORITY, "")
    own = {name: value for name, value in properties.items() if name not in RESERVED}
    own[IMPORT_ORIGIN] = f"{exported.topic}:{exported.queue_id}/{exported.queue_offset}"
    own[IMPORT_MESSAGE_ID] = exported.message_id
    return Message(
        exported.topic,
        exported.body,
        tags=properties.get(TAGS),
        keys=properties.get(KEYS, "").split(),
        properties=own,
        flag=exported.flag,
        lite_topic=lite_topic,
        priority=int(priority) if lite_topic is None and priority in _PRIORITIES else None,
        light_queues=[
            name for name in _light_queues(properties) if is_light_queue(name) and lite_topic_of(name) is None
        ],
    )


def _light_queues(properties: Mapping[str, str]) -> list[str]:
    """Those that it went into, of whatever kind."""
    return properties.get(LIGHT_QUEUES, "").split(LIGHT_SEPARATOR)


def lots(exported: Iterable[ExportedMessage]) -> Iterator[Lot]:
    """The messages of a window, by queue. The messages of a queue have one sharding key, so they stay together and in order;
    so do those of a lite topic by its name, and those of a queue and a priority by that."""
    queues: dict[tuple[str, int, str | None, int | None], list[Message]] = {}
    for one in exported:
        message = message_of(one)
        queues.setdefault((one.topic, one.queue_id, message.lite_topic, message.priority), []).append(message)
    for (topic, queue_id, lite_topic, priority), messages in queues.items():
        key = str(queue_id) if lite_topic is None and priority is None else None
        begin = size = 0
        for at, message in enumerate(messages):
            if at > begin and (at - begin >= _BATCH_MESSAGES or size + len(message.body) > BODY_BYTES_MAX):
                yield Lot(topic, key, messages[begin:at])
                begin, size = at, 0
            size += len(message.body)
        yield Lot(topic, key, messages[begin:])


def _number(value: object) -> int:
    return value if isinstance(value, int) else 1
