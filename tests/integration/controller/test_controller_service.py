"""Controllers as processes see them: real sockets, a real ZooKeeper; they elect, push, hand over, and wait."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sim.group_kit import heartbeat, registration, report

from zenitmq.controller.config import ControllerConfig, NewGroupConfig
from zenitmq.controller.service import Controller
from zenitmq.controller.zookeeper import ZooKeeperStore
from zenitmq.deploy.embedded_zookeeper import ZooKeeperProcess, start_zookeeper, stop_zookeeper
from zenitmq.deploy.processes import port_is_free, stand_still
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import (
    BrokerBusy,
    MasterStillAlive,
    NotElectable,
    NotLeadingController,
    StaleGroupVersion,
    ZenitError,
)
from zenitmq.model.groups.group import GroupNode
from zenitmq.model.groups.group_codec import decode_node
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import (
    AlterInSync,
    ChangeGroup,
    ControllerReply,
    ElectMaster,
    GetController,
    GetGroup,
    GroupChanged,
    GroupReply,
    ProbeReplica,
    RemoveReplica,
    Reply,
    Request,
)

GROUP = "broker-a"


def await_that(condition: Callable[[], bool], timeout_ms: int = 15_000) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not condition():
        assert monotonic_ms() < deadline_ms, "did not come true in time"
        sleep_ms(5)


def free_port() -> int:
    return next(port for port in range(23181 + os.getpid() % 5000, 65000) if port_is_free(port))


class Running:
    """A controller that serves in a thread of this process."""

    def __init__(self, zookeeper: str, cluster: str, **settings: Any) -> None:
        settings = {
            "new_group": NewGroupConfig(min_in_sync=1),
            "dead_after_ms": 1000,
            "session_timeout_ms": 1500,
        } | settings
        self.controller = Controller(ControllerConfig(port=0, cluster=cluster, zookeeper=(zookeeper,), **settings))
        self.address = self.controller.address
        self._thread = threading.Thread(target=self.controller.run)
        self._thread.start()
        self._stopped = False

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self.controller.stop()
            self._thread.join(20)
            assert not self._thread.is_alive()
            self.controller.__exit__()


class Broker:
    """What a broker's process says and hears; nothing by itself but heartbeats, which a thread of its client sends."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.client = RemotingClient(f"replica-{name}")
        self.pushed: list[tuple[int, GroupNode]] = []
        self.probes: list[int] = []
        self.answers_probes = True
        self.silent = False
        self.client.on_request(GroupChanged, self._on_changed)
        self.client.on_request(ProbeReplica, self._on_probe)

    def register(self, starts: int = 1) -> tuple[int, GroupNode]:
        log = {} if starts > 1 else {"log_end": 0, "marker_end": 0}  # who joins brings no log
        found = self._ask_again(registration(self.name, starts, **log))
        self.client.every(200, self._beat)
        return found

    def _ask_again(self, request: Request) -> tuple[int, GroupNode]:
        """As a broker does while a new leading controller listens."""
        deadline_ms = monotonic_ms() + 15_000
        while True:
            try:
                return self.ask(request)
            except BrokerBusy:
                assert monotonic_ms() < deadline_ms, request
                sleep_ms(100)

    def ask(self, request: Request) -> tuple[int, GroupNode]:
        """Sends on the shared connection, as brokers do, and waits."""
        answers: list[tuple[Reply | None, ZenitError | None]] = []
        self.client.send_nowait(
            self.address,
            request,
            None,
            timeout_ms=5000,
            on_reply=lambda reply, _, error: answers.append((reply, error)),
        )
        await_that(lambda: bool(answers), 8000)
        reply, error = answers[0]
        if error is not None:
            raise error
        assert isinstance(reply, GroupReply)
        return reply.version, decode_node(reply.node, GROUP)

    def newest(self) -> GroupNode:
        return max(self.pushed, key=lambda push: push[0])[1]

    def _beat(self, probe: int = 0) -> None:
        if not self.silent:
            beat = heartbeat(self.name, probe=probe, version=-1)
            self.client.send_nowait(self.address, beat, None, timeout_ms=2000, on_reply=lambda *_: None)

    def _on_changed(self, _: str, news: GroupChanged, __: bytes) -> None:
        self.pushed.append((news.version, decode_node(news.node, GROUP)))

    def _on_probe(self, _: str, probe: ProbeReplica, __: bytes) -> None:
        self.probes.append(probe.probe)
        if self.answers_probes:
            self._beat(probe.probe)


