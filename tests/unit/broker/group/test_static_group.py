"""The master of a group whose master never changes, as the controller of its slaves: whom it takes, what it tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sim.group_kit import GROUP, heartbeat, registration, replica, report

from zenitmq.broker.group.controller_link import Life
from zenitmq.broker.group.static_group import ALIVE_MS, StaticGroup
from zenitmq.model.errors import (
    IncarnationUnknown,
    InvalidParameter,
    ReplicaGroupNotFound,
    ReplicaNameTaken,
    StaticMasterBehind,
    UnknownReplica,
    ZenitError,
)
from zenitmq.model.groups.group import GroupNode, GroupSettings, Incarnation, KnownGroup
from zenitmq.model.groups.group_codec import decode_node
from zenitmq.remoting.commands import ControllerReply, GetController, GetGroup, GroupChanged, GroupReply, Request

SETTINGS = GroupSettings(min_in_sync=2)
LIFE = Life(
    address="host-m:1",
    replication_address="host-m:2",
    incarnation=Incarnation("store-m", 7),
    clean_marker=True,
    marker_end=0,
    same_boot=True,
    ran_async=False,
)


@dataclass
class Call:
    request: Request
    identity: bytes


class Master:
    """The group of master "m" in epoch 5, its loop and its clock; `later` runs when the story says so."""

    def __init__(self, epoch_seen: int = 4) -> None:
        self.time_ms = 10_000
        self.heard: list[KnownGroup] = []
        self.later: list[Callable[[], None]] = []
        self.pushed: list[tuple[bytes, GroupChanged]] = []
        self.gone: set[bytes] = set()
        itself: Any = self
        self.group = StaticGroup(
            itself,
            itself,
            broker_name=GROUP,
            name="m",
            settings=SETTINGS,
            epoch_seen=epoch_seen,
            cluster_id=lambda: "c1",
            on_group=self.heard.append,
        )
        self.group.start(LIFE)

    def monotonic_ms(self) -> int:
        return self.time_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        assert delay_ms == 0
        self.later.append(callback)

    def send_to(self, identity: bytes, request: GroupChanged, payload: Any = ()) -> bool:
        if identity not in self.gone:
            self.pushed.append((identity, request))
        return identity not in self.gone

    def run_later(self) -> None:
        while self.later:
            self.later.pop(0)()

    @property
    def node(self) -> GroupNode:
        return self.heard[-1].node

    @property
    def version(self) -> int:
        return self.heard[-1].version

    def register(self, name: str, starts: int = 1, **facts: Any) -> GroupReply:
        request = registration(name, starts, **({"epoch": 1} | facts))
        return self.group.on_register(Call(request, name.encode()))  # type: ignore[arg-type]

    def beat(self, name: str, starts: int = 1, **changed: Any) -> GroupReply:
        return self.group.on_heartbeat(Call(heartbeat(name, starts, **changed), name.encode()))  # type: ignore[arg-type]

    def grant(self, *names: str) -> None:
        self.group.propose_in_sync(self.version, names)
        self.run_later()


def test_each_start_elects_itself_in_the_next_epoch_and_alone_in_sync() -> None:
    master = Master(epoch_seen=4)
    (known,) = master.heard
    node = known.node
    assert (node.epoch, node.master, node.master_incarnation) == (5, "m", Incarnation("store-m", 7))
    assert (node.in_sync, node.eligible, node.settings) == (("m",), (), SETTINGS)
    (own,) = node.replicas
    assert (own.name, own.address, own.replication_address) == ("m", "host-m:1", "host-m:2")


def test_versions_grow_over_starts_whatever_was_changed_before() -> None:
    before = Master(epoch_seen=4)
    for starts in range(1, 200):
        before.register("a", starts)
    assert Master(epoch_seen=5).version > before.version


def test_a_slave_is_answered_with_the_group_that_has_it() -> None:
    master = Master()
    reply = master.register("a")
    assert reply.version == master.version
    node = decode_node(reply.node, GROUP)
    assert node == master.node
    assert (node.replica("a"), node.in_sync) == (replica("a"), ("m",))


def test_the_same_life_asked_twice_changes_nothing() -> None:
    master = Master()
    first = master.register("a")
    assert master.register("a") == first
    assert len(master.heard) == 2


def test_a_slave_that_had_this_epoch_from_this_life_comes_back_with_it() -> None:
    master = Master()
    master.register("a", epoch=4)
    master.register("a", starts=2, epoch=5)
    assert master.node.replica("a") == replica("a", 2)
    with pytest.raises(StaticMasterBehind):
        master.register("b", epoch=5)


def test_a_proposal_is_granted_later_and_told_to_all() -> None:
    master = Master()
    master.register("a")
    master.register("b")
    master.pushed.clear()
    master.group.propose_in_sync(master.version, ("m", "a"))
    assert master.node.in_sync == ("m",), "not within the call"
    master.run_later()
    assert master.node.in_sync == ("a", "m")
    assert [(to, push.version) for to, push in master.pushed] == [(b"a", master.version), (b"b", master.version)]
    assert decode_node(master.pushed[0][1].node, GROUP) == master.node


def test_a_proposal_on_a_version_that_is_no_more_is_dropped() -> None:
    """Its member may be another life by then."""
    master = Master()
    master.register("a")
    master.group.propose_in_sync(master.version, ("a", "m"))
    master.register("a", starts=2)
    master.run_later()
    assert master.node.in_sync == ("m",)


def test_a_new_life_leaves_the_in_sync_set() -> None:
    master = Master()
    master.register("a")
    master.register("b")
    master.grant("a", "b", "m")
    master.register("a", starts=2)
    assert master.node.in_sync == ("b", "m")
    assert master.node.replica("a") == replica("a", 2)


def test_a_heartbeat_is_answered_with_the_node_unless_it_has_it() -> None:
    master = Master()
    master.register("a")
    assert master.beat("a", version=master.version) == GroupReply(master.version, b"")
    assert decode_node(master.beat("a", version=0).node, GROUP) == master.node


def test_who_is_not_known_must_register() -> None:
    """As all have to once the master was started anew."""
    master = Master()
    with pytest.raises(UnknownReplica):
        master.beat("a")
    master.register("a", starts=2)
    with pytest.raises(IncarnationUnknown):
        master.beat("a", starts=1)
    with pytest.raises(ReplicaGroupNotFound):
        master.beat("a", broker_name="other")


def test_a_report_that_the_master_is_gone_is_answered_by_it() -> None:
    master = Master()
    with pytest.raises(UnknownReplica):
        master.group.on_master_gone(Call(report("a"), b"a"))  # type: ignore[arg-type]
    master.register("a")
    reply = master.group.on_master_gone(Call(report("a"), b"a"))  # type: ignore[arg-type]
    assert decode_node(reply.node, GROUP).master == "m"


@pytest.mark.parametrize(
    ("name", "facts", "error"),
    [
        ("a", {"epoch": 6}, StaticMasterBehind),
        ("a", {"epoch": 5}, StaticMasterBehind),
        ("a", {"broker_name": "other"}, ReplicaGroupNotFound),
        ("m", {}, ReplicaNameTaken),
        ("a", {"address": "nowhere"}, InvalidParameter),
        ("a", {"starts": 0}, InvalidParameter),
    ],
)
def test_who_cannot_be_a_slave_is_refused(name: str, facts: dict[str, Any], error: type[ZenitError]) -> None:
    master = Master()
    with pytest.raises(error):
        master.register(name, **facts)
    assert len(master.heard) == 1


def test_a_name_stays_with_the_store_that_is_alive() -> None:
    master = Master()
    master.register("a")
    master.time_ms += ALIVE_MS - 1
    with pytest.raises(ReplicaNameTaken):
        master.register("a", store_id="another")
    master.beat("a")
    master.time_ms += ALIVE_MS
    master.register("a", store_id="another")
    assert master.node.replica("a").incarnation.store_id == "another"  # type: ignore[union-attr]


def test_two_brokers_on_copies_of_one_store_do_not_take_turns() -> None:
    """Each would take the other's place, and the slave would never stay in sync."""
    master = Master()
    master.register("a")
    with pytest.raises(ReplicaNameTaken, match="stop one of the two"):
        master.register("a", 2, address="elsewhere:1")
    master.beat("a")
    master.register("a", 2)
    master.time_ms += ALIVE_MS
    master.register("a", 3, address="elsewhere:1")
    assert master.node.replica("a").address == "elsewhere:1"  # type: ignore[union-attr]


