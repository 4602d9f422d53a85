"""Command lines of `zenit controller` that are refused before anybody is asked, and whom the others ask."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from zenitmq.cli.controller import elect, remove
from zenitmq.cli.main import application
from zenitmq.client.cluster import recorded_controllers
from zenitmq.client.controller_calls import GroupState
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.group import GroupNode, Incarnation, KnownGroup, Replica

CLUSTER: dict[str, Any] = {
    "namesrv": "127.0.0.1:9876",
    "processes": [
        {"role": "namesrv", "address": "127.0.0.1:9876"},
        {"role": "controller", "address": "127.0.0.1:9878"},
        {"role": "controller", "address": "127.0.0.1:9888"},
        {"role": "controller", "address": "not an address"},
    ],
}


def test_a_loss_is_accepted_only_with_force() -> None:
    """Else it would be an ordinary election, which loses nothing."""
    result = CliRunner().invoke(
        application("controller"), ["controller", "elect", "broker-a", "--accept-loss", "--controllers", "127.0.0.1:1"]
    )
    assert (result.exit_code, "only with --force" in result.output) == (2, True)


def test_a_group_id_that_cannot_be_one_is_refused_before_anybody_is_asked() -> None:
    command = [
        "controller",
        "restore",
        "broker-a",
        "--epoch",
        "1",
        "--group-id",
        "None",
        "--controllers",
        "127.0.0.1:1",
    ]
    result = CliRunner().invoke(application("controller"), command)
    assert "32 hexadecimal digits" in str(result.exception)


@pytest.mark.parametrize("runs", [False, True])
def test_who_removes_a_replica_that_runs_is_told_that_it_comes_back(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], runs: bool
) -> None:
    both = tuple(Replica(name, f"host:{number}", "", Incarnation(name, 1)) for number, name in enumerate("ab", 1))
    group = GroupNode(broker_name="g", group_id="id", in_sync=("a",), replicas=both)

    class Calls:
        remoting = None

        def group(self, _group: str, *, timeout_ms: int) -> KnownGroup:
            return KnownGroup(group, timeout_ms)

        def remove_replica(self, _group: str, _name: str, *, timeout_ms: int) -> KnownGroup:
            return KnownGroup(replace(group, replicas=both[:1]), timeout_ms)

    def reaches(_remoting: object, node: GroupNode, *, timeout_ms: int) -> dict[str, object]:
        assert [replica.name for replica in node.replicas] == ["b"], timeout_ms
        return {"b": object()} if runs else {}

    monkeypatch.setattr("zenitmq.cli.controller._leading", lambda *_: nullcontext(Calls()))
    monkeypatch.setattr("zenitmq.client.replica_reach.ask_reaches", reaches)
    remove("g", "b", as_json=True)
    told = capfd.readouterr()
    assert json.loads(told.out) == {"broker_name": "g", "removed": "b", "runs": runs, "replicas": ["a"]}
    assert ("registers again" in told.err) is runs


def test_who_forces_an_election_names_a_replica_also_while_none_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Calls:
        remoting = None

        def state(self, _group: str, *, timeout_ms: int) -> GroupState:
            return GroupState(KnownGroup(GroupNode(broker_name="g", epoch=4), timeout_ms), None)

    monkeypatch.setattr("zenitmq.cli.controller._leading", lambda *_: nullcontext(Calls()))
    with pytest.raises(InvalidParameter, match="no replica answers yet"):
        elect("g", force=True)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (("127.0.0.1:9876",), ("127.0.0.1:9878", "127.0.0.1:9888")),
        (("127.0.0.1:1", "127.0.0.1:9876"), ("127.0.0.1:9878", "127.0.0.1:9888")),
        (("127.0.0.1:1",), ()),
    ],
)
def test_the_recorded_cluster_tells_its_controllers(
    tmp_path: Path, asked: tuple[str, ...], found: tuple[str, ...]
) -> None:
    """But not to who asks for the name servers of another one."""
    (tmp_path / ".zenit").mkdir()
    (tmp_path / ".zenit" / "last").write_text(f"{tmp_path}\n")
    (tmp_path / "cluster.json").write_text(json.dumps(CLUSTER))
    assert recorded_controllers(str(tmp_path), asked) == found


@pytest.mark.parametrize("text", ["", "[]", '{"processes": 1, "namesrv": "127.0.0.1:9876"}', "{"])
def test_a_record_that_makes_no_sense_tells_of_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / ".zenit").mkdir()
    (tmp_path / ".zenit" / "last").write_text(str(tmp_path))
    (tmp_path / "cluster.json").write_text(text)
    assert recorded_controllers(str(tmp_path), ("127.0.0.1:9876",)) == ()
