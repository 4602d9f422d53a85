"""Who may be served by a replica now: by its role, by how many are in sync, by what is confirmed."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from zenitmq.broker.draining.held_calls import HeldCalls
from zenitmq.broker.group.request_gate import RequestGate
from zenitmq.model.errors import BrokerBusy, NotEnoughReplicas, NotMaster, ZenitError
from zenitmq.model.groups.group import GroupNode, GroupSettings, KnownGroup
from zenitmq.remoting import commands as c
from zenitmq.remoting.commands import REQUESTS, SERVED_BY_BROKERS, ServedBy
from zenitmq.remoting.request_rows import row

NODE = GroupNode(broker_name="broker-a", epoch=7, master="a", in_sync=("a",), settings=GroupSettings(min_in_sync=2))
EXAMPLES = {
    ServedBy.ANY_REPLICA: c.PullMessages,
    ServedBy.MASTER: c.Heartbeat,
    ServedBy.MASTER_IN_SYNC: c.SendMessages,
    ServedBy.MASTER_CONFIRMED: c.QueryConsumerOffset,
    ServedBy.MASTER_CONFIRMED_IN_SYNC: c.SendBack,
    ServedBy.EVERY_SERVER: c.GetSecurityRows,
}


@dataclass
class Leading:
    takes_writes: bool = True
    serves_state: bool = True


@dataclass
class Replica:
    master: Leading | None
    known: KnownGroup | None = KnownGroup(NODE, 3)
    epoch: int = 7


def refusals(replica: Replica) -> dict[ServedBy, type[ZenitError] | None]:
    """What the handler of each kind of request is kept from by; the same is said to what a worker has just done."""
    gate = RequestGate(replica, "broker-a", HeldCalls(lambda _call, _error: None))
    found: dict[ServedBy, type[ZenitError] | None] = {}
    for served_by, cls in EXAMPLES.items():
        found[served_by] = None
        try:
            assert gate.guarded(row(cls, lambda _: c.Done()))(None) == c.Done()  # type: ignore[arg-type]
        except ZenitError as error:
            found[served_by] = type(error)
            with pytest.raises(type(error)):
                gate.check(cls)
        else:
            gate.check(cls)
    return found


def test_every_kind_of_a_brokers_requests_is_looked_at_here() -> None:
    assert EXAMPLES.keys() == SERVED_BY_BROKERS
    assert all(cls.served_by is served_by and cls in REQUESTS.values() for served_by, cls in EXAMPLES.items())


def test_a_master_serves_all() -> None:
    assert set(refusals(Replica(Leading())).values()) == {None}


@pytest.mark.parametrize("known", [KnownGroup(NODE, 3), None])
def test_a_slave_serves_what_any_replica_does(known: KnownGroup | None) -> None:
    assert refusals(Replica(None, known)) == dict.fromkeys(EXAMPLES, NotMaster) | {
        ServedBy.ANY_REPLICA: None,
        ServedBy.EVERY_SERVER: None,
    }


def test_a_master_without_enough_in_sync_stores_nothing() -> None:
    assert refusals(Replica(Leading(takes_writes=False))) == dict.fromkeys(EXAMPLES) | {
        ServedBy.MASTER_IN_SYNC: NotEnoughReplicas,
        ServedBy.MASTER_CONFIRMED_IN_SYNC: NotEnoughReplicas,
    }


def test_a_new_master_tells_nothing_of_what_is_not_confirmed() -> None:
    assert refusals(Replica(Leading(serves_state=False))) == dict.fromkeys(EXAMPLES) | {
        ServedBy.MASTER_CONFIRMED: BrokerBusy,
        ServedBy.MASTER_CONFIRMED_IN_SYNC: BrokerBusy,
    }


def test_a_refusal_says_how_many_are_missing() -> None:
    refusal = RequestGate(Replica(Leading()), "broker-a", HeldCalls(lambda _call, _error: None)).refusal()
    assert refusal.args == (1, 2)


def test_what_the_next_master_will_answer_waits_while_it_is_handed_over() -> None:
    """Also after another was elected; reads, and what only this replica can say, do not wait."""
    failed: list[object] = []
    held = HeldCalls(lambda call, _error: failed.append(call))
    held.is_open = True
    for replica in (Replica(Leading(takes_writes=False, serves_state=False)), Replica(None)):
        gate = RequestGate(replica, "broker-a", held)
        call: Any = SimpleNamespace(payload=b"")
        for served_by in (ServedBy.MASTER_IN_SYNC, ServedBy.MASTER_CONFIRMED, ServedBy.MASTER_CONFIRMED_IN_SYNC):
            failed.clear()
            assert gate.guarded(row(EXAMPLES[served_by], lambda _: c.Done()))(call) is None
            held.release(NotMaster("broker-a", 7))
            held.is_open = True
            assert failed == [call]
        assert gate.guarded(row(c.PullMessages, lambda _: c.Done()))(call) == c.Done()
    with pytest.raises(NotMaster):
        gate.guarded(row(c.Heartbeat, lambda _: c.Done()))(call)
