"""Settings that are changed while a group runs."""

from __future__ import annotations

import pytest
from sim.group_kit import GROUP, group

from zenitmq.controller.group.group_settings import change_settings, changed_settings, must_flush
from zenitmq.model.errors import GroupNodeLost, InvalidParameter, NotFlushed, StaleGroupVersion
from zenitmq.model.groups.group import AckMode, FlushMode, GroupNode, GroupSettings, KnownGroup
from zenitmq.remoting.commands import ChangeGroup


def changed(node: GroupNode, *changes: tuple[str, str], flushed: str = "") -> GroupNode:
    request = ChangeGroup(GROUP, 3, changes)
    return change_settings(KnownGroup(node, 3), request, flushed=frozenset(flushed), epoch_seen=node.epoch)


def test_what_is_named_changes_and_the_rest_stays() -> None:
    before = GroupSettings(min_in_sync=2, lag_ms_max=7000)
    after = changed_settings(before, (("ack_mode", "master"), ("flush_mode", "sync")))
    assert after == GroupSettings(min_in_sync=2, lag_ms_max=7000, ack_mode=AckMode.MASTER, flush_mode=FlushMode.SYNC)
    assert changed_settings(before, (("lag_ms_max", "500"), ("min_in_sync", "1"))).lag_ms_max == 500


def test_a_minimum_that_is_reached_empties_the_eligible_set() -> None:
    node = changed(group(in_sync="a", eligible="bc"), ("min_in_sync", "1"))
    assert (node.settings.min_in_sync, node.in_sync, node.eligible) == (1, ("a",), ())


def test_a_minimum_that_is_raised_leaves_the_sets() -> None:
    node = changed(group(in_sync="ab"), ("min_in_sync", "3"))
    assert (node.settings.min_in_sync, node.in_sync, node.eligible) == (3, ("a", "b"), ())
    lower = changed(group(in_sync="a", eligible="c", min_in_sync=3), ("min_in_sync", "2"))
    assert lower.eligible == ("c",), "still below it"


def test_a_group_that_could_never_write_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="at most 3"):
        changed(group(), ("min_in_sync", "4"))


def test_going_over_to_sync_waits_for_all_that_could_be_elected() -> None:
    node = group(in_sync="a", eligible="b")
    with pytest.raises(NotFlushed) as refused:
        changed(node, ("flush_mode", "sync"), flushed="ac")
    assert refused.value.replicas == "b"
    assert changed(node, ("flush_mode", "sync"), flushed="ab").settings.flush_mode is FlushMode.SYNC


def test_other_changes_wait_for_nobody() -> None:
    assert changed(group(flush_mode=FlushMode.SYNC), ("flush_mode", "async")).settings.flush_mode is FlushMode.ASYNC
    assert changed(group(flush_mode=FlushMode.SYNC), ("flush_mode", "sync")).settings.flush_mode is FlushMode.SYNC


@pytest.mark.parametrize(("before", "after"), [("async", "sync"), ("sync", "async")])
def test_another_flush_mode_is_another_epoch_of_the_same_master(before: str, after: str) -> None:
    node = group(epoch=4, starts=2, flush_mode=FlushMode(before))
    changed_node = changed(node, ("flush_mode", after), flushed="abc")
    assert (changed_node.epoch, changed_node.master, changed_node.master_incarnation) == (
        5,
        "a",
        node.master_incarnation,
    )
    assert changed_node.in_sync == node.in_sync
    assert changed(node, ("flush_mode", before), ("lag_ms_max", "700")).epoch == 4
    assert changed(group(epoch=4, master=None), ("flush_mode", "sync"), flushed="abc").epoch == 4, (
        "the next one will get it"
    )


def test_no_epoch_is_given_twice_where_zookeeper_was_set_back() -> None:
    request = ChangeGroup(GROUP, 3, (("flush_mode", "sync"),))
    with pytest.raises(GroupNodeLost):
        change_settings(KnownGroup(group(epoch=4), 3), request, flushed=frozenset("abc"), epoch_seen=5)


@pytest.mark.parametrize(
    "change",
    [
        ("min_in_sync", "0"),
        ("min_in_sync", "-1"),
        ("min_in_sync", "17"),
        ("min_in_sync", "two"),
        ("min_in_sync", "9" * 5000),
        ("lag_ms_max", "499"),
        ("lag_ms_max", ""),
        ("flush_mode", "fsync"),
        ("ack_mode", "none"),
        ("epoch", "1"),
    ],
)
def test_what_is_no_setting_is_refused(change: tuple[str, str]) -> None:
    with pytest.raises(InvalidParameter):
        changed_settings(GroupSettings(), (change,))


def test_a_change_names_its_version() -> None:
    with pytest.raises(StaleGroupVersion):
        change_settings(KnownGroup(group(), 4), ChangeGroup(GROUP, 3, ()), flushed=frozenset(), epoch_seen=1)


def test_who_must_flush_is_who_could_be_elected_and_only_before_going_over_to_sync() -> None:
    def asked(node: GroupNode, *changes: tuple[str, str]) -> frozenset[str]:
        return must_flush(KnownGroup(node, 3), ChangeGroup(GROUP, 3, changes))

    assert asked(group(in_sync="a", eligible="b"), ("flush_mode", "sync")) == {"a", "b"}
    assert asked(group(), ("min_in_sync", "1"), ("ack_mode", "master")) == frozenset()
    assert asked(group(flush_mode=FlushMode.SYNC), ("flush_mode", "sync")) == frozenset()
    assert asked(group(flush_mode=FlushMode.SYNC), ("flush_mode", "async")) == frozenset()
    with pytest.raises(StaleGroupVersion):
        must_flush(KnownGroup(group(), 4), ChangeGroup(GROUP, 3, (("flush_mode", "sync"),)))
