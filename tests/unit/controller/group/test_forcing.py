"""Forced elections (rule R10): what becomes of the node, and the record of it."""

from __future__ import annotations

import json

import pytest
from sim.group_kit import GROUP, group, life

from zenitmq.controller.group.audit_record import ForcedElection, encode_forced_election
from zenitmq.controller.group.forcing import force_election
from zenitmq.model.errors import GroupNodeLost, InvalidParameter, MasterStillAlive, UnknownReplica
from zenitmq.model.groups.group import GroupNode
from zenitmq.model.groups.log_reach import LogReach


def log(name: str, newest_epoch: int, end: int, *, begin: int = 0, confirm: int = 0) -> LogReach:
    return LogReach(name=name, newest_epoch=newest_epoch, newest_begin=begin, end=end, confirm=confirm)


def forced(node: GroupNode, elected: LogReach, *others: LogReach, wait_ms: int = 0) -> tuple[GroupNode, ForcedElection]:
    return force_election(node, elected, [elected, *others], wait_ms=wait_ms, epoch_seen=3, now_ms=123)


def test_a_forced_election_names_what_may_be_lost() -> None:
    node = group(in_sync="a", eligible="b", epoch=3)
    after, record = forced(node, log("c", 3, 700), log("b", 3, 1000))
    assert (after.epoch, after.master, after.master_incarnation) == (4, "c", life("c"))
    assert (after.in_sync, after.eligible) == (("c",), ()), "what the others hold is no measure any more"
    assert (record.lost_begin, record.lost_end, record.at_ms) == (700, 1000, 123)
    assert (record.epoch, record.elected, record.old_master) == (4, "c", "a")
    assert (record.best, record.best_newest_epoch, record.best_end) == ("b", 3, 1000)
    assert (record.in_sync, record.eligible) == (("a",), ("b",))


def test_a_forced_election_is_a_line_of_json() -> None:
    _, record = forced(group(in_sync="a", epoch=3), log("c", 2, 7), log("b", 3, 9, begin=6))
    assert json.loads(encode_forced_election(record)) == {
        "event": "forced election",
        "broker_name": GROUP,
        "epoch": 4,
        "elected": "c",
        "elected_newest_epoch": 2,
        "elected_end": 7,
        "best": "b",
        "best_newest_epoch": 3,
        "best_end": 9,
        "old_master": "a",
        "in_sync": ["a"],
        "eligible": [],
        "last": "",
        "lost_begin": 6,
        "lost_end": 9,
        "at_ms": 123,
        "by": "",
    }


def test_after_both_sets_became_empty_the_forced_one_begins_them() -> None:
    after, record = forced(group(in_sync="", last="a", epoch=3), log("a", 3, 9), log("b", 3, 5))
    assert (after.in_sync, after.eligible, after.last, record.last) == (("a",), (), None, "a")
    assert record.lost_begin == record.lost_end == 9


def test_force_waits_for_the_old_master_and_is_not_taken_where_it_is_not_needed() -> None:
    with pytest.raises(MasterStillAlive) as early:
        forced(group(in_sync="a", epoch=3), log("c", 1, 0), wait_ms=70)
    assert (early.value.master, early.value.wait_ms) == ("a", 70)
    with pytest.raises(InvalidParameter, match="holds all"):
        forced(group(epoch=3), log("c", 1, 0))
    with pytest.raises(GroupNodeLost):
        forced(group(in_sync="a", epoch=2), log("c", 1, 0))
    with pytest.raises(UnknownReplica):
        forced(group(in_sync="a", epoch=3), log("x", 1, 0))
