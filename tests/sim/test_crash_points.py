"""A process may end at any step of what it does to its files, alone or with its machine: all becomes whole again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from sim.ledger import Violation
from sim.mutations import mutated
from sim.records import RECORD, SEGMENT
from sim.schedule import Died
from sim.story import Stage

STEPS_MAX = 60
ENDS = {
    "killed": {"power": False, "keeps_names": False},
    "without power": {"power": True, "keeps_names": False},
    "without power, names kept": {"power": True, "keeps_names": True},
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The shells tell of each step; nobody reads it here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def a_log_is_cut() -> tuple[Stage, Callable[[], None]]:
    """a's record is nobody else's, and was flushed."""
    stage = Stage("ab", in_sync="ab", minimum=1)
    stage.append("a")
    stage.flush("a")
    stage.drop_all()
    stage.elect("b")
    stage.hear("b")

    def begins() -> None:
        stage.hear("a")
        stage.carry("a", "b")
        stage.append("b")
        stage.carry("a", "b")

    return stage, begins


def a_master_begins() -> tuple[Stage, Callable[[], None]]:
    """a was a slave, and has flushed nothing yet."""
    stage = Stage("ba", in_sync="ba", sync=True)
    stage.append("b")
    stage.carry_all()
    stage.elect("a")

    def begins() -> None:
        stage.hear("a")
        stage.hear("b")
        stage.append("a")
        stage.carry_all()

    return stage, begins


def a_slave_takes_bytes_of_a_new_epoch() -> tuple[Stage, Callable[[], None]]:
    stage = Stage("bca", in_sync="bca")
    stage.append("b")
    stage.carry_all()
    stage.elect("c")
    stage.hear("c")

    def begins() -> None:
        stage.hear("a")
        stage.carry("c", "a")
        stage.append("c")
        stage.carry("c", "a")
        stage.flush("a")

    return stage, begins


def a_log_begins_anew() -> tuple[Stage, Callable[[], None]]:
    """b has kept nothing of what a, whose disk is another, would have to begin with."""
    stage = Stage("ba", in_sync="ba", minimum=1)
    for _ in range(SEGMENT // RECORD + 2):
        stage.append("b")
        stage.carry_all()
    stage.flush("b")
    stage.flush("a")
    stage.tick(after_ms=300)
    stage.carry_all()
    stage.disks["b"].expire(SEGMENT)
    stage.tick("b")
    stage.wipe("a")
    stage.start("a")
    stage.register("a")

    def begins() -> None:
        stage.hear("b")
        stage.hear("a")
        stage.carry_all()
        stage.tick(after_ms=60)
        stage.carry_all()

    return stage, begins


def a_replica_stops_and_starts() -> tuple[Stage, Callable[[], None]]:
    stage = Stage("ba", in_sync="ba")
    stage.append("b")
    stage.carry_all()

    def begins() -> None:
        stage.stop("a")
        stage.start("a")
        stage.register("a")

    return stage, begins


SCENES = [
    a_log_is_cut,
    a_master_begins,
    a_slave_takes_bytes_of_a_new_epoch,
    a_log_begins_anew,
    a_replica_stops_and_starts,
]


def end_at_every_step(scene: Callable[[], tuple[Stage, Callable[[], None]]], ends: dict[str, bool]) -> int:
    """Ends a's process at the first step of what it does, then at the second, until it comes to its end; then power fails
    at a once more. How many steps there were."""
    for step in range(STEPS_MAX):
        stage, begins = scene()
        disk = stage.disks["a"]
        disk.dies_in, disk.may_die = step, lambda: True
        try:
            begins()
        except Died:
            stage.dies("a", **ends)
        else:
            return step
        stage.start("a")
        stage.register("a")
        stage.hear("a")
        stage.carry_all()
        stage.flush("a")
        stage.lose_power("a")
        stage.whole()
    raise Violation("I5: it does not come to its end")


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("scene", SCENES)
def test_a_process_may_end_at_any_step(
    scene: Callable[[], tuple[Stage, Callable[[], None]]], ends: dict[str, bool]
) -> None:
    assert end_at_every_step(scene, ends) >= 4


@pytest.mark.parametrize("name", ["R4-intent", "cutforget"])
def test_a_cut_without_its_rule_ends_badly(name: str) -> None:
    with mutated(name), pytest.raises(Violation):
        end_at_every_step(a_log_is_cut, ENDS["without power"])
