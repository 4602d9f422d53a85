"""`python -m tests.sim --seeds N [--first S]`: N seeds, one after the other. `--seed X --trace`: one, told in words.

A long run tells each PROGRESS_S how far it is, on standard error.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from .mutations import MUTATIONS, mutated
from .simulation import Simulation

PROGRESS_S = 10


def main() -> int:
    """0 where every seed holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--without", choices=sorted(MUTATIONS), help="with this rule taken away")
    parser.add_argument("--every-mutation", action="store_true", help="which seed finds which rule's absence first")
    parser.add_argument("--trace", action="store_true", help="tell what happens")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else (chosen.seed,)
    if chosen.every_mutation:
        return find_all(seeds)
    with ExitStack() as patched:
        if chosen.without:
            patched.enter_context(mutated(chosen.without))
        return run_all(seeds, trace=chosen.trace)


def find_all(seeds: Iterable[int]) -> int:
    """One line a mutation: the seed that finds it, and how."""
    for name in MUTATIONS:
        with mutated(name):
            print(f"{name:14} {first_found(seeds)}", flush=True)
    return 0


def first_found(seeds: Iterable[int]) -> str:
    """The first seed that fails, and what it said."""
    for seed in seeds:
        try:
            Simulation(seed).run()
        except Exception as error:  # noqa: BLE001 - a mutant may break anything
            return f"{seed:6} {type(error).__name__} {error!s:.70}".splitlines()[0]
    return "none"


class Progress:
    """Of a run of so many seeds."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began_s = self._told_s = time.monotonic()

    def tell(self, done: int, failed: int) -> None:
        """How far it is, where that was not said lately."""
        now_s = time.monotonic()
        if not done or now_s - self._told_s < PROGRESS_S:
            return
        self._told_s = now_s
        per_s = done / (now_s - self._began_s)
        left_min, left_s = divmod(round((self._count - done) / per_s), 60)
        left = f"{left_min} min {left_s:02} s left"
        print(
            f"{done} of {self._count} seeds, {failed} failed, {per_s:.1f} a second, {left}", file=sys.stderr, flush=True
        )


def run_all(seeds: Sequence[int], *, trace: bool) -> int:
    """One after the other; the sum of it all at the end."""
    began_s, failed, events, told, forced = time.process_time(), 0, 0, 0, 0
    progress = Progress(len(seeds))
    for done, seed in enumerate(seeds):
        progress.tell(done, failed)
        simulation = Simulation(seed, trace=print if trace else None)
        try:
            simulation.run()
        except (AssertionError, ValueError) as error:
            failed += 1
            print(f"FAILED {error!r:.600}", *getattr(error, "__notes__", ()), sep="\n  ")
            if trace:
                raise
        events += simulation.schedule.count
        told += len(simulation.told)
        forced += simulation.faults.forced
    spent_s = time.process_time() - began_s
    print(
        f"{len(seeds)} seeds, {failed} failed, {events} events, {told} acknowledged, {forced} forced, {spent_s:.1f} s of CPU"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
