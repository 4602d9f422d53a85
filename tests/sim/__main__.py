"""`python -m tests.sim --seeds N [--first S]`: N seeds, one after the other. `--seed X --trace`: one, told in words."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from .simulation import Simulation


def main() -> int:
    """0 where every seed holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--trace", action="store_true", help="tell what happens")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else (chosen.seed,)
    began_s, failed, events, told, forced = time.process_time(), 0, 0, 0, 0
    for seed in seeds:
        simulation = Simulation(seed, trace=print if chosen.trace else None)
        try:
            simulation.run()
        except (AssertionError, ValueError) as error:
            failed += 1
            print(f"FAILED {error!r:.600}", *getattr(error, "__notes__", ()), sep="\n  ")
            if chosen.trace:
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
