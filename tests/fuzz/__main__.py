"""`python -m tests.fuzz --hours H [--seed N] [--target NAME]`: both kernels and all decoders under AddressSanitizer.

`--replay FILE` checks one case again that failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import campaign
from .asan_kernels import NoCompiler


def main() -> int:
    """0 where no case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="how long")
    parser.add_argument("--seed", type=int, help="which cases; else others at each run")
    parser.add_argument(
        "--target", action="append", default=[], metavar="NAME", help="this one alone; may be given again"
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="a case that failed")
    chosen = parser.parse_args()
    if chosen.replay:
        return campaign.replay(chosen.replay)
    seed = int(time.time()) if chosen.seed is None else chosen.seed
    print(f"fuzz: seed {seed}, {chosen.hours:g} hours", file=sys.stderr)
    try:
        outcome = campaign.run(chosen.hours * 3600, seed, chosen.target)
    except NoCompiler as missing:
        print(f"fuzz: {missing} is missing: nothing was run", file=sys.stderr)
        return 2
    print(outcome.table())
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
