"""The model's own faults: what it does to a controller is what the test told it to do, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.model_zookeeper import Loss, ModelZooKeeper

from zenitmq.controller.group_store import (
    MembersTouched,
    SessionChanged,
    SessionState,
    Stale,
    StoreEvent,
    Touched,
    Unknown,
    Written,
)
from zenitmq.model.errors import ZooKeeperUnavailable
from zenitmq.model.groups.group import GroupNode, KnownGroup

NODE = GroupNode(broker_name="broker-a")
LATER = replace(NODE, epoch=1)


@pytest.mark.parametrize(("loss", "carried_out"), [(Loss.BEFORE, False), (Loss.AFTER, True), (Loss.LATER, False)])
def test_an_answer_is_lost_before_or_after_the_write(loss: Loss, carried_out: bool) -> None:
    store = ModelZooKeeper().store(lambda _: None)
    store.create(NODE)
    store.next_write = loss
    assert store.write(LATER, 0) == Unknown(loss.value)
    assert store.read("broker-a") == (KnownGroup(LATER, 1) if carried_out else KnownGroup(NODE, 0))
    assert store.write(LATER, 0) == (Stale() if carried_out else Written(1)), "one answer was lost, no more"


def test_a_late_write_arrives_unless_another_was_first() -> None:
    zookeeper = ModelZooKeeper()
    store = zookeeper.store(lambda _: None)
    store.create(NODE)
    store.next_write = Loss.LATER
    store.write(LATER, 0)
    zookeeper.carry_out_late()
    assert store.read("broker-a") == KnownGroup(LATER, 1)
    store.next_write = Loss.LATER
    store.write(NODE, 1)
    assert store.write(replace(NODE, epoch=2), 1) == Written(2)
    zookeeper.carry_out_late()
    assert store.read("broker-a") == KnownGroup(replace(NODE, epoch=2), 2)


def test_events_wait_and_come_in_order() -> None:
    zookeeper = ModelZooKeeper()
    events: list[StoreEvent] = []
    store = zookeeper.store(events.append)
    store.create(NODE)
    store.broker_names()
    store.read("broker-a")
    events.clear()
    zookeeper.hold_events = True
    store.write(LATER, 0)
    store.create(GroupNode(broker_name="broker-b"))
    assert events == []
    zookeeper.deliver(1)
    assert events == [Touched("broker-a")]
    zookeeper.deliver()
    assert events == [Touched("broker-a"), Touched(None)]


def test_a_session_may_have_ended_while_its_client_believes_in_it() -> None:
    zookeeper = ModelZooKeeper()
    events: list[StoreEvent] = []
    store, other = zookeeper.store(events.append), zookeeper.store(lambda _: None)
    store.create(NODE)
    store.join("host-a:1")
    events.clear()
    zookeeper.expire(store)
    assert other.members() == ()
    assert SessionChanged(SessionState.LOST) not in events
    assert isinstance(store.write(LATER, 0), Unknown)
    with pytest.raises(ZooKeeperUnavailable):
        store.read("broker-a")
    zookeeper.resume(store)
    assert events[-2:] == [SessionChanged(SessionState.LOST), SessionChanged(SessionState.CONNECTED)]
    assert store.read("broker-a") == KnownGroup(NODE, 0)
    store.join("host-a:1")
    assert [member.own for member in store.members()] == [True]


def test_a_short_suspension_keeps_the_membership() -> None:
    zookeeper = ModelZooKeeper()
    events: list[StoreEvent] = []
    store = zookeeper.store(events.append)
    store.join("host-a:1")
    events.clear()
    zookeeper.suspend(store)
    zookeeper.resume(store)
    assert events == [SessionChanged(SessionState.SUSPENDED), SessionChanged(SessionState.CONNECTED)]
    assert [member.address for member in store.members()] == ["host-a:1"]
    assert MembersTouched() not in events
