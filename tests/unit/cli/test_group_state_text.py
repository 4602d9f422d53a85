"""What an operator is shown of a group, where all of it is known and where little is."""

from __future__ import annotations

import pytest
from sim.group_kit import GROUP, group

from zenitmq.cli.group_state_text import note_reaches, print_state, state_document
from zenitmq.client.administration.replica_reach import ReplicaReach
from zenitmq.client.connection.controller_calls import GroupState
from zenitmq.model.errors import GroupNodeLost
from zenitmq.model.groups.group import KnownGroup
from zenitmq.model.groups.log_reach import LogReach

NODE = group("abc", in_sync="a", eligible="b", epoch=5)
REACHES = {
    "a": ReplicaReach("master", "", None, LogReach(name="a", newest_epoch=5, newest_begin=400, end=900, confirm=800)),
    "b": ReplicaReach(
        "slave",
        "its master asks too much",
        700,
        LogReach(name="b", newest_epoch=4, newest_begin=0, end=700, confirm=600),
    ),
}


def test_a_group_with_all_that_replicas_tell() -> None:
    document = state_document(GROUP, GroupState(KnownGroup(NODE, 3), None), REACHES)
    assert (document["group_id"], document["epoch"], document["master"], document["blocked"]) == (
        "store-a",
        5,
        "a",
        None,
    )
    assert (document["in_sync"], document["eligible"]) == (["a"], ["b"])
    a, b, c = document["replicas"]
    assert (a["role"], a["set"], a["newest_epoch"]) == ("master", "in_sync", 5)
    assert (a["written_offset"], a["confirm_offset"]) == (900, 800)
    assert (b["role"], b["set"], b["hole_at"], b["halted"]) == ("halted", "eligible", 700, "its master asks too much")
    assert (c["role"], c["set"], c["newest_epoch"], c["written_offset"]) == ("down", None, None, None)


def test_a_group_that_zookeeper_has_lost_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    document = state_document(GROUP, GroupState(None, GroupNodeLost(GROUP, 0, 41)), {})
    assert (document["epoch"], document["replicas"]) == (None, [])
    print_state(document)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "lost" in line]
    assert f"zenit controller restore {GROUP} --epoch 41" in line


def test_the_logs_are_shown_where_an_operator_forces(capsys: pytest.CaptureFixture[str]) -> None:
    note_reaches(NODE, REACHES)
    shown = capsys.readouterr()
    assert shown.out == "", "stdout is for results"
    assert shown.err.splitlines()[1].split() == ["a", "master", "in_sync", "5", "900", "800", "-"]
