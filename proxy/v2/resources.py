"""Names of topics and groups, as the protocol has them: a name and a namespace. Pure.

In the cluster a name of a namespace is "namespace%name", as RocketMQ's proxy has it. A group's retry topic and dead letters
keep their prefix in front: "%RETRY%namespace%name".
"""

from __future__ import annotations

from typing import Any

from ...model.errors import InvalidName
from ...model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, check_group, check_topic, is_system_topic
from .status import CallRefused, Code

SEPARATOR = "%"


def topic_of(resource: Any) -> str:
    """The topic that a Resource names. Raises CallRefused."""
    name = _qualified(resource)
    try:
        check_topic(name)
    except InvalidName as error:
        raise CallRefused(Code.ILLEGAL_TOPIC, str(error)) from None
    if is_system_topic(name):
        raise CallRefused(Code.ILLEGAL_TOPIC, f"topic {name!r} is the system's own")
    return name


def group_of(resource: Any) -> str:
    """The consumer group that a Resource names. Raises CallRefused."""
    name = _qualified(resource)
    try:
        return check_group(name)
    except InvalidName as error:
        raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None


def fill_resource(resource: Any, name: str, namespace: str) -> None:
    """Names a topic or group to a client of a namespace."""
    prefix, rest = _split(name)
    if namespace and rest.startswith(namespace + SEPARATOR):
        resource.resource_namespace = namespace
        resource.name = prefix + rest[len(namespace) + 1 :]
    else:
        resource.name = name


def _qualified(resource: Any) -> str:
    name, namespace = str(resource.name), str(resource.resource_namespace)
    if not namespace or not name:
        return name
    prefix, rest = _split(name)
    return name if rest.startswith(namespace + SEPARATOR) else f"{prefix}{namespace}{SEPARATOR}{rest}"


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
