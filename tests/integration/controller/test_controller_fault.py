"""A fault of our own in a timer or a posted callback: the process says so in one line, and ends with its status."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from zenitmq.controller import campaign

def fail(self):
    {how}

campaign.Campaign._connect = fail
sys.argv = ["zenit", "controller", "--set", "port=0", "--set", "zookeeper=127.0.0.1:1"]
from zenitmq.cli.main import run
run()
"""


@pytest.mark.parametrize("how", ["self._loop.post(lambda: {}['gone'])", "self._loop.call_later(5, lambda: {}['gone'])"])
def test_a_callback_that_fails_ends_the_controller(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{how}", how)],
        env={**os.environ, "ZENIT_LOG": "INFO"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 87, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "CRITICAL" in last
    assert last.endswith("controller ended by a fault of its own, start it again; error=KeyError('gone')")


def test_what_zookeeper_said_and_the_loop_dropped_ends_the_controller() -> None:
    """It could not be made up for: the process would wait for ever, or reign on news that it never had."""
    how = "self._loop.call_later(5, self._ground.on_dropped)"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{how}", how)],
        env={**os.environ, "ZENIT_LOG": "INFO"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 87, done.stderr
    assert "no room for what ZooKeeper said" in done.stderr.strip().splitlines()[-1]
