"""Stories of the confirm offset on the disk: what a replica remembers, and what it refuses for it (R4, R6, R9)."""

from __future__ import annotations

from ..ledger import Violation
from ..records import RECORD, SEGMENT
from ..story import Stage
from .table import story


def _confirmed_everywhere(stage: Stage, *, sync: bool = False) -> None:
    """One record that all hold, know to be confirmed, and remember."""
    stage.append("a")
    stage.carry_all()
    for name in stage.brokers:
        if sync:
            stage.flush(name)
            stage.carry_all()
    stage.tick(after_ms=300)
    stage.carry_all()
    for name in stage.brokers:
        stage.remember(name)


@story("R6a", without="R6-remember", falls="R6")
def who_comes_back_alone_shows_what_was_confirmed() -> None:
    """Too few are there to confirm anything anew; reads go on where they were."""
    stage = Stage(sync=True)
    _confirmed_everywhere(stage, sync=True)
    for name in "abc":
        stage.kill(name)
    stage.start("c")
    stage.register("c")
    stage.elect("c", old_is_dead=True)
    stage.hear("c")
    stage.flush("c")
    stage.tick("c", after_ms=1000)
    log = stage.brokers["c"].replica.log
    if log.confirm != log.end:
        raise Violation(f"R6: c shows {log.confirm} of {log.end}")
    stage.whole()


@story("R4a", without="R6-remember", falls="R4")
def who_was_halted_is_halted_after_a_restart() -> None:
    """By force somebody was elected who lacks what b knows to be confirmed: b's copy may be the last one."""
    stage = Stage("abc", in_sync="ab")
    _confirmed_everywhere(stage)
    stage.kill("a")
    stage.kill("b")
    stage.force("c")
    stage.hear("c")
    for _ in range(2):
        stage.start("b")
        stage.register("b")
        stage.hear("b")
        stage.carry("b", "c")
        _check_halted(stage, "b", RECORD)
        stage.kill("b")


@story("R4b", without="R4-begin", falls="I5")
def log_is_not_cut_below_where_it_begins() -> None:
    """By force somebody was elected who ends below another's retention: that one could not be sent what it lacks."""
    stage = Stage("abc", in_sync="ab")
    for _ in range(SEGMENT // RECORD + 2):
        stage.append("a")
        stage.carry("a", "b")
    for name in "ab":
        stage.flush(name)
    stage.disks["b"].expire(SEGMENT)
    stage.kill("a")
    stage.kill("b")
    stage.disks["b"].confirm_noted = 0  # its checkpoint is torn
    stage.force("c")
    stage.hear("c")
    for _ in range(2):
        stage.start("b")
        stage.register("b")
        stage.hear("b")
        stage.carry("b", "c")
        _check_halted(stage, "b", SEGMENT + 2 * RECORD)
        stage.kill("b")


def _check_halted(stage: Stage, name: str, end: int) -> None:
    halted = stage.brokers[name].replica.halted
    if len(stage.disks[name].log) != end or stage.disks[name].replica.intent_epoch:
        raise Violation(f"R4: the log of {name} was cut to {len(stage.disks[name].log)}")
    if halted is None or f"--replica {name} --force" not in halted:
        raise Violation(f"R4: {name} does not say what to do: {halted}")


@story("V17c", without="R9-confirm", falls="I1")
def failed_fsync_shows_where_its_note_has_failed_too() -> None:
    stage = Stage("ab", in_sync="ab")
    _confirmed_everywhere(stage)
    stage.append("a")
    stage.disks["a"].fsync_fails = lambda: True
    stage.disks["a"].takes_no_note = True
    stage.flush("a")
    stage.disks["a"].mend()
    stage.start("a")
    stage.register("a")
    stage.elect("a")
    stage.hear("a")
    stage.whole()


@story("V22b", without="R9-confirm", falls="I1")
def copy_of_the_present_life_shows() -> None:
    """Its start counter is one more than the last one known, as it should be; the master knows what it had."""
    stage = Stage("ab", in_sync="ab", sync=True)
    copy = stage.disks["b"].copy()
    _confirmed_everywhere(stage, sync=True)
    stage.set_back("b", copy)
    stage.start("b")
    stage.register("b", master_was_heard=True)
    stage.elect("b")
    stage.hear("b")
    stage.whole()
