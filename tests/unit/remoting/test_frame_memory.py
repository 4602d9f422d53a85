"""Memory of frames stays with the process: measured in page faults, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from zenitmq.remoting.frame_memory import OPERATORS_OWN

SCRIPT = """
import resource, sys
from zenitmq.remoting.frame_memory import keep_frame_memory
kept = keep_frame_memory() if sys.argv[1] == "keep" else None
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    frames = [bytearray(1 << 20) for _ in range(8)]
    del frames
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str, **environ: str) -> tuple[str, int]:
    clean = {name: value for name, value in os.environ.items() if name not in OPERATORS_OWN}
    command = [sys.executable, "-c", SCRIPT, mode]
    found = subprocess.run(command, env=clean | environ, capture_output=True, text=True, check=True, timeout=60)
    kept, count = found.stdout.split()
    return kept, int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's own")
def test_large_frames_are_paid_for_once() -> None:
    kept, count = faults("keep")
    if kept == "False":
        pytest.skip("not glibc")
    _, without = faults("leave")
    assert count < without / 10


def test_whoever_sets_it_himself_is_left_alone() -> None:
    assert faults("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
