"""Stories of the in-sync set: who is waited for, who counts, what settles a proposal (R6, R7, R8)."""

from __future__ import annotations

from zenitmq.broker.replication.frames import Opening

from ..story import Stage
from .table import story


@story("V1", without="mincount", falls="I1")
def proposed_member_does_not_count() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.part("a", "b")
    stage.shrink("b")
    stage.hear("a")
    stage.hear("c")
    stage.carry("a", "c")  # c has the record and is proposed
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V2", without="confmin", falls="I3")
def nothing_is_confirmed_below_the_minimum() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.shrink("b")
    stage.hear("a")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V5", without="resolvever", falls="I1")
def same_version_settles_nothing() -> None:
    stage = Stage(in_sync="ab")
    stage.hear("c")
    stage.carry("a", "c")
    proposal = stage.proposal("a")
    stage.append("a")
    stage.carry("a", "b")
    stage.hear("a")  # what it knew already
    assert stage.write_proposal(proposal)
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("V6", without="infover", falls="I1")
def older_version_is_old_news() -> None:
    stage = Stage()
    stage.append("a")
    stage.shrink("c")
    older = stage.version
    stage.hear("a")
    assert stage.write_proposal(stage.proposal("a"))  # c is in again
    stage.hear("a")
    stage.carry("a", "b")
    stage.hear("a", older)
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("V7", without="epstart", falls="I1")
def nobody_joins_below_the_start_of_the_epoch() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.elect("b")
    stage.shrink("a")
    stage.hear("b")  # leads from one record on; alone, its confirm offset stays at 0
    stage.hear("c")
    stage.one("c", "b", Opening)
    stage.tick("b")
    stage.write_proposal(stage.proposal("b"))
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("V10", without="expinc", falls="I1")
def acks_of_an_earlier_life_bring_nobody_back() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.hear("a")
    stage.write_proposal(stage.proposal("a"))
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V20", without="minimum-split", falls="I1")
def the_minimum_is_the_nodes() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.shrink("b")
    stage.hear("a")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("M-R6", without="R6-union", falls="I1")
def unanswered_proposal_stands() -> None:
    stage = Stage(in_sync="ab")
    stage.hear("c")
    stage.carry("a", "c")
    proposal = stage.proposal("a")
    stage.append("a")
    stage.carry("a", "b")
    for _ in range(3):
        stage.tick("a", after_ms=300)
    assert stage.write_proposal(proposal)
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("M-R7a", without="R7-expand", falls="I1")
def member_is_waited_for_before_it_is_proposed() -> None:
    stage = Stage(in_sync="ab")
    stage.hear("c")
    stage.carry("a", "c")
    stage.append("a")
    stage.carry("a", "b")
    assert stage.write_proposal(stage.proposal("a"))
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("M-R7b", without="R7-shrink", falls="I1")
def member_is_waited_for_until_it_has_left() -> None:
    stage = Stage()
    stage.append("a")
    for _ in range(8):
        stage.tick("a", after_ms=300)  # c is silent
        stage.carry("a", "b")
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("M-R8", without="R8-all", falls="I1")
def all_of_the_union_hold_it() -> None:
    stage = Stage()
    stage.append("a")
    stage.carry("a", "b")
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("M-join", without="join-any", falls="I1")
def who_joins_has_caught_up() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.hear("c")
    stage.one("c", "a", Opening)
    stage.tick("a")
    stage.write_proposal(stage.proposal("a"))
    stage.elect("c")
    stage.hear("c")
    stage.whole()
