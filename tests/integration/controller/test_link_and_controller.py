"""A broker's link and a controller, over real sockets and a real ZooKeeper: who hears of what, and how soon."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sim.group_kit import GROUP, life

from zenitmq.broker.group.controller_link import ControllerLink, HeartbeatFacts, Life
from zenitmq.controller.config import ControllerConfig, NewGroupConfig
from zenitmq.controller.service import Controller
from zenitmq.deploy.embedded_zookeeper import ZooKeeperProcess, start_zookeeper, stop_zookeeper
from zenitmq.deploy.processes import port_is_free
from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock, monotonic_ms, sleep_ms
from zenitmq.model.groups.group import KnownGroup
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.options import HEADER_BYTES_MAX
from zenitmq.remoting.server import RequestLoop


def await_that(condition: Callable[[], bool], timeout_ms: int = 15_000) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not condition():
        assert monotonic_ms() < deadline_ms, "did not come true in time"
        sleep_ms(2)


def free_port() -> int:
    return next(port for port in range(25181 + os.getpid() % 5000, 65000) if port_is_free(port))


class Served:
    """A controller in a thread."""

    def __init__(self, zookeeper: str, cluster: str, port: int = 0) -> None:
        new_group = NewGroupConfig(min_in_sync=1)
        settings = {"dead_after_ms": 5000, "session_timeout_ms": 1500, "new_group": new_group}
        self.controller = Controller(ControllerConfig(port=port, cluster=cluster, zookeeper=(zookeeper,), **settings))
        self.thread = threading.Thread(target=self.controller.run)
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.controller.stop()
            self.thread.join(20)
            self.controller.__exit__()


class Replica:
    """A loop with a link on it, as in a broker; what it heard, with the time."""

    def __init__(self, name: str, addresses: tuple[str, ...]) -> None:
        self.name = name
        self.heard: list[tuple[int, KnownGroup]] = []
        self.client = RemotingClient(f"replica-{name}")
        self.loop = RequestLoop(bind="127.0.0.1:0", arena=Arena(1, HEADER_BYTES_MAX), clock=SystemClock())
        self.link = ControllerLink(
            self.client,
            self.loop,
            SystemClock(),
            addresses=addresses,
            broker_name=GROUP,
            replica_name=name,
            on_group=lambda known: self.heard.append((monotonic_ms(), known)),
            heartbeat_facts=lambda: HeartbeatFacts(0, 0, 0),
        )
        self.thread = threading.Thread(target=self.loop.run)
        facts = {"clean_marker": True, "marker_end": 0, "same_boot": True, "ran_async": False}
        own = Life(address="h:1", replication_address="h:2", incarnation=life(name), **facts)
        self.loop.post(lambda: self.link.start(own))
        self.thread.start()

    def do(self, what: Callable[[], None]) -> None:
        self.loop.post(what)

    @property
    def known(self) -> KnownGroup | None:
        return self.heard[-1][1] if self.heard else None

    @property
    def master(self) -> str | None:
        return self.known.node.master if self.known is not None else None

    def heard_epoch_ms(self, epoch: int) -> int:
        return next(at_ms for at_ms, known in self.heard if known.node.epoch == epoch)

    def stop(self) -> None:
        """The process is gone: no good-bye."""
        if self.thread.is_alive():
            self.loop.stop()
            self.thread.join(10)
            self.client.close()
            self.loop.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    process = start_zookeeper(str(tmp_path_factory.mktemp("zookeeper")), free_port())
    yield process
    stop_zookeeper(process)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def three(server: ZooKeeperProcess, cluster: str, opened: ExitStack) -> tuple[list[Served], list[Replica]]:
    """Two controllers and three replicas, all in sync under master "a"; the links know the second controller first."""
    served = []
    for _ in range(2):
        served.append(Served(server.address, cluster))
        opened.callback(served[-1].stop)
        await_that(lambda: len(served[-1].controller._campaign._leadership.members) == len(served))
    addresses = tuple(one.controller.address for one in reversed(served))
    replicas = []
    for name in "abc":
        replicas.append(Replica(name, addresses))
        opened.callback(replicas[-1].stop)
        await_that(lambda: replicas[-1].master == "a")
    master = replicas[0]
    await_that(lambda: master.known is not None and len(master.known.node.replicas) == 3)
    version = master.known.version  # type: ignore[union-attr]
    master.do(lambda: master.link.propose_in_sync(version, ("a", "b", "c")))
    await_that(lambda: all(one.known.node.in_sync == ("a", "b", "c") for one in replicas))  # type: ignore[union-attr]
    return served, replicas


def test_all_hear_of_an_election_within_milliseconds(
    server: ZooKeeperProcess, tmp_path: Path, opened: ExitStack
) -> None:
    """A master is killed, its slaves say so: probe, election, push. The dead time plays no part."""
    _, (master, *slaves) = three(server, tmp_path.name, opened)
    master.stop()
    began_ms = monotonic_ms()
    for slave in slaves:
        slave.do(lambda link=slave.link: link.report_master_gone("a", 1))  # type: ignore[misc]
    await_that(lambda: all(slave.master in ("b", "c") for slave in slaves))
    heard_ms = [slave.heard_epoch_ms(2) for slave in slaves]
    assert 290 <= min(heard_ms) - began_ms <= 2000
    assert max(heard_ms) - min(heard_ms) <= 250, "pushed to each, not asked for"


def test_links_follow_the_leading_controller(server: ZooKeeperProcess, tmp_path: Path, opened: ExitStack) -> None:
    served, replicas = three(server, tmp_path.name, opened)
    before = [one.known for one in replicas]
    served[0].stop()
    second = served[1].controller.address
    await_that(lambda: all(one.link.is_linked and one.link._search.address == second for one in replicas))
    sleep_ms(1200)
    assert [one.known for one in replicas] == before, "the same group, the same master"
    replicas[1].do(replicas[1].link.ask)
    replicas[0].do(lambda: replicas[0].link.propose_in_sync(before[0].version, ("a", "b")))  # type: ignore[union-attr]
    await_that(lambda: all(one.known.node.in_sync == ("a", "b") for one in replicas))  # type: ignore[union-attr]


def test_links_wait_for_controllers_and_register_then(
    server: ZooKeeperProcess, tmp_path: Path, opened: ExitStack
) -> None:
    port = free_port()
    replica = Replica("a", (f"127.0.0.1:{port}",))
    opened.callback(replica.stop)
    sleep_ms(700)
    assert replica.heard == []
    served = Served(server.address, tmp_path.name, port)
    opened.callback(served.stop)
    await_that(lambda: replica.master == "a")
