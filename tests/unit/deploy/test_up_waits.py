"""What `zenit up` waits for: groups that clients can send to, but none for which an operator has to do something first."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.client.connection.controller_calls import ControllerCalls, GroupState
from zenitmq.deploy import local_cluster
from zenitmq.deploy.cluster_record import BROKER, CONTROLLER, ClusterRecord, ProcessRecord, Shape
from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.model.errors import GroupNodeLost, ReplicaGroupNotFound
from zenitmq.model.groups.group import GroupNode, KnownGroup

GROUP = "broker-a"
RECORD = ClusterRecord(
    cluster="zenit",
    namesrv="127.0.0.1:9876",
    shape=Shape(replicas=2),
    processes=(
        ProcessRecord(role=CONTROLLER, name="controller-1", address="127.0.0.1:9878"),
        ProcessRecord(role=BROKER, name="broker-a-1", address="127.0.0.1:10911", group=GROUP),
    ),
)


@pytest.fixture(autouse=True)
def _nobody_has_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "ask_json", lambda *_: {"brokers": []})


def answer_with(monkeypatch: pytest.MonkeyPatch, answer: GroupState | Exception) -> None:
    def state(*_: object, **__: object) -> GroupState:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ControllerCalls, "state", state)


def test_a_group_that_zookeeper_has_lost_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = GroupNodeLost(GROUP, 0, 4)
    answer_with(monkeypatch, GroupState(None, lost))
    said: list[str] = []
    assert ProcessCluster(str(tmp_path), say=said.append)._is_served(RECORD, GROUP)
    assert said == [str(lost)]


@pytest.mark.parametrize("names", [(), ("broker-a-1",)])
def test_a_group_whose_master_an_operator_has_to_force_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """Else `up` would end what it started when its time is over, and there would be nobody to elect."""
    answer_with(monkeypatch, GroupState(KnownGroup(GroupNode(broker_name=GROUP, epoch=4, in_sync=names), 9), None))
    said: list[str] = []
    assert ProcessCluster(str(tmp_path), say=said.append)._is_served(RECORD, GROUP) == (not names)
    force = "nobody is known to have all messages: zenit controller elect broker-a --force"
    assert said == ([] if names else [f"broker-a: no master: {force}"])


def test_a_group_that_is_not_there_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, ReplicaGroupNotFound(GROUP))
    assert not ProcessCluster(str(tmp_path))._is_served(RECORD, GROUP)
