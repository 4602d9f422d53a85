"""Requests to a name server, and of administrators: routes, topics, groups, their figures; questions to a client."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import InvalidParameter, RemoteProtocolError, TopicNotFound, ZenitError
from ...model.ids import parse_offset_message_id
from ...model.names import REPLY_TOPIC_SUFFIX, RETRY_PREFIX
from ...model.route import PERMISSION_READ_WRITE, BrokerData, QueueData, TopicRoute
from ...model.security.signatures import ACCESS_KEY_FIELD, SIGNATURE_FIELD
from ...remoting.commands import (
    CreateGroup,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DeleteTopicRoute,
    GetConsumerList,
    GetConsumeStatistics,
    GetGroupClients,
    GetTopicList,
    GetTopicStatistics,
    JsonReply,
    RequestFor,
    ResetOffsets,
    ViewMessage,
)
from .bodies import (
    cluster_body,
    consume_statistics_body,
    offset_table_body,
    read_group_settings,
    topic_list_body,
    topic_statistics_body,
)
from .calls import DONE, BrokerPorts, ClassicAnswer, ClassicCall, ClassicHandler
from .clients import ClassicClient, ClassicClients
from .codes import ClassicCode, ClassicStatus
from .frames import ClassicFrame
from .records import readable, readable_records
from .routes import route_body

TOPICS_PAGE: Final = 1_000
TOPICS_MAX: Final = 100_000
ROUTE_MS: Final = 1_500
"""A route that nobody serves yet is waited for so long."""
_NOW: Final = -1
_SIGNED_WITH: Final = (ACCESS_KEY_FIELD, SIGNATURE_FIELD)


class ClusterHandlers:
    """On the event loop."""

    def __init__(self, ports: BrokerPorts, clients: ClassicClients) -> None:
        self._ports = ports
        self._clients = clients

    def handlers(self) -> dict[int, ClassicHandler]:
        """Those that it answers."""
        return {
            ClassicCode.GET_ROUTEINFO_BY_TOPIC: self.on_route,
            ClassicCode.GET_BROKER_CLUSTER_INFO: self.on_cluster,
            ClassicCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.on_topics,
            ClassicCode.GET_TOPICS_BY_CLUSTER: self.on_topics,
            ClassicCode.UPDATE_AND_CREATE_TOPIC: self.on_create_topic,
            ClassicCode.DELETE_TOPIC_IN_BROKER: self.on_delete_topic,
            ClassicCode.DELETE_TOPIC_IN_NAMESRV: self.on_delete_route,
            ClassicCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.on_create_group,
            ClassicCode.DELETE_SUBSCRIPTIONGROUP: self.on_delete_group,
            ClassicCode.GET_TOPIC_STATS_INFO: self.on_topic_statistics,
            ClassicCode.GET_CONSUME_STATS: self.on_consume_statistics,
            ClassicCode.INVOKE_BROKER_TO_RESET_OFFSET: self.on_reset,
            ClassicCode.GET_CONSUMER_RUNNING_INFO: self.on_running_info,
            ClassicCode.CONSUME_MESSAGE_DIRECTLY: self.on_consume_directly,
        }

    # ---- name server

    async def on_route(self, call: ClassicCall) -> ClassicAnswer:
        """GET_ROUTEINFO_BY_TOPIC."""
        deadline_ms = min(call.deadline_ms, monotonic_ms() + ROUTE_MS)
        topic = call.fields.text("topic")
        if topic.endswith(REPLY_TOPIC_SUFFIX):
            cluster = topic.removesuffix(REPLY_TOPIC_SUFFIX)
            route = cluster_route(topic, cluster, await call.back.backend.cluster(deadline_ms=deadline_ms))
        else:
            try:
                route = await call.back.backend.route(topic, deadline_ms=deadline_ms)
            except TopicNotFound:  # tools ask for the brokers of a cluster, of a group, and for one, by the name
                document = await call.back.backend.cluster(deadline_ms=call.deadline_ms)
                if topic.startswith(RETRY_PREFIX):
                    group = topic.removeprefix(RETRY_PREFIX)
                    names = await call.back.settings.brokers_of(group, deadline_ms=call.deadline_ms)
                    route = group_route(topic, names, document)
                else:
                    route = cluster_route(topic, topic, document)
        await self._learn(call, {broker.broker_name for broker in route.brokers})
        return ClassicAnswer(body=route_body(route, self._ports.addresses))

    async def _learn(self, call: ClassicCall, broker_names: set[str]) -> None:
        """Opens the ports of new brokers: of all at a time, so that their order is that of the names."""
        if not broker_names <= self._ports.addresses.keys():
            masters = await call.back.backend.masters(deadline_ms=call.deadline_ms)
            self._ports.learn(broker_names | masters.keys())

    async def on_cluster(self, call: ClassicCall) -> ClassicAnswer:
        """GET_BROKER_CLUSTER_INFO."""
        document = await call.back.backend.cluster(deadline_ms=call.deadline_ms)
        try:
            self._ports.learn({row["broker_name"] for row in document["brokers"] if row["broker_id"] == 0})
            return ClassicAnswer(body=cluster_body(document, self._ports.addresses))
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError("what a name server tells of the cluster cannot be read") from error

    async def on_topics(self, call: ClassicCall) -> ClassicAnswer:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER, and GET_TOPICS_BY_CLUSTER: name servers are of one cluster."""
        topics: list[str] = []
        while len(topics) < TOPICS_MAX:
            request = GetTopicList(topics[-1] if topics else "", TOPICS_PAGE)
            reply, _ = await call.back.backend.ask_name_server(request, deadline_ms=call.deadline_ms)
            topics += reply.topics
            if not reply.has_more or not reply.topics:
                break
        return ClassicAnswer(body=topic_list_body(topics))

    # ---- administration

    async def on_create_topic(self, call: ClassicCall) -> ClassicAnswer:
        """UPDATE_AND_CREATE_TOPIC, at one broker."""
        fields = call.fields
        request = CreateTopic(
            fields.text("topic"),
            fields.number("readQueueNums"),
            fields.number("writeQueueNums"),
            fields.number("perm") & PERMISSION_READ_WRITE,
            fields.flag("order"),
            tuple(topic_attributes(fields.text("attributes")).items()),
        )
        name = await self._at_broker(call, request)
        await call.await_route(request.topic, name)
        return DONE

    async def on_delete_topic(self, call: ClassicCall) -> ClassicAnswer:
        """DELETE_TOPIC_IN_BROKER."""
        await self._at_broker(call, DeleteTopic(call.fields.text("topic")))
        return DONE

    async def on_delete_route(self, call: ClassicCall) -> ClassicAnswer:
        """DELETE_TOPIC_IN_NAMESRV."""
        request = DeleteTopicRoute(call.fields.text("topic"))
        await call.back.backend.ask_name_server(request, deadline_ms=call.deadline_ms)
        return DONE

    async def on_create_group(self, call: ClassicCall) -> ClassicAnswer:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
        group, settings = read_group_settings(call.frame.body)
        await self._at_broker(call, CreateGroup(group, settings))
        return DONE

    async def on_delete_group(self, call: ClassicCall) -> ClassicAnswer:
        """DELETE_SUBSCRIPTIONGROUP."""
        await self._at_broker(call, DeleteGroup(call.fields.text("groupName")))
        return DONE

    async def on_topic_statistics(self, call: ClassicCall) -> ClassicAnswer:
        """GET_TOPIC_STATS_INFO."""
        topic = call.fields.text("topic")
        name, document = await self._document(call, GetTopicStatistics(topic))
        return ClassicAnswer(body=topic_statistics_body(topic, name, document["queues"]))

    async def on_consume_statistics(self, call: ClassicCall) -> ClassicAnswer:
        """GET_CONSUME_STATS."""
        name, document = await self._document(call, GetConsumeStatistics(call.fields.text("consumerGroup")))
        return ClassicAnswer(body=consume_statistics_body(name, document["queues"], call.fields.text("topic")))

    async def on_reset(self, call: ClassicCall) -> ClassicAnswer:
        """INVOKE_BROKER_TO_RESET_OFFSET: to an offset of one queue, or to a time, -1 = the end."""
        fields = call.fields
        topic, offset, timestamp = fields.text("topic"), fields.number("offset"), fields.number("timestamp")
        to, value = ("offset", offset) if offset >= 0 else ("latest", 0) if timestamp == _NOW else ("time", timestamp)
        request = ResetOffsets(fields.text("group"), topic, to, value, queue_id=max(-1, fields.number("queueId")))
        name, document = await self._document(call, request)
        rows = (((row["topic"], name, row["queue_id"]), row["to"]) for row in document["queues"])
        return ClassicAnswer(body=offset_table_body(rows))

    async def _at_broker(self, call: ClassicCall, request: RequestFor[Any]) -> str:
        name = await call.any_broker()
        await call.back.backend.call_master(name, request, deadline_ms=call.deadline_ms)
        return name

    async def _document(self, call: ClassicCall, request: RequestFor[JsonReply]) -> tuple[str, dict[str, Any]]:
        """(the broker, what it answers)."""
        name = await call.any_broker()
        _, payload = await call.back.backend.call_master(name, request, deadline_ms=call.deadline_ms)
        document = json.loads(payload)
        assert isinstance(document, dict)
        return name, document

    # ---- questions to a client

    async def on_running_info(self, call: ClassicCall) -> ClassicAnswer:
        """GET_CONSUMER_RUNNING_INFO: the client answers. Who asks needs the right get on the group."""
        group = call.fields.text("consumerGroup")
        await call.back.backend.call_master(
            await call.any_broker(), GetGroupClients(group), deadline_ms=call.deadline_ms
        )
        client = self._clients.member(group, call.fields.text("clientId"))
        return _not_online(call) if client is None else await _ask(call, client, b"")

    async def on_consume_directly(self, call: ClassicCall) -> ClassicAnswer:
        """CONSUME_MESSAGE_DIRECTLY: the client handles one message, and tells what came of it. Who asks needs the right sub on
        the group."""
        group = call.fields.text("consumerGroup")
        host, offset = parse_offset_message_id(call.fields.text("msgId"))
        name = call.fields.text("brokerName") or call.broker_name or self._ports.name_of(host)
        backend = call.back.backend
        await backend.call_master(name, GetConsumerList(group), deadline_ms=call.deadline_ms)
        client = self._clients.member(group, call.fields.text("clientId"))
        if client is None:
            return _not_online(call)
        _, payload = await backend.call_master(name, ViewMessage(offset), deadline_ms=call.deadline_ms)
        body, _ = readable_records(payload, self._ports.host_of(name), readable(client.language, client.version))
        return await _ask(call, client, body)


