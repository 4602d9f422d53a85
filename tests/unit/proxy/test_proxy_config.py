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


def test_brokers_that_are_named_have_their_ports_for_ever() -> None:
    config = load_config(ProxyConfig, "proxy", overrides=["broker_names=broker-b,broker-a", "broker_port=12000"])
    assert [config.port_of(name) for name in ("broker-a", "broker-b", "broker-c")] == [12_003, 12_000, None]


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
        ({"broker_names": ("a", "b"), "broker_port": 65_533}, "broker_port"),
        ({"signatures": "no"}, "signatures"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProxyConfig(**settings)
    assert caught.value.key == key
