"""A name server behind real sockets: what brokers tell it, what clients learn, what it announces, how it stops."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zenitmq.model.errors import ConfigError, InvalidName, NoRoute, NotMaster, TopicNotFound, UnknownRequest
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import (
    AddWritePermission,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    CountReply,
    DeleteTopicRoute,
    GetClusterInfo,
    GetMaxOffset,
    GetNameServerEvents,
    GetRoute,
    GetTopicList,
    RegisterBroker,
    RegisterReply,
    Reply,
    Request,
    RouteReply,
    TopicListReply,
    UnregisterBroker,
    WipeWritePermission,
)

TIMEOUT_MS = 5000
LAUNCHER = Path(__file__).parents[3] / "deploy" / "namesrv.sh"


def registration(*topics: tuple[str, int, int, int], address: str = "h:1", epoch: int = 1) -> RegisterBroker:
    return RegisterBroker("c", "broker-a", 0, address, epoch, topics)


class Peer:
    """A name server and a client that talks to it."""

    def __init__(self, server: NameServer, client: RemotingClient) -> None:
        self.server = server
        self.client = client

    def call(self, request: Request) -> Reply:
        return self.client.call(self.server.address, request, timeout_ms=TIMEOUT_MS)[0]

    def announcements(self) -> queue.Queue[list[bytes]]:
        """A subscription that is known to work, since a probe was heard; the probe itself is left out."""
        heard: queue.Queue[list[bytes]] = queue.Queue()
        working = threading.Event()

        def on_message(frames: list[bytes]) -> None:
            if frames[0] == b"probe":
                working.set()
            else:
                heard.put(frames)

        host = self.server.address.rpartition(":")[0]
        self.client.subscribe(f"{host}:{self.server.publish_port}", on_message)
        for attempt in range(100):
            self.call(RegisterBroker("c", "probe", 0, "probe:1", 1, (("probe", 1, 1 + attempt, 6),)))
            if working.wait(0.05):
                break
        assert working.is_set()
        return heard


@pytest.fixture
def peer() -> Iterator[Peer]:
    config = NameServerConfig(port=0, heartbeat_timeout_ms=2000, scan_interval_ms=50)
    with NameServer(config) as server, RemotingClient() as client:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield Peer(server, client)
        finally:
            server.stop()
            thread.join(5)
            assert not thread.is_alive()


def test_a_registered_topic_is_found_and_listed(peer: Peer) -> None:
    with pytest.raises(NoRoute):
        peer.call(GetRoute("orders"))
    assert peer.call(registration(("orders", 8, 4, 6))) == RegisterReply(peer.server.publish_port)
    assert peer.call(GetRoute("orders")) == RouteReply(
        (("broker-a", 8, 4, 6),), (("c", "broker-a", ((0, "h:1"),)),), peer.server.publish_port, (("c", ""),), (0,)
    )
    assert peer.call(GetTopicList()) == TopicListReply(("orders",))
    with pytest.raises(TopicNotFound):
        peer.call(GetRoute("payments"))
    _, payload = peer.client.call(peer.server.address, GetClusterInfo(), timeout_ms=TIMEOUT_MS)
    document = json.loads(payload)
    assert document["clusters"] == {"c": ["broker-a"]}
    assert document["brokers"][0]["address"] == "h:1"


def test_refusals_reach_the_broker_as_they_are(peer: Peer) -> None:
    peer.call(registration(("orders", 8, 8, 6), epoch=3))
    with pytest.raises(NotMaster) as refused:
        peer.call(registration(("orders", 8, 8, 6), epoch=2))
    assert (refused.value.broker, refused.value.epoch) == ("broker-a", 3)
    with pytest.raises(InvalidName):
        peer.call(registration(("../orders", 8, 8, 6), epoch=3))
    with pytest.raises(UnknownRequest):
        peer.call(GetMaxOffset("orders", 0))
    assert peer.call(GetTopicList()) == TopicListReply(("orders",))


def test_a_silent_broker_is_struck_off_and_a_beating_one_is_not(peer: Peer) -> None:
    assert peer.call(BrokerHeartbeat("c", "broker-a", 0, "h:1", 1)) == BrokerHeartbeatReply(known=False)
    peer.call(registration(("orders", 8, 8, 6)))
    heard = peer.announcements()
    alive_until = time.monotonic() + 3
    while time.monotonic() < alive_until:
        assert peer.call(BrokerHeartbeat("c", "broker-a", 0, "h:1", 1)) == BrokerHeartbeatReply(known=True)
        time.sleep(0.2)
    assert heard.empty()
    began = time.monotonic()
    assert heard.get(timeout=5) == [b"orders", b""]
    assert time.monotonic() - began < 3
    with pytest.raises(NoRoute):
        peer.call(GetRoute("orders"))
    assert peer.call(BrokerHeartbeat("c", "broker-a", 0, "h:1", 1)) == BrokerHeartbeatReply(known=False)


def test_a_broker_that_comes_back_is_told_though_no_route_changes(peer: Peer) -> None:
    leaving = UnregisterBroker("c", "broker-a", 0, "h:1")
    for request in (registration(), registration(), leaving, leaving, registration()):
        peer.call(request)
    document = json.loads(peer.client.call(peer.server.address, GetNameServerEvents(), timeout_ms=TIMEOUT_MS)[1])
    told = [one["event"] for one in document["events"] if one.get("peer") == "h:1"]
    assert told == ["broker_registered", "broker_left", "broker_registered"]


def test_each_change_is_announced_once_and_a_repetition_is_not(peer: Peer) -> None:
    heard = peer.announcements()
    steps: list[tuple[Request, list[bytes]]] = [
        (registration(("orders", 8, 8, 6), ("trades", 1, 1, 6)), [b"orders", b"trades"]),
        (registration(("orders", 8, 8, 6), ("trades", 1, 1, 6)), []),
        (registration(("orders", 8, 8, 6)), [b"trades"]),
        (WipeWritePermission("broker-a"), [b"orders"]),
        (registration(("orders", 8, 8, 6)), []),
        (AddWritePermission("broker-a"), [b"orders"]),
        (registration(("orders", 8, 8, 6), address="h:2", epoch=2), [b"orders"]),
        (DeleteTopicRoute("orders"), [b"orders"]),
        (registration(("orders", 8, 8, 6), address="h:2", epoch=2), [b"orders"]),
        (UnregisterBroker("c", "broker-a", 0, "h:1"), []),
        (UnregisterBroker("c", "broker-a", 0, "h:2"), [b"orders"]),
    ]
    for request, expected in steps:
        peer.call(request)
        assert [heard.get(timeout=5) for _ in expected] == [[topic, b""] for topic in expected], request
    peer.call(registration(("last", 1, 1, 6)))
    assert heard.get(timeout=5) == [b"last", b""], "nothing else was announced in between"


def test_wiped_write_permission_shows_in_routes_until_given_back(peer: Peer) -> None:
    peer.call(registration(("orders", 8, 8, 6)))
    assert peer.call(WipeWritePermission("broker-a")) == CountReply(1)
    assert peer.call(WipeWritePermission("nobody")) == CountReply(0)
    peer.call(registration(("orders", 8, 8, 6)))
    route = peer.call(GetRoute("orders"))
    assert isinstance(route, RouteReply)
    assert route.queues == (("broker-a", 8, 8, 4),)
    assert peer.call(AddWritePermission("broker-a")) == CountReply(1)
    route = peer.call(GetRoute("orders"))
    assert isinstance(route, RouteReply)
    assert route.queues == (("broker-a", 8, 8, 6),)


def test_a_broker_with_ten_thousand_topics_registers(peer: Peer) -> None:
    topics = tuple((f"topic-{number}", 8, 8, 6) for number in range(10_000))
    peer.call(registration(*topics))
    listed = peer.call(GetTopicList())
    assert isinstance(listed, TopicListReply)
    assert len(listed.topics) == 10_000


def test_name_servers_share_nothing(peer: Peer) -> None:
    with NameServer(NameServerConfig(port=0)) as other:
        thread = threading.Thread(target=other.run)
        thread.start()
        try:
            peer.call(registration(("orders", 8, 8, 6)))
            assert Peer(other, peer.client).call(GetTopicList()) == TopicListReply(())
        finally:
            other.stop()
            thread.join(5)
        assert not thread.is_alive()


def test_a_taken_port_is_refused_in_one_line_and_leaves_nothing_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        before = len(os.listdir("/proc/self/fd"))
        for config in (NameServerConfig(port=port), NameServerConfig(port=0, publish_port=port)):
            with pytest.raises(ConfigError) as refused:
                NameServer(config)
            assert f"127.0.0.1:{port}" in str(refused.value)
            assert "\n" not in str(refused.value)
        assert len(os.listdir("/proc/self/fd")) <= before


def test_a_taken_publishing_port_that_nobody_asked_for_is_chosen_around() -> None:
    for _ in range(20):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            behind = taken.getsockname()[1]
            try:
                server = NameServer(NameServerConfig(port=behind - 1))
            except ConfigError:
                continue  # the port before it is taken too
            with server:
                assert server.port == behind - 1
                assert server.publish_port not in (behind, behind - 1)
            return
    pytest.fail("no two neighbouring ports were free")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_the_launch_script_runs_a_name_server_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """It takes its file and its environment, tells its settings, and ends with 0 soon after the signal."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = tmp_path / "namesrv.toml"
    file.write_text("scan_interval_ms = 70\nport = 1\n")
    environ = os.environ | {"ZENIT_CONFIG": str(file), "ZENIT_NAMESRV__PORT": str(port)}
    with open(tmp_path / "log", "w+") as log:
        process = subprocess.Popen([str(LAUNCHER), "--set", "heartbeat_timeout_ms=2300"], env=environ, stderr=log)
        try:
            with RemotingClient() as client:
                client.call(f"127.0.0.1:{wait_listening(port)}", GetTopicList(), timeout_ms=TIMEOUT_MS)
                process.send_signal(number)
                assert process.wait(10) == 0
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        told = log.read()
    for key, value in (("port", port), ("scan_interval_ms", 70), ("heartbeat_timeout_ms", 2300)):
        assert re.search(rf"\b{key}\W+{value}\b", told)
    assert "Traceback" not in told


def test_a_wrong_setting_ends_the_launch_with_one_line(tmp_path: Path) -> None:
    process = subprocess.run(
        [str(LAUNCHER), "--set", "prot=1"],
        env=os.environ | {"ZENIT_CONFIG": "/dev/null"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert process.returncode == 2
    assert "prot" in process.stderr
    assert "the nearest is port" in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1


def wait_listening(port: int) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return port
    raise TimeoutError(port)
