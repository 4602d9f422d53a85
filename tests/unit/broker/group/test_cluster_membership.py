"""Brokers and name servers agree on their cluster's id, or say that they do not: the shipped cores over a network that the
story steers."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sim.group_kit import GROUP, registration

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.cluster_choice import Belongs, ClusterDisagreement, Undecided, choose
from zenitmq.broker.group.cluster_file import ClusterFile
from zenitmq.broker.group.cluster_membership import ClusterMembership
from zenitmq.broker.group.controller_link import Life
from zenitmq.broker.group.in_group import link_to_group
from zenitmq.broker.registration import BrokerIdentity, NameServerRegistration
from zenitmq.model.cluster_id import Standing
from zenitmq.model.errors import BrokerBusy, RequestTimeout, ZenitError
from zenitmq.model.groups.group import Incarnation
from zenitmq.model.groups.group_codec import decode_node
from zenitmq.namesrv.route_table import RouteTable
from zenitmq.remoting.commands import (
    BrokerHeartbeatReply,
    ClaimClusterId,
    ClusterIdReply,
    Done,
    RegisterBroker,
    RegisterReplica,
    RegisterReply,
    Reply,
    Request,
    UnregisterBroker,
)

LISTEN_MS = 5000
TIMEOUT_MS = 10_000
SCAN_MS = 1000
BEAT_MS = 1000
TWO = ("ns1", "ns2")


@dataclass
class Network:
    """Time, name servers, and how long a request is under way between two of them."""

    directory: Path
    now_ms: int = 0
    servers: dict[str, RouteTable] = field(default_factory=dict)
    delays_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    cut: set[tuple[str, str]] = field(default_factory=set)
    due: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0

    def start_server(self, name: str) -> None:
        """It knows nothing."""
        listens = self.now_ms + LISTEN_MS
        limits = {"brokers_max": 9, "topics_max": 9}
        self.servers[name] = RouteTable(heartbeat_timeout_ms=TIMEOUT_MS, listens_until_ms=listens, **limits)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.count += 1
        self.due.append((self.now_ms + delay_ms, self.count, action))

    def run(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        scan_ms = self.now_ms - self.now_ms % SCAN_MS + SCAN_MS
        while True:
            at_ms = min([end_ms, scan_ms, *(due[0] for due in self.due)])
            self.now_ms = max(self.now_ms, at_ms)
            if self.now_ms >= scan_ms:
                scan_ms += SCAN_MS
                for server in self.servers.values():
                    server.on_scan(self.now_ms)
            ready = sorted(due for due in self.due if due[0] <= self.now_ms)
            self.due = [due for due in self.due if due[0] > self.now_ms]
            for _, _, action in ready:
                action()
            if self.now_ms >= end_ms and not any(due[0] <= end_ms for due in self.due):
                return


@dataclass
class Repeated:
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Broker:
    """Membership and registration, as a broker's service wires them; it is its own loop, client and clock."""

    def __init__(
        self, network: Network, name: str, servers: tuple[str, ...] = ("ns1",), *, is_told: bool = False
    ) -> None:
        self.network, self.name = network, name
        self.cluster_id = ""
        self.on_other_cluster: object = None
        self.is_up = True
        self.file = ClusterFile.open(str(network.directory / name))
        self.identity = BrokerIdentity("zenit", name, f"{name}:1", 1)
        wired: Any = self
        self.membership = ClusterMembership(
            self.file,
            wired,
            wired,
            wired,
            cluster="zenit",
            name_servers=servers,
            ask_ms=BEAT_MS,
            on_known=self._on_known,
            is_told=is_told,
        )
        self.registration = NameServerRegistration(
            wired,
            wired,
            wired,
            addresses=servers,
            identity=self.identity,
            topics=lambda: [("t", 1, 1, 6, 0)],
            topic=lambda _: ("t", 1, 1, 6, 0),
            register_interval_ms=30_000,
            heartbeat_ms=BEAT_MS,
            takes_writes=lambda: True,
            on_answer=self.membership.on_registration,
        )
        self.membership.start()
        self.registration.start()

    def _on_known(self, cluster_id: str) -> None:
        self.identity = replace(self.identity, cluster_id=cluster_id)
        self.registration.on_role(self.identity)

    @property
    def settled(self) -> str:
        return self.membership.settled_id

    # what the broker's loop, client and clock do

    def monotonic_ms(self) -> int:
        return self.network.now_ms

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Repeated:
        timer = Repeated()

        def again() -> None:
            if self.is_up and not timer.is_cancelled:
                self.network.after(interval_ms, again)
                callback()

        self.network.after(interval_ms, again)
        return timer

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.network.after(delay_ms, callback)

    def post(self, callback: Callable[[], None]) -> None:
        if self.is_up:
            callback()

    def name_cluster(self, cluster_id: str) -> None:
        """Nobody in these stories asks for another cluster."""

    def send_nowait(
        self,
        address: str,
        request: Request,
        _: object,
        *,
        timeout_ms: int,
        on_reply: Callable[[Reply | None, bytes, ZenitError | None], None],
    ) -> None:
        network = self.network
        delay_ms = network.delays_ms.get((self.name, address), 1)

        def arrive() -> None:
            server = network.servers.get(address)
            if server is None or (self.name, address) in network.cut:
                lost = RequestTimeout(address, timeout_ms)
                network.after(timeout_ms - delay_ms, partial(on_reply, None, b"", lost))
                return
            try:
                reply, error = answered(server, request, network.now_ms), None
            except ZenitError as refusal:
                reply, error = None, refusal
            network.after(delay_ms, partial(on_reply, reply, b"", error))

        network.after(delay_ms, arrive)


