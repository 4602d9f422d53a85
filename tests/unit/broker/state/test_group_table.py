"""The group table: RocketMQ's settings, checked, and kept whole."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.group_table import DEFAULTS, GroupTable
from zenitmq.model.errors import InvalidParameter, StoreFormatError

VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 5}


def test_a_new_group_has_rocketmqs_defaults() -> None:
    table = GroupTable()
    table.on_event(table.event_set("g"), VERSION)
    assert table.documents["g"] == {**DEFAULTS, "groupName": "g"}
    assert table.document()["dataVersion"] == VERSION


def test_settings_are_json_values_over_what_the_group_has() -> None:
    table = GroupTable()
    table.load({"subscriptionGroupTable": {"g": {"groupName": "g", "retryMaxTimes": 3, "future": 1}}, "x": 2})
    table.on_event(table.event_set("g", [("consumeEnable", "false")]), VERSION)
    group = table.document()["subscriptionGroupTable"]["g"]
    assert (group["retryMaxTimes"], group["consumeEnable"], group["future"]) == (3, False, 1)
    assert table.document()["x"] == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nope", "1"),
        ("retryMaxTimes", "true"),
        ("retryMaxTimes", "-1"),
        ("retryQueueNums", "0"),
        ("consumeTimeoutMinute", "0"),
        ("groupRetryPolicy", '{"type": "NEVER"}'),
        ("groupRetryPolicy", '"EXPONENTIAL"'),
        ("consumeEnable", "1"),
        ("attributes", "{"),
        ("attributes", '{"a": ' * 100_000),
        ("attributes", '{"a": {"b": "c"}}'),
        ("attributes", '{"a": "b", "c": 1}'),
        ("brokerId", '"0"'),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidParameter):
        GroupTable().event_set("g", [(name, value)])


def test_a_retry_policy_is_kept_as_it_was_given() -> None:
    policy = '{"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10}}'
    group = GroupTable().event_set("g", [("groupRetryPolicy", policy), ("retryMaxTimes", "3")])["group"]
    assert group["groupRetryPolicy"] == {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10}}
    assert group["retryMaxTimes"] == 3


def test_a_deleted_group_is_gone() -> None:
    table = GroupTable()
    table.on_event(table.event_set("g"), VERSION)
    table.on_event(table.event_deleted("g"), VERSION)
    assert table.documents == {}


@pytest.mark.parametrize("event", [{}, {"event": "set", "group": {}}, {"event": "deleted", "group": 4}])
def test_an_unknown_event_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(StoreFormatError):
        GroupTable().on_event(event, VERSION)


@pytest.mark.parametrize("table", [3, {"g": 4}])
def test_a_wrong_snapshot_is_refused(table: object) -> None:
    with pytest.raises(StoreFormatError):
        GroupTable().load({"subscriptionGroupTable": table})
