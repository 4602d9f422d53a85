"""Stories of the slave's log: where it is cut, what it takes, under which epoch (R4, R5)."""

from __future__ import annotations

from unittest.mock import patch

from zenitmq.broker.replication import chunk_pacing, epochs
from zenitmq.broker.replication.frames import Accepted, Chunk, Credit, Opening

from ..ledger import Violation
from ..records import RECORD
from ..story import Stage
from .table import story


@story("V18", without="guardmin", falls="I6")
def guard_is_no_higher_than_the_log() -> None:
    stage = Stage(in_sync="ab")
    stage.append("a")
    stage.append("a")
    stage.carry("a", "b")
    stage.hear("c")
    stage.one("c", "a", Opening)
    stage.one("a", "c", Accepted)
    with patch.object(chunk_pacing, "CHUNK_BYTES", RECORD):
        stage.one("c", "a", Credit)
    stage.one("a", "c", Chunk)  # one record, and word that two are confirmed
    stage.elect("b")
    stage.hear("b")
    stage.hear("c")
    stage.carry("b", "c")
    stage.whole()


@story("V19", without="twoep", falls="I5")
def data_keeps_its_epoch() -> None:
    stage = Stage()
    stage.append("a")
    stage.one("a", "b", Chunk)
    stage.kill("a")
    stage.elect("b", old_is_dead=True)
    stage.whole()


@story("M-R4a", without="R4-intent", falls="I3")
def cut_bytes_stay_away() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.flush("a")
    stage.drop_all()
    stage.elect("b")
    stage.hear("a")
    stage.hear("b")
    stage.carry("a", "b")  # a's record is cut
    stage.append("b")
    stage.one("b", "a", Chunk)
    stage.lose_power("a")
    stage.start("a")
    stage.hear("a")
    stage.carry("a", "b")
    stage.tick("b", after_ms=300)
    stage.carry("a", "b")
    stage.whole()


@story("M-R4b", without="R4-rowsync", falls="I3")
def row_is_there_before_the_bytes() -> None:
    stage = Stage(sync=True)
    stage.append("a")
    for name in "abc":
        stage.flush(name)
        stage.carry_all()
        stage.flush(name)
    stage.carry_all()
    stage.append("a")  # at a alone
    stage.drop_all()
    stage.elect("b")
    stage.hear("b")
    stage.hear("c")
    stage.carry("b", "c")
    stage.append("b")  # another record at the same place
    stage.one("b", "c", Chunk)
    stage.lose_power("c", keep=2)
    stage.start("c")
    stage.register("c")
    stage.elect("c")
    stage.hear("c")
    for name in "ab":
        stage.hear(name)
        stage.carry(name, "c")
        stage.flush(name)
        stage.carry(name, "c")
    stage.tick(after_ms=300)
    stage.carry_all()
    stage.whole()


@story("M-R4c", without="truncmin-r3", falls="I3")
def cut_to_the_lower_of_both_ends() -> None:
    stage = Stage()
    stage.append("a")
    stage.carry("a", "b")
    stage.append("a")
    stage.drop_all()
    stage.elect("b")
    stage.hear("b")
    stage.elect("a")
    stage.append("b")
    stage.hear("b")
    stage.shrink("c")
    stage.hear("a")
    stage.carry("a", "b")
    stage.tick("a", after_ms=300)
    stage.carry("a", "b")
    stage.whole()


@story("M-R5a", without="R5-end", falls="I1")
def chunk_is_appended_at_the_end_only() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    again = stage.one("a", "b", Chunk, keep=True)
    assert again is not None
    stage.append("a")
    stage.deliver(stage.waiting("a", "b", Chunk)[-1])
    for held in stage.waiting("b", "a"):
        stage.deliver(held)
    stage.elect("b")
    stage.deliver(again)
    stage.hear("b")
    stage.whole()


@story("M-R5b", without="R5-epoch", falls="I6")
def chunk_is_filed_under_its_own_epoch() -> None:
    stage = Stage()
    stage.append("a")
    stage.one("a", "b", Chunk)
    stage.elect("b")
    stage.shrink("a")
    stage.hear("b")
    stage.hear("c")
    stage.carry("b", "c")
    stage.elect("c")
    stage.hear("b")
    stage.hear("c")
    stage.carry("b", "c")
    stage.whole()


@story("M-R4d", without="R4-rowlife", falls="I5")
def row_lives_as_long_as_its_bytes() -> None:
    """Masters that take turns fill the list; a wiped replica is sent the first epoch's bytes all the same."""
    with patch.object(epochs, "ROWS_KEPT", 2):
        stage = Stage("ab", in_sync="ab", minimum=1)
        for name in "abab":
            stage.elect(name)
            stage.hear("a")
            stage.hear("b")
            stage.carry("a", "b")
            stage.append(name)
            stage.carry("a", "b")
        stage.wipe("b")
        stage.start("b")
        stage.register("b")
        stage.elect("a")
        stage.whole()


@story("V27", without="cutmark", falls="I5")
def who_was_cut_has_forgotten_nothing() -> None:
    """Its store is closed for the cut and opened by another life, which registers: no clean end vouches for what is cut."""
    stage = _with_a_log_to_cut()
    stage.carry("a", "b")
    stage.kill("b")
    if not stage.elect("a", old_is_dead=True):
        raise Violation("I5: who was cut as its master asked is taken for one that may have forgotten")
    stage.hear("a")
    stage.whole()


@story("V28", without="cutforget", falls="I5")
def cut_is_carried_through_by_the_next_life() -> None:
    stage = _with_a_log_to_cut()
    stage.carry("a", "b")
    stage.append("b")
    stage.carry("a", "b")
    stage.whole()


def _with_a_log_to_cut() -> Stage:
    """b leads, and lacks what a has written last."""
    stage = Stage("ab", in_sync="ab", minimum=1)
    stage.append("a")
    stage.drop_all()
    stage.elect("b")
    stage.hear("b")
    stage.hear("a")
    return stage
