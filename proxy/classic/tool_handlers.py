"""Requests of RocketMQ's tools that read: settings of topics, groups and brokers, members of groups, figures."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import GroupNotFound, RemoteProtocolError, TopicNotFound
from ...remoting.commands import (
    GetBrokerConfig,
    GetBrokerStatistics,
    GetGroupClients,
    GetGroups,
    GetTopics,
    JsonReply,
    RequestFor,
)
from .bodies import ClassicSubscription, json_body, topic_list_body
from .calls import ClassicAnswer, ClassicCall, ClassicHandler
from .codes import ClassicCode, ClassicStatus
from .tool_bodies import (
    figures_body,
    group_config,
    group_configs_body,
    group_list_body,
    groups_of_topic,
    members_body,
    settings_text,
    subscription_body,
    topic_config,
    topic_configs_body,
)

RATE_MS: Final = 500
"""A broker's rates are those of so long a time."""


class ToolHandlers:
    """On the event loop."""

    def handlers(self) -> dict[int, ClassicHandler]:
        """Those that it answers."""
        return {
            ClassicCode.GET_ALL_TOPIC_CONFIG: self.on_topic_configs,
            ClassicCode.GET_TOPIC_CONFIG: self.on_topic_config,
            ClassicCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.on_system_topics,
            ClassicCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.on_system_topics,
            ClassicCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.on_group_configs,
            ClassicCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.on_group_config,
            ClassicCode.QUERY_TOPIC_CONSUME_BY_WHO: self.on_groups_of_topic,
            ClassicCode.QUERY_TOPICS_BY_CONSUMER: self.on_topics_of_group,
            ClassicCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.on_subscription,
            ClassicCode.GET_CONSUMER_CONNECTION_LIST: self.on_members,
            ClassicCode.GET_BROKER_CONFIG: self.on_settings,
            ClassicCode.GET_BROKER_RUNTIME_INFO: self.on_figures,
        }

    async def on_topic_configs(self, call: ClassicCall) -> ClassicAnswer:
        """GET_ALL_TOPIC_CONFIG."""
        return ClassicAnswer(body=topic_configs_body(await _rows(call, GetTopics(), "topics")))

    async def on_topic_config(self, call: ClassicCall) -> ClassicAnswer:
        """GET_TOPIC_CONFIG."""
        topic = call.fields.text("topic")
        for row in await _rows(call, GetTopics(topic), "topics"):
            if row["name"] == topic:
                return ClassicAnswer(body=json_body(topic_config(row)))
        raise TopicNotFound(topic)

    async def on_system_topics(self, call: ClassicCall) -> ClassicAnswer:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS, GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        rows = await _rows(call, GetTopics(), "topics")
        return ClassicAnswer(body=topic_list_body([row["name"] for row in rows if row["system"]]))

    async def on_group_configs(self, call: ClassicCall) -> ClassicAnswer:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
        return ClassicAnswer(body=group_configs_body(await _rows(call, GetGroups(), "groups")))

    async def on_group_config(self, call: ClassicCall) -> ClassicAnswer:
        """GET_SUBSCRIPTIONGROUP_CONFIG."""
        return ClassicAnswer(body=json_body(group_config(await _group(call, call.fields.text("group")))))

    async def on_groups_of_topic(self, call: ClassicCall) -> ClassicAnswer:
        """QUERY_TOPIC_CONSUME_BY_WHO."""
        rows = await _rows(call, GetGroups(), "groups")
        return ClassicAnswer(body=group_list_body(groups_of_topic(rows, call.fields.text("topic"))))

    async def on_topics_of_group(self, call: ClassicCall) -> ClassicAnswer:
        """QUERY_TOPICS_BY_CONSUMER."""
        row = await _group(call, call.fields.text("group"))
        return ClassicAnswer(body=topic_list_body(row["topics"]))

    async def on_subscription(self, call: ClassicCall) -> ClassicAnswer:
        """QUERY_SUBSCRIPTION_BY_CONSUMER."""
        group, topic = call.fields.text("group"), call.fields.text("topic")
        for client in await _rows(call, GetGroupClients(group), "clients"):
            for row in client["subscriptions"]:
                if row[0] == topic:
                    return ClassicAnswer(body=subscription_body(group, ClassicSubscription(*row)))
        return _not_online(group)

    async def on_members(self, call: ClassicCall) -> ClassicAnswer:
        """GET_CONSUMER_CONNECTION_LIST."""
        group = call.fields.text("consumerGroup")
        clients = await _rows(call, GetGroupClients(group), "clients")
        return ClassicAnswer(body=members_body(clients)) if clients else _not_online(group)

    async def on_settings(self, call: ClassicCall) -> ClassicAnswer:
        """GET_BROKER_CONFIG."""
        return ClassicAnswer(body=settings_text(await _document(call, GetBrokerConfig())))

    async def on_figures(self, call: ClassicCall) -> ClassicAnswer:
        """GET_BROKER_RUNTIME_INFO: brokers count, so that a rate is the difference of two looks."""
        before, begun_ms = await _document(call, GetBrokerStatistics()), monotonic_ms()
        await asyncio.sleep(RATE_MS / 1000)
        now = await _document(call, GetBrokerStatistics())
        return ClassicAnswer(body=figures_body(before, now, (monotonic_ms() - begun_ms) / 1000))


def _not_online(group: str) -> ClassicAnswer:
    return ClassicAnswer(ClassicStatus.CONSUMER_NOT_ONLINE, remark=f"group {group} has no member now")


async def _group(call: ClassicCall, group: str) -> dict[str, Any]:
    """Its row of GetGroups. Raises GroupNotFound."""
    for row in await _rows(call, GetGroups(), "groups"):
        if row["name"] == group:
            return row
    raise GroupNotFound(group)


async def _rows(call: ClassicCall, request: RequestFor[JsonReply], name: str) -> list[dict[str, Any]]:
    rows = (await _document(call, request)).get(name)
    if not isinstance(rows, list):
        raise RemoteProtocolError(f"what a broker tells of {name} cannot be read")
    return rows


async def _document(call: ClassicCall, request: RequestFor[JsonReply]) -> dict[str, Any]:
    """What the broker that is meant answers."""
    name = await call.any_broker()
    _, payload = await call.back.backend.call_master(name, request, deadline_ms=call.deadline_ms)
    document = json.loads(payload)
    assert isinstance(document, dict)
    return document
