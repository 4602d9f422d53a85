"""Stories of ZooKeeper set back or emptied: what replicas know outweighs what the node says (R1, R2, R10, the group's id)."""

from __future__ import annotations

from zenitmq.model.errors import ZenitError

from ..ledger import Violation
from ..story import Stage
from .table import story


@story("Z1", without="seen", falls="I4")
def refused_epoch_is_remembered() -> None:
    stage = Stage("ab", in_sync="ab", minimum=1)
    older = stage.version
    stage.elect("b", old_is_dead=True)
    stage.hear("b")
    stage.append("b")  # acknowledged by b alone, in epoch 2
    stage.kill("b")
    stage.set_back_zookeeper(older)
    stage.start("b")
    stage.register("b")
    stage.kill("b")
    stage.kill("a")
    stage.start("a")
    stage.register("a")
    if stage.elect("a"):  # in epoch 2, once more
        stage.hear("a")


@story("Z2", without="seenver", falls="I1")
def sets_of_the_same_epoch_were_set_back() -> None:
    stage = Stage()
    older = stage.version
    stage.part("a", "c")
    stage.shrink("c")
    stage.hear("a")
    stage.append("a")
    stage.carry("a", "b")  # acknowledged without c
    stage.set_back_zookeeper(older)
    stage.beat("a")
    if stage.elect("c"):
        stage.hear("c")


@story("Z3", without="seenset", falls="I3")
def no_set_changes_while_more_is_known() -> None:
    stage = Stage("ab", in_sync="ab", minimum=1)
    stage.append("a")  # b has not got it
    older = stage.version
    stage.elect("b")
    stage.hear("b")
    stage.set_back_zookeeper(older)
    stage.beat("b")
    stage.part("a", "b")
    for _ in range(40):
        stage.tick("a", after_ms=50)
    if stage.write_proposal(stage.proposal("a")):
        stage.hear("a")  # it acknowledges alone, while b leads a later epoch


@story("Z4", without="newsep", falls="I5")
def restored_group_is_heard_of() -> None:
    stage = Stage("ab", in_sync="ab")
    older = stage.version
    for name in "babababab" * 2:
        stage.elect(name)
    stage.hear("a")
    stage.hear("b")
    stage.carry_all()
    stage.set_back_zookeeper(older)
    stage.beat("b")
    stage.restore()
    stage.force_the_best()
    stage.whole()


@story("Z5", without="bestrow", falls="I1")
def operator_forces_the_newest_row() -> None:
    stage = Stage("ab", in_sync="ab", minimum=1)
    older = stage.version
    stage.append("a")
    stage.append("a")  # b has none of them: they are not acknowledged
    stage.elect("b", old_is_dead=True)
    stage.hear("b")
    stage.append("b")  # acknowledged
    stage.drop_all()
    stage.set_back_zookeeper(older)
    stage.beat("b")
    stage.restore()
    stage.force_the_best()
    stage.whole()


@story("Z6", without="logid", falls="I3")
def log_without_a_group_id_is_no_copy() -> None:
    stage = Stage("ab", in_sync="ab", minimum=1)
    stage.append("a")
    stage.carry("a", "b")
    stage.shrink("b")
    stage.hear("a")
    stage.be_alone("b", records=1)
    stage.start("b")
    if stage.register("b"):
        stage.hear("a")
        stage.hear("b")
        stage.carry_all()
        stage.append("a")
        stage.carry_all()
        stage.tick(after_ms=50)
        stage.carry_all()


@story("Z7", without="foundrow", falls="I5")
def group_begins_above_the_epochs_of_its_founder() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.be_alone("a", records=2, epoch=7)
    stage.empty_zookeeper()
    stage.start("a")
    stage.register("a")
    stage.elect("a")
    try:
        stage.hear("a")
    except (ValueError, ZenitError) as error:
        raise Violation(f"I5: nobody can lead: {error}") from error


@story("Z8", without="seen", falls="I4")
def wiped_replica_does_not_found_what_others_know() -> None:
    stage = Stage("ab", in_sync="ab", minimum=1)
    stage.append("a")
    stage.kill("a")
    stage.empty_zookeeper()
    stage.start("a")
    stage.register("a")
    stage.kill("a")
    stage.wipe("b")
    stage.start("b")
    if stage.register("b"):
        stage.elect("b")
        stage.hear("b")
