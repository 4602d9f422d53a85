"""A node that was lost or set back: who shows it, what it stops, and what an operator's word makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.group_kit import GROUP, group, heartbeat, life, registration

from zenitmq.controller.group.group_state import electable
from zenitmq.controller.group.set_back import (
    check_not_set_back,
    is_newer,
    newest_epoch_seen,
    restore,
    sighting_at_registration,
    sighting_in_heartbeat,
)
from zenitmq.model.errors import (
    GroupIdUnclear,
    GroupNodeLost,
    GroupNotLost,
    InvalidName,
    InvalidParameter,
    StaleGroupVersion,
)
from zenitmq.model.groups.group import NO_VERSION, SIGHTINGS_MAX, GroupNode, GroupSettings, KnownGroup, Seen, Sighting
from zenitmq.model.groups.group_limits import SIGHTED_EPOCH_MAX
from zenitmq.remoting.commands import RestoreGroup

SETTINGS = GroupSettings(min_in_sync=2)
A, Z = "store-a", "store-z"
"""Ids of two groups of one name; `group()` is the first."""


def known(epoch: int, version: int, **changed: object) -> KnownGroup:
    return KnownGroup(replace(group(epoch=epoch), **changed), version)  # type: ignore[arg-type]


def seen(*sightings: Sighting) -> Seen:
    found = Seen(GROUP)
    for one in sightings:
        found = found.with_sighting(one)
    return found


# ---- who knows more


@pytest.mark.parametrize(
    ("sighting", "newer"),
    [
        (Sighting(A, 6, NO_VERSION), True),
        (Sighting(A, 5, 9), True),  # the sets of one epoch were set back
        (Sighting(A, 5, 8), False),
        (Sighting(A, 5, NO_VERSION), False),
        (Sighting(A, 4, 99), False),
        (Sighting(Z, 6, NO_VERSION), True),
        (Sighting(Z, 5, 99), False),  # it counts versions of its own
    ],
)
def test_newer_is_a_later_epoch_or_a_later_version_of_the_same(sighting: Sighting, newer: bool) -> None:
    assert is_newer(sighting, known(5, 8)) is newer


def test_where_there_is_no_node_each_epoch_is_newer() -> None:
    assert is_newer(Sighting(A, 1), None)
    assert not is_newer(Sighting(A, 0), None)


def test_a_group_that_never_had_a_master_is_never_set_back() -> None:
    assert not is_newer(Sighting(A, 0, 9), known(0, 8))
    assert sighting_at_registration(registration("b", epoch=0, version=9, group_id=A), known(0, 8)) is None


def test_a_registration_shows_what_its_process_knows() -> None:
    at_5 = known(5, 8)
    assert sighting_at_registration(registration("b", epoch=7), at_5) == Sighting(A, 7, NO_VERSION)
    assert sighting_at_registration(registration("b", epoch=5, version=9), at_5) == Sighting(A, 5, 9)
    assert sighting_at_registration(registration("b", epoch=5, version=8), at_5) is None
    assert sighting_at_registration(registration("b", epoch=7), None) == Sighting(A, 7, NO_VERSION)
    assert sighting_at_registration(registration("b", epoch=0), None) is None
    static = registration("b", epoch=7, group_id="")
    assert sighting_at_registration(static, at_5) is None, "a static master's epochs are no group's"


def test_a_heartbeat_shows_it_too() -> None:
    assert sighting_in_heartbeat(heartbeat("b", epoch=7, version=3), known(5, 8)) == Sighting(A, 7, 3)
    assert sighting_in_heartbeat(heartbeat("b", epoch=5, version=9), known(5, 8)) == Sighting(A, 5, 9)
    assert sighting_in_heartbeat(heartbeat("b", epoch=5, version=8), known(5, 8)) is None


def test_one_sighting_is_kept_for_each_group_and_only_the_newest() -> None:
    found = seen(Sighting(Z, 3), Sighting(A, 7, 4), Sighting(A, 6, 9), Sighting(A, 7, 5))
    assert found.sightings == (Sighting(A, 7, 5), Sighting(Z, 3))
    assert found.with_sighting(Sighting(A, 7, 5)) is found
    many = seen(*(Sighting(f"id-{number:02}", number) for number in range(1, SIGHTINGS_MAX + 3)))
    assert [one.epoch for one in many.sightings] == list(range(3, SIGHTINGS_MAX + 3)), "the oldest go"


# ---- what it stops


def test_what_is_newer_than_the_node_stops_every_change() -> None:
    check_not_set_back(GROUP, None, None)
    check_not_set_back(GROUP, seen(Sighting(A, 5, 8)), known(5, 8))
    for stands in (Sighting(A, 7), Sighting(A, 5, 9), Sighting(Z, 7)):
        with pytest.raises(GroupNodeLost) as lost:
            check_not_set_back(GROUP, seen(stands), known(5, 8))
        assert (lost.value.epoch, lost.value.persisted) == (5, stands.epoch)
        assert f"zenit controller restore {GROUP} --epoch {stands.epoch}" in str(lost.value)
    with pytest.raises(GroupNodeLost):
        check_not_set_back(GROUP, seen(Sighting(A, 1)), None)
    assert newest_epoch_seen(seen(Sighting(A, 7), Sighting(Z, 9)), known(5, 8)) == 9


# ---- restoring


def test_a_lost_node_begins_anew_above_what_replicas_have_seen() -> None:
    node = restore(None, RestoreGroup(GROUP, NO_VERSION, 7), seen=seen(Sighting(A, 7)), settings=SETTINGS)
    assert node == GroupNode(broker_name=GROUP, group_id=A, epoch=8, settings=SETTINGS)
    assert electable(node) == frozenset(), "who was in sync is not known"
    assert newest_epoch_seen(seen(Sighting(A, 7)), KnownGroup(node, 0)) == 0


def test_a_node_that_was_set_back_keeps_its_replicas_and_trusts_no_set() -> None:
    old = known(3, 2)
    node = restore(old, RestoreGroup(GROUP, 2, 7), seen=seen(Sighting(A, 7)), settings=SETTINGS)
    assert (node.epoch, node.master, node.master_incarnation, node.in_sync, node.eligible) == (8, None, None, (), ())
    assert (node.replicas, node.settings) == (old.node.replicas, old.node.settings)
    assert replace(node, epoch=3, master="a", master_incarnation=life("a"), in_sync=tuple("abc")) == old.node


def test_a_node_set_back_within_its_epoch_is_restored_at_that_epoch() -> None:
    node = restore(known(5, 6), RestoreGroup(GROUP, 6, 5), seen=seen(Sighting(A, 5, 8)), settings=SETTINGS)
    assert (node.epoch, node.in_sync) == (6, ())


def test_what_was_not_lost_is_not_restored() -> None:
    with pytest.raises(InvalidParameter, match="at least 4"):
        restore(known(3, 2), RestoreGroup(GROUP, 2, 3), seen=None, settings=SETTINGS)
    with pytest.raises(InvalidParameter, match="at least 7"):
        restore(known(3, 2), RestoreGroup(GROUP, 2, 6), seen=seen(Sighting(A, 7)), settings=SETTINGS)
    with pytest.raises(StaleGroupVersion):
        restore(known(3, 2), RestoreGroup(GROUP, 1, 7), seen=None, settings=SETTINGS)
    with pytest.raises(StaleGroupVersion):
        restore(None, RestoreGroup(GROUP, 0, 7), seen=seen(Sighting(A, 7)), settings=SETTINGS)


@pytest.mark.parametrize("heard", [None, seen(Sighting(A, 3)), seen(Sighting(Z, 2))])
@pytest.mark.parametrize("group_id", ["", A])
def test_a_group_that_lost_nothing_keeps_its_master(heard: Seen | None, group_id: str) -> None:
    """Unless the operator forces the restore: no process that knew of a later version may live."""
    whole = known(3, 2)
    with pytest.raises(GroupNotLost, match="is known to be lost") as refused:
        restore(whole, RestoreGroup(GROUP, 2, 7, group_id), seen=heard, settings=SETTINGS)
    assert (refused.value.epoch, refused.value.master) == (3, whole.node.master)
    node = restore(whole, RestoreGroup(GROUP, 2, 7, group_id, True), seen=heard, settings=SETTINGS)
    assert (node.epoch, node.master, node.in_sync) == (8, None, ())


def test_a_lost_group_is_not_restored_before_a_replica_told_which_it_is() -> None:
    """A wiped replica that registers first must not name it."""
    with pytest.raises(GroupIdUnclear, match="start the replicas that have its messages") as unclear:
        restore(None, RestoreGroup(GROUP, NO_VERSION, 41), seen=None, settings=SETTINGS)
    assert unclear.value.told == ""
    named = restore(None, RestoreGroup(GROUP, NO_VERSION, 41, A), seen=None, settings=SETTINGS)
    assert named.group_id == A


def test_a_group_founded_by_a_wiped_replica_is_given_up() -> None:
    """It registered first after ZooKeeper had lost the node; nobody was ever elected in what it founded."""
    founded = known(0, 0, group_id=Z, master=None, master_incarnation=None, in_sync=("c",))
    node = restore(founded, RestoreGroup(GROUP, 0, 41), seen=seen(Sighting(A, 41)), settings=SETTINGS)
    assert (node.group_id, node.epoch, node.replicas, node.in_sync) == (A, 42, (), ())


def test_two_groups_that_both_have_epochs_are_for_the_operator_to_choose_from() -> None:
    led = known(3, 9, group_id=Z)
    both = seen(Sighting(A, 41))
    with pytest.raises(GroupIdUnclear, match="store-a with epoch 41, store-z with epoch 3"):
        restore(led, RestoreGroup(GROUP, 9, 41), seen=both, settings=SETTINGS)
    other = restore(led, RestoreGroup(GROUP, 9, 41, A), seen=both, settings=SETTINGS)
    assert (other.group_id, other.epoch, other.master, other.replicas) == (A, 42, None, ())
    with pytest.raises(InvalidParameter, match="store-a or store-z"):
        restore(led, RestoreGroup(GROUP, 9, 41, "another"), seen=both, settings=SETTINGS)


def test_a_group_that_was_right_all_along_keeps_its_sets_and_its_master() -> None:
    """A broker of another group of that name came by; the operator says so."""
    led = known(3, 9, group_id=Z)
    node = restore(led, RestoreGroup(GROUP, 9, 41, Z), seen=seen(Sighting(A, 41)), settings=SETTINGS)
    assert node == replace(led.node, epoch=42)


# ---- strangers


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_id": "no token!"},
        {"epoch": SIGHTED_EPOCH_MAX + 1},
        {"version": 1 << 62},
        {"broker_name": "a/b"},
    ],
)
def test_what_cannot_be_kept_is_refused_before_it_is_remembered(wrong: dict) -> None:
    request = registration("b", **{"epoch": 9, "group_id": A, **wrong})
    with pytest.raises((InvalidParameter, InvalidName)):
        sighting_at_registration(request, known(5, 8))


def test_a_restore_leaves_room_for_the_epochs_that_follow() -> None:
    with pytest.raises(InvalidParameter, match="at most"):
        restore(known(3, 2), RestoreGroup(GROUP, 2, SIGHTED_EPOCH_MAX + 1), seen=None, settings=SETTINGS)


def test_a_restored_group_is_not_given_to_a_stranger_s() -> None:
    """After a restore nobody leads yet; one stray store of another group of the name registers with a higher epoch."""
    restored = known(10, 3, master=None, master_incarnation=None, in_sync=())
    stray = seen(Sighting(A, 9), Sighting(Z, 50))
    with pytest.raises(GroupIdUnclear):
        restore(restored, RestoreGroup(GROUP, 3, 50), seen=stray, settings=SETTINGS)
    node = restore(restored, RestoreGroup(GROUP, 3, 50, A), seen=stray, settings=SETTINGS)
    assert (node.group_id, node.epoch, node.replicas) == (A, 51, restored.node.replicas)


def test_a_young_group_that_a_wiped_replica_took_the_name_of_is_restored_by_its_id() -> None:
    """It founded, and led an epoch; the lost group's replicas know of no higher one, but they were heard."""
    led = known(1, 4, group_id=Z)
    lost = sighting_at_registration(registration("b", epoch=1, group_id=A), led)
    assert lost == Sighting(A, 1, NO_VERSION)
    check_not_set_back(GROUP, seen(lost), led)
    node = restore(led, RestoreGroup(GROUP, 4, 2, A), seen=seen(lost), settings=SETTINGS)
    assert (node.group_id, node.epoch, node.master, node.replicas) == (A, 3, None, ())
