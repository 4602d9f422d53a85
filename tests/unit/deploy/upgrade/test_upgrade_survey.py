"""What an upgrade asks of a cluster: servers that are silent or old, groups in every state, and the wait at a gate."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.deploy.upgrade import upgrade_survey
from zenitmq.deploy.upgrade.upgrade_plan import RunningServer
from zenitmq.deploy.upgrade.upgrade_survey import drained, replica_named, running_groups, running_servers, wait_in_sync
from zenitmq.model.errors import ConnectionLost, InvalidParameter, RequestTimeout, UnknownRequest


def member(name: str, role: str, **changed: Any) -> dict[str, Any]:
    """The statistics of one replica of a group of three under controllers."""
    facts = {"replica": name, "role": role, "epoch": 3, "in_sync": ["a1", "a2", "a3"], "min_in_sync": 2}
    facts |= {"members": ["a1", "a2", "a3"], "group_id": "g", "halted": None, "drain": None}
    return {"replication": facts | changed}


class FakeAdmin:
    """A cluster as its servers tell it: {address: statistics}; who is not named there does not answer."""

    def __init__(self, statistics: dict[str, Any], names: dict[str, str] | None = None) -> None:
        self.statistics = statistics
        self.names = names or dict.fromkeys(("a1:1", "a2:1", "a3:1"), "a")

    def cluster(self) -> dict[str, Any]:
        return {"brokers": [{"address": address, "broker_name": name} for address, name in self.names.items()]}

    def scrub_statistics(self, addresses: list[str]) -> dict[str, Any]:
        (address,) = addresses
        if address not in self.statistics:
            raise ConnectionLost(address)
        return {address: self.statistics[address]}

    def servers(self) -> list[tuple[str, str]]:
        return [("namesrv", "n:1"), ("broker", "a1:1"), ("controller", "c:1")]

    def examine_server(self, address: str) -> dict[str, Any]:
        if address == "n:1":
            raise RequestTimeout("ExamineServer", 1)
        if address == "c:1":
            raise UnknownRequest(1)
        return {"version": "0.1.0"}


WHOLE = {"a1:1": member("a1", "master"), "a2:1": member("a2", "slave"), "a3:1": member("a3", "slave")}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look takes half a second of a clock of the test's own."""
    now = [0]

    def sleep_ms(duration_ms: int) -> None:
        now[0] += duration_ms

    monkeypatch.setattr(upgrade_survey, "monotonic_ms", lambda: now[0])
    monkeypatch.setattr(upgrade_survey, "sleep_ms", sleep_ms)


def admin(statistics: dict[str, Any], names: dict[str, str] | None = None) -> Any:
    return FakeAdmin(statistics, names)


def test_servers_that_are_silent_and_servers_that_are_too_old_to_say() -> None:
    assert running_servers(admin({})) == [
        RunningServer("namesrv", "n:1", None),
        RunningServer("broker", "a1:1", "0.1.0"),
        RunningServer("controller", "c:1", ""),
    ]


def test_a_group_is_what_its_master_says() -> None:
    old = member("a3", "master", epoch=2, in_sync=["a3"])
    (found,) = running_groups(admin(WHOLE | {"a3:1": old}))
    assert (found.in_sync, found.members, found.min_in_sync) == (("a1", "a2", "a3"), ("a1", "a2", "a3"), 2)
    assert found.can_fail_over
    (silent,) = running_groups(admin({"a2:1": WHOLE["a2:1"] | {}}))
    assert (silent.in_sync, silent.missing()) == (None, "a has no master")
    (halted,) = running_groups(admin(WHOLE | {"a2:1": member("a2", "slave", halted="its log")}))
    assert [one.role for one in halted.replicas] == ["master", "halted", "slave"]


def test_a_broker_of_a_version_that_names_no_members_and_one_alone() -> None:
    facts = {address: {"replication": dict(found["replication"])} for address, found in WHOLE.items()}
    for found in facts.values():
        del found["replication"]["members"], found["replication"]["drain"]
    (old,) = running_groups(admin(facts))
    assert (old.members, old.missing()) == (None, "")
    (alone,) = running_groups(admin({"b:1": {}}, {"b:1": "b"}))
    assert (alone.missing(), alone.is_replicated, alone.can_fail_over) == ("", False, False)


def test_the_gate_opens_once_all_were_in_sync_for_so_long() -> None:
    cluster, told = admin(dict(WHOLE)), list[str]()
    lagging = member("a1", "master", in_sync=["a1", "a2"])
    cluster.statistics["a1:1"] = lagging

    def heard(text: str) -> None:
        told.append(text)
        cluster.statistics = dict(WHOLE)

    (group,) = wait_in_sync(cluster, "a", seconds=2, timeout_s=10, told=heard)
    assert group.name == "a"
    assert told == ["a: not in sync: a3", "whole"]


def test_the_gate_says_what_is_missing() -> None:
    lagging = admin(WHOLE | {"a1:1": member("a1", "master", in_sync=["a1", "a2"])})
    with pytest.raises(RequestTimeout, match="not in sync: a3"):
        wait_in_sync(lagging, None, seconds=1, timeout_s=3)
    with pytest.raises(RequestTimeout, match="5 s in sync"):
        wait_in_sync(admin(WHOLE), None, seconds=5, timeout_s=1)
    with pytest.raises(InvalidParameter, match="zenit cluster"):
        wait_in_sync(admin(WHOLE), "nobody", seconds=1, timeout_s=1)
    with pytest.raises(RequestTimeout, match="no broker is registered"):
        wait_in_sync(admin({}), None, seconds=1, timeout_s=1)


def test_a_group_that_is_down_as_a_whole_is_not_whole() -> None:
    gone = running_groups(admin(WHOLE), known=("a", "b"))[1]
    assert (gone.name, gone.replicas, gone.missing()) == ("b", (), "b has no master")
    with pytest.raises(RequestTimeout, match="b has no master"):
        wait_in_sync(admin(WHOLE), None, seconds=1, timeout_s=3, known=("a", "b"))


def test_a_name_that_no_controller_knows_is_not_waited_for() -> None:
    told: list[str] = []
    with pytest.raises(InvalidParameter, match="zenit cluster"):
        wait_in_sync(admin(WHOLE), "nobody", seconds=1, timeout_s=300, known=("a",), told=told.append)
    assert told == []


def test_a_replica_is_found_by_its_name_or_address() -> None:
    groups = running_groups(admin(WHOLE))
    assert replica_named(groups, "a2")[1].address == replica_named(groups, "a2:1")[1].address == "a2:1"
    with pytest.raises(InvalidParameter, match=r"a broker that is up: a1 \(a1:1\)"):
        replica_named(groups, "b")
    with pytest.raises(InvalidParameter, match="there is none"):
        replica_named([], "b")
    twice = running_groups(admin({"x:1": {}, "y:1": {}}, {"x:1": "same", "y:1": "same"}))
    with pytest.raises(InvalidParameter, match="by its address"):
        replica_named(twice, "same")


def test_how_far_a_drain_is() -> None:
    assert drained(admin({"a1:1": member("a1", "slave", drain="drained")}), "a1:1") == "drained"
    assert drained(admin(WHOLE), "a1:1") is None
    assert drained(admin({"a1:1": {}}), "a1:1") is None
    with pytest.raises(ConnectionLost):
        drained(admin({}), "a1:1")
