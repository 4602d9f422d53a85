"""What a proxy can be told, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.model.config import load_config
from zenitmq.model.errors import ConfigError
from zenitmq.proxy.config import ProxyConfig


def test_it_listens_where_it_is_told_and_names_where_it_is_reached() -> None:
    config = load_config(ProxyConfig, "proxy", overrides=["host=mq.example", "listen_host=0.0.0.0"])
    assert (config.bound_host, config.node) == ("0.0.0.0", "mq.example:8081")
    assert ProxyConfig().bound_host == "127.0.0.1"


def test_a_proxy_for_one_protocol_is_named_by_its_port() -> None:
    assert ProxyConfig(port=-1).node == "127.0.0.1:8080"


def test_a_brokers_port_is_that_of_its_name() -> None:
    """Whichever others there are, and at each proxy: clients keep routes and ids of messages that name it."""
    usual = ProxyConfig()
    assert [usual.port_of(name) for name in ("broker-a", "broker-b", "broker-z")] == [10_911, 10_914, 10_986]
    named = load_config(ProxyConfig, "proxy", overrides=["broker_names=broker-b,east", "broker_port=12000"])
    assert [named.port_of(name) for name in ("broker-b", "east")] == [12_000, 12_003]
    for config in (usual, named, ProxyConfig(broker_port=65_000)):
        others = [config.port_of(name) for name in ("west", "broker-10", "b", "Broker-a", "broker-a\n", "ö")]
        assert others == [config.port_of(name) for name in ("west", "broker-10", "b", "Broker-a", "broker-a\n", "ö")]
        assert all(config.broker_port + 384 <= port <= 65_535 for port in others)
    assert len({usual.port_of(name) for name in ("west", "broker-10", "b", "Broker-a")}) == 4
    assert named.port_of("broker-a") >= 12_384


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"host": "mq:8080"}, "host"),
        ({"namesrv": ()}, "namesrv"),
        ({"namesrv": ("mq",)}, "namesrv"),
        ({"tls_port": 8443}, "tls_certificate"),
        ({"tls_certificate": "a.pem"}, "tls_key"),
        ({"port": -1, "remoting_port": -1}, "port"),
        ({"port": 8080}, "port"),
        ({"port": 70_000}, "port"),
        ({"processes": 0}, "processes"),
        ({"broker_names": ("a", "b", "a")}, "broker_names"),
        ({"broker_names": ("a", "")}, "broker_names"),
        ({"broker_names": ("a",), "broker_port": 0}, "broker_names"),
        ({"broker_names": tuple(map(str, range(129)))}, "broker_names"),
        ({"broker_port": 65_001}, "broker_port"),
        ({"signatures": "no"}, "signatures"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProxyConfig(**settings)
    assert caught.value.key == key
