"""An open cluster with users becomes a secured one, as docs/security.md says: nothing acknowledged is lost, nobody stops."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from scrape_kit import Scrape
from zenit_kit import run_zenit

from zenitmq import FIRST, Admin, Message, Producer, PullConsumer
from zenitmq.deploy.embedded_zookeeper import start_zookeeper, stop_zookeeper
from zenitmq.model.errors import AccessDenied, ConnectionLost, ZenitError
from zenitmq.remoting.security.key_file import read_key_file

pytestmark = pytest.mark.timeout(240)

BROKERS = ("broker-a-1", "broker-a-2", "broker-a-3")
SERVERS = ("namesrv-1", "controller-1", *BROKERS)
ROLES = {"namesrv-1": "namesrv", "controller-1": "controller"} | dict.fromkeys(BROKERS, "broker")
TOPIC = "orders"
WITHIN_S = 60
GAP_S_MAX = 15.0
"""Between two acknowledgements: a master that is restarted is replaced in a few seconds."""


def eventually(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + WITHIN_S
    while True:
        with suppress(OSError, AssertionError):
            if condition():
                return
        assert time.monotonic() < ends, "did not come true in time"
        time.sleep(0.05)


class Servers:
    """Processes with a settings file each; five ports: two for requests, and replication, publishing, metrics."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        with ExitStack() as taken:
            listeners = [
                taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(5 * len(SERVERS) + 1)
            ]
            ports = iter([int(one.getsockname()[1]) for one in listeners])
        self.old, self.new, self.third, self.metrics = ({name: next(ports) for name in SERVERS} for _ in range(4))
        self.zookeeper = start_zookeeper(str(directory / "zookeeper"), next(ports))

    def at(self, ports: dict[str, int], name: str) -> str:
        return f"127.0.0.1:{ports[name]}"

    def settings(self, name: str, port: int, among: dict[str, int], *more: str) -> str:
        """`among`: the ports at which servers look for each other."""
        lines = [f"port = {port}"]
        match ROLES[name]:
            case "namesrv":
                lines += [f"publish_port = {self.third[name]}"]
            case "controller":
                lines += [
                    f'zookeeper = ["{self.zookeeper.address}"]',
                    "new_group.min_in_sync = 2",
                    "new_group.replicas = 3",
                ]
            case _:
                lines += [f'replica = "{name}"', f"replication_port = {self.third[name]}"]
                lines += [f'namesrv = ["{self.at(among, "namesrv-1")}"]']
                lines += [f'controllers = ["{self.at(among, "controller-1")}"]']
                lines += [f'store_dir = "{self.directory / name}"', "store.segment_bytes = 16777216"]
                lines += ["store.index_slots = 4096", "store.index_entries = 16384"]
        return "\n".join([*lines, f'metrics.bind = "{self.at(self.metrics, name)}"', *more, ""])

    def start(self, name: str, settings: str) -> None:
        """Restarts it if it runs, and returns once all is well again: everybody ready, all replicas in sync."""
        file = self.directory / f"{name}.toml"
        file.write_text(settings)
        self.stop(name)
        command = [sys.executable, "-P", "-m", "zenitmq", ROLES[name], "--config", str(file)]
        with open(self.directory / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(command, stderr=log, stdout=log, cwd=self.directory)
        if len(self.running) == len(SERVERS):
            eventually(self.are_well)

    def are_well(self) -> bool:
        pages = {name: Scrape.page(self.at(self.metrics, name), "/readyz") for name in self.running}
        masters = [name for name, page in pages.items() if page == (200, "ready: master\n")]
        if any(status != 200 for status, _ in pages.values()) or len(masters) != 1:
            return False
        rows = Scrape.take(self.at(self.metrics, masters[0])).rows
        return [value for name, _, value in rows if name == "zenit_group_in_sync"] == [len(BROKERS)]

    def stop(self, name: str) -> None:
        process = self.running.pop(name, None)
        if process is not None:
            process.terminate()
            try:
                process.wait(20)
            finally:
                process.kill()

    def close(self) -> None:
        for name in reversed(SERVERS):
            self.stop(name)
        stop_zookeeper(self.zookeeper)

    def said(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()


class Traffic:
    """A producer and a consumer that go on, and may be followed by others with a key."""

    def __init__(self, namesrv: str, key: str | None, received: set[bytes]) -> None:
        self.sent: list[bytes] = []
        self.received = received
        self.gap_s = 0.0
        self.failed: list[BaseException] = []
        self._ends = threading.Event()
        self._place = {"namesrv": namesrv, "key": key}
        self._name = "open" if key is None else "keyed"
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised by `end`)
            self.failed.append(error)

    def _produce(self) -> None:
        with Producer("shop", timeout=WITHIN_S, **self._place) as producer:
            last = time.monotonic()
            while not self._ends.wait(0.005):
                body = f"{self._name} {len(self.sent)}".encode()
                producer.send(Message(TOPIC, body))
                self.sent.append(body)
                self.gap_s, last = max(self.gap_s, time.monotonic() - last), time.monotonic()

    def _consume(self) -> None:
        with PullConsumer("readers", start_from=FIRST, **self._place) as consumer:
            consumer.subscribe(TOPIC)
            while not self._ends.is_set():
                self.received.update(message.body for message in consumer.poll(timeout=0.2))
                with suppress(ZenitError):
                    consumer.commit()

    def went_on(self) -> None:
        """Returns once messages sent from now on were received."""
        count = len(self.sent)
        eventually(
            lambda: bool(self.failed) or (len(self.sent) > count and set(self.sent[: count + 1]) <= self.received)
        )
        assert not self.failed, self.failed

    def end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(WITHIN_S + 10)
        assert not self.failed, self.failed


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    try:
        yield made
    finally:
        made.close()


def new_key(directory: Path, name: str, *options: str) -> str:
    """The public key of a new key file NAME.key."""
    done = run_zenit("key", "new", name, "--out", f"{name}.key", *options, "--json", home=directory)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["public"])


