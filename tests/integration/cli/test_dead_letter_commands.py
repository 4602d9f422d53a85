"""`zenit dlq list | show | redrive` against a real cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from client_kit import remoting_of

from zenitmq import Admin, Message, Producer
from zenitmq.remoting.commands import SendBack
from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as started:
        yield started


@pytest.fixture
def namesrv(cluster: LocalCluster) -> str:
    return cluster.namesrv


@pytest.fixture
def zenit(cluster: LocalCluster) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        command = [ZENIT, *arguments, "--namesrv", cluster.namesrv]
        done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def give_up(namesrv: str, group: str, topic: str, *bodies: bytes) -> None:
    """Sends messages that the group gives up at once."""
    with Admin(namesrv) as admin, Producer(namesrv=namesrv) as producer, remoting_of(namesrv) as client:
        admin.create_topic(topic, queues=1)
        for body in bodies:
            receipt = producer.send(Message(topic, body, tags="buy"))
            address = admin.route(topic).address_of(receipt.queue.broker_name)
            assert address is not None
            request = SendBack(group, topic, receipt.physical_offset, -1, reason=f"ValueError: {body.decode()}\nno")
            client.call(address, request, timeout_ms=5000)


def test_letters_are_listed_shown_and_sent_again(namesrv: str, zenit: Callable[..., Any]) -> None:
    give_up(namesrv, "billing", "orders", b"1", b"2", b"3")
    (row,) = json.loads(zenit("dlq", "list", "--group", "billing", "--json").stdout)
    assert (row["group"], row["letters"], row["redriven"]) == ("billing", 3, 0)
    assert "billing" in zenit("dlq", "list").stdout
    shown = json.loads(zenit("dlq", "show", "billing", "--max", "2", "--json").stdout)
    assert [(letter["body"], letter["origin_topic"], letter["attempts"]) for letter in shown] == [
        ("3", "orders", 1),
        ("2", "orders", 1),
    ]
    assert shown[0]["reason"] == "ValueError: 3\nno"
    assert "ValueError: 3 no" in zenit("dlq", "show", "billing").stdout
    assert zenit("dlq", "redrive", "billing", "--dry-run").stdout == "3 letters would be sent again: 3 to orders\n"
    assert json.loads(zenit("dlq", "redrive", "billing", "--max", "1", "--json").stdout)["redriven"] == 1
    assert zenit("dlq", "redrive", "billing").stdout == "2 of 2 letters sent again: 2 to orders\n"
    assert zenit("dlq", "redrive", "billing").stdout == "0 of 0 letters sent again\n"
    lines = zenit("consume", "orders", "--group", "all", "--from", "earliest", "--idle-exit", "1").stdout.split()
    assert sorted(lines) == sorted("123" * 2)


def test_what_cannot_be_sent_is_told(namesrv: str, zenit: Callable[..., Any]) -> None:
    give_up(namesrv, "stuck", "short-lived", b"1")
    zenit("topic", "delete", "short-lived")
    stopped = zenit("dlq", "redrive", "stuck", "--json", status=1)
    assert json.loads(stopped.stdout)["failed"] == 1
    assert "short-lived" in stopped.stderr
    assert stopped.stderr.count("\n") == 1
    assert "zenit: " in zenit("dlq", "redrive", "stuck", "--to", "rmq_sys_wheel_timer", status=1).stderr
    for wrong in (("--to", "no topic"), ("--max", "0"), ("--since", "yesterday")):
        zenit("dlq", "redrive", "stuck", *wrong, status=2)


def test_a_group_without_letters(zenit: Callable[..., Any]) -> None:
    zenit("group", "create", "flawless")
    assert json.loads(zenit("dlq", "show", "flawless", "--json").stdout) == []
    assert json.loads(zenit("dlq", "list", "--group", "flawless", "--json").stdout)[0]["letters"] == 0
    assert json.loads(zenit("dlq", "redrive", "flawless", "--json").stdout)["letters"] == 0
    assert "did you mean 'flawless'?" in zenit("dlq", "show", "flawles", status=1).stderr
    zenit("dlq", "list", "--group", "nobody", status=1)
    zenit("dlq", "show", "no group", status=2)
