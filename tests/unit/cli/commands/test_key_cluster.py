"""`zenit key cluster`: the files of a whole cluster, made again without a change to those that are there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from zenitmq.cli.commands.rights.key import cluster_keys, rotate
from zenitmq.remoting.security.curve_socket import new_key_pair
from zenitmq.remoting.security.key_file import read_key_file, write_key_file
from zenitmq.remoting.security.opened_security import read_trusted

SERVERS = ("namesrv-1=namesrv-1:9876", "controller-1=controller-1:9878", "broker-a/broker-a-1")


def made(directory: Path, *servers: str) -> None:
    cluster_keys(str(directory), list(servers), as_json=True)


def test_each_server_gets_a_key_bound_to_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    made(keys, *SERVERS)
    rows = {row.user.name: row for row in read_trusted(str(keys / "trusted.toml"))}
    assert set(rows) == {"admin", "namesrv-1", "controller-1", "broker-a-1"}
    binding = rows["broker-a-1"].user.binding
    assert binding is not None
    assert (binding.cluster, binding.group, binding.replica) == ("zenit", "broker-a", "broker-a-1")
    assert rows["namesrv-1"].addresses == ("namesrv-1:9876",)
    admin = read_key_file(str(keys / "admin.key"))
    assert set(admin.servers) == {"namesrv-1:9876", "controller-1:9878"}
    assert admin.servers["namesrv-1:9876"] == (read_key_file(str(keys / "namesrv-1.key")).pair.public,)
    for secret in ("zookeeper.login", "users.secrets", "admin.key"):
        assert os.stat(keys / secret).st_mode & 0o777 == 0o600


def test_a_second_call_keeps_the_keys_and_adds_a_server(tmp_path: Path) -> None:
    made(tmp_path, *SERVERS)
    before = read_key_file(str(tmp_path / "broker-a-1.key"))
    made(tmp_path, *SERVERS, "broker-a/broker-a-2", "namesrv-2=namesrv-2:9876")
    after = read_key_file(str(tmp_path / "broker-a-1.key"))
    assert after.pair.public == before.pair.public
    assert "namesrv-2:9876" in after.servers
    assert "broker-a-2" in {row.user.name for row in read_trusted(str(tmp_path / "trusted.toml"))}


def test_what_an_operator_added_to_the_trusted_file_stays(tmp_path: Path) -> None:
    made(tmp_path, *SERVERS)
    path = tmp_path / "trusted.toml"
    new, guest = new_key_pair().public, new_key_pair().public
    public = read_key_file(str(tmp_path / "broker-a-1.key")).pair.public
    path.write_text(path.read_text().replace(f'"{public}"', f'"{public}", "{new}"'))
    with path.open("a") as file:
        file.write(f'\n[[user]]\nname = "guest"\nkind = "normal"\nkeys = ["{guest}"]\n')
    made(tmp_path, *SERVERS, "namesrv-2=namesrv-2:9876")
    rows = {row.user.name: row for row in read_trusted(str(path))}
    assert set(rows) == {"admin", "namesrv-1", "namesrv-2", "controller-1", "broker-a-1", "guest"}
    assert rows["broker-a-1"].user.keys == (public, new)
    assert rows["guest"].user.keys == (guest,)


def test_a_rotation_that_is_half_done_stays_so(tmp_path: Path) -> None:
    """The name server runs with its old key until it restarts: who forgot that one could not reach it any more."""
    made(tmp_path, *SERVERS)
    old, ours = (read_key_file(str(tmp_path / name)) for name in ("namesrv-1.key", "admin.key"))
    rotate(str(tmp_path / "namesrv-1.key"), str(tmp_path / "trusted.toml"), as_json=True)
    elsewhere = new_key_pair().public
    write_key_file(
        str(tmp_path / "admin.key"), replace(ours, servers={**ours.servers, "far-1:9876": (elsewhere,)}), replace=True
    )
    made(tmp_path, *SERVERS, "broker-a/broker-a-2")
    new = read_key_file(str(tmp_path / "namesrv-1.key")).pair.public
    for name in ("admin", "broker-a-1", "broker-a-2"):
        assert read_key_file(str(tmp_path / f"{name}.key")).servers["namesrv-1:9876"] == (new, old.pair.public)
    assert read_key_file(str(tmp_path / "admin.key")).servers["far-1:9876"] == (elsewhere,)


def test_a_server_that_is_added_alone_takes_no_other_away(tmp_path: Path) -> None:
    made(tmp_path, *SERVERS)
    made(tmp_path, "namesrv-2=namesrv-2:9876")
    assert set(read_key_file(str(tmp_path / "admin.key")).servers) == {
        "namesrv-1:9876",
        "namesrv-2:9876",
        "controller-1:9878",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "namesrv-1",
        "a/b=c:1",
        "a=b",
        "a b/c",
        "../x/y",
        "../x=a:1",
        "admin=a:1",
        "namesrv-1=b:2",
        "other=namesrv-1:9876",
    ],
)
def test_what_names_no_server_is_refused_before_a_file_is_written(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(typer.BadParameter):
        made(tmp_path / "keys", *SERVERS, wrong)
    assert not (tmp_path / "keys").exists()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(typer.BadParameter, match="cannot be written"):
        made(tmp_path / "file" / "keys", *SERVERS)
