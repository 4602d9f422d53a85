"""A secured group of three: nothing changes for who has a key, and everything for who has none."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from zenitmq.client.admin import Admin
from zenitmq.client.consuming.start_from import StartFrom
from zenitmq.client.producer import Producer
from zenitmq.client.pull_consumer import PullConsumer
from zenitmq.model.errors import AccessDenied, AuthenticationFailed, HandshakeFailed, KeyFileRefused, ZenitError
from zenitmq.model.message import Message
from zenitmq.model.names import AUDIT_TOPIC
from zenitmq.model.security.principals import RuleEffect, User
from zenitmq.model.security.row_codec import RowKind
from zenitmq.model.security.rule_text import parse_rule
from zenitmq.remoting.security.curve_socket import new_key_pair
from zenitmq.remoting.security.key_file import KeyFile, read_key_file, write_key_file
from zenitmq.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(replicas=3, secure=True) as running:
        running.create_topic("orders")
        yield running


def a_strangers_key(cluster: LocalCluster, directory: Path, user: str = "stranger") -> str:
    """A key that nobody has granted, with the name servers' public keys."""
    path = str(directory / f"{user}.key")
    write_key_file(path, KeyFile(user, new_key_pair(), read_key_file(cluster.key()).servers))
    return path


def zenit(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: this one knows the cluster's key."""
    command = [sys.executable, "-P", "-m", "zenitmq", *arguments]
    environ = {**os.environ, "HOME": str(home)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def test_messages_go_through_and_survive_the_masters_death(cluster: LocalCluster) -> None:
    with Producer(namesrv=cluster.namesrv, key=cluster.key(), timeout=20) as producer:
        producer.send(Message("orders", b"before"))
        cluster.kill(cluster.master)
        producer.send(Message("orders", b"after"))
    cluster.restart()
    with PullConsumer("audit", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe("orders")
        bodies: set[bytes] = set()
        while bodies != {b"before", b"after"}:
            bodies |= {message.body for message in consumer.poll(timeout=20)}


def test_a_stranger_gets_in_nowhere(cluster: LocalCluster, tmp_path: Path) -> None:
    key = a_strangers_key(cluster, tmp_path)
    with Admin(namesrv=cluster.namesrv, key=key) as admin, pytest.raises(AuthenticationFailed):
        admin.topics()
    with Producer(namesrv=cluster.namesrv, key=key) as producer, pytest.raises(ZenitError):
        producer.send(Message("orders", b"x"))
    document = json.loads(Path(cluster.directory, "cluster.json").read_text("utf-8"))
    for process in document["processes"]:
        if process["role"] == "zookeeper":
            continue
        host, _, port = process["address"].rpartition(":")
        with socket.create_connection((host, int(port)), 5) as raw:
            raw.sendall(b"GET / HTTP/1.0\r\n\r\n" * 100)
            raw.settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                assert b"orders" not in raw.recv(4096)


def test_who_has_no_key_is_told_what_is_missing(cluster: LocalCluster, tmp_path: Path) -> None:
    done = zenit("topic", "list", "--namesrv", cluster.namesrv, home=tmp_path)
    assert done.returncode == 1
    assert "does it want a key?" in done.stderr
    assert "--user" in done.stderr
    done = zenit("topic", "list", "--namesrv", cluster.namesrv, "--user", cluster.key(), home=tmp_path)
    assert done.returncode == 0
    assert "orders" in done.stdout
    done = zenit("topic", "list", "--user", "nobody", home=tmp_path)
    assert done.returncode == 2
    assert "no key file nobody.key" in done.stderr


def test_rights_outlive_the_master_that_stored_them(cluster: LocalCluster, tmp_path: Path) -> None:
    key = a_strangers_key(cluster, tmp_path, "billing")
    rules = (parse_rule(RuleEffect.ALLOW, "pub", "topic:orders"),)
    with Admin(namesrv=cluster.namesrv, key=cluster.key(), timeout=20) as admin:
        change = admin.put_security_row(User("billing", (read_key_file(key).pair.public,), rules=rules))
        assert change.untold == {}
        cluster.kill(cluster.master)
        with Producer(namesrv=cluster.namesrv, key=key, timeout=20) as producer:
            producer.send(Message("orders", b"from billing"))
            with pytest.raises(AccessDenied):
                producer.send(Message("payments", b"x"))
            cluster.restart()
            admin.delete_security_row(RowKind.USER, "billing")
            with pytest.raises((AccessDenied, AuthenticationFailed)):
                producer.send(Message("orders", b"x"), timeout=2)


def test_top_and_events_say_what_their_user_may_not_see(cluster: LocalCluster, tmp_path: Path) -> None:
    key = a_strangers_key(cluster, tmp_path, "viewer")
    rules = (parse_rule(RuleEffect.ALLOW, "list", "topic:*"),)
    with Admin(namesrv=cluster.namesrv, key=cluster.key(), timeout=20) as admin:
        admin.put_security_row(User("viewer", (read_key_file(key).pair.public,), rules=rules))
        arguments = ("top", "--once", "--json", "--interval", "0.5", "--namesrv", cluster.namesrv, "--user", key)
        done = zenit(*arguments, home=tmp_path)
        events = zenit("events", "--namesrv", cluster.namesrv, "--user", key, home=tmp_path)
        admin.delete_security_row(RowKind.USER, "viewer")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [broker["role"] for broker in document["brokers"]] == ["master", "slave", "slave"]
    assert all("may not get on cluster" in broker["why"] for broker in document["brokers"])
    (orders,) = (topic for topic in document["topics"] if topic["topic"] == "orders")
    assert "may not get on topic:orders" in orders["why"]
    assert document["groups"] == []
    assert "may not get on cluster" in document["unseen"]["events"]
    assert (events.returncode, events.stdout) == (1, "")
    assert "may not get on cluster" in events.stderr
    assert replicas_that_refused(cluster, "viewer") == set(cluster.brokers)


def replicas_that_refused(cluster: LocalCluster, user: str) -> set[str]:
    """Of which the audit tells it: waits for all of them. Slaves hand what they noted to their master."""
    found: set[str] = set()
    deadline = time.monotonic() + 20
    with PullConsumer("auditors", namesrv=cluster.namesrv, start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe(AUDIT_TOPIC)
        while len(found) < len(cluster.brokers) and time.monotonic() < deadline:
            entries = [json.loads(message.body) for message in consumer.poll(timeout=1)]
            found |= {each["replica"] for each in entries if (each["kind"], each["user"]) == ("refusal", user)}
    return found


def test_keys_are_their_owners_alone(cluster: LocalCluster) -> None:
    keys = Path(cluster.directory, "keys")
    modes = {path.name: path.stat().st_mode & 0o777 for path in keys.iterdir()}
    assert {mode for name, mode in modes.items() if name != "trusted.toml"} == {0o600}
    assert keys.stat().st_mode & 0o777 == 0o700
    secrets = [read_key_file(str(path)).pair.secret for path in keys.glob("*.key")]
    said = "".join(path.read_text("utf-8") for path in Path(cluster.directory, "log").iterdir())
    assert not any(secret in said for secret in secrets)
    os.chmod(cluster.key(), 0o644)
    try:
        with pytest.raises(KeyFileRefused, match="chmod 600"):
            Admin(namesrv=cluster.namesrv, key=cluster.key())
    finally:
        os.chmod(cluster.key(), 0o600)


def test_zookeeper_shows_the_cluster_to_nobody_else(cluster: LocalCluster) -> None:
    document = json.loads(Path(cluster.directory, "cluster.json").read_text("utf-8"))
    stranger = KazooClient(document["zookeeper"])
    stranger.start(timeout=10)
    try:
        for path in ("/zenit/zenit/groups/broker-a", "/zenit/zenit/id"):
            with pytest.raises(NoAuthError):
                stranger.get(path)
            with pytest.raises(NoAuthError):
                stranger.set(path, b"x")
        with pytest.raises(NoAuthError):
            stranger.create("/zenit/zenit/controllers/x-0000000000", b"127.0.0.1:1")
    finally:
        stranger.stop()
        stranger.close()


def test_a_client_that_expects_another_server_does_not_talk_to_it(cluster: LocalCluster, tmp_path: Path) -> None:
    own = read_key_file(cluster.key())
    wrong = replace(own, servers=dict.fromkeys(own.servers, (new_key_pair().public,)))
    write_key_file(str(tmp_path / "wrong.key"), wrong)
    expected = pytest.raises(HandshakeFailed, match="its public key is another one")
    with Admin(namesrv=cluster.namesrv, key=str(tmp_path / "wrong.key"), timeout=3) as admin, expected:
        admin.topics()
