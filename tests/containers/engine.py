"""The Docker engine, and images built from our Dockerfiles."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import docker

ROOT: Final = Path(__file__).parents[2]
REQUIRED: Final = "ZENIT_REQUIRE_CONTAINERS"
BUILD_S: Final = 900  # the base is some 100 MB of packages, which dpkg unpacks one by one
COMMAND_S: Final = 60


def engine_answers() -> bool:
    try:
        client = docker.from_env(timeout=10)
    except docker.errors.DockerException:
        return False
    client.close()
    return True


def build(script: str, *arguments: str) -> None:
    done = subprocess.run(
        [ROOT / script, *arguments], capture_output=True, text=True, timeout=BUILD_S - 60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr


def run_docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """The command `docker`, as a user has it."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done
