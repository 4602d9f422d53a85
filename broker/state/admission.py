"""Decides whether a request for a topic's queue is allowed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ...model.errors import (
    CorruptRecordError,
    MessageIllegal,
    NoPermission,
    QueueNotFound,
    RemoteProtocolError,
    TopicNotFound,
    ZenitError,
)
from ...model.names import AUDIT_TOPIC, check_topic, is_routed_topic
from ...model.properties import KEYS
from ...model.route import PERMISSION_READ, PERMISSION_WRITE, TopicConfig
from ...model.topics.light_queues import is_light_queue, settled_topic
from ...record.kernel import decode_batch
from .topic_table import TopicTable


def send_refusal(topics: TopicTable, topic: str, queue_id: int) -> ZenitError:
    """The reason why a batch for a queue missing in `write_queues` is refused. Raises InvalidName for an invalid topic name."""
    if not is_routed_topic(topic) or topic == AUDIT_TOPIC:
        return NoPermission(f"system topic {topic}", "sending")
    config = topics.configs.get(check_topic(topic))
    if config is None:
        return TopicNotFound(topic)
    if not config.permission & PERMISSION_WRITE:
        return NoPermission(f"topic {topic}", "sending")
    if config.is_compacted and 0 <= queue_id < config.write_queues:
        return MessageIllegal(f"topic {topic} is compacted: it takes no delayed and no transactional messages")
    if config.is_batched and 0 <= queue_id < config.write_queues:
        return MessageIllegal(
            f"topic {topic} takes batches (queue.type=BatchCQ): no delayed, transactional or idempotent messages"
        )
    return QueueNotFound(topic, queue_id, config.write_queues)


def takes_keyed(topics: TopicTable, topic: str, queue_id: int) -> bool:
    """Whether this is a queue of a compacted topic that takes messages, each under one key."""
    config = topics.compacted.get(topic)
    return config is not None and bool(config.permission & PERMISSION_WRITE) and 0 <= queue_id < config.write_queues


def check_keyed(topic: str, records: bytes) -> None:
    """Raises MessageIllegal if a message does not have one key. Records that are damaged are left to those who store them."""
    with suppress(CorruptRecordError, RemoteProtocolError):
        for message in decode_batch(records):
            keys = message.properties.get(KEYS, "").split(" ")
            if len(keys) != 1 or not keys[0]:
                found = "no key" if not any(keys) else f"{len(keys)} keys"
                raise MessageIllegal(
                    f"topic {topic} is compacted: each message has exactly one key, this one has {found}"
                )


def queues_to_create(topics: TopicTable, topic: str, queue_id: int, queues: int) -> int:
    """The number of queues with which a send to an unknown queue creates its topic: `queues`, if it may.

    Raises the reason why the send is refused.
    """
    refusal = send_refusal(topics, topic, queue_id)
    if not isinstance(refusal, TopicNotFound) or not 0 <= queue_id < queues:
        raise refusal
    return queues


def readable(topics: TopicTable, topic: str, queue_id: int) -> TopicConfig:
    """The topic, if this queue may be read. Raises TopicNotFound, NoPermission, QueueNotFound."""
    config = known(topics, topic, queue_id)
    if not config.permission & PERMISSION_READ:
        raise NoPermission(f"topic {topic}", "reading")
    return config


def known(topics: TopicTable, topic: str, queue_id: int) -> TopicConfig:
    """The topic, if the queue exists. Raises TopicNotFound, QueueNotFound."""
    config = topics.configs.get(topic)
    if config is None:
        raise TopicNotFound(topic[:255])
    queues = max(config.read_queues, config.write_queues)
    if not 0 <= queue_id < queues:
        raise QueueNotFound(topic, queue_id, queues)
    return config


def readable_queue(
    topics: TopicTable, topic: str, queue_id: int, has_light_queue: Callable[[str], bool], *, incarnation: int = 0
) -> None:
    """The same for a queue that may be a light one: those have no settings, so one that exists may be read; one of a lite topic
    if its parent may. `incarnation`: of the topic, 0 = any. Raises TopicMadeAnew, too."""
    if not is_light_queue(topic):
        readable(topics, topic, queue_id)
    elif queue_id or not has_light_queue(topic):
        raise TopicNotFound(topic[:255])
    elif settled_topic(topic) != topic:
        readable(topics, settled_topic(topic), 0)
    if incarnation:
        topics.check_incarnation(settled_topic(topic), incarnation)


def queue_count(topics: TopicTable, topic: str) -> int:
    """The number of queues of a topic that accept messages; 0: there is no such topic."""
    config = topics.configs.get(topic)
    return 0 if config is None else max(1, config.write_queues)