class Cluster:
    """One cluster's folder in the ZooKeeper that the tests share."""

    def __init__(self, server: ZooKeeperProcess, name: str, opened: ExitStack) -> None:
        self.server = server
        self.name = name
        self.opened = opened
        self.client = opened.enter_context(RemotingClient())

    def controller(self, **settings: Any) -> Running:
        running = Running(self.server.address, self.name, **settings)
        self.opened.callback(running.stop)
        return running

    def leading(self, **settings: Any) -> Running:
        running = self.controller(**settings)
        await_that(lambda: self.leader_by(running) == running.address)
        return running

    def broker(self, name: str, controller: Running) -> Broker:
        broker = Broker(name, controller.address)
        self.opened.callback(broker.client.close)
        return broker

    def group(self, controller: Running, minimum: int = 1) -> list[Broker]:
        """Three replicas, all in sync, "a" is master."""
        brokers = [self.broker(name, controller) for name in "abc"]
        for broker in brokers:
            broker.register()
        await_that(lambda: self.node(controller).master == "a")
        version = self.version(controller)
        brokers[0].ask(AlterInSync(GROUP, version, 1, "a", "store-a", 1, ("a", "b", "c")))
        if minimum != 1:
            settings = (("min_in_sync", str(minimum)),)
            self.client.call(controller.address, ChangeGroup(GROUP, version + 1, settings), timeout_ms=5000)
        await_that(lambda: all(one.pushed and one.newest().in_sync == ("a", "b", "c") for one in brokers))
        return brokers

    def ask(self, controller: Running, request: Request) -> tuple[int, GroupNode]:
        reply, _ = self.client.call(controller.address, request, timeout_ms=5000)
        assert isinstance(reply, GroupReply)
        return reply.version, decode_node(reply.node, GROUP)

    def node(self, controller: Running) -> GroupNode:
        return self.ask(controller, GetGroup(GROUP))[1]

    def version(self, controller: Running) -> int:
        return self.ask(controller, GetGroup(GROUP))[0]

    def metadata(self, controller: Running) -> ControllerReply:
        reply, _ = self.client.call(controller.address, GetController(), timeout_ms=2000)
        assert isinstance(reply, ControllerReply)
        return reply

    def leader_by(self, controller: Running) -> str:
        return self.metadata(controller).leader

    def records(self) -> list[dict[str, Any]]:
        with ZooKeeperStore(self.server.address, cluster=self.name, listener=lambda _: None) as store:
            return [json.loads(record) for record in store.records()]

    def stall(self) -> None:
        stand_still(self.server.pid)

    def go_on(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    process = start_zookeeper(str(tmp_path_factory.mktemp("zookeeper")), free_port())
    yield process
    os.kill(process.pid, signal.SIGCONT)
    stop_zookeeper(process)


@pytest.fixture
def cluster(server: ZooKeeperProcess, tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as opened:
        opened.callback(os.kill, server.pid, signal.SIGCONT)
        yield Cluster(server, tmp_path.name, opened)
        os.kill(server.pid, signal.SIGCONT)


# ---- registering and electing


def test_the_first_to_register_is_elected_and_told(cluster: Cluster) -> None:
    controller = cluster.leading(new_group=NewGroupConfig(min_in_sync=2, lag_ms_max=7000))
    broker = cluster.broker("a", controller)
    version, node = broker.register()
    assert (version, node.master, node.in_sync) == (0, None, ("a",))
    assert (node.settings.min_in_sync, node.settings.lag_ms_max) == (2, 7000)
    await_that(lambda: bool(broker.pushed) and broker.newest().master == "a")
    assert broker.newest().epoch == 1
    assert cluster.metadata(controller) == ControllerReply(controller.address, (controller.address,), (GROUP,))


def test_all_may_register_at_once(cluster: Cluster) -> None:
    """Their writes take turns: each is decided from the node that the one before made."""
    controller = cluster.leading()
    brokers = [cluster.broker(name, controller) for name in "abcdef"]
    threads = [threading.Thread(target=broker.register) for broker in brokers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    node = cluster.node(controller)
    assert [replica.name for replica in node.replicas] == list("abcdef")
    await_that(lambda: all(one.pushed and len(one.newest().replicas) == 6 for one in brokers))
    assert cluster.node(controller).epoch == 1, "the others are no reason to elect again"


def test_a_silent_master_is_replaced_after_the_dead_time(cluster: Cluster) -> None:
    controller = cluster.leading()
    brokers = cluster.group(controller)
    brokers[0].silent = True
    began_ms = monotonic_ms()
    await_that(lambda: brokers[1].newest().epoch == 2 == brokers[2].newest().epoch, 3000)
    assert 700 <= monotonic_ms() - began_ms <= 2000
    assert brokers[1].newest().master in ("b", "c")
    assert brokers[1].newest().in_sync == ("b", "c")


def test_a_master_that_its_slaves_lost_is_probed_then_replaced(cluster: Cluster) -> None:
    controller = cluster.leading(dead_after_ms=10_000)
    brokers = cluster.group(controller)
    brokers[0].answers_probes = False
    began_ms = monotonic_ms()
    for name in "bc":
        cluster.client.call(controller.address, report(name), timeout_ms=2000)
    await_that(lambda: brokers[1].newest().epoch == 2 == brokers[2].newest().epoch, 3000)
    assert 300 <= monotonic_ms() - began_ms <= 1000
    assert len(brokers[0].probes) == 1


def test_a_master_that_answers_its_probe_stays(cluster: Cluster) -> None:
    controller = cluster.leading(dead_after_ms=10_000)
    brokers = cluster.group(controller)
    for name in "bc":
        cluster.client.call(controller.address, report(name), timeout_ms=2000)
    await_that(lambda: bool(brokers[0].probes))
    sleep_ms(600)
    assert cluster.node(controller).epoch == 1


# ---- operators


def test_an_operator_elects_changes_and_removes(cluster: Cluster) -> None:
    controller = cluster.leading()
    brokers = cluster.group(controller)
    version, node = cluster.ask(controller, ElectMaster(GROUP, cluster.version(controller), "c"))
    assert (node.master, node.epoch, node.in_sync) == ("c", 2, ("a", "b", "c"))
    await_that(lambda: brokers[0].newest().master == "c")
    with pytest.raises(StaleGroupVersion):
        cluster.ask(controller, ElectMaster(GROUP, version - 1, "a"))
    version, node = cluster.ask(controller, RemoveReplica(GROUP, version, "b"))
    assert node.in_sync == ("a", "c")
    version, node = cluster.ask(controller, ChangeGroup(GROUP, version, (("min_in_sync", "2"), ("ack_mode", "master"))))
    assert (node.settings.min_in_sync, node.settings.ack_mode.value) == (2, "master")
    assert cluster.records() == []


def test_a_forced_election_leaves_its_record(cluster: Cluster) -> None:
    controller = cluster.leading()
    brokers = cluster.group(controller, minimum=2)
    _, node = brokers[0].ask(AlterInSync(GROUP, cluster.version(controller), 1, "a", "store-a", 1, ("a", "b")))
    assert node.in_sync == ("a", "b")
    brokers[1].silent = True
    sleep_ms(1200)  # else it would be elected in place of the master
    brokers[0].silent = True
    force = ElectMaster(GROUP, cluster.version(controller), "c", force=True)
    with pytest.raises(MasterStillAlive):
        cluster.ask(controller, force)
    sleep_ms(1500)
    with pytest.raises(NotElectable):
        cluster.ask(controller, replace(force, force=False))
    _, node = cluster.ask(controller, force)
    assert (node.master, node.epoch, node.in_sync, node.eligible) == ("c", 2, ("c",), ())
    (record,) = cluster.records()
    assert (record["elected"], record["epoch"], record["in_sync"]) == ("c", 2, ["a", "b"])
    assert record["at_ms"] > 1_700_000_000_000, "told by the clock on the wall"


# ---- who leads


def test_who_does_not_lead_says_who_does_and_takes_over(cluster: Cluster) -> None:
    first = cluster.leading()
    second = cluster.controller()
    await_that(lambda: cluster.leader_by(second) == first.address)
    assert cluster.metadata(second).controllers == (first.address, second.address)
    with pytest.raises(NotLeadingController) as refused:
        cluster.broker("a", second).register()
    assert refused.value.leader == first.address
    cluster.group(first)
    before = cluster.version(first)
    began_ms = monotonic_ms()
    first.stop()
    await_that(lambda: cluster.leader_by(second) == second.address)
    assert monotonic_ms() - began_ms < 2000, "it said good-bye"
    assert (cluster.version(second), cluster.node(second).master) == (before, "a"), "nothing is restored from memory"
    broker = cluster.broker("b", second)
    assert broker.register()[0] == before, "the same life is registered already"
    await_that(lambda: bool(broker.pushed) and broker.newest().master == "b", 4000)


def test_without_zookeeper_it_waits_and_does_not_lead(cluster: Cluster) -> None:
    controller = cluster.leading()
    brokers = cluster.group(controller)
    cluster.stall()
    await_that(lambda: cluster.leader_by(controller) == "")
    with pytest.raises(NotLeadingController):
        cluster.node(controller)
    sleep_ms(2500)
    cluster.go_on()
    await_that(lambda: cluster.leader_by(controller) == controller.address, 20_000)
    await_that(lambda: cluster.node(controller).epoch == 1)
    assert brokers[0].ask(registration("a"))[1].master == "a", "the silence was not the master's"


def test_it_starts_before_zookeeper_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    running = Running(f"127.0.0.1:{port}", "early")
    with ExitStack() as opened:
        opened.callback(running.stop)
        client = opened.enter_context(RemotingClient())
        reply, _ = client.call(running.address, GetController(), timeout_ms=2000)
        assert reply == ControllerReply("", (), ())
        sleep_ms(4500)
        server = start_zookeeper(str(tmp_path), port)
        opened.callback(stop_zookeeper, server)
        await_that(lambda: client.call(running.address, GetController(), timeout_ms=2000)[0].leader != "")
        running.stop()
    said = [record.message for record in caplog.records if "ZooKeeper does not serve" in record.message]
    assert len(said) == 1
