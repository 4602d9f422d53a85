"""A user from its first key to its second: made, granted, used, replaced without a pause, and revoked."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zenitmq.client.connection.client_keys import new_remoting
from zenitmq.client.producer import Producer
from zenitmq.model.errors import AccessDenied, AuthenticationFailed, ZenitError
from zenitmq.model.message import Message
from zenitmq.model.security.signatures import signature_of
from zenitmq.remoting.commands import CheckSignatures
from zenitmq.remoting.security.curve_socket import new_key_pair
from zenitmq.remoting.security.key_file import read_key_file
from zenitmq.remoting.security.secret_keys import read_secret_keys
from zenitmq.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(secure=True) as running:
        running.create_topic("orders")
        yield running


def zenit(cluster: LocalCluster, home: Path, *arguments: str) -> Any:
    """The JSON that the command prints, as the administrator. Raises CalledProcessError."""
    environ = {**os.environ, "HOME": str(home), "ZENIT_KEY": cluster.key(), "ZENIT_NAMESRV": cluster.namesrv}
    command = [sys.executable, "-P", "-m", "zenitmq", *arguments, "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def send(cluster: LocalCluster, key: str) -> None:
    """Over a connection of its own. Raises what the send does."""
    with Producer(namesrv=cluster.namesrv, key=key, timeout=5) as producer:
        producer.send(Message("orders", b"x"))


def test_a_user_gets_a_key_and_a_right_and_changes_the_key(cluster: LocalCluster, tmp_path: Path) -> None:
    made = zenit(cluster, tmp_path, "key", "new", "billing", "--out", str(tmp_path / "billing.key"))
    key = made["path"]
    assert set(made["servers"]) == {cluster.namesrv}, "where the administrator's key has them"
    with pytest.raises(AuthenticationFailed):
        send(cluster, key)
    zenit(cluster, tmp_path, "user", "create", "billing", "--key", made["public"])
    with pytest.raises(AccessDenied):
        send(cluster, key)
    zenit(cluster, tmp_path, "policy", "allow", "billing", "pub", "topic:orders")
    send(cluster, key)

    rotated = zenit(cluster, tmp_path, "key", "rotate", key)
    assert rotated["old_public"] == made["public"] != rotated["public"]
    assert read_key_file(key).pair.public == rotated["public"]
    assert zenit(cluster, tmp_path, "key", "show", key)["public"] == rotated["public"]
    for path in (key, rotated["old_path"]):
        send(cluster, path)

    zenit(cluster, tmp_path, "user", "remove-key", "billing", made["public"])
    send(cluster, key)
    with pytest.raises(ZenitError):
        send(cluster, rotated["old_path"])
    zenit(cluster, tmp_path, "user", "disable", "billing")
    with pytest.raises(ZenitError):
        send(cluster, key)


def test_a_servers_key_is_changed_in_the_trusted_file(cluster: LocalCluster, tmp_path: Path) -> None:
    trusted = os.path.join(cluster.directory, "keys", "trusted.toml")
    rotated = zenit(cluster, tmp_path, "key", "rotate", cluster.key("broker-a"), "--trusted", trusted)
    text = Path(trusted).read_text("utf-8")
    assert rotated["public"] in text
    assert rotated["old_public"] in text
    send(cluster, cluster.key())  # the broker still has its old key
    cluster.kill("broker-a")
    cluster.restart()
    send(cluster, cluster.key())


def test_a_secret_is_printed_once_and_every_server_checks_what_it_signed(cluster: LocalCluster, tmp_path: Path) -> None:
    zenit(cluster, tmp_path, "user", "create", "shop", "--key", new_key_pair().public)
    made = zenit(cluster, tmp_path, "user", "secret", "shop")
    assert zenit(cluster, tmp_path, "user", "show", "shop")["secrets"] == 1
    signature = base64.b64encode(signature_of(made["secret"], b"now")).decode()
    request = CheckSignatures((("shop", signature, 3),))
    document = json.loads(Path(cluster.directory, "cluster.json").read_text("utf-8"))
    addresses = [process["address"] for process in document["processes"]]
    with new_remoting(cluster.key(), (cluster.namesrv,)) as client:
        assert [client.call(each, request, b"now", timeout_ms=5000)[0].users for each in addresses] == [("shop",)] * 2
        zenit(cluster, tmp_path, "user", "remove-secret", "shop")
        assert [client.call(each, request, b"now", timeout_ms=5000)[0].users for each in addresses] == [("",)] * 2
    said = "".join(path.read_text("utf-8") for path in Path(cluster.directory, "log").iterdir())
    assert made["secret"] not in said


def test_the_key_of_secrets_is_a_file_of_its_own(cluster: LocalCluster, tmp_path: Path) -> None:
    path = zenit(cluster, tmp_path, "key", "secrets", "--out", str(tmp_path / "secrets.key"))["path"]
    assert len(read_secret_keys(path)) == 1
    with pytest.raises(AssertionError, match="exists already"):
        zenit(cluster, tmp_path, "key", "secrets", "--out", path)


def test_a_name_servers_key_is_changed_without_a_pause(cluster: LocalCluster, tmp_path: Path) -> None:
    keys = Path(cluster.directory, "keys")
    made = zenit(cluster, tmp_path, "key", "new", "mover", "--out", str(tmp_path / "mover.key"))
    mover, before = made["path"], str(tmp_path / "before.key")
    shutil.copy(mover, before)
    zenit(cluster, tmp_path, "user", "create", "mover", "--key", made["public"])
    zenit(cluster, tmp_path, "policy", "allow", "mover", "pub", "topic:orders")
    own, trusted = str(keys / "namesrv-1.key"), str(keys / "trusted.toml")
    rotated = zenit(cluster, tmp_path, "key", "rotate", own, "--trusted", trusted)
    asked = f"{cluster.namesrv}={rotated['public']}"
    assert f"zenit key trust FILE '{asked}'" in rotated["next"]
    told = zenit(cluster, tmp_path, "key", "trust", mover, asked)
    assert told["servers"] == {cluster.namesrv: [rotated["public"], rotated["old_public"]]}
    with pytest.raises(AssertionError, match="--only"):
        zenit(cluster, tmp_path, "key", "trust", mover, f"{cluster.namesrv}={new_key_pair().public}")
    for path in (mover, before):  # the name server still has its old key
        send(cluster, path)
    cluster.kill("namesrv-1")
    cluster.restart()
    send(cluster, mover)
    with pytest.raises(ZenitError, match="its public key is another one"):
        send(cluster, before)
    zenit(cluster, tmp_path, "key", "trust", mover, asked, "--only")
    assert read_key_file(mover).servers == {cluster.namesrv: (rotated["public"],)}
    send(cluster, mover)
