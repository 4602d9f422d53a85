"""Registrations: who founds a group, who may have forgotten, what is one registration asked twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sim.group_kit import GROUP, group, life, registration, replica

from zenitmq.controller.group.group_state import elect
from zenitmq.controller.group.registration import ReplicaRegistration, register
from zenitmq.model.errors import (
    ForeignLog,
    ForeignReplica,
    GroupNodeLost,
    InvalidName,
    InvalidParameter,
    ReplicaNameTaken,
    StartCounterBehind,
)
from zenitmq.model.groups.group import FlushMode, GroupNode, GroupSettings
from zenitmq.model.groups.group_limits import REPLICAS_MAX
from zenitmq.remoting.commands import RegisterReplica

SETTINGS = GroupSettings(min_in_sync=2)
POWER_LOSS = {"clean_marker": False, "marker_end": -1, "same_boot": False}
WIPED = {"store_id": "another", "log_end": 0}
KILLED = {"clean_marker": False, "marker_end": -1, "same_boot": True}


def registered(node: GroupNode | None, request: RegisterReplica, *, alive: bool = False) -> ReplicaRegistration:
    return register(node, request, settings=SETTINGS, present_is_alive=alive)


def test_the_first_founds_the_group_and_is_its_in_sync_set() -> None:
    founded = registered(None, registration("a"))
    assert founded.node == GroupNode(
        broker_name=GROUP, group_id="store-a", in_sync=("a",), settings=SETTINGS, replicas=(replica("a"),)
    )
    assert (founded.unclean, founded.repeated) == (None, False)


def test_a_newcomer_is_in_no_set() -> None:
    after = registered(group("ac", in_sync="a"), registration("b", log_end=0)).node
    assert after.replicas == (replica("a"), replica("b"), replica("c"))
    assert (after.in_sync, after.eligible) == (("a",), ())


@pytest.mark.parametrize("name", ["d", "b"])
def test_a_store_with_a_log_of_its_own_is_no_replica(name: str) -> None:
    """A broker that was alone: its epochs begin at 1 as the group's do, so its log would pass for a copy."""
    alone = registration(name, store_id="alone", epoch=0, group_id="", newest_epoch=7)
    with pytest.raises(ForeignLog) as refused:
        registered(group(), alone)
    assert (refused.value.replica, refused.value.log_end) == (name, 1000)
    assert "zenit store join DIR --group-id store-a" in str(refused.value)
    assert registered(None, alone).node.in_sync == (name,), "but it may found a group"
    returned = registered(group("abc"), registration(name, store_id="removed", epoch=1)).node
    assert name not in returned.in_sync, "who has the group's id was in it once"


def test_a_static_masters_log_is_no_groups() -> None:
    """It has promised epochs, which say nothing about a group under controllers: not even a new one begins with it."""
    for node, log_end in ((group(epoch=9), 5000), (group(epoch=9), 0), (None, 5000)):
        with pytest.raises(ForeignLog):
            registered(node, registration("d", store_id="static", epoch=3, group_id="", log_end=log_end))
    named = registered(group(epoch=9), registration("d", store_id="static", epoch=3, newest_epoch=3)).node
    assert named.replica("d") is not None, "an operator has said that it is a copy"


def test_a_group_begins_above_the_epochs_of_its_founder() -> None:
    """A broker that was alone began one at each start."""
    alone = registration("a", epoch=0, group_id="", newest_epoch=7)
    founded = registered(None, alone).node
    assert (founded.epoch, founded.group_id) == (7, "store-a")
    assert elect(founded, "a", old_master_is_dead=False, epoch_seen=0).epoch == 8
    killed = registered(founded, replace(alone, starts=2, life="another", clean_marker=False, same_boot=False))
    assert (killed.unclean, killed.node.in_sync) == (None, ("a",)), "the group was never led"


def test_a_log_with_rows_above_the_nodes_epoch_is_ahead_of_it() -> None:
    """A replica that was run alone meanwhile has begun epochs of its own."""
    with pytest.raises(GroupNodeLost) as lost:
        registered(group(epoch=8), registration("b", 2, epoch=8, newest_epoch=10))
    assert lost.value.persisted == 10


def test_a_replica_of_another_group_of_that_name_is_refused() -> None:
    """Two clusters on one address, or a volume mounted in the wrong one: under equal epochs their logs would pass for equal."""
    node = replace(group(), group_id="store-a")
    for stranger in (registration("d", epoch=1, group_id="store-z"), registration("b", 2, epoch=1, group_id="store-z")):
        with pytest.raises(ForeignReplica) as refused:
            registered(node, stranger)
        assert (refused.value.group_id, refused.value.expected) == ("store-z", "store-a")
        assert "move its directory away" in str(refused.value), "its epoch is not above this group's"
    assert registered(node, registration("d", epoch=1, group_id="store-a")).node.replica("d") is not None
    assert registered(node, registration("d", log_end=0)).node.group_id == "store-a", "a new one is in no group yet"
    with pytest.raises(InvalidParameter):
        registered(node, registration("d", group_id="a b"))


