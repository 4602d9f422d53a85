"""The settings of a group's retry topic and dead-letter topic, and whether they are already in place. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ...model.names import retry_topic
from ...model.redelivery import dead_letter_topic
from ...model.route import PERMISSION_READ_WRITE, TopicConfig

QUEUES_MAX: Final = 1024


def retry_queues_of(group: Mapping[str, Any]) -> int:
    """The number of queues that a group's document sets for its retry topic; 1 if it is missing or invalid."""
    value = group.get("retryQueueNums")
    return value if type(value) is int and 1 <= value <= QUEUES_MAX else 1


def wanted_retry_topic(
    topics: Mapping[str, TopicConfig], group: str, document: Mapping[str, Any]
) -> TopicConfig | None:
    """The settings to give the group's retry topic; None if it has them. The number of queues never decreases."""
    return _wanted(topics, retry_topic(group), retry_queues_of(document))


def wanted_dead_letter_topic(topics: Mapping[str, TopicConfig], group: str) -> TopicConfig | None:
    """The same for the topic of its dead letters, which has one queue and may be read."""
    return _wanted(topics, dead_letter_topic(group), 1)


def _wanted(topics: Mapping[str, TopicConfig], name: str, queues: int) -> TopicConfig | None:
    known = topics.get(name)
    if known is None:
        return TopicConfig(name, read_queues=queues, write_queues=queues, permission=PERMISSION_READ_WRITE)
    if known.read_queues >= queues and known.write_queues >= queues:
        return None
    return replace(known, read_queues=max(known.read_queues, queues), write_queues=max(known.write_queues, queues))