def _not_online(call: ClassicCall) -> ClassicAnswer:
    remark = f"client {call.fields.text('clientId')} is not connected here as a member of that group"
    return ClassicAnswer(ClassicStatus.CONSUMER_NOT_ONLINE, remark=remark)


async def _ask(call: ClassicCall, client: ClassicClient, body: bytes) -> ClassicAnswer:
    """The client's answer to the request, which it gets without what the asker signed it with."""
    if not client.links:
        return _not_online(call)
    fields = {name: text for name, text in call.frame.fields.items() if name not in _SIGNED_WITH}
    frame = ClassicFrame(call.frame.code, 0, fields=fields, body=body)
    try:
        answer = await next(reversed(client.links)).ask(frame, timeout_ms=call.deadline_ms - monotonic_ms())
    except ZenitError as error:
        return ClassicAnswer(ClassicStatus.CONSUMER_NOT_ONLINE, remark=str(error))
    return ClassicAnswer(answer.code, answer.fields, answer.body, answer.remark)


def cluster_route(topic: str, cluster: str, document: dict[str, Any]) -> TopicRoute:
    """Of a topic that each broker of a cluster has at RocketMQ, whatever name servers know here: that of its replies, and that
    of its name; a broker has one of its own name, too. `document`: of GetClusterInfo. Pure. Raises TopicNotFound where neither
    a cluster nor a broker has the name."""
    rows = document["brokers"]
    found = {row["broker_name"]: row["cluster"] for row in rows if cluster in (row["cluster"], row["broker_name"])}
    return _route(topic, found)


def group_route(topic: str, broker_names: Collection[str], document: dict[str, Any]) -> TopicRoute:
    """Of the retry topic of a group that these brokers have, before it is made: tools go by it to the group's brokers, and a
    consumer's heartbeat makes it. `document`: of GetClusterInfo. Pure. Raises TopicNotFound where no broker has the group."""
    rows = document["brokers"]
    return _route(topic, {row["broker_name"]: row["cluster"] for row in rows if row["broker_name"] in broker_names})


def _route(topic: str, clusters: Mapping[str, str]) -> TopicRoute:
    """`clusters`: by broker name. Raises TopicNotFound where there are none."""
    if not clusters:
        raise TopicNotFound(topic)
    names = sorted(clusters)
    brokers = tuple(BrokerData(clusters[name], name, {}) for name in names)
    return TopicRoute(topic, tuple(QueueData(name, 1, 1, PERMISSION_READ_WRITE) for name in names), brokers)


def topic_attributes(text: str) -> dict[str, str]:
    """Of `+name=value,...`. Pure. Raises InvalidParameter: an attribute cannot be taken away from a topic."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not name.startswith("+") or not equals:
            raise InvalidParameter("attributes", part[:64], "+name=value, several with commas between")
        found[name[1:]] = value
    return found