def answered(server: RouteTable, request: Request, now_ms: int) -> Reply:
    """As the name server's service does it."""
    if isinstance(request, ClaimClusterId):
        cluster_id, standing = server.on_claim(request, now_ms)
        return ClusterIdReply(cluster_id, str(standing))
    if isinstance(request, RegisterBroker):
        server.on_register(request, now_ms)
        return RegisterReply(0)
    if isinstance(request, UnregisterBroker):
        server.on_unregister(request)
        return Done()
    beat: Any = request
    return BrokerHeartbeatReply(server.on_heartbeat(beat, now_ms))


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return Network(tmp_path)


def registered(network: Network, server: str) -> dict[str, str]:
    info = network.servers[server].cluster_info(network.now_ms)
    return {broker["broker_name"]: broker["cluster_id"] for broker in info["brokers"]}


# ---- a name server that has just started


def test_after_a_restart_of_the_name_server_an_empty_broker_joins_those_that_live(network: Network) -> None:
    network.start_server("ns1")
    old = [Broker(network, name) for name in ("b1", "b2")]
    network.run(LISTEN_MS + 2400)
    network.start_server("ns1")
    new = Broker(network, "b3")
    network.run(30_000)
    assert old[0].settled == old[1].settled == new.settled != ""
    assert registered(network, "ns1").keys() == {"b1", "b2", "b3"}


def test_after_a_power_cut_of_all_an_empty_broker_that_is_up_first_waits_for_those_with_a_store(
    network: Network,
) -> None:
    network.start_server("ns1")
    first = Broker(network, "b1")
    network.run(LISTEN_MS + 2000)
    first.is_up = False
    network.start_server("ns1")
    new = Broker(network, "b2")
    network.run(3000)
    assert new.cluster_id == ""
    again = Broker(network, "b1")
    network.run(10_000)
    assert new.settled == again.settled == first.settled != ""


def test_while_all_brokers_are_stopped_their_name_stays_theirs(network: Network) -> None:
    network.start_server("ns1")
    first = Broker(network, "b1")
    network.run(LISTEN_MS + 2000)
    first.is_up = False
    network.run(2 * TIMEOUT_MS)
    assert registered(network, "ns1") == {}
    new = Broker(network, "b2")
    network.run(3000)
    assert new.settled == first.settled != ""


def test_a_fresh_cluster_begins_as_soon_as_its_name_server_has_listened(network: Network) -> None:
    network.start_server("ns1")
    broker = Broker(network, "b1")
    network.run(LISTEN_MS - 100)
    assert broker.cluster_id == ""
    network.run(BEAT_MS + 200)
    assert broker.settled != ""


def test_at_a_name_server_that_has_listened_nobody_waits(network: Network) -> None:
    network.start_server("ns1")
    network.run(LISTEN_MS)
    broker = Broker(network, "b1")
    network.run(100)
    assert broker.settled != ""


# ---- several name servers


