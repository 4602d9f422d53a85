"""deploy/config/*.toml name every key with its default and meaning, and load; ZENIT_REWRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import json
import os
import re
import textwrap
import tomllib
from pathlib import Path

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.controller.config import ControllerConfig
from zenitmq.metrics.config import MetricsConfig
from zenitmq.model.config import SettingInfo, config_schema, describe_config, load_config
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.proxy.config import ProxyConfig

CONFIG = Path(__file__).parents[3] / "deploy" / "config"
ROLES = {
    "namesrv": ("name server", NameServerConfig),
    "broker": ("broker", BrokerConfig),
    "controller": ("controller", ControllerConfig),
    "proxy": ("proxy", ProxyConfig),
}

METRICS = {
    "namesrv": "127.0.0.1:9880",
    "controller": "127.0.0.1:9881",
    "broker": "127.0.0.1:9882",
    "proxy": "127.0.0.1:9885",
}
"""What a template sets though the default is otherwise: a process in production is measured."""

HEAD = """\
# Configuration of a {title}: every key, commented out at its default, but that metrics and health are on.
# Start it with: deploy/{role}.sh
# Also settable through the environment ({example}) and, over both, by --set key=value.
# Unknown keys and values out of range are refused at start; `zenit config schema {role}` prints what follows.
"""


def entry(info: SettingInfo, role: str) -> str:
    """One key as the template shows it: what it means, what it takes, its default."""
    online = "; takes effect without a restart" if info.online else ""
    words = textwrap.wrap(f"{info.meaning} ({info.expected}{online})", 110, break_on_hyphens=False)
    if info.key == "metrics.bind":
        return "".join(f"# {line}\n" for line in words) + f'bind = "{METRICS[role]}"\n'
    default = list(info.default) if isinstance(info.default, tuple) else info.default
    return "".join(f"# {line}\n" for line in words) + f"#{info.key.rpartition('.')[2]} = {json.dumps(default)}\n"


def template(role: str) -> str:
    title, cls = ROLES[role]
    schema = config_schema(cls)
    parts = [HEAD.format(title=title, role=role, example=schema[-1].environment(role))]
    section = ""
    for info in schema:
        head = info.key.rpartition(".")[0]
        if head != section:
            section = head
            parts.append(f"[{section}]\n")
        parts.append(entry(info, role))
    return "\n".join(parts)


@pytest.mark.parametrize("role", ROLES)
def test_the_template_is_made_of_the_schema(role: str) -> None:
    path = CONFIG / f"{role}.toml"
    if "ZENIT_REWRITE_DOCS" in os.environ:
        path.write_text(template(role))
    assert path.read_text() == template(role), "run this test once with ZENIT_REWRITE_DOCS=1"


@pytest.mark.parametrize("role", ROLES)
def test_the_template_loads_as_it_is_and_with_every_key_set(role: str, tmp_path: Path) -> None:
    cls = ROLES[role][1]
    path = CONFIG / f"{role}.toml"
    measured = cls(metrics=MetricsConfig(bind=METRICS[role]))
    assert load_config(cls, role, file=str(path)) == measured
    text = re.sub(r"^#(?=\w)", "", path.read_text(), flags=re.MULTILINE)
    named = tomllib.loads(text)
    keys = [f"{name}.{key}" for name, table in named.items() if isinstance(table, dict) for key in table]
    keys += [name for name, value in named.items() if not isinstance(value, dict)]
    assert sorted(keys) == sorted(describe_config(cls()))
    everything = tmp_path / "everything.toml"
    everything.write_text(text)
    assert load_config(cls, role, file=str(everything)) == measured
