"""A user from its first key to its second: made, granted, used, replaced without a pause, and revoked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zenitmq.client.producer import Producer
from zenitmq.model.errors import AccessDenied, AuthenticationFailed, ZenitError
from zenitmq.model.message import Message
from zenitmq.remoting.security.key_file import read_key_file
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
