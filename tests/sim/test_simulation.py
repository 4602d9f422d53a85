"""Some hundred seeds of the whole group: nothing acknowledged or shown is lost, and all becomes whole again.

Ten thousands more ran by hand, as one does after a change of the rules (docs/replication.md): `python -m tests.sim --seeds N`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from sim.ledger import Violation
from sim.mutations import mutated
from sim.simulation import Simulation

SEEDS = 300
BLOCK = 50
SOON = 100


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The shells tell of each fault; nobody reads it here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_all(seeds: range) -> None:
    for seed in seeds:
        Simulation(seed).run()


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_nothing_is_lost_and_all_becomes_whole(first: int) -> None:
    run_all(range(first, first + BLOCK))


def test_the_runs_are_not_idle() -> None:
    """Over a few seeds there are acknowledgements, elections and cuts of logs: else the checks hold of nothing."""
    acknowledged = epochs = lives = 0
    for seed in range(20):
        simulation = Simulation(seed)
        simulation.run()
        acknowledged += len(simulation.told)
        epochs += len(simulation.ledger.masters)
        lives += sum(disk.replica.starts for disk in simulation.disks.values())
    assert acknowledged > 1000, f"seeds 0 to 19: {acknowledged}"
    assert epochs > 60, f"seeds 0 to 19: {epochs}"
    assert lives > 100, f"seeds 0 to 19: {lives}"


@pytest.mark.parametrize("name", ["R8-all", "R9-unclean", "R10", "R13", "twoep", "ffdrop", "ffmark", "holecut"])
def test_a_rule_that_is_gone_is_missed_soon(name: str) -> None:
    with mutated(name), pytest.raises(Violation):
        run_all(range(SOON))


def test_a_seed_tells_the_same_story_twice() -> None:
    stories = []
    for _ in range(2):
        lines: list[str] = []
        Simulation(15, trace=lines.append).run()
        stories.append(lines)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 10
