"""What a user does with a replicated cluster: up, a master killed, another elected by hand, down, up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zenitmq.deploy.embedded_zookeeper import start_zookeeper, stop_zookeeper
from zenitmq.deploy.processes import port_is_free
from zenitmq.model.clock import monotonic_ms, sleep_ms

pytestmark = pytest.mark.timeout(300)

ZENIT = str(Path(sys.executable).with_name("zenit"))
SMALL_STORE = (
    "--set",
    "store.segment_bytes=1048576",
    "--set",
    "store.index_slots=1024",
    "--set",
    "store.index_entries=4096",
)


class Session:
    """Runs `zenit` with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.directory = str(home / "z")
        self.environment = {**os.environ, "HOME": str(home)}
        self.environment.pop("ZENIT_NAMESRV", None)

    def run(self, *arguments: str, stdin: bytes = b"", status: int = 0, **environ: str) -> bytes:
        done = subprocess.run(
            [ZENIT, *arguments],
            input=stdin,
            env=self.environment | environ,
            cwd=self.home,
            capture_output=True,
            timeout=150,
            check=False,
        )
        said = f"zenit {' '.join(arguments)}: {done.returncode}\n{done.stdout!r}\n{done.stderr!r}"
        assert done.returncode == status, said
        assert b"Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stderr

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        return json.loads(self.run(*arguments, "--json", stdin=stdin))

    def up(self, *arguments: str) -> dict[str, Any]:
        document: dict[str, Any] = self.json("up", "--dir", self.directory, "--detach", *arguments)
        return document

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = self.json("status", "--dir", self.directory)
        return document

    def group(self, number: int = 0) -> dict[str, Any]:
        group: dict[str, Any] = self.status()["groups"][number]
        return group

    def await_group(self, condition: Callable[[dict[str, Any]], bool], timeout_ms: int = 30_000) -> dict[str, Any]:
        deadline_ms = monotonic_ms() + timeout_ms
        while not condition(group := self.group()):
            assert monotonic_ms() < deadline_ms, group
            sleep_ms(100)
        return group

    def events(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("events", "--json", *arguments).splitlines()]

    def consume(self, topic: str, group: str) -> list[bytes]:
        return self.run("consume", topic, "--group", group, "--idle-exit", "2").split(b"\n")[:-1]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    yield made
    if (tmp_path / "z" / "cluster.json").exists():
        made.run("down", "--dir", made.directory)


def is_whole(group: dict[str, Any]) -> bool:
    """All three in sync, one of them master."""
    roles = sorted(replica["role"] for replica in group["replicas"])
    return len(group["in_sync"] or ()) == 3 and roles == ["master", "slave", "slave"]


def test_a_cluster_of_three_lives_on_without_its_master(session: Session) -> None:
    started = session.up("--replicas", "3", *SMALL_STORE)
    names = [process["name"] for process in started["processes"]]
    assert names == ["namesrv-1", "zookeeper", "controller-1", "broker-a-1", "broker-a-2", "broker-a-3"]
    first = session.await_group(is_whole)
    assert (first["broker_name"], first["min_in_sync"]) == ("broker-a", 2)
    assert session.status()["controller"] == started["processes"][2]["address"]
    shown = session.json("cluster")["brokers"]
    assert sorted((broker["role"], broker["lag_bytes"]) for broker in shown) == [
        ("master", 0),
        ("slave", 0),
        ("slave", 0),
    ]
    ports = {session.json("broker", "config", broker["address"])["port"] for broker in shown}  # of slaves too
    assert ports == {int(broker["address"].rpartition(":")[2]) for broker in shown}
    for arguments in ("status nix", "elect nix", "settings nix", "remove nix x", "remove broker-a nix"):
        said = session.run("controller", *arguments.split(), status=1)
        assert (said.count(b"\n"), b"'nix'" in said, b"(" in said) == (1, True, True), said  # with what to look at
    session.run("topic", "create", "orders", "--queues", "2")
    session.run("produce", "orders", stdin=b"".join(b"%d\n" % k for k in range(100)))

    (pid,) = [p["pid"] for p in started["processes"] if p["name"] == first["master"]]
    os.kill(pid, signal.SIGKILL)
    summary = session.json("produce", "orders", stdin=b"".join(b"%d\n" % k for k in range(100, 200)))
    assert (summary["sent"], summary["failed"]) == (100, 0)
    second = session.group()
    assert second["master"] not in (None, first["master"])
    assert second["epoch"] > first["epoch"]
    assert first["master"] not in second["in_sync"]
    roles = {replica["name"]: replica["role"] for replica in second["replicas"]}
    assert (roles[first["master"]], roles[second["master"]]) == ("down", "master")
    assert sorted(map(int, session.consume("orders", "g"))) == list(range(200))

    again = session.up()
    assert [p["name"] for p in again["processes"]] == names, "as it was, without being told"
    kept = {p["name"]: p["pid"] for p in started["processes"] if p["name"] != first["master"]}
    assert {p["name"]: p["pid"] for p in again["processes"] if p["name"] in kept} == kept, "only what was down"
    third = session.await_group(is_whole)
    assert {replica["lag_bytes"] for replica in third["replicas"]} == {0}

    elected = session.json("controller", "elect", "broker-a", "--replica", first["master"])
    assert (elected["master"], elected["epoch"]) == (first["master"], third["epoch"] + 1)
    assert session.await_group(is_whole)["master"] == first["master"]
    assert b"broker-a: master broker-a-" in session.run("controller", "elect", "broker-a")
    session.await_group(is_whole)

    ended = session.json("down", "--dir", session.directory)["ended"]
    assert [process["role"] for process in ended] == ["broker"] * 3 + ["controller", "zookeeper", "namesrv"]
    assert session.group()["master"] is None
    session.up()
    session.await_group(is_whole)
    assert sorted(map(int, session.consume("orders", "other"))) == list(range(200))

    (zookeeper,) = [process for process in session.status()["processes"] if process["role"] == "zookeeper"]
    os.kill(zookeeper["pid"], signal.SIGKILL)
    said = session.run("controller", "settings", "broker-a", status=1)
    assert (said.count(b"\n"), b"ZooKeeper" in said) == (1, True), said


