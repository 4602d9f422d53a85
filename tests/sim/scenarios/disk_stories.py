"""Stories of disks: what counts as flushed, and who must say that it may have forgotten (R8, R9)."""

from __future__ import annotations

from zenitmq.broker.replication.frames import Chunk, Opening
from zenitmq.model.groups.group import FlushMode

from ..story import Stage
from .table import story


@story("V11", without="sticky", falls="I1")
def clean_stop_hides_nothing() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.lose_power("a")
    stage.start("a")
    stage.stop("a")
    stage.start("a")
    stage.register("a")
    stage.elect("a")
    stage.hear("a")
    stage.whole()


@story("V12", without="wipeid", falls="I1")
def wiped_disk_leaves_the_sets() -> None:
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.flush("a")
    stage.carry("a", "b")
    stage.flush("b")
    stage.carry("a", "b")
    stage.wipe("a")
    stage.start("a")
    stage.register("a")
    stage.elect("a")
    stage.hear("a")
    stage.whole()


@story("V12b", without="wipeid", falls="I1")
def copy_of_another_replica_leaves_the_sets() -> None:
    """What the copied replica had not got yet, the one whose disk is replaced had acknowledged."""
    stage = Stage("abc", in_sync="ac", sync=True)
    for name in "bc":
        stage.carry("a", name)
    for takes in ("bc", "c"):
        stage.append("a")
        stage.flush("a")
        for name in takes:
            stage.carry("a", name)
            stage.flush(name)
            stage.carry("a", name)
    stage.stop("b")
    stage.replace_by_copy("c", of="b")
    for name in "bc":
        stage.start(name)
        stage.register(name)
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("V16b", without="restartfl", falls="I1")
def recovered_tail_is_not_flushed() -> None:
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.flush("a")
    stage.one("a", "b", Chunk)
    stage.kill("b")
    stage.start("b")
    stage.hear("b")
    stage.one("b", "a", Opening)
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V17", without="ffdrop", falls="I1")
def pages_of_a_failed_fsync_are_gone() -> None:
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.flush("a")
    stage.one("a", "b", Chunk)
    stage.disks["b"].fsync_fails = lambda: True
    stage.flush("b")
    stage.start("b")
    stage.flush("b")
    stage.hear("b")
    stage.one("b", "a", Opening)
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V17b", without="ffmark", falls="I1")
def failed_fsync_is_told_under_async() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.disks["a"].fsync_fails = lambda: True
    stage.flush("a")
    stage.start("a")
    stage.register("a")
    stage.elect("a")
    stage.hear("a")
    stage.whole()


@story("V21a", without="modeepoch", falls="I1")
def flush_mode_stays_within_an_epoch() -> None:
    """a has not heard yet that the group flushes, and counts what b has written; b has, and believes that nobody does."""
    stage = Stage("ab", in_sync="ab")
    stage.kill("b")
    stage.set_flush_mode(FlushMode.SYNC)
    stage.start("b")
    stage.register("b")
    stage.hear("b")
    stage.flush("b")
    stage.carry("a", "b")
    stage.append("a")
    stage.carry("a", "b")
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V21b", without="modecarry", falls="I1")
def what_was_counted_is_told_until_it_is_flushed() -> None:
    """It was acknowledged behind what the replicas flushed for the change, and lies in a page cache that outlives b's life."""
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.kill("b")
    stage.set_flush_mode(FlushMode.SYNC)
    stage.start("b")
    stage.register("b")
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V22", without="setback", falls="I1")
def disk_that_was_set_back_says_so() -> None:
    stage = Stage("ab", in_sync="ab", sync=True)
    copy = stage.disks["b"].copy()
    stage.kill("b")
    stage.start("b")
    stage.register("b")
    stage.hear("b")
    stage.carry("a", "b")
    stage.append("a")
    stage.flush("a")
    stage.carry("a", "b")
    stage.flush("b")
    stage.carry("a", "b")
    stage.set_back("b", copy)
    stage.start("b")
    stage.register("b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V23", without="holecut", falls="I1")
def log_ends_at_its_first_hole() -> None:
    """b has written both records; the first one's page did not reach its disk, the second one's did."""
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.append("a")
    stage.flush("a")
    stage.carry_all()
    stage.lose_power("b", keep=2, hole=0)
    stage.start("b")
    stage.register("b")
    stage.hear("b")
    stage.carry_all()
    stage.flush("b")
    stage.carry_all()
    stage.kill("a")
    stage.elect("b", old_is_dead=True)
    stage.hear("b")
    stage.start("a")
    stage.register("a")
    stage.whole()


@story("V23b", without="holecut", falls="I3")
def hole_under_async_leaves_the_sets() -> None:
    """What the hole took had been acknowledged."""
    stage = Stage(in_sync="abc")
    stage.append("a")
    stage.append("a")
    stage.carry_all()
    stage.lose_power("b", keep=2, hole=0)
    stage.start("b")
    stage.register("b")
    stage.hear("b")
    stage.hear("a")
    stage.carry_all()
    assert stage.node.in_sync == ("a", "c")
    stage.kill("a")
    stage.elect("b", old_is_dead=True)
    stage.elect("c", old_is_dead=True)
    stage.start("a")
    stage.register("a")
    stage.whole()


@story("V23c", without="holekept", falls="I5")
def who_is_elected_ends_its_log_at_its_hole() -> None:
    """Power is lost everywhere. Nothing was flushed, so nothing was acknowledged, and nobody can send what a has lost."""
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.append("a")
    stage.carry_all()
    stage.lose_power("b")
    stage.lose_power("a", keep=2, hole=0)
    for name in "ab":
        stage.start(name)
        stage.register(name)
    stage.elect("a")
    stage.hear("a")
    stage.whole()


@story("M-R9b", without="R9-unclean", falls="I1")
def who_may_have_forgotten_leaves_the_sets() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.lose_power("a")
    stage.start("a")
    stage.register("a")
    stage.elect("a")
    stage.hear("a")
    stage.whole()
