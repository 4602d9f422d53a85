"""What a controller can be told, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.controller.config import ControllerConfig, NewGroupConfig
from zenitmq.model.config import load_config
from zenitmq.model.errors import ConfigError
from zenitmq.model.groups.group import AckMode, FlushMode, GroupSettings


def test_by_default_a_new_group_needs_two_of_its_replicas() -> None:
    assert ControllerConfig().new_group.settings == GroupSettings(min_in_sync=2)


def test_what_a_new_group_begins_with_can_be_told() -> None:
    settings = ["min_in_sync=3", "flush_mode=sync", "ack_mode=master", "lag_ms_max=700"]
    config = load_config(ControllerConfig, "controller", overrides=[f"new_group.{setting}" for setting in settings])
    assert config.new_group.settings == GroupSettings(
        min_in_sync=3, flush_mode=FlushMode.SYNC, ack_mode=AckMode.MASTER, lag_ms_max=700
    )


def test_an_ensemble_is_told_as_a_list() -> None:
    config = load_config(ControllerConfig, "controller", overrides=["zookeeper=a:2181, b:2182"])
    assert config.zookeeper == ("a:2181", "b:2182")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"cluster": "a/b"}, "cluster"),
        ({"cluster": ""}, "cluster"),
        ({"zookeeper": ()}, "zookeeper"),
        ({"zookeeper": ("a:1", "b")}, "zookeeper"),
        ({"port": 70_000}, "port"),
        ({"dead_after_ms": 100}, "dead_after_ms"),
        ({"dead_after_ms": 1000, "probe_timeout_ms": 1000}, "probe_timeout_ms"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ControllerConfig(**settings)
    assert refused.value.key == key


@pytest.mark.parametrize("setting", ["min_in_sync=0", "min_in_sync=17", "flush_mode=never", "lag_ms_max=1"])
def test_a_new_groups_settings_have_ranges(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"new_group.{setting.partition('=')[0]}"):
        load_config(ControllerConfig, "controller", overrides=[f"new_group.{setting}"])
    assert NewGroupConfig().min_in_sync == 2
