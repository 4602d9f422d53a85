"""QueryRoute, QueryAssignment, and the calls about offsets: what clients ask about queues."""

from __future__ import annotations

from typing import Any, Final

from ...remoting.commands import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    RequestFor,
    SearchOffset,
    UpdateConsumerOffsets,
)
from ..schema import enum_value, message_class
from .calls import ClientCall
from .mapping import TIME_MS_MAX, TYPES_OF_TOPIC, moment_ms
from .resources import group_of, topic_of
from .routes import assigned_queues, route_queues, told_endpoints
from .status import CallRefused, Code

_RouteResponse: Final = message_class("QueryRouteResponse")
_AssignmentResponse: Final = message_class("QueryAssignmentResponse")
_UpdateResponse: Final = message_class("UpdateOffsetResponse")
_GetResponse: Final = message_class("GetOffsetResponse")
_QueryResponse: Final = message_class("QueryOffsetResponse")
_BEGINNING, _END, _TIMESTAMP = (enum_value("QueryOffsetPolicy", name) for name in ("BEGINNING", "END", "TIMESTAMP"))


async def query_route(call: ClientCall, request: Any) -> Any:
    """Raises CallRefused, TopicNotFound, NoRoute."""
    topic, endpoints = topic_of(request.topic), told_endpoints(request.endpoints)
    route = await call.back.backend.route(topic, deadline_ms=call.deadline_ms)
    response = _RouteResponse()
    types = await _types(call, topic)
    response.message_queues.extend(route_queues(route, call.caller.namespace, endpoints, types))
    return _answered(response, has_some=bool(response.message_queues), topic=topic)


async def query_assignment(call: ClientCall, request: Any) -> Any:
    """Raises CallRefused, TopicNotFound, NoRoute."""
    topic, endpoints = topic_of(request.topic), told_endpoints(request.endpoints)
    group_of(request.group)
    route = await call.back.backend.route(topic, deadline_ms=call.deadline_ms)
    response = _AssignmentResponse()
    for queue in assigned_queues(route, call.caller.namespace, endpoints, await _types(call, topic)):
        response.assignments.add().message_queue.CopyFrom(queue)
    return _answered(response, has_some=bool(response.assignments), topic=topic)


async def _types(call: ClientCall, topic: str) -> tuple[int, ...]:
    topic_type = await call.back.settings.topic_type(topic, deadline_ms=call.deadline_ms)
    return TYPES_OF_TOPIC.get(topic_type, TYPES_OF_TOPIC["UNSPECIFIED"])


def _answered(response: Any, *, has_some: bool, topic: str) -> Any:
    """An empty answer would be an error in clients that they do not explain."""
    if not has_some:
        raise CallRefused(Code.HA_NOT_AVAILABLE, f"no broker serves topic {topic} at present: try again")
    response.status.code, response.status.message = Code.OK, "OK"
    return response


async def update_offset(call: ClientCall, request: Any) -> Any:
    """Commits a group's offset in a queue. Raises CallRefused, ZenitError."""
    queue = request.message_queue
    group, topic = group_of(request.group), topic_of(queue.topic)
    if request.offset < 0:
        raise CallRefused(Code.ILLEGAL_OFFSET, f"offset {request.offset}: at least 0")
    commit = UpdateConsumerOffsets(group, ((topic, queue.id, request.offset),), bounded=True)
    await call.back.backend.call(topic, queue.broker.name, commit, deadline_ms=call.deadline_ms)
    response = _UpdateResponse()
    response.status.code, response.status.message = Code.OK, "OK"
    return response


async def get_offset(call: ClientCall, request: Any) -> Any:
    """A group's committed offset in a queue. Raises CallRefused, ZenitError."""
    queue = request.message_queue
    group, topic = group_of(request.group), topic_of(queue.topic)
    asked = QueryConsumerOffset(group, topic, queue.id)
    reply, _ = await call.back.backend.call(topic, queue.broker.name, asked, deadline_ms=call.deadline_ms)
    if reply.offset < 0:
        raise CallRefused(Code.OFFSET_NOT_FOUND, f"group {group} has committed no offset in this queue")
    return _offset(_GetResponse(), reply.offset)


async def query_offset(call: ClientCall, request: Any) -> Any:
    """Where a queue begins, ends, or was at a time. Raises CallRefused, ZenitError."""
    queue = request.message_queue
    topic = topic_of(queue.topic)
    asked: RequestFor[OffsetReply]
    if request.query_offset_policy == _BEGINNING:
        asked = GetMinOffset(topic, queue.id)
    elif request.query_offset_policy == _END:
        asked = GetMaxOffset(topic, queue.id)
    elif request.query_offset_policy == _TIMESTAMP and request.HasField("timestamp"):
        at_ms = max(0, min(moment_ms(request.timestamp), TIME_MS_MAX))
        asked = SearchOffset(topic, queue.id, at_ms)
    else:
        raise CallRefused(Code.BAD_REQUEST, "query_offset_policy: BEGINNING, END, or TIMESTAMP with a timestamp")
    reply, _ = await call.back.backend.call(topic, queue.broker.name, asked, deadline_ms=call.deadline_ms)
    return _offset(_QueryResponse(), reply.offset)


def _offset(response: Any, offset: int) -> Any:
    response.status.code, response.status.message = Code.OK, "OK"
    response.offset = offset
    return response
