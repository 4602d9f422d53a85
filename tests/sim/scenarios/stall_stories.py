"""Stories of stalls: who stands in the way of its group is replaced, and nobody who is not (R11, Detection)."""

from __future__ import annotations

from ..calm_group import CalmGroup
from ..ledger import Violation
from ..story import Stage
from .table import story

DEAD_MS = 2000
TAKEN_OVER_MS = 4000
"""Detected within the dead time and a heartbeat, elected, and found by the producers."""


@story("D1", without="roomwait", falls="I5")
def full_disk_does_not_keep_a_slave_from_leading() -> None:
    stage = Stage(in_sync="ab")
    stage.disks["b"].is_full = True
    stage.append("a")
    stage.carry("a", "b")
    stage.kill("a")
    stage.elect("b", old_is_dead=True)
    stage.hear("b")
    stage.tick("b", after_ms=1000)
    if stage.brokers["b"].replica.master is None:
        raise Violation("I5: b was elected and does not lead")
    stage.disks["b"].mend()
    stage.whole()


@story("D2", without="promisewait", falls="I5")
def who_does_not_promise_is_passed_over() -> None:
    group = CalmGroup("abcd")
    old = group.master
    group.end_broker(old)
    group.run_until(lambda: group.master != old)
    group.disks[group.master].is_brimful = True  # the node is written; nobody has heard of it yet
    group.writes_go_on(DEAD_MS + TAKEN_OVER_MS)
    group.whole()


@story("D3", without="hangwait", falls="I5")
def master_whose_disk_hangs_gives_up() -> None:
    group = CalmGroup(sync=True)
    old = group.master
    group.disks[old].hangs = True
    group.writes_go_on(TAKEN_OVER_MS)
    if group.master == old:
        raise Violation("I5: it was not replaced")
    group.run_ms(20_000)
    epoch = group.epoch
    group.run_ms(20_000)
    if group.epoch != epoch:
        raise Violation("I5: the master changes again, though nothing stalls")
    group.whole()


@story("D4", without="cutwait", falls="I5")
def master_that_no_slave_reaches_gives_up() -> None:
    group = CalmGroup()
    old = group.master
    group.part(old, "".join(sorted(set("abc") - {old})))
    group.writes_go_on(TAKEN_OVER_MS)
    group.run_ms(30_000)
    group.whole()


@story("D5", without="anycut", falls="I5")
def master_that_serves_its_minimum_stays() -> None:
    group = CalmGroup()
    old, epoch = group.master, group.epoch
    group.part(old, min(set("abc") - {old}))
    group.run_ms(20_000)
    if (group.master, group.epoch) != (old, epoch):
        raise Violation("I5: one slave deposed a master that served with the other")
    group.writes_go_on(1000)
    group.whole()


@story("D6", without="nopassover", falls="I5")
def two_that_hang_are_not_elected_in_turn() -> None:
    group = CalmGroup()
    old = group.master
    group.end_broker(old)
    for name in set("abc") - {old}:
        group.disks[name].is_brimful = True
    group.run_ms(10_000)
    epoch = group.epoch
    group.run_ms(60_000)
    if group.epoch != epoch:
        raise Violation(f"I5: epochs {epoch} to {group.epoch}, and nobody leads")
    group.whole()


@story("D7", without="heardlate", falls="I5")
def dead_replicas_are_not_elected() -> None:
    group = CalmGroup(minimum=1)
    for _ in range(5):
        epoch = group.epoch
        group.power_fails()
        group.run_ms(10_000)
        if group.epoch != epoch:
            raise Violation(f"I5: {group.master} was elected, and nobody lives")
        group.power_comes_back()
        group.run_until(lambda: group.in_sync == group.swarm.names)
    group.whole()


@story("D8", without="stuckwait", falls="I5")
def member_whose_disk_hangs_leaves_the_set() -> None:
    group = CalmGroup(sync=True)
    old = group.master
    group.disks[min(set("abc") - {old})].hangs = True
    group.writes_go_on(TAKEN_OVER_MS)
    if group.master != old:
        raise Violation("I5: the master changed, and there was nothing wrong with it")
    group.whole()
