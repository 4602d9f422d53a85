"""Stories of the node: what the controller writes, and whom it elects (R7, R9, R10)."""

from __future__ import annotations

from ..ledger import Violation
from ..story import Stage
from .table import story


@story("V3", without="eligclear", falls="I1")
def minimum_reached_empties_the_eligible_set() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.part("a", "b")
    stage.shrink("b")
    stage.hear("a")
    stage.hear("c")
    stage.carry("a", "c")
    assert stage.write_proposal(stage.proposal("a"))
    stage.hear("a")  # acknowledged by a and c
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V4", without="propver", falls="I1")
def proposal_is_for_the_node_it_names() -> None:
    stage = Stage(in_sync="ab")
    stage.hear("c")
    stage.carry("a", "c")
    proposal = stage.proposal("a")
    stage.append("a")
    stage.carry("a", "b")
    assert stage.write_proposal(proposal)
    stage.shrink("c")
    stage.hear("a")
    stage.write_proposal(proposal)  # once more
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("M-R9a", without="R9-elig", falls="I5")
def somebody_can_be_elected() -> None:
    stage = Stage()
    stage.shrink("b")
    stage.shrink("c")
    stage.kill("a")
    if not stage.elect("c", old_is_dead=True):
        raise Violation("I5: nobody who lives can be elected")
    stage.hear("c")
    stage.whole()


@story("M-R10", without="R10", falls="I1")
def nobody_outside_both_sets_is_elected() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.elect("c")
    stage.hear("c")
    stage.whole()
