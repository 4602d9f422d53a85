"""The drills are those of the page, what they do is drawn the same for a seed, and wrong wishes are refused."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest

from zenitmq.deploy.drills.catalogue import (
    CUTS_NETWORK,
    DEAD_MS,
    DRILLS,
    FAILS_DISK,
    LOSES_NODES,
    NEEDS_CONTROLLER,
    OF_CONTAINERS,
    Conditions,
    Deed,
    Whom,
    drill_named,
    possible_faults,
    random_faults,
    writes_wait,
)
from zenitmq.deploy.drills.faults.partition import link_rules, rules
from zenitmq.deploy.drills.run import DrillOptions
from zenitmq.model.errors import InvalidParameter

PAGE = Path(__file__).parents[4] / "docs" / "failover.md"
NEVER_DRAWN = {Whom.ELECTED, Whom.SLAVE_THEN_ELECTED, Whom.EACH_CONTROLLER, Whom.EACH_NAME_SERVER}
APART = Conditions(can_cut_network=True)


def test_every_drill_is_a_row_of_the_page_in_the_same_order() -> None:
    _, _, table = PAGE.read_text().partition("| drill | does | held for |\n")
    assert re.findall(r"^\| `([a-z-]+)` \|", table.partition("\n\n")[0], re.MULTILINE) == list(DRILLS)


def test_a_paused_master_stands_still_for_parts_and_multiples_of_the_dead_time() -> None:
    holds = [fault.hold_ms / DEAD_MS for fault in drill_named("pause-master").faults]
    assert holds == [0.5, 1.1, 3.0]


def test_a_partition_is_tried_each_way() -> None:
    assert [fault.deed for fault in drill_named("partition-master").faults] == [
        Deed.CUT_IN,
        Deed.CUT_OUT,
        Deed.CUT_BOTH,
    ]


def test_what_a_drill_needs_is_told() -> None:
    assert [name for name in DRILLS if DRILLS[name].cuts_network] == [
        "partition-master",
        "cut-off",
        "partition-replication",
    ]
    assert [name for name in DRILLS if DRILLS[name].fails_disk] == ["hung-fsync", "full-disk-after-election"]
    assert [name for name in DRILLS if DRILLS[name].wants_sync] == ["power-cut-all", "hung-fsync"]
    assert [name for name in DRILLS if DRILLS[name].cuts_power] == ["power-cut-all"]
    assert [name for name in DRILLS if DRILLS[name].is_random] == ["random"]


def test_faults_are_held_as_long_as_was_asked() -> None:
    assert [fault.hold_ms for fault in DrillOptions(drill="pause-master", seconds=0.25).chosen().faults] == [250] * 3
    assert DrillOptions(drill="pause-master").chosen() == drill_named("pause-master")


def test_the_time_before_a_fault_is_as_long_as_the_longest_one() -> None:
    assert drill_named("pause-master").longest_hold_ms == 6_000
    assert drill_named("pause-master").held(250).longest_hold_ms == 250
    assert drill_named("random").longest_hold_ms == 8_000


@pytest.mark.parametrize("seed", [1, 2, 77])
def test_drawn_faults_are_the_same_for_a_seed(seed: int) -> None:
    first = list(islice(random_faults(seed, APART), 400))
    assert first == list(islice(random_faults(seed, APART), 400))
    assert first != list(islice(random_faults(seed + 1, APART), 400))
    assert {fault.whom for fault in first} == set(Whom) - NEVER_DRAWN
    assert {fault.deed for fault in first} == set(Deed) - {Deed.POWER_CUT} - FAILS_DISK


@pytest.mark.parametrize("seed", [1, 2])
def test_all_that_is_possible_is_drawn_before_anything_again(seed: int) -> None:
    names = possible_faults(APART)
    drawn = [fault.name for fault in islice(random_faults(seed, APART), 3 * len(names))]
    for begin in range(0, len(drawn), len(names)):
        assert sorted(drawn[begin : begin + len(names)]) == sorted(names)
    assert drawn[: len(names)] != drawn[len(names) : 2 * len(names)]


def test_writes_wait_where_nobody_can_take_over() -> None:
    static = Conditions(has_controllers=False)
    waited = [name for name in possible_faults(APART) if writes_wait(name, APART)]
    assert len(waited) == 4
    assert "kill: all brokers" in waited
    assert [name for name in possible_faults(static) if writes_wait(name, static)] == [
        "kill: master",
        "pause: master",
        "stop: master",
        "stop: each broker",
        "kill: all brokers",
    ]
    cut_off = Conditions(has_controllers=False, can_cut_network=True)
    waited = [name for name in possible_faults(cut_off) if writes_wait(name, cut_off)]
    assert [name for name in waited if name.startswith("cut off")] == [
        "cut off, in: master",
        "cut off, out: master",
        "cut off: master",
    ], "a static master that clients reach goes on without its slaves"


def test_no_partition_is_drawn_where_none_is_possible() -> None:
    drawn = list(islice(random_faults(5, Conditions()), 400))
    assert not {fault.deed for fault in drawn} & CUTS_NETWORK


def test_only_what_a_cluster_has_is_drawn() -> None:
    drawn = list(islice(random_faults(5, Conditions(has_controllers=False, can_cut_power=True)), 400))
    assert not {fault.whom for fault in drawn} & NEEDS_CONTROLLER
    assert Deed.POWER_CUT in {fault.deed for fault in drawn}
    assert not {fault.deed for fault in drawn} & LOSES_NODES
    assert not {fault.deed for fault in drawn} & FAILS_DISK
    drawn = list(islice(random_faults(5, Conditions(can_fail_disk=True)), 400))
    assert {fault.deed for fault in drawn} >= FAILS_DISK
    assert {fault.whom for fault in drawn if fault.deed is Deed.FULL} == {
        Whom.MASTER,
        Whom.SLAVE,
        Whom.ELECTED,
        Whom.SLAVE_THEN_ELECTED,
    }


def test_a_drill_of_containers_is_what_their_engine_can_do() -> None:
    drawn = list(
        islice(random_faults(5, DrillOptions(drill="random", compose="zenit").conditions(is_apart=False)), 400)
    )
    assert {fault.deed for fault in drawn} == OF_CONTAINERS
    assert {Deed.KILL, Deed.STOP, Deed.PAUSE, Deed.SLOW, Deed.WIPE, Deed.CUT_BOTH} == OF_CONTAINERS
    with pytest.raises(InvalidParameter) as refused:
        DrillOptions(drill="power-cut-all", compose="zenit")
    assert "kill-master, kill-slave, pause-master, cut-off" in str(refused.value)
    assert "partition-master" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"drill": "kill-mister"}, "drill"),
        ({"drill": "kill-slave", "replicas": 1}, "replicas"),
        ({"drill": "lose-zookeeper", "controllers": 0}, "controllers"),
        ({"drill": "full-disk-after-election", "controllers": 0}, "controllers"),
        ({"drill": "kill-master", "runs": 0}, "runs"),
        ({"drill": "kill-master", "rate": 0}, "rate"),
        ({"drill": "kill-master", "seconds": -1}, "seconds"),
        ({"drill": "random", "minutes": 0}, "minutes"),
        ({"drill": "random", "batch": 0}, "batch"),
        ({"drill": "random", "groups": 0}, "groups"),
        ({"drill": "kill-master", "power": True}, "power"),
        ({"drill": "kill-master", "disks": True}, "disks"),
        ({"drill": "random", "power": True, "disks": True}, "disks"),
        ({"drill": "kill-master", "body_bytes": 8}, "body_bytes"),
        *(
            ({"drill": name, "compose": "zenit"}, "drill")
            for name in ("bit-rot", "partition-master", "zookeeper-emptied")
        ),
        ({"drill": "kill-master", "compose": "zenit", "directory": "/tmp/z"}, "dir"),
        ({"drill": "kill-master", "compose": "zenit", "secure": True}, "secure"),
        ({"drill": "random", "compose": "zenit", "power": True}, "power"),
        ({"drill": "random", "compose": "zenit", "disks": True}, "disks"),
    ],
)
def test_a_wrong_wish_is_refused(options: dict, named: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        DrillOptions(**options)
    assert refused.value.name == named


@pytest.mark.parametrize(("rate", "batch"), [(10, 1), (1_000, 1), (5_000, 5), (100_000, 100)])
def test_a_higher_rate_is_more_messages_a_send(rate: float, batch: int) -> None:
    assert DrillOptions(drill="kill-master", rate=rate).messages_a_send == batch
    assert DrillOptions(drill="kill-master", rate=rate, batch=16).messages_a_send == 16


def test_both_ways_are_the_rules_of_either() -> None:
    into, out = (rules(deed, 20_911, 4, (10_911, 10_912)) for deed in (Deed.CUT_IN, Deed.CUT_OUT))
    assert rules(Deed.CUT_BOTH, 20_911, 4, (10_911, 10_912)) == [*into, *out]
    assert any("--dports" in rule and "10911,10912" in rule for rule in into)
    assert any("4/4" in rule and "!" in rule for rule in into)
    assert any("--gid-owner" in rule and "!" not in rule for rule in out)


def test_links_between_replicas_are_told_by_their_ports() -> None:
    found = [" ".join(rule) for rule in link_rules(20_911, 10_912, (20_912, 30_912))]
    assert found == [
        "-p tcp --dport 10912",
        "-p tcp --sport 10912",
        "-p tcp -m multiport --dports 20912,30912 -m owner --gid-owner 20911",
    ]
