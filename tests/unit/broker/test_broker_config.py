"""What a broker's configuration refuses, by key."""

from __future__ import annotations

from functools import partial

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.model.config import config_schema, load_config, with_online_changes
from zenitmq.model.errors import ConfigError
from zenitmq.model.events.log_config import LogConfig
from zenitmq.store.config import StoreConfig


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "a/b"),
        ("cluster", ""),
        ("store_dir", ""),
        ("namesrv", ("9876",)),
        ("namesrv", ("a:b",)),
        ("port", 70_000),
        ("heartbeat_ms", 1),
        ("static_master", "broker"),
        ("static_min_in_sync", 0),
    ],
)
def test_a_wrong_value_is_refused_by_key(key: str, value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(**{key: value})  # type: ignore[arg-type]
    assert refused.value.key == key


def test_a_group_has_controllers_or_a_static_master() -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(controllers=("a:1",), static_master="b:1")
    assert refused.value.key == "static_master"
    for lone in (BrokerConfig, partial(BrokerConfig, host="127.0.0.1", port=1, static_master="127.0.0.1:1")):
        with pytest.raises(ConfigError) as refused:
            lone(role="follower")
        assert refused.value.key == "role"
    assert BrokerConfig(role="follower", static_master="m:1").is_follower
    groups = [BrokerConfig(), BrokerConfig(controllers=("a:1",)), BrokerConfig(static_master="b:1")]
    assert [config.has_group for config in groups] == [False, True, True]


def test_sources_reach_the_store_section() -> None:
    config = load_config(
        BrokerConfig,
        "broker",
        environ={"ZENIT_BROKER__PORT": "0"},
        overrides=["store.segment_bytes=65536", "namesrv=a:1,b:2"],
    )
    assert (config.port, config.store.segment_bytes, config.namesrv) == (0, 65536, ("a:1", "b:2"))


def test_every_key_says_what_it_trades() -> None:
    assert all(len(info.meaning) > 10 for info in config_schema(BrokerConfig))


def test_online_keys_change_and_the_others_wait_for_a_restart() -> None:
    running = BrokerConfig(port=1000, store=StoreConfig(retention_bytes=1 << 30))
    wanted = BrokerConfig(
        port=2000, store=StoreConfig(retention_bytes=2 << 30, disk_force_ratio=0.8), log=LogConfig(level="debug")
    )
    new, changed, waiting = with_online_changes(running, wanted)
    assert changed == {"store.retention_bytes": 2 << 30, "store.disk_force_ratio": 0.8, "log.level": "debug"}
    assert waiting == ["port"]
    assert (new.port, new.store.retention_bytes, new.log.level) == (1000, 2 << 30, "debug")
    assert with_online_changes(new, new) == (new, {}, [])


def test_keys_that_must_agree_change_together() -> None:
    running = BrokerConfig(store=StoreConfig(disk_clean_ratio=0.5, disk_force_ratio=0.6, disk_refuse_ratio=0.7))
    new, changed, waiting = with_online_changes(running, BrokerConfig())
    assert (new.store, sorted(changed), waiting) == (
        StoreConfig(),
        ["store.disk_clean_ratio", "store.disk_force_ratio", "store.disk_refuse_ratio"],
        [],
    )
