"""A follower in a group's node: it founds nothing, is in no set, counts for nothing, and is promoted by an operator alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sim.group_kit import GROUP, group, life, proposal, registration

from zenitmq.controller.group.forcing import force_election
from zenitmq.controller.group.founding import Founding
from zenitmq.controller.group.group_state import alter_in_sync, elect, remove_replica
from zenitmq.controller.group.registration import register
from zenitmq.model.errors import (
    GroupNodeDamaged,
    InvalidParameter,
    NotElectable,
    ReplicaGroupNotFound,
    ReplicaNeeded,
)
from zenitmq.model.groups.group import GroupNode, GroupSettings, KnownGroup
from zenitmq.model.groups.group_codec import decode_node, encode_node
from zenitmq.model.groups.log_reach import LogReach
from zenitmq.remoting.commands import RegisterReplica, RemoveReplica

SETTINGS = GroupSettings(min_in_sync=2)


def followed(**changes: Any) -> GroupNode:
    """a and b, and the follower f."""
    node = group("abf", in_sync="ab", **changes)
    replicas = tuple(replace(one, is_follower=one.name == "f") for one in node.replicas)
    return replace(node, replicas=replicas)


def follower(name: str = "f", **changes: Any) -> RegisterReplica:
    return replace(registration(name), is_follower=True, **changes)


def registered(node: GroupNode | None, request: RegisterReplica) -> GroupNode:
    return register(node, request, settings=SETTINGS, present_is_alive=False).node


def test_it_founds_no_group() -> None:
    with pytest.raises(ReplicaGroupNotFound):
        registered(None, follower(epoch=0, group_id="", log_end=0))
    founding = Founding(listen_ms=4500, replicas=1)
    founding.on_registration(follower(epoch=0, group_id="", log_end=0, newest_epoch=0))
    assert not founding.may_found(GROUP, 0)


def test_it_joins_no_set() -> None:
    node = registered(group("ab", in_sync="ab"), follower(log_end=0))
    assert [replica.name for replica in node.members] == ["a", "b"]
    assert (node.in_sync, node.replica("f") is not None) == (("a", "b"), True)


@pytest.mark.parametrize("node", [group("ab", in_sync="ab"), group("ab", in_sync="a", eligible="b")])
def test_who_counts_does_not_become_one(node: GroupNode) -> None:
    with pytest.raises(ReplicaNeeded, match='set role = "replica"; or take it out first'):
        registered(node, follower("b", starts=9))


def test_it_becomes_a_plain_replica_by_its_setting() -> None:
    node = registered(followed(), replace(registration("f"), starts=9))
    assert not any(replica.is_follower for replica in node.replicas)
    assert node.in_sync == ("a", "b")


def test_nobody_proposes_or_elects_it() -> None:
    node = followed(master="a", epoch=3)
    with pytest.raises(InvalidParameter, match="no follower"):
        alter_in_sync(KnownGroup(node, 7), proposal("abf", epoch=3, version=7))
    with pytest.raises(NotElectable):
        elect(node, "f", old_master_is_dead=True, epoch_seen=3)


def test_an_operator_promotes_it() -> None:
    node = followed(master="a", epoch=3)
    logs = [
        LogReach(name=name, newest_epoch=3, newest_begin=0, end=end, confirm=0)
        for name, end in (("f", 700), ("b", 1000))
    ]
    after, record = force_election(node, logs[0], logs, wait_ms=0, epoch_seen=3, now_ms=1)
    assert (after.master, after.epoch, after.in_sync) == ("f", 4, ("f",))
    assert (record.lost_begin, record.lost_end) == (700, 1000)
    assert after.members == after.replicas
    assert decode_node(encode_node(after), GROUP) == after


def test_it_may_be_removed_whatever_the_minimum() -> None:
    node = replace(followed(master="a", epoch=3), settings=SETTINGS)
    assert [one.name for one in remove_replica(KnownGroup(node, 7), RemoveReplica(GROUP, 7, "f")).replicas] == [
        "a",
        "b",
    ]
    with pytest.raises(ReplicaNeeded, match="fewer than min_in_sync"):
        remove_replica(KnownGroup(node, 7), RemoveReplica(GROUP, 7, "b"))


def test_the_node_says_it_and_others_stay_as_they_were() -> None:
    node = followed(master="a", epoch=3)
    assert decode_node(encode_node(node), GROUP) == node
    assert encode_node(node).count(b'"follower": true') == 1
    assert b"follower" not in encode_node(group("ab", in_sync="ab"))
    for wrong in (b'"follower": false', b'"follower": 1'):
        with pytest.raises(GroupNodeDamaged, match="expected true, or no such key"):
            decode_node(encode_node(node).replace(b'"follower": true', wrong), GROUP)
    with pytest.raises(GroupNodeDamaged, match="'f' is a follower"):
        decode_node(encode_node(replace(node, in_sync=("a", "b", "f"))), GROUP)
    assert life("a") == node.replicas[0].incarnation
