"""Listings that go on, topics that are changed, requests from the command line, and which cluster is spoken of."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))
WAIT_S = 60


def zenit(cluster: LocalCluster, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [ZENIT, *arguments, "--namesrv", cluster.namesrv]
    done = subprocess.run(
        command, env=cluster.environ, input="", capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize(
    "command",
    [
        "cluster",
        "topic list",
        "topic describe watched",
        "group list",
        "group describe watchers",
        "broker stats",
        "dlq list",
    ],
)
def test_a_listing_goes_on_a_document_a_line(command: str, one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "watched", "--queues", "1")
    zenit(one_broker, "group", "create", "watchers")
    arguments = [ZENIT, *command.split(), "--watch", "0.1", "--json", "--namesrv", one_broker.namesrv]
    with subprocess.Popen(arguments, env=one_broker.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(3):
            json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert (process.wait(WAIT_S), process.stderr.read()) == (130, b"")


def test_status_too_and_it_ends_with_its_reader(one_broker: LocalCluster) -> None:
    command = [ZENIT, "status", "--dir", one_broker.directory, "--watch=0.1"]
    with subprocess.Popen(command, env=one_broker.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"cluster ")
        process.stdout.close()
        assert (process.wait(WAIT_S), process.stderr.read()) == (0, b"")


def test_on_a_terminal_ctrl_c_gives_the_screen_back(one_broker: LocalCluster) -> None:
    ours, its = pty.openpty()
    command = [ZENIT, "cluster", "--watch", "0.1", "--namesrv", one_broker.namesrv]
    with subprocess.Popen(
        command, env=one_broker.environ, stdin=its, stdout=its, stderr=its, start_new_session=True
    ) as process:
        os.close(its)
        drawn = b""
        while drawn.count(b"\x1b[H") < 3:
            drawn += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        while b"\x1b[?1049l" not in drawn:
            drawn += os.read(ours, 65_536)
        assert process.wait(WAIT_S) == 130
    os.close(ours)
    assert b"\x1b[2J" not in drawn
    assert b"Traceback" not in drawn


def test_a_topic_is_changed(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "grown", "--queues", "2", "--attr", "a=1")
    document = json.loads(zenit(one_broker, "topic", "update", "grown", "--queues", "5", "--json").stdout)
    changed: dict[str, Any] = {"read_queues": 5, "write_queues": 5, "order": False, "attributes": {"a": "1"}}
    assert document == {"topic": "grown", "brokers": [{"broker_name": "broker-a", **changed}]}
    assert len(json.loads(zenit(one_broker, "topic", "describe", "grown", "--json").stdout)["queues"]) == 5
    said = zenit(one_broker, "topic", "update", "grown", "--order", "--attr", "b=2").stdout
    assert said.splitlines()[1].split() == ["broker-a", "5", "5", "yes", "a=1", "b=2"]
    zenit(one_broker, "topic", "update", "grown", "--no-order")
    topics = json.loads(zenit(one_broker, "topic", "list", "--json").stdout)
    (after,) = (topic for topic in topics if topic["name"] == "grown")
    assert after.items() >= {**changed, "attributes": {"a": "1", "b": "2"}}.items()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("fewer --queues 1", 1, "at least 3"),
        ("fewer", 2, "nothing to change"),
        ("fewer --queues 0", 2, "--queues"),
        ("fewre --queues 9", 1, "did you mean 'fewer'?"),
        ("fewer --queues 100000", 1, "1 to "),
    ],
)
def test_a_topic_is_not_changed(arguments: str, code: int, says: str, one_broker: LocalCluster) -> None:
    """Queues hold messages: none is taken away."""
    zenit(one_broker, "topic", "create", "fewer", "--queues", "3")
    done = zenit(one_broker, "topic", "update", *arguments.split(), code=code)
    assert (says in done.stderr, done.stderr.count("\n")) == (True, 1), done.stderr
    assert len(json.loads(zenit(one_broker, "topic", "describe", "fewer", "--json").stdout)["queues"]) == 3


def test_a_request_gets_its_reply(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "asked", "--queues", "1")
    with answering(one_broker, "asked", "--max", "2") as process:
        answer = zenit(one_broker, "request", "asked", "--body", "2 + 2", "--timeout", "30")
        assert answer.stdout == "2 + 2\n"
        command = [ZENIT, "request", "asked", "--json", "--prop", "unit=EUR", "--namesrv", one_broker.namesrv]
        piped = subprocess.run(
            command, env=one_broker.environ, input=b"from\nstdin", capture_output=True, timeout=WAIT_S, check=True
        )
        assert json.loads(piped.stdout)["body"] == "from\nstdin"
        assert process.stdout is not None
        assert process.stdout.read() == b"2 + 2\nfrom\nstdin\n"
        assert process.wait(WAIT_S) == 0


def answering(cluster: LocalCluster, topic: str, *arguments: str) -> subprocess.Popen[bytes]:
    """`zenit reply`, whose group has begun: what is asked from now on it gets."""
    command: Sequence[str] = [ZENIT, "reply", topic, "--group", f"of-{topic}", *arguments, "--namesrv", cluster.namesrv]
    process = subprocess.Popen(command, env=cluster.environ, stdout=subprocess.PIPE)
    while True:
        groups = json.loads(zenit(cluster, "group", "list", "--json").stdout)
        if any(group["name"] == f"of-{topic}" and group["members"] for group in groups):
            return process


def test_a_request_without_an_answer_is_told(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "unanswered", "--queues", "1")
    done = zenit(one_broker, "request", "unanswered", "--body", "?", "--timeout", "0.5", code=1)
    assert done.stderr == (
        "zenit: nobody on topic unanswered replied within 0.5 s; is somebody there? (zenit reply unanswered)\n"
    )
    assert "did you mean 'unanswered'?" in zenit(one_broker, "request", "unansweredd", "--body", "", code=1).stderr


def test_a_bench_says_which_cluster_it_loads(one_broker: LocalCluster) -> None:
    (broker,) = json.loads(zenit(one_broker, "cluster", "--json").stdout)["brokers"]
    done = zenit(one_broker, "bench", "produce", "--seconds", "0.2", "--limit-seconds", "0", "--queues", "1", "--json")
    facts = {"name": broker["cluster"], "id": broker["cluster_id"], "namesrv": one_broker.namesrv}
    assert json.loads(done.stdout)["cluster"] == {**facts, "started_for_this": False}
    assert f"bench: cluster zenit ({broker['cluster_id']}) at {one_broker.namesrv}, which runs already" in done.stderr
