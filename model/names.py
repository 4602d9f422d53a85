"""The rules for topic and group names, checked before a name becomes a path, and the reserved names. Pure."""

from __future__ import annotations

import re
from typing import Final

from .errors import InvalidName

VERSION: Final = "0.1.0"
"""Ours, as in pyproject.toml; to ask the installation takes some ms, under Spark 60."""

TOPIC_LENGTH_MAX: Final = 127
GROUP_LENGTH_MAX: Final = 120
QUERY_LENGTH_MAX: Final = 255
SYSTEM_TOPIC_LENGTH_MAX: Final = 255  # retry and dead-letter topics carry a group's and a topic's name

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
UNDECIDED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
AUDIT_TOPIC: Final = "ZENIT_AUDIT"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
COMMAND_GROUP: Final = "zenit-cli"
"""The group of producers that name none, and of `zenit produce`: everybody may be in them."""

STATE_TOPICS: Final = (
    "rmq_sys_zenit_topics",
    "rmq_sys_zenit_groups",
    "rmq_sys_zenit_offsets",
    "rmq_sys_zenit_locks",
    "rmq_sys_zenit_queries",
    "rmq_sys_zenit_pops",
    "rmq_sys_zenit_security",
)
"""Ours: topics, groups, consumer offsets, queue locks, the offsets that queries began at, what is popped, and users and roles,
as records of the log (docs/formats/state-events.md)."""

SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        HALF_OP_TOPIC,
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        UNDECIDED_TOPIC,
        TRACE_TOPIC,
        AUDIT_TOPIC,
        "CHECKPOINT_TOPIC",
        *STATE_TOPICS,
    }
)
SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_")

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
_RULE = "letters, digits, '_', '-', '%', '|' only, 1 to {} characters"


def is_system_topic(topic: str) -> bool:
    """True for topics clients may not create, delete or send to (retry and dead-letter topics are not among them)."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_routed_topic(topic: str) -> bool:
    """True for topics that clients find through the name servers: all except the system's own; traces and the audit, too."""
    return topic in (TRACE_TOPIC, AUDIT_TOPIC) or not is_system_topic(topic)


def topic_length_max(topic: str) -> int:
    """127 characters, 255 for retry and dead-letter topics."""
    return SYSTEM_TOPIC_LENGTH_MAX if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) else TOPIC_LENGTH_MAX


def check_topic(topic: str) -> str:
    """Returns the name; raises InvalidName if it breaks the rule."""
    if not isinstance(topic, str):
        raise InvalidName("topic", repr(topic), "a text")
    limit = topic_length_max(topic)
    if not 1 <= len(topic) <= limit or _ALLOWED.fullmatch(topic) is None:
        raise InvalidName("topic", topic, _RULE.format(limit))
    return topic


def check_group(group: str) -> str:
    """Returns the name; raises InvalidName if it breaks the rule."""
    if not isinstance(group, str):
        raise InvalidName("group", repr(group), "a text")
    if not 1 <= len(group) <= GROUP_LENGTH_MAX or _ALLOWED.fullmatch(group) is None:
        raise InvalidName("group", group, _RULE.format(GROUP_LENGTH_MAX))
    return group


def check_query(query: str) -> str:
    """Returns the name of a streaming query: any printable text, because other programs choose it. Raises InvalidName."""
    if not 1 <= len(query) <= QUERY_LENGTH_MAX or not query.isprintable():
        raise InvalidName("query", query, f"printable characters only, 1 to {QUERY_LENGTH_MAX} of them")
    return query


def retry_topic(group: str) -> str:
    """The topic for a group's failed messages."""
    return RETRY_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic for the replies to requests; each broker of the cluster has its own."""
    return cluster + REPLY_TOPIC_SUFFIX
