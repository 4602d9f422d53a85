"""What may become of a group: elections, the sets, removal, restoring; each rule once kept and once refused."""

from __future__ import annotations

import pytest
from sim.group_kit import GROUP, group, life, proposal

from zenitmq.controller.group.group_state import (
    alter_in_sync,
    check_life,
    elect,
    remove_replica,
    with_in_sync,
)
from zenitmq.model.errors import (
    GroupNodeLost,
    IncarnationUnknown,
    InvalidParameter,
    NotElectable,
    NotGroupMaster,
    ReplicaNeeded,
    StaleEpoch,
    StaleGroupVersion,
    UnknownReplica,
)
from zenitmq.model.groups.group import GroupNode, GroupSettings, KnownGroup
from zenitmq.remoting.commands import RemoveReplica

SETTINGS = GroupSettings(min_in_sync=2, lag_ms_max=7000)


def sets(node: GroupNode) -> tuple[str, str]:
    """(in-sync, eligible), a letter each."""
    return "".join(node.in_sync), "".join(node.eligible)


# ---- the sets: rule R9


@pytest.mark.parametrize(
    ("before", "members", "forgetful", "after"),
    [
        (("abc", ""), "ab", "", ("ab", "")),  # the minimum is left: who goes may miss what is acknowledged from now on
        (("ab", ""), "a", "", ("a", "b")),  # below the minimum nothing is acknowledged: who goes holds it all
        (("abc", ""), "a", "", ("a", "bc")),
        (("a", "bc"), "ab", "", ("ab", "")),  # the minimum is reached: the eligible may miss things from now on
        (("a", "bc"), "b", "", ("b", "ac")),
        (("ab", ""), "ab", "b", ("a", "")),  # who may have forgotten is in neither set
        (("a", "b"), "a", "b", ("a", "")),
        (("a", "b"), "a", "a", ("", "b")),
    ],
)
def test_the_eligible_set_follows_from_the_in_sync_set(
    before: tuple[str, str], members: str, forgetful: str, after: tuple[str, str]
) -> None:
    node = group(in_sync=before[0], eligible=before[1])
    assert sets(with_in_sync(node, members, forgetful=frozenset(forgetful))) == after


def test_the_last_that_left_is_kept_by_name() -> None:
    node = with_in_sync(group(in_sync="a"), "a", forgetful=frozenset("a"))
    assert (sets(node), node.last) == (("", ""), "a")
    again = with_in_sync(node, "", forgetful=frozenset("b"))
    assert again.last == "a", "b was in no set, a is still the one to ask for"
    assert with_in_sync(again, "c").last is None


# ---- elections: rules R1 and R10


def test_an_election_gives_the_next_epoch_to_a_life() -> None:
    node = elect(group(epoch=4), "b", old_master_is_dead=False, epoch_seen=4)
    assert (node.epoch, node.master, node.master_incarnation) == (5, "b", life("b"))
    assert sets(node) == ("abc", ""), "it keeps the set"


def test_the_elected_life_is_the_present_one() -> None:
    known = group(starts=3)
    assert elect(known, "b", old_master_is_dead=True, epoch_seen=0).master_incarnation == life("b", 3)


@pytest.mark.parametrize(
    ("before", "elected", "after"),
    [
        (("abc", ""), "b", ("bc", "")),
        (("ab", ""), "b", ("b", "a")),  # below the minimum: the dead one may come back and be elected
        (("a", "b"), "b", ("b", "a")),
        (("a", "bc"), "b", ("b", "ac")),  # c holds all as well: nothing is acknowledged by b alone
        (("abc", ""), "a", ("abc", "")),  # the same one in another life stays
    ],
)
def test_the_dead_master_leaves_in_the_same_write(
    before: tuple[str, str], elected: str, after: tuple[str, str]
) -> None:
    node = group(in_sync=before[0], eligible=before[1])
    assert sets(elect(node, elected, old_master_is_dead=True, epoch_seen=1)) == after


def test_one_of_the_eligible_joins_by_its_election() -> None:
    node = elect(group(in_sync="a", eligible="bc"), "b", old_master_is_dead=False, epoch_seen=1)
    assert sets(node) == ("ab", ""), "two are the minimum: c may miss what they acknowledge"


