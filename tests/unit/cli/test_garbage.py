"""Python looks for garbage seldom while a process starts, as usual while it serves, and not through what was made before."""

from __future__ import annotations

import subprocess
import sys

LIFE = """
import gc
usual = gc.get_threshold()
from zenitmq.cli import garbage
garbage.begin()
assert gc.get_threshold()[0] > 10 * usual[0], gc.get_threshold()
before = gc.get_freeze_count()
kept = [[number] for number in range(100_000)]
garbage.serve()
assert gc.get_threshold() == usual and gc.isenabled()
assert gc.get_freeze_count() > before + len(kept)
late = [[number] for number in range(100)]
garbage.end()
assert not any(each is late for each in gc.get_objects())
"""

ENDED_BY_START = """
import gc, sys
sys.argv[1:] = ["--version"]
from zenitmq.cli.start import run
try:
    run()
except SystemExit as ending:
    assert ending.code == 0
assert len(gc.get_objects()) < 1_000, len(gc.get_objects())
"""


def test_the_life_of_a_service() -> None:
    subprocess.run([sys.executable, "-c", LIFE], check=True, timeout=60)


def test_a_command_leaves_nothing_to_look_through() -> None:
    subprocess.run([sys.executable, "-c", ENDED_BY_START], check=True, timeout=60, stdout=subprocess.DEVNULL)
