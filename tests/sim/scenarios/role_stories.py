"""Stories of lives and terms: who may lead which epoch, and what a new master keeps (R1, R2, R13)."""

from __future__ import annotations

from ..story import Stage
from .table import story


@story("V8a", without="newepoch", falls="I4")
def no_life_resumes_an_epoch() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.lose_power("a")
    stage.start("a")
    stage.hear("a")
    stage.whole()


@story("V8b", without="newepoch", falls="I4")
def no_life_resumes_an_epoch_under_sync() -> None:
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.carry("a", "b")
    stage.lose_power("a")  # nobody had flushed it
    stage.start("a")
    stage.hear("a")
    stage.append("a")
    stage.flush("a")
    stage.flush("b")
    stage.carry("a", "b")
    stage.whole()


@story("V9", without="inccheck", falls="I1")
def election_names_a_life() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.lose_power("a")
    stage.start("a")
    stage.elect("a")  # the life it knows: the one that is over
    stage.register("a")
    stage.hear("a")
    stage.whole()


@story("M-R1", without="R1", falls="I5")
def election_gives_a_new_epoch() -> None:
    stage = Stage()
    stage.append("a")
    stage.carry("a", "b")
    stage.elect("c")
    stage.hear("c")
    stage.elect("a")
    stage.shrink("c")
    stage.kill("a")
    stage.whole()


@story("M-R2", without="R2-reject", falls="I1")
def promise_outlives_the_process() -> None:
    stage = Stage("ab", in_sync="ab", minimum=1)
    older = stage.version
    stage.elect("b")
    stage.shrink("a")
    stage.hear("b")
    stage.append("b")
    stage.kill("b")
    stage.start("b")
    stage.hear("b", older)
    stage.carry("a", "b")
    stage.register("b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("M-R13", without="R13", falls="I1")
def new_master_keeps_its_log() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()