def test_a_replica_with_the_later_epoch_is_never_told_to_forget_it() -> None:
    """ZooKeeper had lost the group, and a wiped replica was the first to register."""
    refounded = registered(None, registration("c", store_id="wiped", log_end=0, group_id="")).node
    assert refounded.group_id == "wiped"
    with pytest.raises(ForeignReplica) as refused:
        registered(refounded, registration("b", 7, epoch=41))
    assert "zenit controller restore broker-a --epoch 41 --group-id store-a" in str(refused.value)
    assert "empty" not in str(refused.value)
    with pytest.raises(GroupNodeLost) as lost:
        registered(None, registration("b", 7, epoch=41))
    assert "empty" not in str(lost.value)


def test_a_group_that_never_had_a_master_may_be_founded_again_by_who_was_in_it() -> None:
    assert registered(None, registration("b", log_end=0)).node.group_id == "store-a"


def test_a_later_life_keeps_its_place() -> None:
    node = group(in_sync="ab", eligible="")
    after = registered(node, registration("b", 2, address="elsewhere:1"))
    assert after.unclean is None
    assert (after.node.in_sync, after.node.replica("b").incarnation) == (("a", "b"), life("b", 2))
    assert after.node.replica("b").address == "elsewhere:1"


def test_the_masters_later_life_was_not_elected() -> None:
    after = registered(group(), registration("a", 2)).node
    assert (after.master, after.master_incarnation) == ("a", life("a", 1))
    assert (after.replica("a").incarnation, after.epoch) == (life("a", 2), 1)


@pytest.mark.parametrize(
    ("facts", "flush_mode", "unclean"),
    [
        ({}, FlushMode.ASYNC, None),
        (KILLED, FlushMode.ASYNC, None),  # the page cache outlives a process
        (POWER_LOSS, FlushMode.ASYNC, "the machine stopped"),
        (POWER_LOSS | {"ran_async": False}, FlushMode.ASYNC, "the machine stopped"),
        (POWER_LOSS | {"ran_async": False}, FlushMode.SYNC, None),  # V16: all that it acknowledged was flushed
        (POWER_LOSS, FlushMode.SYNC, "the machine stopped"),  # it was acknowledged before the group went over to sync
        ({"same_boot": False}, FlushMode.ASYNC, None),
        (WIPED, FlushMode.SYNC, "its store is another one"),  # V12
        (WIPED, FlushMode.ASYNC, "its store is another one"),
        ({"log_end": 999}, FlushMode.SYNC, "its log ends at 999"),
        ({"log_end": 1001}, FlushMode.SYNC, None),
        ({"set_back": True}, FlushMode.SYNC, "its disk was set back"),
        (KILLED | {"has_hole": True}, FlushMode.ASYNC, "its log has a hole"),  # of an earlier life's loss of power
        (KILLED | {"has_hole": True, "ran_async": True}, FlushMode.SYNC, "its log has a hole"),
        (KILLED | {"has_hole": True, "ran_async": False}, FlushMode.SYNC, None),
        (KILLED | {"confirm_heard": 1000}, FlushMode.ASYNC, None),
        (KILLED | {"confirm_heard": 1001}, FlushMode.ASYNC, "its log ends at 1000, and up to 1001 it was confirmed"),
        (KILLED | {"confirm_heard": 1001}, FlushMode.SYNC, "its log ends at 1000, and up to 1001 it was confirmed"),
    ],
)
def test_who_may_have_forgotten_leaves_both_sets(
    facts: dict[str, Any], flush_mode: FlushMode, unclean: str | None
) -> None:
    request = registration("b", **({"starts": 6} | facts))
    for in_sync, eligible in (("abc", ""), ("a", "bc"), ("ac", "")):
        node = group(in_sync=in_sync, eligible=eligible, starts=5, flush_mode=flush_mode)
        after = registered(node, request)
        assert (after.unclean is None) == (unclean is None)
        assert (after.unclean or "").startswith(unclean or "")
        out = "b" if unclean else ""
        assert after.node.in_sync == tuple(name for name in in_sync if name != out)
        assert after.node.eligible == tuple(name for name in eligible if name != out)
        present = after.node.replica("b")
        assert present is not None
        assert (present.incarnation.store_id, present.incarnation.starts) == (request.store_id, request.starts)


@pytest.mark.parametrize(("confirmed", "is_clean"), [(0, True), (1000, True), (1001, False)])
def test_what_the_master_told_to_be_confirmed_is_held_by_all_that_may_be_elected(
    confirmed: int, is_clean: bool
) -> None:
    """A copy of its disk from earlier in its last life remembers as little as it holds: only others know better."""
    request = registration("b", 2, **KILLED)
    for in_sync, eligible in (("abc", ""), ("a", "bc")):
        node = group(in_sync=in_sync, eligible=eligible)
        after = register(node, request, settings=SETTINGS, present_is_alive=False, confirmed=confirmed)
        assert ("b" in (*after.node.in_sync, *after.node.eligible)) is is_clean
    outside = register(group(in_sync="ac"), request, settings=SETTINGS, present_is_alive=False, confirmed=confirmed)
    assert outside.unclean is None  # it need not hold anything