def test_a_group_has_its_limit() -> None:
    master = Master()
    for number in range(15):
        master.register(f"s{number}")
    with pytest.raises(InvalidParameter, match="at most 16"):
        master.register("a")


def test_a_connection_that_is_gone_is_not_pushed_to_again() -> None:
    master = Master()
    master.register("a")
    master.register("b")
    master.gone.add(b"a")
    master.grant("b", "m")
    master.gone.clear()
    master.pushed.clear()
    master.grant("m")
    assert [to for to, _ in master.pushed] == [b"b"]
    master.beat("a")
    master.grant("b", "m")
    assert {to for to, _ in master.pushed} == {b"a", b"b"}


def test_it_answers_as_the_only_controller() -> None:
    master = Master()
    reply = master.group.on_get_controller(Call(GetController(), b"x"))  # type: ignore[arg-type]
    assert reply == ControllerReply("host-m:1", ("host-m:1",), (GROUP,))
    known = master.group.on_get_group(Call(GetGroup(GROUP), b"x"))  # type: ignore[arg-type]
    assert (known.version, decode_node(known.node, GROUP)) == (master.version, master.node)
    with pytest.raises(ReplicaGroupNotFound):
        master.group.on_get_group(Call(GetGroup("other"), b"x"))  # type: ignore[arg-type]
