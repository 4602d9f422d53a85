"""`zenit config machines`: configurations that each role takes, keys that fit the trusted file, and nothing replaced."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.cli.commands import config
from zenitmq.controller.config import ControllerConfig
from zenitmq.deploy.machine_files import Machines, write_machine_files
from zenitmq.model.config import load_config
from zenitmq.model.errors import ConfigError, InvalidName, InvalidParameter
from zenitmq.model.security.trusted_file import parse_trusted
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.remoting.security.key_file import read_key_file

HOSTS = ("mq1.example", "10.0.0.2", "fd00::3")
AT = ("mq1.example", "10.0.0.2", "[fd00::3]")


def made(path: Path, **more: object) -> Path:
    write_machine_files(Machines(directory=str(path), hosts=HOSTS, **more))  # type: ignore[arg-type]
    return path


def test_each_role_takes_its_configuration(tmp_path: Path) -> None:
    directory = made(tmp_path / "new", zookeeper=("zk:2181",))
    brokers = [
        load_config(BrokerConfig, "broker", file=str(directory / host / f"broker-a-{number}.toml"), environ={})
        for number, host in enumerate(HOSTS, 1)
    ]
    assert [broker.replica for broker in brokers] == ["broker-a-1", "broker-a-2", "broker-a-3"]
    assert [broker.address_at(1) for broker in brokers] == ["mq1.example:1", "10.0.0.2:1", "[fd00::3]:1"]
    assert brokers[0].namesrv == ("mq1.example:9876", "10.0.0.2:9876", "[fd00::3]:9876")
    assert (brokers[0].store_dir, brokers[0].security.key) == ("/var/lib/zenit/a-1", "/etc/zenit/broker-a-1.key")
    controller = load_config(
        ControllerConfig, "controller", file=str(directory / HOSTS[0] / "controller.toml"), environ={}
    )
    assert (controller.host, controller.listen_host, controller.zookeeper) == (HOSTS[0], "0.0.0.0", ("zk:2181",))
    assert (controller.new_group.min_in_sync, controller.new_group.replicas) == (2, 3)
    server = load_config(NameServerConfig, "namesrv", file=str(directory / HOSTS[2] / "namesrv.toml"), environ={})
    assert (server.host, server.metrics.bind) == ("fd00::3", "[fd00::3]:9880")


def test_keys_are_those_of_the_trusted_file_and_secret(tmp_path: Path) -> None:
    directory = made(tmp_path / "new", group="shop")
    texts = {(directory / host / "trusted.toml").read_text() for host in HOSTS}
    assert len(texts) == 1
    trusted = {row.user.name: row for row in parse_trusted(texts.pop())}
    admin = read_key_file(str(directory / "keys" / "admin.key"))
    keys = {read_key_file(str(path)).user: path for host in HOSTS for path in (directory / host).glob("*.key")}
    assert {*keys, admin.user} == trusted.keys()
    public = {name: (read_key_file(str(path)).pair.public,) for name, path in keys.items()}
    assert {name: row.user.keys for name, row in trusted.items()} == public | {"admin": (admin.pair.public,)}
    assert trusted["shop-2"].user.binding is not None
    assert trusted["shop-2"].user.binding.group == "shop"
    assert (directory / HOSTS[1] / "broker-shop-2.toml").exists()
    assert {at: keys for at, keys in admin.servers.items() if at.endswith("76")} == {
        f"{at}:9876": trusted[f"namesrv-{n}"].user.keys for n, at in enumerate(AT, 1)
    }
    private = [
        *keys.values(),
        *directory.rglob("users.secrets"),
        *directory.rglob("zookeeper.login"),
        *directory.rglob("metrics.token"),
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    for name in ("zookeeper.login", "users.secrets", "metrics.token"):
        assert len({path.read_text() for path in directory.rglob(name)}) == 1


def test_a_trial_stays_in_its_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "new"
    config.machines(str(directory), ["127.0.0.2", "127.0.0.3"], here=True, zookeeper=None, as_json=True)
    listed = json.loads(capsys.readouterr().out)
    assert {(directory / row["host"] / row["file"]).is_file() for row in listed} == {True}
    broker = load_config(BrokerConfig, "broker", file=str(directory / "127.0.0.3" / "broker-a-2.toml"), environ={})
    assert broker.store_dir == str(directory / "127.0.0.3" / "store")
    assert os.path.isfile(broker.security.key)
    assert broker.store.segment_bytes == 64 << 20


def test_a_machine_is_added_by_the_same_command(tmp_path: Path) -> None:
    key, other = tmp_path / "10.0.0.2" / "broker-a-2.key", tmp_path / "mq4.example" / "broker-a-4.key"
    before = read_key_file(str(made(tmp_path) / "10.0.0.2" / key.name)).pair
    write_machine_files(Machines(directory=str(tmp_path), hosts=(*HOSTS, "mq4.example")))
    assert read_key_file(str(key)).pair == before
    text = (tmp_path / "mq1.example" / "trusted.toml").read_text()
    assert read_key_file(str(other)).pair.public in text
    assert before.public in text


def test_what_an_operator_has_changed_is_kept_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = made(tmp_path) / "mq1.example" / "broker-a-1.toml"
    text = changed.read_text() + '\n[log]\nlevel = "debug"\n'
    changed.write_text(text)
    config.machines(str(tmp_path), list(HOSTS), zookeeper=None, here=False, as_json=True)
    assert [path.read_text() for path in tmp_path.rglob("*.old")] == [text]
    assert "debug" not in changed.read_text()
    assert "mq1.example/broker-a-1.toml is another one now" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wish",
    [
        {"hosts": ()},
        {"hosts": ("a", "a")},
        {"hosts": tuple(f"h{n}" for n in range(17))},
        {"hosts": ("a:1",)},
        {"hosts": ("keys",)},
        {"hosts": ("a",), "group": "a b"},
        {"hosts": ("a",), "cluster": "/"},
        {"hosts": ("a",), "zookeeper": ("b",)},
    ],
)
def test_wrong_wishes_are_refused(wish: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises((InvalidParameter, InvalidName, ConfigError)):
        Machines(directory=str(tmp_path / "new"), **wish)  # type: ignore[arg-type]