def test_an_unclean_member_does_not_become_eligible() -> None:
    """It leaves below the minimum, as one that lags does who becomes eligible; but it may lack what was acknowledged."""
    after = registered(group(in_sync="ab"), registration("b", 2, **POWER_LOSS)).node
    assert (after.in_sync, after.eligible, after.last) == (("a",), (), None)


def test_where_nobody_is_left_the_name_is_kept() -> None:
    after = registered(group(in_sync="a"), registration("a", 2, **POWER_LOSS)).node
    assert (after.in_sync, after.eligible, after.last, after.master) == ((), (), "a", "a")


def test_before_the_first_election_nothing_can_be_forgotten() -> None:
    founded = registered(None, registration("a")).node
    after = registered(founded, registration("a", 2, **POWER_LOSS))
    assert (after.unclean, after.node.in_sync) == (None, ("a",))


def test_the_same_registration_asked_twice_is_one() -> None:
    """Its answer was lost. The start counter is not above the node's, which would else be that of a disk set back."""
    request = registration("b", 2, **POWER_LOSS)
    first = registered(group(), request)
    again = registered(first.node, request)
    assert (first.repeated, again.repeated, again.node) == (False, True, first.node)


@pytest.mark.parametrize("starts", [5, 4, 1])
def test_a_disk_that_was_set_back_counts_its_start_anew(starts: int) -> None:
    """Else node and master would take its life for the one of that number that it has forgotten."""
    with pytest.raises(StartCounterBehind) as refused:
        registered(group(starts=5), registration("b", starts, life="another-process"))
    assert (refused.value.starts, refused.value.current) == (starts, 5)
    after = registered(group(starts=5), registration("b", 6, life="another-process", set_back=True))
    assert (after.node.in_sync, after.node.replica("b").incarnation) == (("a", "c"), life("b", 6))


def test_a_name_of_one_that_is_alive_is_not_given_to_another_store() -> None:
    with pytest.raises(ReplicaNameTaken) as refused:
        registered(group(), registration("b", store_id="another"), alive=True)
    assert refused.value.address == "host-b:10911"
    assert registered(group(), registration("b", 2), alive=True).unclean is None, "killed and back within the dead time"


@pytest.mark.parametrize("starts", [1, 5, 9])
def test_two_brokers_on_copies_of_one_store_do_not_take_turns(starts: int) -> None:
    """Each would have the other count its start anew, and be in sync until it did, for ever."""
    copy = registration("b", starts, life="copy", address="elsewhere:1")
    with pytest.raises(ReplicaNameTaken, match="alive at host-b:10911; stop one of the two"):
        registered(group(starts=5), copy, alive=True)
    moved = registered(group(), registration("b", 2, address="elsewhere:1"))
    assert moved.node.replica("b").address == "elsewhere:1", "the one that was known is silent"  # type: ignore[union-attr]


def test_what_zookeeper_has_forgotten_is_not_founded_anew() -> None:
    with pytest.raises(GroupNodeLost) as missing:
        registered(None, registration("a", epoch=7))
    assert (missing.value.epoch, missing.value.persisted) == (0, 7)
    with pytest.raises(GroupNodeLost):
        registered(group(epoch=6), registration("a", 2, epoch=7))
    assert registered(group(epoch=7), registration("a", 2, epoch=7)).unclean is None


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"broker_name": "a/b"}, InvalidName),
        ({"broker_name": ".."}, InvalidName),
        ({"name": ""}, InvalidName),
        ({"name": "x" * 128}, InvalidName),
        ({"address": "nowhere"}, InvalidParameter),
        ({"address": "h:0"}, InvalidParameter),
        ({"address": "h:99999"}, InvalidParameter),
        ({"address": "h h:1"}, InvalidParameter),
        ({"replication_address": ":1"}, InvalidParameter),
        ({"store_id": ""}, InvalidParameter),
        ({"life": ""}, InvalidParameter),
        ({"life": "x" * 65}, InvalidParameter),
        ({"starts": 0}, InvalidParameter),
        ({"epoch": -1}, InvalidParameter),
        ({"log_end": -1}, InvalidParameter),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(changed: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        registered(None, replace(registration("a"), **changed))


def test_a_group_has_room_for_so_many() -> None:
    full = group("abcdefghijklmnop"[:REPLICAS_MAX])
    with pytest.raises(InvalidParameter, match="at most 16"):
        registered(full, registration("z", log_end=0))
    assert registered(full, registration("a", 2)).unclean is None
