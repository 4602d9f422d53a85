"""Queues of a topic, as a client is told of them: all are at the proxy, by the address that the client came by. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...model.route import PERMISSION_READ, PERMISSION_WRITE, TopicRoute
from ..schema import enum_value, message_class
from .resources import fill_resource
from .status import CallRefused, Code

ANY_QUEUE: Final = -1
"""The queue of an assignment: the proxy pops from all of the broker."""

_READ, _WRITE, _READ_WRITE = (enum_value("Permission", name) for name in ("READ", "WRITE", "READ_WRITE"))
_UNSPECIFIED, _DOMAIN = (enum_value("AddressScheme", name) for name in ("ADDRESS_SCHEME_UNSPECIFIED", "DOMAIN_NAME"))
_MessageQueue: Final = message_class("MessageQueue")
_Endpoints: Final = message_class("Endpoints")


def told_endpoints(endpoints: Any) -> Any:
    """Those of a request, as they are given back: of a domain name one address, clients take no more. Raises CallRefused."""
    if not endpoints.addresses or endpoints.scheme == _UNSPECIFIED:
        raise CallRefused(
            Code.ILLEGAL_ACCESS_POINT, "endpoints: a scheme and at least one address, as the client is configured"
        )
    told = _Endpoints()
    told.CopyFrom(endpoints)
    if told.scheme == _DOMAIN:
        del told.addresses[1:]
    return told


def route_queues(route: TopicRoute, namespace: str, endpoints: Any, types: Sequence[int]) -> list[Any]:
    """Every queue of every broker name that has a master. `types`: of messages that the topic takes."""
    masters = {broker.broker_name for broker in route.brokers if broker.master_address is not None}
    queues = []
    for data in sorted(route.queues, key=lambda one: one.broker_name):
        if data.broker_name not in masters:
            continue
        readable = data.read_queues if data.permission & PERMISSION_READ else 0
        writable = data.write_queues if data.permission & PERMISSION_WRITE else 0
        for queue_id in range(max(readable, writable)):
            permission = _READ_WRITE if queue_id < min(readable, writable) else _READ if queue_id < readable else _WRITE
            queues.append(_queue(route.topic, data.broker_name, queue_id, permission, namespace, endpoints, types))
    return queues


def assigned_queues(route: TopicRoute, namespace: str, endpoints: Any, types: Sequence[int]) -> list[Any]:
    """What a push consumer receives from: each broker name once, since brokers share messages out to whoever asks."""
    return [
        _queue(route.topic, name, ANY_QUEUE, _READ, namespace, endpoints, types)
        for name in sorted({queue.broker_name for queue in route.read_queues()})
        if route.address_of(name) is not None
    ]


def _queue(
    topic: str, broker_name: str, queue_id: int, permission: int, namespace: str, endpoints: Any, types: Sequence[int]
) -> Any:
    queue = _MessageQueue()
    fill_resource(queue.topic, topic, namespace)
    queue.id, queue.permission = queue_id, permission
    queue.broker.name, queue.broker.id = broker_name, 0
    queue.broker.endpoints.CopyFrom(endpoints)
    queue.accept_message_types.extend(types)
    return queue
