"""A follower copies all that is confirmed and counts for nothing; promoted, it leads with what it has."""

from __future__ import annotations

import pytest
from sim.broker import GROUP, node_of
from sim.calm_group import CalmGroup

from zenitmq.model.groups.group import GroupNode
from zenitmq.remoting.commands import ElectMaster


def node(group: CalmGroup) -> GroupNode:
    return node_of(group.zookeeper.groups[GROUP].data)


def confirm_of(group: CalmGroup, name: str) -> int:
    return int(group.brokers[name].replica.log.confirm)


def test_it_has_all_that_is_confirmed_and_is_in_no_set() -> None:
    group = CalmGroup("abf", followers="f")
    assert group.in_sync == ("a", "b")
    assert [replica.name for replica in node(group).members] == ["a", "b"]
    told = max(offset for _, _, offset in group.told)
    group.run_until(lambda: confirm_of(group, "f") > told)
    assert group.brokers["f"].member.document()["role"] == "follower"


@pytest.mark.parametrize("sync", [False, True])
def test_sends_do_not_wait_for_it(sync: bool) -> None:
    group = CalmGroup("abf", followers="f", sync=sync)
    group.end_broker("f")
    group.writes_go_on(1000)
    group.start_broker("f")
    group.part("f", "ab")
    group.writes_go_on(1000)
    assert group.in_sync == ("a", "b")


def test_it_is_never_elected_though_it_alone_is_left() -> None:
    group = CalmGroup("abf", followers="f")
    epoch = group.epoch
    group.run_until(lambda: confirm_of(group, "f") == group.brokers["f"].replica.log.end)
    for name in "ab":
        group.end_broker(name)
    count = len(group.told)
    group.run_ms(20_000)
    assert (group.master != "f", group.epoch - epoch <= 1) == (True, True)
    assert len(group.told) == count
    for name in "ab":
        group.start_broker(name)
    group.writes_go_on(20_000)
    assert "f" not in group.in_sync


def test_it_does_not_help_the_minimum() -> None:
    """Of two members one is gone: with the follower there would be two."""
    group = CalmGroup("abf", followers="f", minimum=2)
    slave = "b" if group.master == "a" else "a"
    group.end_broker(slave)
    group.run_ms(5000)
    count = len(group.told)
    group.run_ms(5000)
    assert len(group.told) == count
    group.start_broker(slave)
    group.writes_go_on(20_000)


def test_a_master_killed_under_load_costs_it_nothing() -> None:
    group = CalmGroup("abcf", followers="f")
    group.end_broker(group.master)
    group.writes_go_on(20_000)
    told = max(offset for _, _, offset in group.told)
    group.run_until(lambda: confirm_of(group, "f") > told)
    for name in "abc":
        group.start_broker(name)
    group.run_until(group.is_whole)


def test_promoted_by_hand_it_leads_with_all_that_was_confirmed() -> None:
    """The others are gone for good; what it had not heard is told as perhaps lost."""
    group = CalmGroup("abf", followers="f", minimum=1)
    logs = [broker.replica.log for broker in group.brokers.values()]
    group.run_until(lambda: all(log.end == log.confirm == logs[0].end > 0 for log in logs))
    shown = confirm_of(group, "f")
    for name in "ab":
        group.end_broker(name)
    group.run_ms(5000)
    epoch = group.epoch
    group.faults.ask(ElectMaster(GROUP, group.zookeeper.groups[GROUP].version, "f", True))
    group.run_until(lambda: group.brokers["f"].replica.master is not None)
    assert (group.master, group.in_sync) == ("f", ("f",))
    assert group.epoch > epoch
    assert not next(replica for replica in node(group).replicas if replica.name == "f").is_follower
    group.writes_go_on(20_000)
    assert confirm_of(group, "f") > shown
    for name in "ab":  # they are seeded anew by it
        group.disks[name].wipe(f"store-{name}-new")
        group.start_broker(name)
    group.run_until(group.is_whole)
