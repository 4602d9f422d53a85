"""What Spark starts in place of a Python for a stream ends with its fork, and its fork with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping

from spark.quick_start import PYTHON
from spark.runner_forks import RUNNER, RunnerForks


def start(forks: RunnerForks, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    whole = os.environ | dict(forks.environment) | environment
    return subprocess.Popen([PYTHON, "-m", RUNNER], env=whole, stderr=subprocess.PIPE, text=True)


def test_a_fork_that_ends_ends_what_sleeps_for_it(forks: RunnerForks) -> None:
    with start(forks, {"PYTHON_WORKER_FACTORY_PORT": "no port"}) as sleeping:
        _, told = sleeping.communicate(timeout=60)
    assert sleeping.returncode == -signal.SIGTERM
    assert "no port" in told, "it has not the environment"


def test_a_fork_ends_when_what_sleeps_for_it_is_killed(forks: RunnerForks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with start(forks, {"PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "s"}) as sleeping:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                connection.settimeout(60)
                sleeping.kill()
                while connection.recv(1000):
                    pass
