"""Decides whether a request for a topic's queue is allowed. Pure."""

from __future__ import annotations

from ...model.errors import InvalidParameter, NoPermission, TopicNotFound, ZenitError
from ...model.names import check_topic, is_routed_topic
from ...model.route import PERMISSION_READ, PERMISSION_WRITE, TopicConfig
from .topic_table import TopicTable


def send_refusal(topics: TopicTable, topic: str, queue_id: int) -> ZenitError:
    """The reason why a batch for a queue missing in `write_queues` is refused. Raises InvalidName for an invalid topic name."""
    if not is_routed_topic(topic):
        return NoPermission(f"system topic {topic}", "sending")
    config = topics.configs.get(check_topic(topic))
    if config is None:
        return TopicNotFound(topic)
    if not config.permission & PERMISSION_WRITE:
        return NoPermission(f"topic {topic}", "sending")
    return InvalidParameter("queue_id", queue_id, f"0 to {config.write_queues - 1} of topic {topic}")


def queues_to_create(topics: TopicTable, topic: str, queue_id: int, queues: int) -> int:
    """The number of queues with which a send to an unknown queue creates its topic: `queues`, if it may.

    Raises the reason why the send is refused.
    """
    refusal = send_refusal(topics, topic, queue_id)
    if not isinstance(refusal, TopicNotFound) or not 0 <= queue_id < queues:
        raise refusal
    return queues


def readable(topics: TopicTable, topic: str, queue_id: int) -> TopicConfig:
    """The topic, if this queue may be read. Raises TopicNotFound, NoPermission, InvalidParameter."""
    config = known(topics, topic, queue_id)
    if not config.permission & PERMISSION_READ:
        raise NoPermission(f"topic {topic}", "reading")
    return config


def known(topics: TopicTable, topic: str, queue_id: int) -> TopicConfig:
    """The topic, if the queue exists. Raises TopicNotFound, InvalidParameter."""
    config = topics.configs.get(topic)
    if config is None:
        raise TopicNotFound(topic[:255])
    queues = max(config.read_queues, config.write_queues)
    if not 0 <= queue_id < queues:
        raise InvalidParameter("queue_id", queue_id, f"0 to {queues - 1} of topic {topic}")
    return config


def queue_count(topics: TopicTable, topic: str) -> int:
    """The number of queues of a topic that accept messages; 0: there is no such topic."""
    config = topics.configs.get(topic)
    return 0 if config is None else max(1, config.write_queues)
