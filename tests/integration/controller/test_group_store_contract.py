"""What a `GroupStore` promises, asked of a real ZooKeeper server and of the model that the simulation uses instead."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pytest
from kazoo.client import KazooClient
from sim.model_zookeeper import ModelStore, ModelZooKeeper

from zenitmq.controller.group_store import (
    EVENTS_MAX,
    ControllerMember,
    GroupStore,
    MembersTouched,
    SessionChanged,
    SessionState,
    Stale,
    StoreEvent,
    Touched,
    Unknown,
    Written,
)
from zenitmq.controller.zookeeper import ZooKeeperStore
from zenitmq.deploy.embedded_zookeeper import ZooKeeperProcess, start_zookeeper, stop_zookeeper
from zenitmq.deploy.processes import port_is_free, stand_still
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import GroupNodeDamaged, InvalidName, SightingsDamaged, ZooKeeperUnavailable
from zenitmq.model.events.event import Event, event_line
from zenitmq.model.events.table import ELECTED
from zenitmq.model.groups.group import GroupNode, GroupSettings, KnownGroup, Seen, Sighting

NODE = GroupNode(broker_name="broker-a")
LOST, CONNECTED = SessionChanged(SessionState.LOST), SessionChanged(SessionState.CONNECTED)


def with_minimum(minimum: int) -> GroupNode:
    return replace(NODE, settings=GroupSettings(min_in_sync=minimum))


@dataclass
class Client:
    """A store and what it told so far."""

    store: GroupStore
    events: list[StoreEvent] = field(default_factory=list)

    def await_event(self, event: StoreEvent, timeout_ms: int = 15_000) -> None:
        await_that(lambda: event in self.events, timeout_ms)

    def touched(self) -> list[StoreEvent]:
        return [event for event in self.events if isinstance(event, Touched)]


class Cluster(Protocol):
    """A ZooKeeper of either kind."""

    def client(self) -> Client: ...
    def leave(self, client: Client) -> None:
        """The client ends its session in order."""

    def put(self, name: str, data: bytes) -> None:
        """Somebody else writes a group's node."""

    def put_seen(self, name: str, data: bytes) -> None:
        """What others keep of a group's sightings."""

    def stall(self) -> None:
        """No request is answered from now on..."""

    def go_on(self) -> None:
        """...until now."""

    def expire(self, client: Client) -> None:
        """The server ends the client's session, and the client is connected again."""


def await_that(condition: Callable[[], bool], timeout_ms: int = 15_000) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not condition():
        assert monotonic_ms() < deadline_ms, "did not come true in time"
        sleep_ms(10)


class ModelCluster:
    def __init__(self) -> None:
        self.server = ModelZooKeeper(cluster_id="")
        self.clients: list[Client] = []

    def client(self) -> Client:
        events: list[StoreEvent] = []
        self.clients.append(Client(self.server.store(events.append), events))
        return self.clients[-1]

    def stores(self) -> list[ModelStore]:
        return [client.store for client in self.clients]  # type: ignore[misc]

    def leave(self, client: Client) -> None:
        self.server.expire(client.store)  # type: ignore[arg-type]

    def put(self, name: str, data: bytes) -> None:
        content = self.server.groups.get(name)
        self.server.apply(name, data, None if content is None else content.version)

    def put_seen(self, name: str, data: bytes) -> None:
        self.server.seen[name] = data

    def stall(self) -> None:
        for store in self.stores():
            self.server.suspend(store)

    def go_on(self) -> None:
        for store in self.stores():
            self.server.resume(store)

    def expire(self, client: Client) -> None:
        self.server.suspend(client.store)  # type: ignore[arg-type]
        self.server.expire(client.store)  # type: ignore[arg-type]
        self.server.resume(client.store)  # type: ignore[arg-type]


