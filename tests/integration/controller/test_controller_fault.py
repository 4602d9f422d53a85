"""A fault of our own in a timer or a posted callback: the process says so in one line, and ends with its status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

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
    """It could not be made up for: the process would wait for ever, or term on news that it never had."""
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
    assert "no room for an answer of ZooKeeper" in done.stderr.strip().splitlines()[-1]


OTHER_CLUSTER = """
import sys
from contextlib import contextmanager
from sim.model_zookeeper import ModelZooKeeper
from zenitmq.controller import service

zookeeper = ModelZooKeeper()
zookeeper.cluster_id = "held"

@contextmanager
def open_store(_config, _login, listener):
    yield zookeeper.store(listener)

service._open_zookeeper = open_store
sys.argv = ["zenit", "controller", "--set", "port=0", "--set", "zookeeper=127.0.0.1:1", "--set", "cluster_id=pinned"]
from zenitmq.cli.main import run
run()
"""


def test_a_controller_for_another_cluster_than_zookeepers_says_so_in_one_line() -> None:
    """It is the operator's setting that is wrong, not the controller: to start it again does not help."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER_CLUSTER],
        env={**os.environ, "ZENIT_LOG": "INFO", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    for fact in ("cluster_id", "pinned", "held, which ZooKeeper holds in /zenit/zenit/id"):
        assert fact in last
