"""deploy/compose.yaml and the image: each server's settings are known ones, its key is made, and all agree on the account."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from zenitmq.broker.config import BrokerConfig
from zenitmq.controller.config import ControllerConfig
from zenitmq.model.config import load_config
from zenitmq.model.names import VERSION
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.proxy.config import ProxyConfig

DEPLOY = Path(__file__).parents[3] / "deploy"
ROLES = {"namesrv": NameServerConfig, "controller": ControllerConfig, "broker": BrokerConfig, "proxy": ProxyConfig}
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
SERVERS = [name for name in SERVICES if name.partition("-")[0] in ROLES]
IMAGE = (DEPLOY / "image" / "Dockerfile").read_text("utf-8")


def image_environment() -> dict[str, str]:
    return dict(re.findall(r"^(?:ENV |    )(\w+)=(\S+)", IMAGE, re.MULTILINE))


def config_of(name: str) -> Any:
    """As the server in that container reads it."""
    service = SERVICES[name]
    role, *words = shlex.split(service["command"])
    settings = [value for flag, value in zip(words[::2], words[1::2], strict=True) if flag == "--set"]
    assert len(settings) == len(words) // 2
    environ = image_environment() | {
        key: str(value).replace("${ZENIT_PORTS:-19}", "19") for key, value in service.get("environment", {}).items()
    }
    return load_config(ROLES[role], role, environ=environ, overrides=settings)


def keys_made() -> Iterator[str]:
    """The names of the servers for which the service `keys` makes keys."""
    for word in SERVICES["keys"]["command"][3:]:
        yield word.removeprefix("--proxy=").partition("=")[0].rpartition("/")[2]


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_of_the_file_has_settings_of_its_role_and_its_own_key(name: str) -> None:
    config = config_of(name)
    if name == "proxy":
        assert config.key == "/etc/zenit/proxy.key"
    else:
        assert config.security.key == f"/etc/zenit/{name}.key"
        assert config.security.trusted == "/etc/zenit/trusted.toml"
        assert config.security.secrets_key == "/etc/zenit/users.secrets"
    assert config.metrics.bind == "0.0.0.0:9880"
    assert "keys:/etc/zenit:ro" in SERVICES[name]["volumes"]


def test_keys_are_made_for_all_servers_and_no_others() -> None:
    assert sorted(keys_made()) == sorted(SERVERS)


def test_a_proxy_publishes_the_ports_that_it_serves_under_the_same_numbers() -> None:
    """Its routes name them."""
    config = config_of("proxy")
    published = [port.replace("${ZENIT_PORTS:-19}", "19").split(":") for port in SERVICES["proxy"]["ports"]]
    assert {host for host, _, _ in published} == {config.host} == {"127.0.0.1"}
    assert all(outside == inside for _, outside, inside in published)
    groups = sorted({config_of(name).name for name in SERVERS if name.startswith("broker")})
    assert sorted(config.broker_names) == groups
    of_brokers = [config.port_of(name) for name in groups]
    wanted = [config.remoting_port, config.port, *of_brokers, *(port - 2 for port in of_brokers)]
    assert sorted(int(inside) for _, _, inside in published) == sorted(wanted)


def test_a_broker_has_a_name_that_stays_and_a_store_of_its_own() -> None:
    brokers = [name for name in SERVERS if name.startswith("broker")]
    for name in brokers:
        config = config_of(name)
        assert (config.replica, config.advertised_host, config.host) == (name, name, "auto")
        assert name.startswith(config.name)
        assert f"{name}:/var/lib/zenit" in SERVICES[name]["volumes"]
        assert config.store_dir.startswith("/var/lib/zenit/")
    assert len(brokers) == 6


def test_prometheus_asks_each_server() -> None:
    document = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text("utf-8"))
    asked = [
        target for job in document["scrape_configs"] for each in job["static_configs"] for target in each["targets"]
    ]
    assert sorted(asked) == sorted(f"{name}:9880" for name in SERVERS)


def test_image_chart_and_compose_agree() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", IMAGE, re.MULTILINE)
    values = yaml.safe_load((DEPLOY / "helm" / "zenit" / "values.yaml").read_text("utf-8"))
    assert values["podSecurity"] == {"runAsUser": int(user), "fsGroup": int(user)}
    assert {service["image"] for name, service in SERVICES.items() if name in SERVERS} == {
        f"${{ZENIT_IMAGE:-zenitmq:{VERSION}}}"
    }
