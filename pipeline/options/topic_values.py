"""The values of options' texts that name topics, groups, queues or messages in them. Pure.

Each function takes the option's name and its text, which is not empty, and raises InvalidParameter unless it says
otherwise.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal

from ...model.errors import InvalidParameter, OptionRefused
from ...model.names import check_group, check_topic
from ...model.subscription import Sql, Subscription
from ..reading.offsets import JSON_LENGTH_MAX, QUEUES_MAX, QueueKey
from .option import Kind
from .option_values import names, words

PATTERN_LENGTH_MAX: Final = 4096
QUERY_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,120}")

_TYPES: Final = ("normal", "retry", "dlq")
_NO_TYPES: Final = ("fifo", "delay", "transaction")
_SERVERS: Final[Kind[Literal["broker", "replica", "tiered"]]] = words("broker", "replica", "tiered")


def topic_name(name: str, text: str) -> str:
    """One topic. Raises InvalidName."""
    del name
    return check_topic(text)


def topics(name: str, text: str) -> tuple[str, ...]:
    """Topics, separated by commas. Also raises InvalidName."""
    return tuple(check_topic(topic) for topic in names(name, text))


def group_name(name: str, text: str) -> str:
    """A group. Raises InvalidName."""
    del name
    return check_group(text)


def pattern(name: str, text: str) -> str:
    """A regular expression."""
    if len(text) > PATTERN_LENGTH_MAX:
        raise InvalidParameter(name, f"{len(text)} characters", f"at most {PATTERN_LENGTH_MAX}")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidParameter(name, text[:200], f"a regular expression ({error})") from None
    return text


def queues(name: str, text: str) -> tuple[QueueKey, ...]:
    """Single queues, as JSON. Also raises InvalidName."""
    shape = 'JSON of the shape {"topic": {"broker": [0, 1]}}'
    try:
        document = json.loads(text) if len(text) <= JSON_LENGTH_MAX else {}
        rows = [
            (topic, broker, queue_id)
            for topic, brokers in document.items()
            for broker, queue_ids in brokers.items()
            for queue_id in queue_ids
        ]
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise InvalidParameter(name, text[:200], shape) from None
    if not rows or len(rows) > QUEUES_MAX:
        raise InvalidParameter(name, f"{len(rows)} queues", f"1 to {QUEUES_MAX}")
    for topic, _, queue_id in rows:
        check_topic(topic)
        if type(queue_id) is not int or not 0 <= queue_id < 1 << 30:
            raise InvalidParameter(name, str(queue_id)[:64], shape)
    return tuple(sorted({QueueKey(*row) for row in rows}))


def message_types(name: str, text: str) -> tuple[str, ...]:
    """Some of normal, retry, dlq. Raises OptionRefused for RocketMQ's types of topics."""
    types = names(name, text)
    for each in types:
        if each in _NO_TYPES:
            reason = f"{each}: a topic holds messages of any kind; see the columns messageGroup and deliverTimestamp"
            raise OptionRefused(name, reason)
        if each not in _TYPES:
            raise InvalidParameter(name, each[:64], ", ".join(_TYPES))
    return types


def tags(name: str, text: str) -> str:
    """A tag expression."""
    del name
    Subscription.parse("", text)
    return text


def condition(name: str, text: str) -> str:
    """A condition on properties. Raises SqlSyntaxError."""
    del name
    return Sql(text).text


def read_from(name: str, text: str) -> Literal["broker", "replica"]:
    """The kind of brokers to pull from. Raises OptionRefused for an unsupported one."""
    servers = _SERVERS(name, text)
    if servers == "tiered":
        raise OptionRefused(name, "this version has no tiered storage; broker or replica")
    return servers


def query_name(name: str, text: str) -> str:
    """The name of a query."""
    if QUERY_NAME.fullmatch(text) is None:
        raise InvalidParameter(name, text[:64], "letters, digits, '_', '.', '-', 1 to 120 characters")
    return text
