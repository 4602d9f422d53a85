"""What differs between a group's node before and after a write is told, each thing once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.controller.group.audit_record import ForcedElection
from zenitmq.controller.group.group_events import Reason, Reasons, events_between
from zenitmq.model.events.table import ELECTED
from zenitmq.model.groups.group import FlushMode, GroupNode, GroupSettings, Incarnation, Replica


def replica(name: str, starts: int = 1) -> Replica:
    return Replica(name, f"{name}:1", f"{name}:2", Incarnation(f"store-{name}", starts))


NODE = GroupNode(
    broker_name="g", epoch=3, master="a", in_sync=("a", "b"), replicas=(replica("a"), replica("b")),
    settings=GroupSettings(min_in_sync=2),
)  # fmt: skip
FORCED = ForcedElection(
    broker_name="g", epoch=4, elected="b", elected_newest_epoch=3, elected_end=5, best="a", best_newest_epoch=3,
    best_end=9, old_master="a", in_sync=(), eligible=(), last="a", lost_begin=5, lost_end=9, at_ms=1,
    by="eva",
)  # fmt: skip


def told(
    after: GroupNode, reason: Reason | None = None, before: GroupNode | None = NODE
) -> dict[str, dict[str, object]]:
    found = list(events_between(before, after, reason or Reason(after.epoch, "")))
    for kind, facts in found:
        assert facts.keys() <= set(kind.fields)
        assert facts["group"] == "g"
    return {kind.name: dict(facts) for kind, facts in found}


def test_nothing_new_is_nothing_told() -> None:
    assert told(NODE) == {}
    assert told(replace(NODE, eligible=("c",))) == {}


def test_an_election_says_who_after_whom_and_why() -> None:
    after = replace(NODE, epoch=4, master="b", in_sync=("b",))
    assert told(after, Reason(4, "its session ended")) == {
        "elected": {
            "group": "g", "epoch": 4, "master": "b", "old_master": "a", "in_sync": ("b",), "why": "its session ended",
        }
    }  # fmt: skip


def test_a_forced_election_says_what_may_be_lost() -> None:
    found = told(replace(NODE, epoch=4, master="b", in_sync=("b",)), Reason(4, "an operator asked", FORCED))
    assert list(found) == ["elected", "election_forced"]
    assert (found["election_forced"]["lost_begin"], found["election_forced"]["lost_end"]) == (5, 9)


def test_the_in_sync_set_says_who_came_and_who_went() -> None:
    found = told(replace(NODE, in_sync=("a", "c")))["in_sync_changed"]
    assert (found["joined"], found["left"], found["min_in_sync"]) == (["c"], ["b"], 2)


def test_settings_replicas_and_a_restored_group() -> None:
    settings = replace(NODE.settings, flush_mode=FlushMode.SYNC)
    assert told(replace(NODE, settings=settings))["settings_changed"]["flush_mode"] == "sync"
    moved = told(replace(NODE, replicas=(replica("a"), replica("c"), replica("d", 2))))
    assert list(moved) == ["replica_joined", "replica_left"]
    assert told(replace(NODE, replicas=(replica("a"), replica("b", 2))))["replica_joined"]["starts"] == 2
    assert list(told(replace(NODE, epoch=9, master=None, in_sync=()))) == ["group_restored"]


def test_a_new_group_is_founded() -> None:
    assert list(told(NODE, before=None)) == ["group_founded", "replica_joined", "elected"]


@pytest.mark.parametrize(("epoch", "why"), [(4, "silent"), (5, "")])
def test_a_reason_is_one_epochs(epoch: int, why: str) -> None:
    reasons = Reasons()
    reasons.because(replace(NODE, epoch=4), "silent")
    assert reasons.of(replace(NODE, epoch=epoch)) == Reason(epoch, why)
    assert ELECTED.of_group
