"""Names of topics and groups, as the protocol has them: a name and a namespace. Pure.

In the cluster a name of a namespace is "namespace%name", as RocketMQ's proxy has it. A group's retry topic and dead letters
keep their prefix in front: "%RETRY%namespace%name".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from ...model.errors import InvalidName
from ...model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, check_group, check_topic, is_system_topic
from .status import CallRefused, Code

SEPARATOR = "%"
KNOWN_MAX: Final = 4096
"""Names that were right are remembered: one is checked with each call."""


def topic_of(resource: Any) -> str:
    """The topic that a Resource names. Raises CallRefused."""
    return _topic(resource.name, resource.resource_namespace)


@lru_cache(KNOWN_MAX)
def _topic(given: str, namespace: str) -> str:
    """Raises CallRefused."""
    name = _qualified(given, namespace)
    try:
        check_topic(name)
    except InvalidName as error:
        raise CallRefused(Code.ILLEGAL_TOPIC, str(error)) from None
    if is_system_topic(name):
        raise CallRefused(Code.ILLEGAL_TOPIC, f"topic {name!r} is the system's own")
    return name


def group_of(resource: Any) -> str:
    """The consumer group that a Resource names. Raises CallRefused."""
    return _group(resource.name, resource.resource_namespace)


@lru_cache(KNOWN_MAX)
def _group(given: str, namespace: str) -> str:
    """Raises CallRefused."""
    name = _qualified(given, namespace)
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


def _qualified(name: str, namespace: str) -> str:
    if not namespace or not name:
        return name
    prefix, rest = _split(name)
    return name if rest.startswith(namespace + SEPARATOR) else f"{prefix}{namespace}{SEPARATOR}{rest}"


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