class RealCluster:
    def __init__(self, server: ZooKeeperProcess, cluster: str, opened: ExitStack) -> None:
        self.server = server
        self.cluster = cluster
        self.opened = opened

    def client(self) -> Client:
        events: list[StoreEvent] = []
        store = ZooKeeperStore(self.server.address, cluster=self.cluster, listener=events.append, timeout_ms=1000)
        return Client(self.opened.enter_context(store), events)

    def leave(self, client: Client) -> None:
        client.store.__exit__()  # type: ignore[attr-defined]

    def put(self, name: str, data: bytes) -> None:
        self._put(f"/zenit/{self.cluster}/groups/{name}", data)

    def put_seen(self, name: str, data: bytes) -> None:
        self._put(f"/zenit/{self.cluster}/seen/{name}", data)

    def _put(self, path: str, data: bytes) -> None:
        other = KazooClient(self.server.address)
        other.start(timeout=10)
        other.set(path, data) if other.exists(path) else other.create(path, data)
        other.stop()
        other.close()

    def stall(self) -> None:
        stand_still(self.server.pid)

    def go_on(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def expire(self, client: Client) -> None:
        """A second client takes the session over and closes it."""
        session = client.store._client.client_id  # type: ignore[attr-defined]
        thief = KazooClient(self.server.address, client_id=session)
        thief.start(timeout=10)
        thief.stop()
        thief.close()


def free_port() -> int:
    return next(port for port in range(22181 + os.getpid() % 5000, 65000) if port_is_free(port))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    process = start_zookeeper(str(tmp_path_factory.mktemp("zookeeper")), free_port())
    yield process
    os.kill(process.pid, signal.SIGCONT)
    stop_zookeeper(process)


@pytest.fixture(params=["model", "real"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "model":
        yield ModelCluster()
        return
    server = request.getfixturevalue("server")
    with ExitStack() as opened:
        opened.callback(os.kill, server.pid, signal.SIGCONT)
        real = RealCluster(server, tmp_path.name.replace("[", "-").replace("]", ""), opened)
        yield real
        real.go_on()


# ---- groups


def test_a_group_is_made_once_and_read_with_its_version(cluster: Cluster) -> None:
    store = cluster.client().store
    assert store.read("broker-a") is None
    assert store.create(NODE) == Written(0)
    assert store.create(with_minimum(2)) == Stale()
    assert store.read("broker-a") == KnownGroup(NODE, 0)


def test_a_write_names_the_version_it_was_built_on(cluster: Cluster) -> None:
    store, other = cluster.client().store, cluster.client().store
    assert store.write(NODE, 0) == Stale(), "there is no such node"
    store.create(NODE)
    assert store.write(with_minimum(2), 0) == Written(1)
    assert other.write(with_minimum(3), 0) == Stale()
    assert other.write(with_minimum(3), 7) == Stale()
    assert other.read("broker-a") == KnownGroup(with_minimum(2), 1)
    assert other.write(with_minimum(2), 1) == Written(2), "the same content makes a new version"


def test_no_version_is_not_any_version(cluster: Cluster) -> None:
    """ZooKeeper takes -1 as "whatever the version is"."""
    store = cluster.client().store
    store.create(NODE)
    with pytest.raises(ValueError, match="-1"):
        store.write(with_minimum(2), -1)
    assert store.read("broker-a") == KnownGroup(NODE, 0)


def test_groups_are_listed_in_order(cluster: Cluster) -> None:
    store = cluster.client().store
    for name in ("broker-b", "broker-a"):
        store.create(GroupNode(broker_name=name))
    assert store.broker_names() == ("broker-a", "broker-b")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a" * 128, ".a"])
def test_a_name_that_is_no_folder_is_refused(cluster: Cluster, name: str) -> None:
    store = cluster.client().store
    with pytest.raises(InvalidName):
        store.read(name)
    with pytest.raises(InvalidName):
        store.create(GroupNode(broker_name=name))


def test_what_a_human_broke_is_told_of(cluster: Cluster) -> None:
    store = cluster.client().store
    cluster.put("broker-a", b'{"format": 1}')
    with pytest.raises(GroupNodeDamaged) as refused:
        store.read("broker-a")
    assert (refused.value.group, refused.value.field) == ("broker-a", "broker_name")


# ---- watches


def test_a_change_of_what_was_read_is_told_once(cluster: Cluster) -> None:
    reader, writer = cluster.client(), cluster.client().store
    writer.create(NODE)
    reader.store.read("broker-a")
    writer.write(with_minimum(2), 0)
    reader.await_event(Touched("broker-a"))
    writer.write(with_minimum(3), 1)
    assert reader.store.read("broker-a") == KnownGroup(with_minimum(3), 2)
    assert reader.touched() == [Touched("broker-a")], "not read again, not told again"
    writer.write(with_minimum(4), 2)
    await_that(lambda: len(reader.touched()) == 2)


def test_a_new_group_is_told_to_who_listed_them(cluster: Cluster) -> None:
    reader, writer = cluster.client(), cluster.client().store
    assert reader.store.broker_names() == ()
    writer.create(NODE)
    reader.await_event(Touched(None))
    assert reader.store.broker_names() == ("broker-a",)


# ---- controllers


def test_the_first_to_join_leads_until_it_leaves(cluster: Cluster) -> None:
    first, second = cluster.client(), cluster.client()
    first.store.join("host-a:9878")
    second.store.join("host-b:9878")
    first.store.join("host-a:9878")  # nothing new
    assert second.store.members() == (
        ControllerMember("host-a:9878", own=False),
        ControllerMember("host-b:9878", own=True),
    )
    assert first.store.members()[0] == ControllerMember("host-a:9878", own=True)
    second.events.clear()
    cluster.leave(first)
    second.await_event(MembersTouched())
    assert second.store.members() == (ControllerMember("host-b:9878", own=True),)


def test_who_lost_its_session_joins_again_at_the_end(cluster: Cluster) -> None:
    first, second = cluster.client(), cluster.client()
    first.store.join("host-a:9878")
    second.store.join("host-b:9878")
    first.events.clear()
    cluster.expire(first)
    first.await_event(LOST)
    await_that(lambda: CONNECTED in first.events and first.events.index(CONNECTED) > first.events.index(LOST))
    assert second.store.members() == (ControllerMember("host-b:9878", own=True),)
    first.store.join("host-a:9878")
    assert [member.address for member in first.store.members()] == ["host-b:9878", "host-a:9878"]


# ---- no answer


def test_a_write_without_an_answer_is_unknown(cluster: Cluster) -> None:
    client, other = cluster.client(), cluster.client()
    client.store.create(NODE)
    cluster.stall()
    assert isinstance(client.store.write(with_minimum(2), 0), Unknown)
    assert isinstance(client.store.create(GroupNode(broker_name="broker-b")), Unknown)
    with pytest.raises(ZooKeeperUnavailable):
        client.store.read("broker-a")
    with pytest.raises(ZooKeeperUnavailable):
        client.store.members()
    cluster.go_on()
    await_that(lambda: answers(other.store) and answers(client.store))
    known = client.store.read("broker-a")
    assert known in (KnownGroup(NODE, 0), KnownGroup(with_minimum(2), 1)), "carried out or not, but nothing else"
    assert other.store.write(with_minimum(3), known.version) == Written(known.version + 1)
    assert client.store.write(with_minimum(4), known.version) == Stale()


def answers(store: GroupStore) -> bool:
    try:
        store.read("broker-a")
    except ZooKeeperUnavailable:
        return False
    return True


# ---- records


def test_what_was_seen_only_grows_and_outlives_its_node(cluster: Cluster) -> None:
    store, other = cluster.client().store, cluster.client().store
    assert (store.seen_names(), store.read_seen("broker-a")) == ((), Seen("broker-a"))
    store.remember("broker-a", Sighting("id-1", 7, 3))
    other.remember("broker-a", Sighting("id-1", 6, 9))
    other.remember("broker-a", Sighting("id-2", 2))
    other.remember("broker-b", Sighting("id-1", 1))
    assert store.seen_names() == ("broker-a", "broker-b")
    assert store.read_seen("broker-a").sightings == (Sighting("id-1", 7, 3), Sighting("id-2", 2))
    assert store.read("broker-a") is None, "there need not be a group"


def test_what_was_seen_is_renewed_whether_it_can_be_read_or_not(cluster: Cluster) -> None:
    store = cluster.client().store
    cluster.put_seen("broker-a", b"{no")
    for ask in (lambda: store.read_seen("broker-a"), lambda: store.remember("broker-a", Sighting("id-1", 7))):
        with pytest.raises(SightingsDamaged):
            ask()
    store.renew_seen("broker-a", Sighting("id-1", 7))
    store.renew_seen("broker-a", Sighting("id-2", 3))
    assert store.read_seen("broker-a").sightings == (Sighting("id-1", 7), Sighting("id-2", 3))


def test_what_cannot_be_remembered_is_said(cluster: Cluster) -> None:
    client = cluster.client()
    cluster.stall()
    with pytest.raises(ZooKeeperUnavailable):
        client.store.remember("broker-a", Sighting("id-1", 7))
    cluster.go_on()


def test_records_are_kept_in_order(cluster: Cluster) -> None:
    store = cluster.client().store
    names = [store.append_record(record) for record in (b"one", b"two")]
    assert names == sorted(set(names))
    assert cluster.client().store.records() == (b"one", b"two")


def election(group: str, epoch: int) -> bytes:
    event = Event(ELECTED, epoch, (("group", group), ("epoch", epoch)))
    return event_line(event, role="controller", node="c").encode()


def test_events_are_kept_in_order_once_and_bounded(cluster: Cluster) -> None:
    first, second = cluster.client().store, cluster.client().store
    assert first.events("g") == b""
    first.add_events("g", (election("g", 2),))
    second.add_events("g", (election("g", 1), election("g", 2)))
    assert first.events("g") == election("g", 1) + b"\n" + election("g", 2) + b"\n"
    second.add_events("g", tuple(election("g", epoch) for epoch in range(3, EVENTS_MAX + 3)))
    lines = first.events("g").splitlines()
    assert (len(lines), lines[0], lines[-1]) == (EVENTS_MAX, election("g", 3), election("g", EVENTS_MAX + 2))
    assert first.events("h") == b""


def test_the_clusters_id_is_made_once_whoever_offers_one(cluster: Cluster) -> None:
    first, second = cluster.client().store, cluster.client().store
    assert (first.cluster_id(), second.cluster_id()) == ("", "")
    assert first.make_cluster_id("c1") == "c1"
    assert second.make_cluster_id("c2") == "c1"
    assert (first.cluster_id(), second.cluster_id()) == ("c1", "c1")
