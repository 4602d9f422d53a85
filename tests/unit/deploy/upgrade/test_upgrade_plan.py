"""The order of an upgrade, and what keeps one from beginning it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zenitmq.deploy.upgrade.upgrade_plan import (
    RunningGroup,
    RunningReplica,
    RunningServer,
    UpgradePlan,
    plan_upgrade,
)

SERVERS = [
    RunningServer("namesrv", "n2:9876", "0.1.0"),
    RunningServer("namesrv", "n1:9876", "0.1.0"),
    RunningServer("broker", "a1:10911", "0.1.0"),
    RunningServer("broker", "a2:10911", "0.1.0"),
    RunningServer("broker", "a3:10911", "0.1.0"),
    RunningServer("controller", "c1:9878", "0.1.0"),
    RunningServer("controller", "c2:9878", "0.1.0"),
]
NAMES = ("a1", "a2", "a3")
GROUP = RunningGroup(
    "a",
    (
        RunningReplica("a1:10911", "a1", "master"),
        RunningReplica("a3:10911", "a3", "slave"),
        RunningReplica("a2:10911", "a2", "slave"),
    ),
    in_sync=NAMES,
    members=NAMES,
    min_in_sync=2,
    can_fail_over=True,
)


def plan(group: RunningGroup = GROUP, servers: list[RunningServer] = SERVERS, **options: Any) -> UpgradePlan:
    return plan_upgrade(servers, [group], **{"leader": "c1:9878", **options})


def test_controllers_then_name_servers_then_slaves_and_each_leader_is_the_last_of_its_kind() -> None:
    found = plan()
    order = ["c2:9878", "c1:9878", "n1:9876", "n2:9876", "a2:10911", "a3:10911", "a1:10911"]
    assert [step.server.address for step in found.steps] == order
    assert (found.refusals, found.notes) == ((), ())
    document = found.document()
    assert document["safe"] is True
    assert document["steps"][-1] == {
        "step": 7,
        "role": "broker",
        "group": "a",
        "name": "a1",
        "address": "a1:10911",
        "version": "0.1.0",
        "note": "master: it hands over",
        "gate": "zenit upgrade wait-in-sync a",
    }
    assert document["steps"][1]["note"] == "it leads the controllers"
    assert document["steps"][0]["gate"] == "zenit upgrade wait-in-sync"


def test_what_runs_the_new_version_is_left_out() -> None:
    done = [replace(one, version="0.2.0") if one.role != "broker" else one for one in SERVERS]
    assert [step.server.address for step in plan(servers=done, target="0.2.0").steps] == [
        "a2:10911",
        "a3:10911",
        "a1:10911",
    ]
    finished = plan(servers=[replace(one, version="0.2.0") for one in SERVERS], target="0.2.0")
    assert (finished.steps, finished.notes) == ((), ("nothing is left to do: every server runs 0.2.0",))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"in_sync": ("a1", "a2")}, "a: not in sync: a3"),
        ({"in_sync": ("a1", "a2"), "members": ("a1", "a2"), "replicas": GROUP.replicas[::2]}, "2 in sync, 2 needed"),
        ({"replicas": GROUP.replicas[1:], "in_sync": None}, "a has no master"),
        ({"replicas": GROUP.replicas[:2]}, ""),
        ({"replicas": GROUP.replicas[:2], "in_sync": ("a1", "a3")}, "a: not in sync: a2"),
    ],
    ids=["one lags", "at the minimum", "no master", "one is in sync and did not answer", "one is down"],
)
def test_when_it_is_not_safe(changed: dict[str, Any], why: str) -> None:
    found = plan(replace(GROUP, **changed))
    assert bool(found.refusals) is bool(why)
    assert why in "".join(found.refusals)
    assert found.document()["safe"] is not bool(why)


def test_a_server_that_does_not_answer_and_versions_too_far_apart() -> None:
    silent = plan(servers=[replace(SERVERS[0], version=None), *SERVERS[1:]])
    assert silent.refusals == ("namesrv n2:9876 does not answer",)
    assert plan(versions="0.1.0 at 1, 0.3.0 at 6: one by one").refusals == ("0.1.0 at 1, 0.3.0 at 6: one by one",)


def test_what_will_be_noticed_all_the_same() -> None:
    lone = RunningGroup("b", (RunningReplica("b1:10911", "b", "master"),))
    servers = [RunningServer("broker", "b1:10911"), RunningServer("controller", "c1:9878")]
    found = plan_upgrade(servers, [lone], leader="")
    assert found.refusals == ()
    assert found.notes[0] == "b has no replicas: its messages wait while it restarts"
    assert found.notes[1].startswith("there is one controller")
    assert found.steps[1].note == "", "it leads nobody"
    assert found.steps[1].document(2)["version"] is None
    static = plan(replace(GROUP, can_fail_over=False))
    assert static.steps[-1].note == "master: writes wait until it is back"
    drains = replace(GROUP, replicas=(*GROUP.replicas[:2], replace(GROUP.replicas[2], drain="drained")))
    assert plan(drains).notes == ("a2 drains: after its restart it may lead again",)


def test_a_follower_is_never_in_sync_and_keeps_nobody_from_an_upgrade() -> None:
    follower = RunningReplica("f1:10911", "f1", "follower")
    assert plan(replace(GROUP, replicas=(*GROUP.replicas, follower))).refusals == ()


def test_a_broker_of_no_known_group_is_upgraded_last() -> None:
    assert plan(servers=[RunningServer("broker", "x:1"), *SERVERS]).steps[-1].server.address == "x:1"
    assert plan_upgrade([], []).notes == ("there is no server",)
