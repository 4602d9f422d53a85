"""`python -m tests.soak --hours H [--seed N] [--report DIR]`: one cluster and its clients for hours.

docs/soak.md says what is done, what is checked, and how to read what comes out.
"""

from __future__ import annotations

import argparse
import sys

from .soak_run import SoakOptions, asked_to_end, run_soak

INTERRUPTED = 130


def main() -> int:
    """0 where every message was handled as promised and no series grows, 130 after Ctrl-C, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.5, help="how long the load lasts")
    parser.add_argument("--seed", type=int, default=1, help="of what is done to brokers and members, and when")
    parser.add_argument("--report", metavar="DIR", help="where the account goes; else a new temporary directory")
    parser.add_argument("--pace", type=float, default=1.0, help="of the load: 1 = about 110 messages a second")
    parser.add_argument("--no-stream", action="store_true", help="without Spark")
    given = parser.parse_args()
    options = SoakOptions(
        hours=given.hours, seed=given.seed, report_directory=given.report, pace=given.pace, stream=not given.no_stream
    )
    asked_to_end()
    account = run_soak(options, lambda line: print(f"soak: {line}", file=sys.stderr, flush=True))
    verdict = "passed" if account["passed"] else "FAILED"
    print(f"{verdict}; growing: {'; '.join(account['growing']) or 'none'}")
    for example in account["messages"]["examples"]:
        print(example)
    if account["interrupted"]:
        return INTERRUPTED
    return 0 if account["passed"] and not account["growing"] else 1


if __name__ == "__main__":
    sys.exit(main())
