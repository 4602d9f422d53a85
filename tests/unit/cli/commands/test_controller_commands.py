"""Command lines of `zenit controller` that are refused before anybody is asked, and whom the others ask."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from zenitmq.cli.commands.controller import check_promotion, elect, remove
from zenitmq.cli.main import application
from zenitmq.client.administration.replica_reach import ReplicaReach, not_compared
from zenitmq.client.connection.cluster import recorded_controllers
from zenitmq.client.connection.controller_calls import HEARD_MS, PAUSE_MS, GroupState
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.groups.group import GroupNode, GroupSettings, Incarnation, KnownGroup, Replica
from zenitmq.model.groups.log_reach import LogReach

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
        application(), ["controller", "elect", "broker-a", "--accept-loss", "--controllers", "127.0.0.1:1"]
    )
    assert (result.exit_code, "only with --force" in result.output) == (2, True)


@pytest.mark.parametrize("epoch", ["0", str(1 << 63), "9" * 40])
def test_an_epoch_that_no_group_has_is_a_wrong_command_line(epoch: str) -> None:
    command = ["controller", "restore", "broker-a", "--epoch", epoch, "--controllers", "127.0.0.1:1"]
    result = CliRunner().invoke(application(), command)
    assert (result.exit_code, "--epoch" in result.output) == (2, True)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pauses so far, in ms, which take no time."""
    pauses: list[int] = []
    monkeypatch.setattr("zenitmq.cli.commands.controller.sleep_ms", pauses.append)
    monkeypatch.setattr("zenitmq.cli.commands.controller.monotonic_ms", lambda: sum(pauses))
    return pauses


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

    monkeypatch.setattr("zenitmq.cli.commands.controller.leading", lambda *_: nullcontext(Calls()))
    monkeypatch.setattr("zenitmq.client.administration.replica_reach.ask_reaches", reaches)
    remove("g", "b", as_json=True)
    told = capfd.readouterr()
    assert json.loads(told.out) == {"broker_name": "g", "removed": "b", "runs": runs, "replicas": ["a"]}
    assert ("registers again" in told.err) is runs


def test_who_forces_an_election_names_a_replica_also_while_none_answers(
    monkeypatch: pytest.MonkeyPatch, slept: list[int]
) -> None:
    class Calls:
        remoting = None
        addresses = ()

        def state(self, _group: str, *, timeout_ms: int) -> GroupState:
            return GroupState(KnownGroup(GroupNode(broker_name="g", epoch=4), timeout_ms), None)

    monkeypatch.setattr("zenitmq.cli.commands.controller.leading", lambda *_: nullcontext(Calls()))
    with pytest.raises(InvalidParameter, match="none answers yet"):
        elect("g", force=True)
    assert slept


@pytest.mark.parametrize(
    ("answering", "registered", "newest", "refused"),
    [
        ("bc", "bc", 4, "a does not answer"),  # known to `zenit up` alone
        ("b", "abc", 4, "a, c do not answer"),
        ("abc", "abc", 3, "who led or followed in epoch 4 does not answer, the newest that does is of epoch 3"),
        ("abc", "abc", 4, ""),
    ],
)
@pytest.mark.parametrize("accept_loss", [False, True])
def test_after_a_restore_a_master_is_forced_once_all_logs_are_compared(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answering: str,
    registered: str,
    newest: int,
    refused: str,
    accept_loss: bool,
    slept: list[int],
) -> None:
    """ZooKeeper has forgotten who had all messages, and may have forgotten who there is."""
    brokers = [{"role": "broker", "name": name, "group": "g", "address": "h:1"} for name in "abc"]
    (tmp_path / ".zenit").mkdir()
    (tmp_path / ".zenit" / "last").write_text(f"{tmp_path}\n")
    (tmp_path / "cluster.json").write_text(json.dumps(CLUSTER | {"processes": [*CLUSTER["processes"], *brokers]}))
    monkeypatch.setenv("HOME", str(tmp_path))
    replicas = tuple(Replica(name, "host:1", "", Incarnation(name, 1)) for name in registered)
    restored = GroupNode(broker_name="g", epoch=5, replicas=replicas)

    class Calls:
        remoting = None
        addresses = ("127.0.0.1:9888",)

        def state(self, _group: str, *, timeout_ms: int) -> GroupState:
            return GroupState(KnownGroup(restored, timeout_ms), None)

        def elect(self, _group: str, candidate: str, *, force: bool, timeout_ms: int) -> KnownGroup:
            return KnownGroup(replace(restored, master=candidate), timeout_ms + force)

    def reaches(*_: object, **__: object) -> dict[str, ReplicaReach]:
        logs = {name: LogReach(name=name, newest_epoch=newest, newest_begin=0, end=9, confirm=9) for name in answering}
        return {name: ReplicaReach("slave", "", None, log) for name, log in logs.items()}

    monkeypatch.setattr("zenitmq.cli.commands.controller.leading", lambda *_: nullcontext(Calls()))
    monkeypatch.setattr("zenitmq.client.administration.replica_reach.ask_reaches", reaches)
    if refused and not accept_loss:
        with pytest.raises(InvalidParameter, match=f"{refused}.*--accept-loss"):
            elect("g", "b", force=True)
        assert HEARD_MS - PAUSE_MS <= sum(slept) < HEARD_MS
    else:
        elect("g", "b", force=True, accept_loss=accept_loss)
        assert not slept