def write_trusted(servers: Servers, public: dict[str, str]) -> None:
    rows: list[dict[str, Any]] = [{"name": "admin", "kind": "super", "keys": [public["admin"]]}]
    any_server = {"cluster": "*", "group": "*", "replica": "*"}
    rows.append({"name": "not-yet", "kind": "server", "keys": [], **any_server})
    rows.append({"name": "guest", "kind": "super", "keys": []})
    for name in SERVERS:
        group = "broker-a" if name in BROKERS else ""
        row = {
            "name": name,
            "kind": "server",
            "keys": [public[name]],
            "cluster": "zenit",
            "group": group,
            "replica": name,
        }
        rows.append(row if group else row | {"addresses": [servers.at(servers.new, name)]})
    text = "\n".join(
        "[[user]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items()) for row in rows
    )
    (servers.directory / "trusted.toml").write_text(text)


def test_a_cluster_is_secured_while_it_is_used(servers: Servers) -> None:
    directory, old, new = servers.directory, servers.old, servers.new
    for name in SERVERS:
        servers.start(name, servers.settings(name, old[name], old))
    open_door = servers.at(old, "namesrv-1")
    with Admin(open_door) as admin:
        admin.create_topic(TOPIC, queues=4)
    received: set[bytes] = set()
    before = Traffic(open_door, None, received)
    try:
        before.went_on()

        # 1: keys, and whom to trust
        public = {name: new_key(directory, name) for name in SERVERS}
        door = servers.at(new, "namesrv-1")
        public["admin"] = new_key(directory, "admin", "--server", f"{door}={public['namesrv-1']}")
        write_trusted(servers, public)

        def security(name: str, open_user: str = "") -> list[str]:
            lines = ["[security]", f'key = "{directory / name}.key"', f'trusted = "{directory / "trusted.toml"}"']
            return [*lines, f"open_port = {old[name]}", f'open_user = "{open_user}"'] if open_user else lines

        # 2: each server listens twice
        for name in SERVERS:
            servers.start(name, servers.settings(name, new[name], old, *security(name, "not-yet")))
            before.went_on()

        # 3: servers use their keys among each other
        for name in (*BROKERS, "namesrv-1", "controller-1"):
            servers.start(name, servers.settings(name, new[name], new, *security(name, "guest")))
            before.went_on()

        # 4: clients use theirs
        key = str(directory / "admin.key")
        after = Traffic(door, key, received)
    finally:
        before.end()
    try:
        after.went_on()

        # 5: nobody comes in without
        for name in SERVERS:
            port = old[name] if name in BROKERS else new[name]
            servers.start(name, servers.settings(name, port, new, *security(name)))
            after.went_on()
    finally:
        after.end()
    with PullConsumer("readers", namesrv=door, key=key) as rest:
        rest.subscribe(TOPIC)
        sent = set(before.sent) | set(after.sent)
        eventually(lambda: received.update(m.body for m in rest.poll(timeout=0.5)) or sent <= received)
    assert sent <= received
    assert max(before.gap_s, after.gap_s) < GAP_S_MAX
    with Admin(open_door, timeout=2) as admin, pytest.raises((ConnectionLost, AccessDenied)):
        admin.topics()
    secrets = [read_key_file(str(path)).pair.secret for path in directory.glob("*.key")]
    for name in SERVERS:
        assert "Traceback" not in servers.said(name)
        assert not any(secret in servers.said(name) for secret in secrets)
