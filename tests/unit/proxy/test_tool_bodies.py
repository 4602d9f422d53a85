"""What RocketMQ's tools read, made of our brokers' documents."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from zenitmq.model.errors import SqlSyntaxError
from zenitmq.proxy.classic.bodies import ClassicSubscription
from zenitmq.proxy.classic.codes import INSTEAD, ClassicCode, not_served
from zenitmq.proxy.classic.tool_bodies import (
    figures_body,
    group_configs_body,
    groups_of_topic,
    members_body,
    settings_text,
    subscription_document,
    topic_configs_body,
)

TOPIC = {
    "name": "orders",
    "attributes": {"message.type": "FIFO"},
    "order": False,
    "permission": 6,
    "read_queues": 2,
    "write_queues": 3,
}
MEMBER: dict[str, Any] = {
    "client_id": "c",
    "host": "10.0.0.1:5",
    "language": "RocketMQ GO",
    "version": "317",
    "model": "CLUSTERING",
    "subscriptions": [["orders", "TAG", "b || a"]],
}


def test_settings_of_topics_and_groups() -> None:
    (row,) = json.loads(topic_configs_body([TOPIC]))["topicConfigTable"].values()
    assert (row["topicName"], row["readQueueNums"], row["writeQueueNums"], row["perm"]) == ("orders", 2, 3, 6)
    groups = [
        {"name": "g", "topics": ["orders"], "attributes": {"retryMaxTimes": 2}},
        {"name": "h", "topics": [], "attributes": {}},
    ]
    table = json.loads(group_configs_body(groups))["subscriptionGroupTable"]
    assert table == {"g": {"groupName": "g", "retryMaxTimes": 2}, "h": {"groupName": "h"}}
    assert groups_of_topic(groups, "orders") == ["g"]


def test_members_by_their_own_language_and_native_ones() -> None:
    native = {**MEMBER, "client_id": "n", "language": "Python", "version": "0.1.0", "subscriptions": []}
    document = json.loads(members_body([MEMBER, native]))
    assert [(one["language"], one["version"]) for one in document["connectionSet"]] == [("GO", 317), ("PYTHON", 513)]
    assert document["messageModel"] == "CLUSTERING"
    wanted = document["subscriptionTable"]["orders"]
    assert (wanted["tagsSet"], wanted["codeSet"], wanted["subString"]) == (["a", "b"], [97, 98], "b || a")
    assert json.loads(members_body([{**MEMBER, "model": "POPPING"}]))["messageModel"] == "CLUSTERING"
    sql = subscription_document(ClassicSubscription("orders", "SQL92", "n > 1"))
    assert (sql["expressionType"], sql["tagsSet"], sql["codeSet"]) == ("SQL92", [], [])
    with pytest.raises(SqlSyntaxError):
        subscription_document(ClassicSubscription("orders", "SQL92", "n >"))


def test_rates_are_the_difference_of_two_looks() -> None:
    before: dict[str, Any] = {
        "started_at_ms": 7,
        "sends": {"messages": 10},
        "pulls": {"messages": 4},
        "pops": {"messages": 1},
        "store": {"disk_use": 0.5, "written_offset": 100, "begin_offset": 0},
        "loop": {"lanes": {"send": {"queued": 1}, "pull": {"queued": 2}}},
        "kernel": "compiled",
        "none": None,
    }
    now = copy.deepcopy(before)
    now["sends"]["messages"], now["pops"]["messages"] = 15, 2
    table = json.loads(figures_body(before, now, 0.5))["table"]
    assert (table["putTps"], table["getTransferredTps"]) == ("10.00", "2.00")
    assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("15", "6")
    assert (table["zenit.kernel"], table["zenit.none"], table["zenit.store.disk_use"]) == ("compiled", "null", "0.5")
    assert all(type(value) is str for value in table.values())


def test_settings_are_lines() -> None:
    assert settings_text({"b": ["x"], "a": True, "c": "text"}) == b'a=true\nb=["x"]\nc=text\n'


def test_what_is_not_served_says_what_does_it() -> None:
    assert not INSTEAD.keys() & set(ClassicCode)
    assert "zenit config" in not_served(25)
    assert not_served(9) == "a proxy of ZenitMQ does not serve RocketMQ's request 9"