@pytest.mark.parametrize("name", [None, "b"])
def test_replicas_that_register_after_a_restore_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, slept: list[int], name: str | None
) -> None:
    """One after the other, while an operator's script elects at once; without a name it hears which log is the best."""
    both = tuple(Replica(one, "host:1", "", Incarnation(one, 1)) for one in "ab")

    class Calls:
        remoting = None
        addresses = ()

        def state(self, _group: str, *, timeout_ms: int) -> GroupState:
            node = GroupNode(
                broker_name="g", epoch=5, replicas=both[: len(slept)], settings=GroupSettings(min_in_sync=2)
            )
            return GroupState(KnownGroup(node, timeout_ms), None)

        def elect(self, _group: str, candidate: str, *, force: bool, timeout_ms: int) -> KnownGroup:
            return KnownGroup(GroupNode(broker_name="g", epoch=6, master=candidate, replicas=both), timeout_ms + force)

    def reaches(_remoting: object, node: GroupNode, *, timeout_ms: int) -> dict[str, ReplicaReach]:
        ends = {"a": timeout_ms - 1, "b": timeout_ms}
        logs = [
            LogReach(name=one.name, newest_epoch=4, newest_begin=0, end=ends[one.name], confirm=9)
            for one in node.replicas
        ]
        return {log.name: ReplicaReach("slave", "", None, log) for log in logs}

    monkeypatch.setattr("zenitmq.cli.commands.controller.leading", lambda *_: nullcontext(Calls()))
    monkeypatch.setattr("zenitmq.client.administration.replica_reach.ask_reaches", reaches)
    with nullcontext() if name else pytest.raises(InvalidParameter, match="a name; b has most"):
        elect("g", name, force=True)
    assert slept == [PAUSE_MS] * 2


def test_fewer_than_the_minimum_are_not_all() -> None:
    node = GroupNode(broker_name="g", epoch=5, settings=GroupSettings(min_in_sync=2))
    log = LogReach(name="b", newest_epoch=4, newest_begin=0, end=9, confirm=9)
    reach = ReplicaReach("slave", "", None, log)
    assert not_compared(node, {"b": reach}, ()) == "1 replica of at least 2 answers"
    assert not_compared(node, {"b": reach, "c": reach}, ()) == ""


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


@pytest.mark.parametrize(
    ("answers", "accept_loss", "name", "said"),
    [
        ({}, False, "far", "an answer from a, b, .*start one of them instead.*--accept-loss"),
        ({"b": None}, False, "far", "an answer from a, "),
        ({}, True, "far", None),
        ({"a": None, "b": None}, False, "far", None),
        ({}, True, "b", "a follower of g"),
        ({}, True, "none", "a follower of g"),
    ],
)
def test_no_follower_is_promoted_while_a_replica_that_has_more_may_come_back(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], accept_loss: bool, name: str, said: str | None
) -> None:
    replicas = tuple(
        Replica(one, "host:1", "", Incarnation(one, 1), is_follower=one == "far") for one in ("a", "b", "far")
    )
    node = GroupNode(broker_name="g", group_id="id", in_sync=("a",), eligible=("b",), replicas=replicas)

    class Calls:
        remoting = None

        def state(self, _group: str, *, timeout_ms: int) -> GroupState:
            return GroupState(known=KnownGroup(node, timeout_ms), lost=None)

    monkeypatch.setattr("zenitmq.cli.commands.controller.leading", lambda *_: nullcontext(Calls()))
    monkeypatch.setattr("zenitmq.client.administration.replica_reach.ask_reaches", lambda *_, **__: answers)
    with nullcontext() if said is None else pytest.raises(InvalidParameter, match=said):
        check_promotion("g", name, accept_loss=accept_loss, controllers=None, namesrv=None)