def test_nobody_outside_both_sets_is_elected() -> None:
    with pytest.raises(NotElectable) as refused:
        elect(group(in_sync="a", eligible="b"), "c", old_master_is_dead=True, epoch_seen=1)
    assert refused.value.electable == "a, b"
    with pytest.raises(UnknownReplica):
        elect(group(), "x", old_master_is_dead=True, epoch_seen=1)


def test_nobody_is_elected_over_a_node_that_was_set_back() -> None:
    with pytest.raises(GroupNodeLost) as refused:
        elect(group(epoch=4), "b", old_master_is_dead=True, epoch_seen=5)
    assert (refused.value.epoch, refused.value.persisted) == (4, 5)


# ---- the master's proposals: rule R7


def test_the_master_shrinks_and_expands() -> None:
    node = alter_in_sync(KnownGroup(group(), 5), proposal("ab", version=5))
    assert sets(node) == ("ab", "")
    assert sets(alter_in_sync(KnownGroup(node, 6), proposal("a", version=6))) == ("a", "b")
    back = alter_in_sync(KnownGroup(group(in_sync="a", eligible="b"), 7), proposal("ca", version=7))
    assert sets(back) == ("ac", "")
    assert (back.epoch, back.master, back.master_incarnation) == (1, "a", life("a"))


def test_a_proposal_that_changes_nothing_is_to_be_written_too() -> None:
    node = group()
    assert alter_in_sync(KnownGroup(node, 5), proposal("abc", version=5)) == node


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (proposal("ab", version=4), StaleGroupVersion),  # V4: a copy of an older proposal
        (proposal("ab", version=6), StaleGroupVersion),
        (proposal("ab", version=5, epoch=0), StaleEpoch),
        (proposal("ab", version=5, epoch=2), StaleEpoch),
        (proposal("ab", version=5, master="b", store_id="store-b"), NotGroupMaster),
        (proposal("ab", version=5, starts=2), NotGroupMaster),  # a later life of the master was not elected
        (proposal("ab", version=5, store_id="store-x"), NotGroupMaster),
        (proposal("abx", version=5), UnknownReplica),
        (proposal("bc", version=5), InvalidParameter),  # without itself
        (proposal("", version=5), InvalidParameter),
        (proposal("aab", version=5), InvalidParameter),
    ],
)
def test_what_is_not_the_masters_present_proposal_is_refused(asked: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        alter_in_sync(KnownGroup(group(), 5), asked)  # type: ignore[arg-type]


def test_nobody_proposes_for_a_group_without_a_master() -> None:
    with pytest.raises(NotGroupMaster):
        alter_in_sync(KnownGroup(group(master=None), 0), proposal("a", version=0))


def test_a_life_is_the_registered_one_or_must_register() -> None:
    assert check_life(group(), "b", life("b")).name == "b"
    with pytest.raises(IncarnationUnknown) as refused:
        check_life(group(starts=2), "b", life("b", 3))
    assert (refused.value.starts, refused.value.current) == (3, 2)
    with pytest.raises(UnknownReplica):
        check_life(group(), "x", life("x"))


# ---- removal


def test_a_removed_replica_leaves_everything() -> None:
    node = remove_replica(KnownGroup(group("abcd", in_sync="abc"), 3), RemoveReplica(GROUP, 3, "c"))
    assert sets(node) == ("ab", "")
    assert [one.name for one in node.replicas] == ["a", "b", "d"]
    small = group(in_sync="a", eligible="bc", min_in_sync=2)
    assert sets(remove_replica(KnownGroup(small, 3), RemoveReplica(GROUP, 3, "c"))) == ("a", "b")


@pytest.mark.parametrize(
    ("node", "name", "reason"),
    [
        (group(), "a", "it is the master"),
        (group(in_sync="", eligible="b"), "b", "nobody else"),
        (group(in_sync="", last="b"), "b", "nobody else"),
        (group("ab", in_sync="ab"), "b", "fewer than min_in_sync"),
    ],
)
def test_a_replica_that_is_needed_stays(node: GroupNode, name: str, reason: str) -> None:
    with pytest.raises(ReplicaNeeded, match=reason):
        remove_replica(KnownGroup(node, 3), RemoveReplica(GROUP, 3, name))


def test_a_removal_names_its_version_and_a_replica() -> None:
    with pytest.raises(StaleGroupVersion):
        remove_replica(KnownGroup(group(), 4), RemoveReplica(GROUP, 3, "c"))
    with pytest.raises(UnknownReplica):
        remove_replica(KnownGroup(group(), 4), RemoveReplica(GROUP, 4, "x"))