def test_two_groups_of_two_and_two_controllers_over_a_zookeeper_that_runs(session: Session, tmp_path: Path) -> None:
    port = next(port for port in range(27181 + os.getpid() % 5000, 65000) if port_is_free(port))
    server = start_zookeeper(str(tmp_path / "zookeeper"), port)
    try:
        shape = ("--replicas", "2", "--groups", "2", "--controllers", "2", "--zookeeper", server.address)
        started = session.up(*shape, *SMALL_STORE)
        roles = [process["role"] for process in started["processes"]]
        assert roles == ["namesrv"] + ["controller"] * 2 + ["broker"] * 4
        ports = [int(p["address"].rpartition(":")[2]) for p in started["processes"] if p["role"] == "controller"]
        assert ports[1] > ports[0]
        assert (ports[1] - ports[0]) % 2 == 0
        groups = session.status()["groups"]
        assert [(group["broker_name"], group["min_in_sync"]) for group in groups] == [("broker-a", 1), ("broker-b", 1)]

        leader = session.status()["controller"]
        (pid,) = [p["pid"] for p in started["processes"] if p["address"] == leader]
        os.kill(pid, signal.SIGKILL)
        session.run("topic", "create", "t", "--queues", "1")
        session.run("produce", "t", stdin=b"1\n2\n3\n")
        assert len(session.consume("t", "g")) == 3, "no controller is needed for that"
        deadline_ms = monotonic_ms() + 20_000
        while session.status()["controller"] in (None, leader):
            assert monotonic_ms() < deadline_ms
            sleep_ms(100)
        check_history(session, started, dead=leader)
        refused = session.run("up", "--dir", session.directory, "--detach", "--replicas", "3", status=2)
        assert b"this one has 2 replicas" in refused
        ended = session.json("down", "--dir", session.directory)["ended"]
        assert "zookeeper" not in [process["role"] for process in ended]
    finally:
        stop_zookeeper(server)


def check_history(session: Session, started: dict[str, Any], *, dead: str) -> None:
    """What the dead controller decided is still told, and what the next one decides comes after it."""
    group = session.group()
    (pid,) = [process["pid"] for process in started["processes"] if process["name"] == group["master"]]
    os.kill(pid, signal.SIGKILL)
    deadline_ms = monotonic_ms() + 30_000
    elected: list[dict[str, Any]] = []
    while len(elected) < 2:
        assert monotonic_ms() < deadline_ms, elected
        elected = [event for event in session.events("--group", "broker-a") if event["event"] == "elected"]
    first, second = elected
    assert (first["node"], first["master"], first["epoch"]) == (dead, group["master"], group["epoch"])
    assert (second["old_master"], second["epoch"]) == (group["master"], group["epoch"] + 1)
    assert second["node"] not in (dead, "")
    assert second["why"]
    told = session.events()
    assert [event["ts"] for event in told] == sorted(event["ts"] for event in told)
    assert {"broker", "controller", "namesrv"} == {event["role"] for event in told}
    assert {"group_founded", "replica_joined", "role_changed", "controller_leads", "broker_registered"} <= {
        event["event"] for event in told
    }
    assert {event.get("group") for event in session.events("--group", "broker-b")} == {"broker-b"}
    assert session.events("--since", "1970-01-01T00:00:00Z")[0] == told[0]
    assert b"elected group=broker-a" in session.run("events", "--group", "broker-a")
    assert b"'nix'" in session.run("events", "--group", "nix", status=1)


def test_without_java_one_line_says_what_helps(session: Session) -> None:
    """Nothing was started for it."""
    hide = "import zenitmq.deploy.embedded_zookeeper as z, sys; z._package_folder = lambda name: None\n"
    hide += "sys.argv = ['zenit', 'up', '--replicas', '3', '--detach', '--dir', sys.argv[1]]\n"
    hide += "from zenitmq.cli.main import run; run()"
    environment = session.environment | {"PATH": "", "JAVA_HOME": ""}
    done = subprocess.run(
        [sys.executable, "-c", hide, session.directory],
        env=environment,
        cwd=session.home,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1), done.stderr
    assert b"Java for ZooKeeper not found; install it with: pip install 'zenitmq[spark]'" in done.stderr
    assert not (session.home / "z" / "cluster.json").exists()
