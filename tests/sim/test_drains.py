"""Drains that meet a fault: nothing acknowledged is lost, no drain lasts for ever, and all becomes whole again."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from sim.calm_group import CalmGroup

from zenitmq.broker.draining.drain_steps import DRAIN_MS, LEAVE_MS, LINK_MS

STEPS_MS = (1, 3, 6, 12, 25, 50, 90)
MARGIN_MS = 1_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The shells tell of each step; nobody reads it here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("after_ms", STEPS_MS)
@pytest.mark.parametrize("sync", [False, True])
def test_who_drains_is_killed(after_ms: int, sync: bool) -> None:
    group = CalmGroup(sync=sync)
    old = group.master
    group.faults.drain(old, ends=True)
    group.run_ms(after_ms)
    group.faults.kill(old)
    group.writes_go_on(6_000)
    group.whole()


@pytest.mark.parametrize("after_ms", STEPS_MS)
def test_who_takes_over_is_killed(after_ms: int) -> None:
    group = CalmGroup("abcd")
    old = group.master
    group.faults.drain(old, ends=True)
    group.run_until(lambda: group.master != old)
    group.run_ms(after_ms)
    group.faults.kill(group.master)
    group.writes_go_on(6_000)
    group.whole()


def test_without_a_controller_a_drain_ends_all_the_same() -> None:
    group = CalmGroup()
    lives = [group.brokers[name] for name in sorted(group.swarm.names, key=lambda name: name == group.master)]
    group.controller_dies()
    group.run_ms(3_000)
    slave, master = lives[0], lives[-1]
    group.faults.drain(slave.name, ends=True)
    group.run_until(lambda: not slave.alive, LEAVE_MS + MARGIN_MS)
    group.faults.drain(master.name, ends=True)
    group.run_until(lambda: not master.alive, LINK_MS + MARGIN_MS)
    group.whole()


def test_writes_go_on_while_a_drain_waits_for_a_controller() -> None:
    group = CalmGroup()
    group.controller_dies()
    group.run_ms(3_000)
    group.faults.stay_drained(group.master)
    group.writes_go_on(1_000)
    group.start_controller(0)
    old = group.master
    group.run_until(lambda: group.master != old)
    group.writes_go_on(4_000)
    group.whole()


@pytest.mark.parametrize("cut_off_from", ["replicas", "controller"])
def test_who_drains_is_cut_off(cut_off_from: str) -> None:
    group = CalmGroup()
    old = group.master
    life = group.brokers[old]
    others = "".join(sorted(set("abc") - {old}))
    if cut_off_from == "replicas":
        group.part(old, others)
    else:
        group.network.cuts |= {(old, "controller-0"), ("controller-0", old)}
    group.faults.drain(old, ends=True)
    group.run_until(lambda: not life.alive, DRAIN_MS + MARGIN_MS)
    group.network.cuts.clear()
    group.writes_go_on(6_000)
    group.whole()


def test_a_whole_group_drains_and_comes_back() -> None:
    group = CalmGroup()
    lives = list(group.brokers.values())
    group.swarm.repair_ms = 20_000
    for life in lives:
        group.faults.drain(life.name, ends=True)
    group.run_until(lambda: not any(life.alive for life in lives), LEAVE_MS + MARGIN_MS)
    group.whole()


def test_a_replica_that_drains_leads_if_nobody_else_is_left() -> None:
    group = CalmGroup(minimum=1)
    drained = min(set("abc") - {group.master})
    group.faults.stay_drained(drained)
    for name in set("abc") - {drained}:
        group.end_broker(name)
    group.run_until(lambda: group.master == drained)
    group.writes_go_on(6_000)
    for name in set("abc") - {drained}:
        group.start_broker(name)
    group.run_until(lambda: group.master != drained)
    group.writes_go_on(6_000)
    group.whole()
