"""SIGHUP in the wrong moment: during a reading, and before anybody listens."""

from __future__ import annotations

import subprocess
import sys

from zenitmq.remoting.reloading import Reloading


def test_a_signal_during_a_reading_reads_once_more_after_it() -> None:
    """Python calls a handler between any two instructions, also of the handler. Two signals at once ended a name server."""
    heard: list[int] = []
    depth = 0

    def reread(present: int) -> int:
        nonlocal depth
        assert depth == 0
        depth = 1
        if present < 3:
            reloading.on_hangup(1, None)
            reloading.on_hangup(1, None)
        depth = 0
        return present + 1

    reloading = Reloading(1, reread)
    reloading.on_reloaded = heard.append
    reloading.on_hangup(1, None)
    assert (reloading.present, heard) == (4, [2, 3, 4])


STARTING = """
import os, signal
from zenitmq.remoting.reloading import Reloading, hold_hangups
hold_hangups()
os.kill(os.getpid(), signal.SIGHUP)
reloading = Reloading(1, lambda present: present + 1)
print(reloading.present)
reloading.listen()
print(reloading.present)
"""


def test_a_signal_before_anybody_listens_waits() -> None:
    """A broker that recovers its log for minutes would be ended by `systemctl reload`, and not be started again."""
    done = subprocess.run([sys.executable, "-c", STARTING], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n2\n")
