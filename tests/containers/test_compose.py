"""deploy/compose.yaml: one command up, one down, and in between what docs/containers.md says."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import urllib.request

import pytest
from containers.container_cluster import wait_until
from containers.engine import REQUIRED, ROOT, build, run_docker
from integration.docs.pages import blocks

from zenitmq.testing.containers import free_ports

PAGE = ROOT / "docs" / "containers.md"
TOLD = "docker compose -p zenit -f deploy/compose.yaml "
COMMAND_S = 180


def compose_command() -> list[str]:
    """As it is installed here: the engine's plug-in, or Debian's program."""
    if run_docker("compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    assert not os.environ.get(REQUIRED), "neither docker compose nor docker-compose is installed"
    pytest.skip("neither docker compose nor docker-compose is installed")


class Project:
    """The cluster of the file, under a name of the test's own."""

    def __init__(self, image: str, zookeeper_image: str) -> None:
        self.name = f"zenit-{secrets.token_hex(4)}"
        (self.prometheus_port,) = free_ports(1)
        self._command = compose_command()
        self._environ = {
            **os.environ,
            "ZENIT_IMAGE": image,
            "ZENIT_ZOOKEEPER_IMAGE": zookeeper_image,
            "ZENIT_PROMETHEUS_PORT": str(self.prometheus_port),
        }

    def run(self, arguments: str) -> str:
        done = subprocess.run(
            [*self._command, "-p", self.name, "-f", "deploy/compose.yaml", *arguments.split()],
            cwd=ROOT,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def left_of(name: str) -> str:
    """Containers, networks and volumes of a project."""
    mine = f"label=com.docker.compose.project={name}"
    found = [
        run_docker(kind, "ls", *options, "--quiet", "--filter", mine).stdout
        for kind, options in (("container", ["--all"]), ("network", []), ("volume", []))
    ]
    return "".join(found)


def test_the_cluster_of_the_page_comes_up_secured_and_goes_without_a_trace(image: str, zookeeper_image: str) -> None:
    build("deploy/image/prometheus/build.sh")
    project = Project(image, zookeeper_image)
    told = [line for text in blocks(PAGE, "text") for line in text.splitlines() if line.startswith(TOLD)]
    up, *middle, down = (line.removeprefix(TOLD) for line in told)
    assert (up, down) == ("up -d", "down -v")
    assert len(middle) > 1
    try:
        project.run(up)
        printed = [project.run(line) for line in middle]
        for name in ("broker-a", "broker-b"):
            assert name in printed[-1], "zenit cluster prints the masters of both groups"

        def is_scraped() -> bool:
            address = f"http://127.0.0.1:{project.prometheus_port}/api/v1/query?query=sum(zenit_replica_is_master)"
            with urllib.request.urlopen(address, timeout=5) as answer:
                result = json.load(answer)["data"]["result"]
            return bool(result) and result[0]["value"][1] == "2"

        wait_until(is_scraped, "Prometheus has seen the masters of both groups")
    finally:
        project.run(down)
    assert not left_of(project.name)
