"""Finds the traces of one message and its copies in the log, and combines them for an administrator."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ...model.errors import CorruptRecordError, MessageNotFound, NoRoute, TopicNotFound, TraceDamaged
from ...model.names import retry_topic
from ...model.redelivery import dead_letter_group, dead_letter_origin, dead_letter_topic, origin_of
from .trace_format import Published, decode_trace
from .trace_journey import Document, Found, Told, groups_of, journey

if TYPE_CHECKING:
    from ...record.kernel import StoredMessage

log = logging.getLogger(__name__)

TRACE_MESSAGES_MAX: Final = 1_000
COPIES_MAX: Final = 64


class View(Protocol):
    """`Admin.view_message`."""

    async def __call__(self, message_id: str, *, topic: str | None, timeout: float) -> StoredMessage: ...


class Query(Protocol):
    """`Admin.query_by_key`, `query_by_id`."""

    async def __call__(self, topic: str, key: str, /, *, max_messages: int, timeout: float) -> list[StoredMessage]: ...


@dataclass(frozen=True, slots=True)
class Finder:
    """An administrator's calls that find messages, and how much time is left, in seconds."""

    view: View
    by_key: Query
    by_id: Query
    left_s: Callable[[], float]


async def find_journey(finder: Finder, message_id: str, *, topic: str | None, trace_topic: str) -> Document:
    """The journey of the message with this unique id or offset message id. Raises MessageNotFound if nothing is known."""
    message = await _message(finder, message_id, topic)
    unique_id = message_id if message is None else message.message_id
    told = await _told(finder, unique_id, trace_topic)
    if message is None and not told:
        raise MessageNotFound(f"id {message_id[:64]}, nor any trace of it")
    origin = _topic_of(message, told) if topic is None else topic
    if message is not None and message.topic != origin:  # the first one found was a copy on its way back to a group
        message = await _message(finder, unique_id, origin)
    found = [] if message is None else [_found("stored", copy) for copy in await _stored(finder, message)]
    for group in groups_of(unique_id, told):
        for event, name in (("retried", retry_topic(group)), ("dead_lettered", dead_letter_topic(group))):
            found += [_found(event, copy) for copy in await _copies(finder, unique_id, name)]
    return journey(unique_id, told, found)


def _topic_of(message: StoredMessage | None, told: Iterable[Told]) -> str | None:
    """The topic that the message was sent to; None if unknown."""
    for each in told:
        if isinstance(each.record, Published):
            return each.record.topic
    if message is None:
        return None
    lies_at = (message.offset_message_id, message.properties)
    is_dead = dead_letter_group(message.topic) is not None
    origin = dead_letter_origin(*lies_at) if is_dead else origin_of(message.topic, *lies_at)
    return origin.topic or message.topic


async def _message(finder: Finder, message_id: str, topic: str | None) -> StoredMessage | None:
    try:
        return await finder.view(message_id, topic=topic, timeout=finder.left_s())
    except (MessageNotFound, TopicNotFound, NoRoute):
        return None


async def _stored(finder: Finder, message: StoredMessage) -> list[StoredMessage]:
    """All copies in the message's topic with its id, also those sent again by a retry or a redrive."""
    copies = await _copies(finder, message.message_id, message.topic)
    if any(copy.offset_message_id == message.offset_message_id for copy in copies):
        return copies
    return [message, *copies]  # it is in no index


async def _told(finder: Finder, unique_id: str, trace_topic: str) -> list[Told]:
    told: list[Told] = []
    try:
        messages = await finder.by_key(trace_topic, unique_id, max_messages=TRACE_MESSAGES_MAX, timeout=finder.left_s())
    except (TopicNotFound, NoRoute):
        return told
    for message in messages:
        client = str(ipaddress.ip_address(message.born_host[:-4]))
        try:
            told += [Told(record, client) for record in decode_trace(message.body)]
        except (TraceDamaged, CorruptRecordError) as error:
            log.warning("a trace message is left out id=%s error=%s", message.offset_message_id, error)
    return told


async def _copies(finder: Finder, unique_id: str, topic: str) -> list[StoredMessage]:
    try:
        return await finder.by_id(topic, unique_id, max_messages=COPIES_MAX, timeout=finder.left_s())
    except (TopicNotFound, NoRoute):
        return []


def _found(event: str, message: StoredMessage) -> Found:
    return Found(
        event=event,
        topic=message.topic,
        broker_name=message.broker_name,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        offset_message_id=message.offset_message_id,
        stored_at_ms=message.stored_at_ms,
        attempt=message.reconsume_times,
    )