@pytest.mark.parametrize("seed", range(40))
def test_brokers_that_begin_together_are_one_cluster_in_whatever_order_they_list_name_servers(
    tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    network = Network(tmp_path)
    for name in TWO:
        network.start_server(name)
    network.run(draw.choice([0, LISTEN_MS]))
    for name in ("b1", "b2"):
        for server in TWO:
            network.delays_ms[name, server] = draw.randint(1, 900)
    brokers = [Broker(network, "b1", TWO)]
    network.run(draw.choice([0, draw.randint(0, 60), draw.randint(0, 1500)]))
    brokers.append(Broker(network, "b2", draw.choice([TWO, TWO[::-1]])))
    network.run(30_000)
    assert brokers[0].settled == brokers[1].settled != "", f"seed {seed}"


def test_a_broker_that_does_not_reach_one_of_its_name_servers_begins_no_cluster(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    """The other one may know one; and it does, when the network is whole again."""
    for name in TWO:
        network.start_server(name)
    network.cut.add(("b1", "ns1"))
    with caplog.at_level(logging.INFO):
        b1 = Broker(network, "b1", TWO)
        network.run(12_000)
    assert b1.cluster_id == ""
    said = [record.getMessage() for record in caplog.records if "no cluster id yet" in record.getMessage()]
    assert "no answer came from ns1" in said[-1]
    b2 = Broker(network, "b2", TWO)
    network.run(12_000)
    assert b2.settled == b1.settled != "", "ns2 knows the cluster that b2 has begun"
    network.cut.clear()
    network.run(12_000)
    assert registered(network, "ns1") == registered(network, "ns2") == {"b1": b1.settled, "b2": b1.settled}


def test_a_name_server_that_comes_up_late_makes_no_second_cluster(network: Network) -> None:
    network.start_server("ns2")
    b1 = Broker(network, "b1", TWO)
    network.run(2100)
    network.delays_ms["b1", "ns1"] = 400
    network.start_server("ns1")
    b2 = Broker(network, "b2", TWO)
    network.run(60_000)
    assert b1.settled == b2.settled != ""


def split(network: Network) -> list[Broker]:
    """Two clusters of one name, each at a name server of its own."""
    for name in TWO:
        network.start_server(name)
    brokers = [Broker(network, "b1", ("ns1",)), Broker(network, "b2", ("ns2",))]
    network.run(LISTEN_MS + 3000)
    assert brokers[0].settled != brokers[1].settled
    return brokers


def test_name_servers_that_know_different_clusters_are_named_once_with_both_ids(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = split(network)
    with caplog.at_level(logging.ERROR):
        new = Broker(network, "b3", TWO)
        network.run(12_000)
    assert new.settled == new.cluster_id == ""
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    for fact in (f"ns1 knows {one.settled}", f"ns2 knows {other.settled}", "set `cluster_id`"):
        assert fact in said[0]


def test_a_refusal_is_said_once_and_names_both_ids_and_the_command(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while another name server lets the broker in again and again."""
    one, other = split(network)
    one.is_up = False
    with caplog.at_level(logging.ERROR):
        again = Broker(network, "b1", TWO)
        network.run(120_000)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    for fact in (one.settled, other.settled, f"zenit store cluster {again.file.directory} --id"):
        assert fact in said[0]


def test_a_replica_whose_group_is_of_another_cluster_says_that_the_brokers_there_are_to_come_over(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    """Its controllers drew an id while a broker without a group lived: a store of another id they would refuse too."""
    network.start_server("ns1")
    network.run(LISTEN_MS)
    alone = Broker(network, "b1")
    network.run(BEAT_MS)
    replica = Broker(network, "b2", is_told=True)
    caplog.set_level(logging.ERROR)
    assert replica.membership.on_told("id-of-the-group")
    network.run(5 * BEAT_MS)
    (line,) = [record.getMessage() for record in caplog.records if "refused by ns1" in record.getMessage()]
    assert alone.settled in line
    assert "zenit store cluster DIR --id id-of-the-group" in line
    assert replica.file.directory not in line


def test_who_is_refused_before_the_id_is_settled_leaves_where_it_was_let_in(network: Network) -> None:
    """One name server took the registration, the other knows an older cluster: that one is joined, at both."""
    for name in TWO:
        network.start_server(name)
    network.run(LISTEN_MS)
    network.delays_ms["b1", "ns2"] = 50
    b1 = Broker(network, "b1", TWO)
    network.run(120)
    assert b1.cluster_id != ""
    assert b1.settled == ""
    old = RegisterBroker("zenit", "b9", 0, "b9:1", 1, (("t", 1, 1, 6),), "", "old")
    network.servers["ns2"].on_register(old, network.now_ms)
    network.run(3000)
    assert b1.settled == "old"
    assert registered(network, "ns1") == {"b1": "old"}
    assert registered(network, "ns2") == {"b1": "old", "b9": "old"}


def test_an_answer_to_a_registration_under_an_id_that_was_given_up_settles_nothing(network: Network) -> None:
    network.start_server("ns1")
    network.run(LISTEN_MS)
    broker = Broker(network, "b1")
    network.run(2)
    assert broker.cluster_id != ""
    broker.membership.on_registration("ns1", "another", None)
    assert broker.settled == ""


def test_a_static_master_lets_no_slave_in_under_an_id_that_it_may_give_up(network: Network) -> None:
    """A slave keeps the id that it is told."""
    for name in TWO:
        network.start_server(name)
    network.run(LISTEN_MS)
    network.delays_ms["b1", "ns2"] = 50
    master = Broker(network, "b1", TWO)
    handlers: dict[type[Request], Callable[[Any], Any]] = {}
    wired: Any = master
    wired.handle, wired.send_to = handlers.__setitem__, lambda *_: True
    ground = SimpleNamespace(
        config=BrokerConfig(name=GROUP, static_master=master.identity.address),
        loop=wired,
        clock=wired,
        cluster=master.membership,
        address=master.identity.address,
    )
    member = SimpleNamespace(name="m", epoch_seen=0, on_group=lambda _: None)
    group = link_to_group(cast(Any, ground), cast(Any, member), on_start_counter_behind=lambda _: None)
    life = Incarnation("store-m", 1)
    group.start(
        Life(
            address="h:1",
            replication_address="h:2",
            incarnation=life,
            clean_marker=True,
            marker_end=0,
            same_boot=True,
            ran_async=False,
        )
    )
    slave = SimpleNamespace(request=registration("b", 1, epoch=0, log_end=0, cluster_id=""), identity=b"b")
    network.run(110)
    assert master.cluster_id != ""
    with pytest.raises(BrokerBusy, match="cluster's id is not known"):
        handlers[RegisterReplica](slave)
    network.run(200)
    told = handlers[RegisterReplica](slave)
    assert decode_node(told.node, GROUP).cluster_id == master.settled != ""


# ---- the choice


def reply(cluster_id: str, standing: Standing) -> ClusterIdReply:
    return ClusterIdReply(cluster_id, str(standing))


@pytest.mark.parametrize(
    ("replies", "chosen"),
    [
        ({"ns1": reply("a", Standing.LIVING)}, Belongs("a")),
        ({"ns1": reply("a", Standing.REMEMBERED)}, Belongs("a")),
        ({"ns1": reply("b", Standing.LIVING), "ns2": reply("a", Standing.REMEMBERED)}, Belongs("b")),
        ({"ns1": reply("b", Standing.REMEMBERED), "ns2": reply("a", Standing.OFFERED)}, Belongs("b")),
        ({"ns1": reply("b", Standing.LIVING), "ns2": reply("", Standing.LISTENING)}, Belongs("b")),
        ({"ns1": reply("b", Standing.OFFERED), "ns2": reply("a", Standing.OFFERED)}, Belongs("a")),
        (
            {"ns1": reply("b", Standing.LIVING), "ns2": reply("a", Standing.LIVING)},
            ClusterDisagreement({"ns1": "b", "ns2": "a"}),
        ),
        (
            {"ns1": reply("b", Standing.REMEMBERED), "ns2": reply("a", Standing.REMEMBERED)},
            ClusterDisagreement({"ns1": "b", "ns2": "a"}),
        ),
    ],
)
def test_what_is_known_goes_before_what_is_offered(
    replies: dict[str, ClusterIdReply], chosen: Belongs | ClusterDisagreement
) -> None:
    assert choose(TWO, replies) == chosen


@pytest.mark.parametrize(
    "replies",
    [
        {},
        {"ns1": reply("a", Standing.OFFERED)},
        {"ns1": reply("a", Standing.OFFERED), "ns2": reply("", Standing.LISTENING)},
        {"ns1": reply("a", Standing.OFFERED), "ns2": ClusterIdReply("b", "unheard of")},
    ],
)
def test_nothing_begins_while_a_name_server_may_know_more(replies: dict[str, ClusterIdReply]) -> None:
    assert isinstance(choose(TWO, replies), Undecided)
